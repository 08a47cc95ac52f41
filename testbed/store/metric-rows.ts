/** metrics.json in long form: a row a figure, for the view `metrics`. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { metricsName } from '../analysis/metrics.js';

export interface MetricRow {
  /** Path in metrics.json, as summary.json writes it: `bottlenecks.BL1.queueDelayMs.p50`. */
  readonly metric: string;
  /** bottlenecks, classes or probes. */
  readonly part: string;
  /** Of the bottleneck, class or probe. */
  readonly name: string;
  /** Flow class, for a bottleneck's figures by class; else null. */
  readonly class: string | null;
  /** `throughputBps`, `queueDelayMs`, `fctBySizeS.60kB`. */
  readonly figure: string;
  /** `p50`, `mean`, … of a distribution; null for a single figure. */
  readonly statistic: string | null;
  readonly value: number | null;
  /** `bits/s`, `ms`, `s`, `bytes`, `packets`; null for ratios and counts. */
  readonly unit: string | null;
  /** Samples it stands on; null where metrics.json does not say. */
  readonly n: number | null;
  /** How it was measured, as metrics.json says; null where it does not. */
  readonly how: string | null;
}

/** Statistics of a distribution; its `n` is a column, not a row. */
const statistics: ReadonlySet<string> = new Set(['mean', 'sd', 'p5', 'p25', 'p50', 'p75', 'p95', 'p99', 'max']);
const units: readonly (readonly [RegExp, string])[] = [
  [/Bps$/, 'bits/s'], [/Ms$/, 'ms'], [/S$/, 's'], [/Bytes$/, 'bytes'], [/Packets$|^packets\.|^retransmits$|^counters\./, 'packets'],
];

export const metricsSchema = 1;

/** @returns rows, or why there are none */
export function readMetricRows(runDir: string): readonly MetricRow[] | string {
  let value: unknown;
  try {
    value = JSON.parse(fs.readFileSync(path.join(runDir, metricsName), 'utf8'));
  } catch (error) {
    return error instanceof SyntaxError ? 'metrics.json is not whole' : 'it has no metrics.json';
  }
  if (!isObject(value)) return 'metrics.json is not an object';
  if (value['schema'] !== metricsSchema) return `metrics.json is of schema ${String(value['schema'])}; this testbed reads ${metricsSchema}`;
  const rows: MetricRow[] = [];
  for (const part of ['bottlenecks', 'classes', 'probes']) {
    for (const [name, figures] of entries(value[part])) {
      addFigures(rows, { path: `${part}.${name}`, part, name, class: null }, figures, figures);
      for (const [flowClass, own] of part === 'bottlenecks' && isObject(figures) ? entries(figures['classes']) : []) {
        addFigures(rows, { path: `${part}.${name}.classes.${flowClass}`, part, name, class: flowClass }, own, figures);
      }
    }
  }
  return rows;
}

interface Place { readonly path: string; readonly part: string; readonly name: string; readonly class: string | null }

function addFigures(rows: MetricRow[], place: Place, figures: unknown, holder: unknown): void {
  const methods = isObject(holder) && isObject(holder['methods']) ? holder['methods'] : {};
  for (const [key, value] of entries(figures)) {
    if (key === 'methods' || (key === 'classes' && place.part === 'bottlenecks')) continue;
    const method = isObject(methods[key]) ? methods[key] : isObject(methods['classes']) && place.class !== null ? methods['classes'] : {};
    const how = typeof method['how'] === 'string' ? method['how'] : null;
    add(rows, place, key, value, how, place.class === null ? number(method['n']) : null);
  }
}

function add(rows: MetricRow[], place: Place, figure: string, value: unknown, how: string | null, n: number | null): void {
  const row = (statistic: string | null, of: number | null, samples: number | null): MetricRow => ({
    metric: `${place.path}.${figure}${statistic === null ? '' : `.${statistic}`}`, part: place.part, name: place.name, class: place.class,
    figure, statistic, value: of, unit: unitOf(figure), n: samples, how,
  });
  if (typeof value === 'number' || value === null) {
    rows.push(row(null, value, n));
  } else if (isObject(value)) {
    const distribution = 'p50' in value && 'n' in value;
    for (const [key, inner] of Object.entries(value)) {
      if (distribution) {
        if (statistics.has(key)) rows.push(row(key, number(inner), number(value['n'])));
      } else {
        add(rows, place, `${figure}.${key}`, inner, how, n);
      }
    }
  }
}

const unitOf = (figure: string): string | null => (units.find(([pattern]) => pattern.test(figure)) ?? units.find(([pattern]) => pattern.test(figure.split('.')[0]!)))?.[1] ?? null;
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
const entries = (value: unknown): [string, unknown][] => (isObject(value) ? Object.entries(value) : []);
const number = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null);
