/**
 * A varied or repeated run: one folder, a sub-folder a run. For each combination of varied values and each figure: the
 * value of every seed, their median and a 95 % bootstrap interval. Only runs whose status is `complete` count; the others
 * are listed with the reason.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { readRunJson, writeJsonAtomically } from '../records/run-json.js';
import { asItIs } from '../records/liveness.js';
import type { RunJson } from '../records/run-json.js';
import { bootstrapResamples, medianInterval } from './bootstrap.js';
import { metricsName } from './metrics.js';
import type { Metrics } from './metrics.js';
import { rounded } from './round.js';

export interface SummaryFigure {
  /** As `seeds` of the combination; null where undefined in that run. */
  readonly values: readonly (number | null)[];
  readonly median: number | null;
  readonly ci95: readonly [number, number] | null;
  /** Runs in which it was defined. */
  readonly n: number;
}
export interface SummaryCombination {
  readonly varied: Readonly<Record<string, string>>;
  readonly seeds: readonly number[];
  /** Sub-folders, as `seeds`. */
  readonly runs: readonly string[];
  /** By path in metrics.json: `bottlenecks.BL1.queueDelayMs.p50`. A `.` inside a name stays as it is. */
  readonly metrics: Readonly<Record<string, SummaryFigure>>;
}
export interface NotCounted { readonly run: string; readonly status: string; readonly reason: string; readonly seed: number | null; readonly varied: Readonly<Record<string, string>> }
export interface Summary {
  readonly schema: 1;
  readonly name: string;
  readonly engine: string;
  readonly varies: readonly string[];
  readonly combinations: readonly SummaryCombination[];
  readonly notCounted: readonly NotCounted[];
  readonly method: string;
}

export const summaryName = 'summary.json';

/** Sub-folders that are runs, by name. */
export function runsOf(setDir: string): { readonly name: string; readonly run: RunJson | null }[] {
  let entries: fs.Dirent[];
  try {
    entries = fs.readdirSync(setDir, { withFileTypes: true });
  } catch (error) {
    throw new UserError(`${setDir}: cannot read it as a folder of runs (${error instanceof Error ? error.message : String(error)})`);
  }
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name).sort(naturally)
    .filter((name) => fs.existsSync(path.join(setDir, name, 'run.json')) || fs.existsSync(path.join(setDir, name, 'raw', 'plan.json')))
    .map((name) => ({ name, run: readRunJson(path.join(setDir, name)) }));
}

/** `run-2` before `run-10`. */
function naturally(a: string, b: string): number {
  const [left, right] = [a.split(/(\d+)/), b.split(/(\d+)/)];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] === right[i]) continue;
    const [x, y] = [Number(left[i]), Number(right[i])];
    if (i % 2 === 1 && x !== y) return x - y;
    return left[i]! < right[i]! ? -1 : 1;
  }
  return left.length - right.length;
}

/** Summarises the runs in `setDir` and writes `summary.json`. @throws UserError when there is no run in it */
export async function summarise(setDir: string): Promise<Summary> {
  const runs = runsOf(setDir);
  if (runs.length === 0) throw new UserError(`${setDir}: no run in it (a run is a sub-folder with a run.json)`);
  const notCounted: NotCounted[] = [];
  const combinations = new Map<string, { varied: Readonly<Record<string, string>>; counted: { name: string; seed: number; figures: Map<string, number | null> }[] }>();
  let engine: string | null = null;
  for (const { name, run } of runs) {
    if (run === null) {
      notCounted.push({ run: name, status: 'unknown', reason: 'its run.json is missing or cannot be read', seed: null, varied: {} });
      continue;
    }
    const refuse = (reason: string): void => { notCounted.push({ run: name, status: asItIs(run).status, reason, seed: run.seed, varied: run.varied }); };
    if (run.status !== 'complete') {
      refuse(whyNot(asItIs(run)));
      continue;
    }
    const metrics = lookAtMetrics(path.join(setDir, name));
    if (typeof metrics === 'string') {
      refuse(metrics);
      continue;
    }
    engine ??= run.engine;
    const key = JSON.stringify(Object.entries(run.varied));
    let combination = combinations.get(key);
    if (combination === undefined) combinations.set(key, (combination = { varied: run.varied, counted: [] }));
    const figures = new Map<string, number | null>();
    for (const part of ['bottlenecks', 'classes', 'probes'] as const) collect(part, metrics[part], figures);
    combination.counted.push({ name, seed: run.seed, figures });
  }
  const summary: Summary = rounded({
    schema: 1, name: runs.find(({ run }) => run !== null)?.run?.name ?? path.basename(setDir), engine: engine ?? 'unknown',
    varies: [...new Set([...combinations.values()].flatMap(({ varied }) => Object.keys(varied)))],
    combinations: inOrderOfVary([...combinations.values()], runs.find(({ run }) => run !== null)?.run ?? null).map(({ varied, counted }) => {
      counted.sort((a, b) => a.seed - b.seed);
      const paths = [...new Set(counted.flatMap(({ figures }) => [...figures.keys()]))];
      return {
        varied, seeds: counted.map(({ seed }) => seed), runs: counted.map(({ name }) => name),
        metrics: Object.fromEntries(paths.map((figure) => [figure, summariseFigure(counted.map(({ figures }) => figures.get(figure) ?? null))])),
      };
    }),
    notCounted,
    method: `median over seeds; ci95: percentile bootstrap of the median, ${bootstrapResamples} resamples, null with fewer than two values; runs not complete are not counted`,
  } as const);
  writeJsonAtomically(path.join(setDir, summaryName), summary);
  return summary;
}

