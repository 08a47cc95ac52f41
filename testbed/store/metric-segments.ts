/**
 * The figures of all runs as Parquet, in segments beside the index: `<results>/.index/metrics-<id>.parquet`, never changed
 * once written. New runs make a new segment, which takes in those that are not much larger (so there are few, and a figure
 * is rewritten only a few times in its life); rows of runs that are gone or were read again stay until then, and are not
 * seen, since a run is joined by its key. Segments no index refers to are removed after ten minutes, when no reader of an
 * older index can be at them any more.
 */

import * as crypto from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Database } from '../records/database.js';
import { sqlPath, sqlText } from '../records/database.js';
import { readMetricRows } from './metric-rows.js';
import { indexedRuns, indexFolder, saveIndex } from './run-index.js';
import type { IndexedRun, RunIndex, Scan, Segment } from './run-index.js';
import type { RunRow } from './run-row.js';

const graceMs = 600_000;
/** Segments up to so many times the new rows' runs are taken in. */
const takeInFactor = 4;

/** Rows sorted by figure, so that a query on one figure reads few row groups. */
const order = 'metric, run_key';
const columns = 'run_key INTEGER, metric VARCHAR, part VARCHAR, name VARCHAR, class VARCHAR, figure VARCHAR, statistic VARCHAR, value DOUBLE, unit VARCHAR, n BIGINT, how VARCHAR';

export interface MetricSegments {
  /** Files to read; null when there are no figures at all. */
  readonly files: readonly string[] | null;
  /** metrics.json files opened. */
  readonly read: number;
}

/**
 * Brings the segments up to date: reads metrics.json of runs that were not read yet.
 * @param fallback where segments go when the results folder may not be written
 */
export async function updateSegments(database: Database, scan: Scan, fallback: () => string, onProgress?: (done: number, all: number) => void): Promise<MetricSegments> {
  const { index, resultsDir } = scan;
  const folder = indexFolder(resultsDir);
  const whole = index.segments.every((segment) => sizeOf(path.join(folder, segment.file)) === segment.bytes);
  if (!whole) forgetSegments(index);
  const pending = indexedRuns(index).filter(({ entry, row }) => entry.metrics === 0 && row.status !== 'unreadable');
  const added = pending.length === 0 ? 0 : await readNew(database, resultsDir, index, pending, onProgress);
  if (added > 0) {
    const live = new Set(indexedRuns(index).map(({ entry }) => entry.metrics));
    const { kept, takenIn } = plan(index.segments, added, live.size);
    const place = writable(folder) ? folder : fallback();
    const segment = await write(database, place, takenIn.map((each) => path.join(folder, each.file)), [...live], added + takenIn.reduce((sum, each) => sum + each.runs, 0));
    index.segments = [...kept, segment];
    if (place !== folder || !saveIndex(resultsDir, index)) return { files: [...kept.map((each) => path.join(folder, each.file)), path.join(place, segment.file)], read: added };
  } else if (!whole) {
    saveIndex(resultsDir, index);
  }
  removeOld(folder, new Set(index.segments.map((segment) => segment.file)));
  return { files: index.segments.length === 0 ? null : index.segments.map((segment) => path.join(folder, segment.file)), read: added };
}

/** Puts the figures of runs into the table new_metrics. @returns how many had a metrics.json: the others are looked at again next time */
async function readNew(database: Database, resultsDir: string, index: RunIndex, pending: readonly { readonly entry: IndexedRun; readonly row: RunRow }[], onProgress?: (done: number, all: number) => void): Promise<number> {
  await database.run(`CREATE OR REPLACE TEMP TABLE new_metrics (${columns})`);
  const appender = await database.connection.createAppender('new_metrics', 'main', 'temp');
  const text = (value: string | null): void => { if (value === null) appender.appendNull(); else appender.appendVarchar(value); };
  let done = 0;
  let read = 0;
  for (const { entry, row } of pending) {
    if (++done % 500 === 0) {
      appender.flushSync();
      onProgress?.(done, pending.length);
    }
    const rows = readMetricRows(path.join(resultsDir, row.run_id));
    if (typeof rows === 'string') continue; // none, or not whole (yet)
    const key = index.next++;
    entry.metrics = key;
    read += 1;
    for (const metric of rows) {
      appender.appendInteger(key);
      text(metric.metric); text(metric.part); text(metric.name); text(metric.class); text(metric.figure); text(metric.statistic);
      if (metric.value === null) appender.appendNull(); else appender.appendDouble(metric.value);
      text(metric.unit);
      if (metric.n === null) appender.appendNull(); else appender.appendBigInt(BigInt(Math.round(metric.n)));
      text(metric.how);
      appender.endRow();
    }
  }
  appender.closeSync();
  return read;
}

/** So that all figures are read again. */
export function forgetSegments(index: RunIndex): void {
  index.segments = [];
  for (const { entry } of indexedRuns(index)) entry.metrics = 0;
}

function plan(segments: readonly Segment[], added: number, live: number): { readonly kept: Segment[]; readonly takenIn: Segment[] } {
  const takenIn: Segment[] = [];
  const kept: Segment[] = [];
  let runs = added;
  for (const segment of [...segments].sort((a, b) => a.runs - b.runs)) {
    if (segment.runs <= takeInFactor * runs) {
      takenIn.push(segment);
      runs += segment.runs;
    } else {
      kept.push(segment);
    }
  }
  // More than half of it is of runs that are gone: all anew.
  return kept.reduce((sum, segment) => sum + segment.runs, runs) > 2 * live + 100 ? { kept: [], takenIn: [...takenIn, ...kept] } : { kept, takenIn };
}

async function write(database: Database, folder: string, takenIn: readonly string[], live: readonly number[], runs: number): Promise<Segment> {
  fs.mkdirSync(folder, { recursive: true });
  const file = `metrics-${crypto.randomBytes(6).toString('hex')}.parquet`;
  const target = path.join(folder, file);
  let source = 'SELECT * FROM new_metrics';
  if (takenIn.length > 0) {
    await database.run('CREATE OR REPLACE TEMP TABLE live_runs (run_key INTEGER)');
    const appender = await database.connection.createAppender('live_runs', 'main', 'temp');
    for (const key of live) {
      appender.appendInteger(key);
      appender.endRow();
    }
    appender.closeSync();
    source += ` UNION ALL SELECT m.* FROM read_parquet([${takenIn.map(sqlPath).join(', ')}]) m SEMI JOIN live_runs USING (run_key)`;
  }
  try {
    await database.run(`COPY (SELECT * FROM (${source}) ORDER BY ${order}) TO ${sqlText(`${target}.tmp`)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880)`);
    fs.renameSync(`${target}.tmp`, target);
  } finally {
    fs.rmSync(`${target}.tmp`, { force: true });
  }
  return { file, bytes: fs.statSync(target).size, runs };
}

function writable(folder: string): boolean {
  try {
    fs.mkdirSync(folder, { recursive: true });
    fs.accessSync(folder, fs.constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function sizeOf(file: string): number | null {
  return fs.statSync(file, { throwIfNoEntry: false })?.size ?? null;
}

function removeOld(folder: string, used: ReadonlySet<string>): void {
  try {
    for (const name of fs.readdirSync(folder)) {
      const file = path.join(folder, name);
      if (used.has(name) || name === 'runs.json' || Date.now() - fs.statSync(file).mtimeMs < graceMs) continue;
      fs.rmSync(file, { force: true });
    }
  } catch {
    // another process was quicker, or it is not ours to write
  }
}
