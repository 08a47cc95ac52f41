/** What the page draws of a cell: each side's curves, seeds put together (the mean over seeds of each bin, the range over seeds as a band). */

import { openTables } from '../analysis/metrics.js';
import { openDatabase } from '../records/database.js';
import { cdfLevels, readSeries } from '../report/series.js';
import { pooled } from './distance.js';
import type { Cell, ComparedRun } from './operand.js';
import { planOf } from './operand.js';
import { distributionName } from './wording.js';
import { readSamples, sampleKey, unreadable } from './samples.js';
import type { Sample } from './samples.js';

/** t (s), mean, least and most over seeds. */
export type Point = readonly [number, number, number, number];
export interface Curve { readonly side: number; readonly points: readonly Point[] }
export interface CdfCurve { readonly side: number; readonly points: readonly (readonly [number, number])[] }

export interface Overlay {
  /** Median queueing delay, ms, by bottleneck. */
  readonly delays: ReadonlyMap<string, readonly Curve[]>;
  /** Whether a side's delays are of the backlog at samples, not of packets. */
  readonly delayFromBacklog: readonly number[];
  /** bits/s by flow class. */
  readonly throughputs: ReadonlyMap<string, readonly Curve[]>;
  /** Cumulative distributions by name, with the unit of their samples. */
  readonly cdfs: ReadonlyMap<string, { readonly unit: 'ms' | 's'; readonly what: string; readonly curves: readonly CdfCurve[] }>;
  /** Outside the reference's measurement window, s. */
  readonly openS: number;
  readonly endS: number;
  /** The most seeds of a side that are drawn. */
  readonly seeds: number;
}

const mostSeeds = 10;
const throughputBins = 90;

export async function readOverlay(cell: Cell): Promise<Overlay> {
  const delays = new Map<string, Curve[]>();
  const throughputs = new Map<string, Curve[]>();
  const cdfs = new Map<string, { unit: 'ms' | 's'; what: string; curves: CdfCurve[] }>();
  const delayFromBacklog: number[] = [];
  let [openS, endS, seeds] = [0, 0, 0];
  const add = <T>(map: Map<string, T[]>, key: string, curve: T): void => { map.set(key, [...(map.get(key) ?? []), curve]); };
  for (const [side, all] of cell.runs.entries()) {
    if (all === null) continue;
    const runs = all.slice(0, mostSeeds);
    seeds = Math.max(seeds, runs.length);
    const delayBins: Bins = new Map();
    const classBins: Bins = new Map();
    const samples = new Map<string, Sample[]>();
    for (const run of runs) {
      const plan = planOf(run);
      const series = await readSeries(run.dir, plan, run.run.status === 'complete').catch((error: unknown) => { throw unreadable(run.dir, error); });
      if (side === 0) openS = series.window.open / 1e9;
      endS = Math.max(endS, series.endS);
      if (series.delaySource === 'backlog' && !delayFromBacklog.includes(side)) delayFromBacklog.push(side);
      for (const row of series.delays) put(delayBins, row.bottleneck, row.t + series.delayBinS / 2, row.p50);
      for (const row of await classThroughput(run, series.endS)) put(classBins, row.class, row.t, row.bps);
      for (const sample of await readSamples(run.dir, plan, run.metrics.windowS)) add(samples, sampleKey(sample), sample);
    }
    // A bin without packets is one without delay; one without bytes carried nothing.
    for (const [name, bins] of delayBins) add(delays, name, { side, points: pointsOf(bins, null) });
    for (const [name, bins] of classBins) add(throughputs, name, { side, points: pointsOf(bins, runs.length) });
    for (const list of samples.values()) {
      const values = pooled(list.map((sample) => sample.values));
      const { unit, what } = list[0]!;
      const name = distributionName(list[0]!);
      const entry = cdfs.get(name) ?? { unit, what, curves: [] };
      cdfs.set(name, entry);
      if (values.length > 1) entry.curves.push({ side, points: cdfLevels.map((level) => [quantile(values, level), level] as const) });
    }
  }
  return { delays, delayFromBacklog, throughputs, cdfs, openS, endS, seeds };
}

type Bins = Map<string, Map<number, number[]>>;
function put(bins: Bins, name: string, t: number, value: number): void {
  const of = bins.get(name) ?? new Map<number, number[]>();
  bins.set(name, of);
  const at = Number(t.toPrecision(9));
  const list = of.get(at);
  if (list === undefined) of.set(at, [value]);
  else list.push(value);
}

/** @param runs number of runs where a run without a value counts as 0; null where it does not count */
function pointsOf(bins: ReadonlyMap<number, readonly number[]>, runs: number | null): Point[] {
  return [...bins].sort(([a], [b]) => a - b).map(([t, values]): Point => {
    const sum = values.reduce((total, value) => total + value, 0);
    const missing = runs !== null && values.length < runs;
    return [t, sum / (runs ?? values.length), missing ? 0 : Math.min(...values), Math.max(...values)];
  });
}

/** Linear between order statistics, as DuckDB's quantile_cont. */
function quantile(sorted: Float64Array, level: number): number {
  const at = level * (sorted.length - 1);
  const below = Math.floor(at);
  const low = sorted[below]!;
  return below + 1 < sorted.length ? low + (sorted[below + 1]! - low) * (at - below) : low;
}

/** IP bytes of each class that left the last bottleneck on its flows' way, bits/s; payload acknowledged where packets are not recorded. */
async function classThroughput(run: ComparedRun, endS: number): Promise<{ class: string; t: number; bps: number }[]> {
  const database = await openDatabase();
  try {
    await openTables(database, run.dir);
    const endNs = Math.round(endS * 1e9);
    const bin = Math.max(1, Math.ceil(endNs / throughputBins));
    const rows = await database.rows<{ class: string; bin: number; bytes: number }>(`
      WITH bins AS (SELECT flow, bottleneck, CAST(floor(t_dequeue / ${bin}.0) AS INTEGER) AS bin, sum(size) AS bytes FROM packets WHERE "forward" AND flow >= 0 AND t_dequeue < ${endNs} GROUP BY ALL),
        last AS (SELECT flow, arg_min(bottleneck, total) AS bottleneck FROM (SELECT flow, bottleneck, sum(bytes) AS total FROM bins GROUP BY ALL ORDER BY bottleneck) GROUP BY flow)
      SELECT class, bin, CAST(sum(bins.bytes) AS DOUBLE) AS bytes FROM bins JOIN last USING (flow, bottleneck) JOIN flows ON flows.id = bins.flow GROUP BY ALL ORDER BY class, bin`);
    const used = rows.length > 0 ? rows : await database.rows<{ class: string; bin: number; bytes: number }>(`
      SELECT class, bin, CAST(sum(greatest(0, more)) AS DOUBLE) AS bytes FROM (
        SELECT flow, bin, acked - lag(acked, 1, 0) OVER (PARTITION BY flow ORDER BY bin) AS more
        FROM (SELECT flow, CAST(floor(t / ${bin}.0) AS INTEGER) AS bin, max(bytes_acked) AS acked FROM sockets WHERE t < ${endNs} GROUP BY ALL)) AS s
      JOIN flows ON flows.id = s.flow GROUP BY ALL ORDER BY class, bin`);
    return used.map((row) => ({ class: row.class, t: ((row.bin + 0.5) * bin) / 1e9, bps: (row.bytes * 8e9) / bin }));
  } catch (error) {
    throw unreadable(run.dir, error);
  } finally {
    database.close();
  }
}