/** As the scenario's `vary` lists them; those it does not list (a set put together by hand) come last. */
function inOrderOfVary<T extends { readonly varied: Readonly<Record<string, string>> }>(combinations: readonly T[], run: RunJson | null): T[] {
  const variants = (run?.scenario as { readonly variants?: readonly { readonly varied?: Readonly<Record<string, string>> }[] } | null | undefined)?.variants;
  if (!Array.isArray(variants)) return [...combinations];
  const key = (varied: Readonly<Record<string, string>> | undefined): string => JSON.stringify(Object.entries(varied ?? {}));
  const order = new Map(variants.map((variant, index) => [key((variant as { varied?: Readonly<Record<string, string>> }).varied), index]));
  const place = ({ varied }: T): number => order.get(key(varied)) ?? Infinity;
  return combinations.map((combination, index) => ({ combination, index })).sort((a, b) => (place(a.combination) === place(b.combination) ? a.index - b.index : place(a.combination) - place(b.combination))).map(({ combination }) => combination);
}

function whyNot(run: RunJson): string {
  const level = run.status === 'invalid' ? 'invalid' : 'failed';
  const found = run.findings.filter((finding) => finding.level === level).map((finding) => `${finding.rule}: ${finding.message}`);
  if (found.length > 0) return found.join('; ');
  if (run.error !== undefined) return run.error;
  return run.status === 'running' ? 'it has not ended' : run.status === 'incomplete' ? 'it was interrupted' : run.status;
}

export function readMetrics(runDir: string): Metrics | null {
  const read = lookAtMetrics(runDir);
  return typeof read === 'string' ? null : read;
}

/** @returns the figures, or why there are none that can be read */
export function lookAtMetrics(runDir: string): Metrics | string {
  let text: string;
  try {
    text = fs.readFileSync(path.join(runDir, metricsName), 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? `${metricsName} is missing (the run did not get that far)` : `${metricsName} cannot be read (${code ?? String(error)})`;
  }
  let metrics: Metrics | null;
  try {
    metrics = JSON.parse(text) as Metrics | null;
  } catch (error) {
    return `${metricsName} cannot be read: it is no JSON (${error instanceof Error ? error.message : String(error)})`;
  }
  const missing = (['bottlenecks', 'classes', 'probes'] as const).filter((part) => typeof metrics?.[part] !== 'object' || metrics[part] === null);
  return metrics === null || missing.length > 0 ? `${metricsName} cannot be read: it has no ${missing.join(', ')}` : metrics;
}

function summariseFigure(values: readonly (number | null)[]): SummaryFigure {
  const defined = values.filter((value): value is number => value !== null && Number.isFinite(value));
  return defined.length === 0 ? { values, median: null, ci95: null, n: 0 } : { values, ...medianInterval(defined), n: defined.length };
}

/** Every number of a part of metrics.json by its path; `methods` is left out. */
function collect(at: string, value: unknown, into: Map<string, number | null>): void {
  if (typeof value === 'number' || value === null) into.set(at, value);
  else if (typeof value === 'object') for (const [key, inner] of Object.entries(value)) if (key !== 'methods') collect(`${at}.${key}`, inner, into);
}
