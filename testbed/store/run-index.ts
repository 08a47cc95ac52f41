/**
 * The index of a results folder: `<results>/.index/runs.json`, what every run's run.json says, so that ten thousand runs
 * are known without opening their files. It is only a cache: made from the folders, checked against their times and sizes
 * at each use, made anew where it is missing, damaged or of another version. Written by rename, so readers and several
 * writers never see part of one; the last writer's is as true as any. A folder that is gone is gone from it.
 *
 * A run.json is read again when the time of its folder, or its own time or size, are others than before, or lay within two
 * seconds of the look before (a later write in the same clock tick leaves no trace). Whatever testbed writes into a run's
 * folder it writes by rename, which changes the folder's time; so metrics.json needs no look of its own.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { goesOn, killed } from '../records/liveness.js';
import type { RunOwner } from '../records/liveness.js';
import { runJsonName } from '../records/run-json.js';
import { readRun, rowOf } from './run-row.js';
import type { RunRow } from './run-row.js';
import { readTags } from './tags.js';

/** Of the index's files; another number there means: make it anew. */
export const indexSchema = 2;
export const indexName = '.index';

export interface IndexedRun {
  /** Of folder and run.json. */
  readonly stamp: string;
  /** Wall time of the look, ms. */
  readonly seenMs: number;
  /** null: a folder that is no run (yet). Tags are the run's own. */
  readonly row: RunRow | null;
  /** Of a run that goes on, as far as its run.json says: asked at each use whether it does. */
  readonly owner?: RunOwner;
  /** Key of its rows in the segments of metrics; 0 = not read yet. */
  metrics: number;
}
interface IndexedFolder {
  readonly set: boolean;
  /** Of the folder itself. */
  readonly stamp: string;
  readonly seenMs: number;
  /** Of the set. */
  readonly tags: readonly string[];
  /** By sub-folder; '' for a run of its own. */
  readonly runs: Record<string, IndexedRun>;
}
export interface Segment { readonly file: string; readonly bytes: number; readonly runs: number }

export interface RunIndex {
  readonly schema: number;
  folders: Record<string, IndexedFolder>;
  /** Metrics as Parquet, in pieces (metric-segments.ts). */
  segments: Segment[];
  /** The next key for a run's metrics. */
  next: number;
}

export interface Scan {
  readonly resultsDir: string;
  readonly index: RunIndex;
  /** run.json files opened. */
  readonly read: number;
  readonly changed: boolean;
}

const emptyIndex = (): RunIndex => ({ schema: indexSchema, folders: {}, segments: [], next: 1 });
const settledMs = 2000;

export const indexFolder = (resultsDir: string): string => path.join(resultsDir, indexName);

function loadIndex(resultsDir: string): RunIndex {
  try {
    const value = JSON.parse(fs.readFileSync(path.join(indexFolder(resultsDir), 'runs.json'), 'utf8')) as RunIndex | null;
    if (value?.schema === indexSchema && typeof value.folders === 'object' && Array.isArray(value.segments) && typeof value.next === 'number') return value;
  } catch {
    // none, or not whole
  }
  return emptyIndex();
}

/** @returns whether it could be written: a results folder that one may only read has no index, and all is read each time */
export function saveIndex(resultsDir: string, index: RunIndex): boolean {
  const file = path.join(indexFolder(resultsDir), 'runs.json');
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    fs.mkdirSync(indexFolder(resultsDir), { recursive: true });
    fs.writeFileSync(temporary, JSON.stringify(index)); // without the indentation of files for people: there may be megabytes
    fs.renameSync(temporary, file);
    return true;
  } catch {
    try {
      fs.rmSync(temporary, { force: true });
    } catch {
      // there is no folder to hold it
    }
    return false;
  }
}

/**
 * The runs on disk now.
 * @param onProgress told of run.json files read, where there are many
 * @throws UserError when the folder cannot be read; a folder that is not there has no runs
 */
export function scanRuns(resultsDir: string, onProgress?: (read: number) => void): Scan {
  const old = loadIndex(resultsDir);
  const index: RunIndex = { ...old, folders: {} };
  const seenMs = Date.now();
  let read = 0;
  let changed = false;

  const lookAtRun = (dir: string, runId: string, setId: string | null, before: IndexedRun | undefined, stamp: string): IndexedRun => {
    if (before !== undefined && before.stamp === stamp && settled(stamp, before.seenMs)) return before;
    read += 1;
    changed = true;
    if (read % 500 === 0) onProgress?.(read);
    const found = readRun(dir);
    const isRun = found !== null || fs.existsSync(path.join(dir, 'raw', 'plan.json'));
    const owner = found?.run?.status === 'running' ? found.run.owner : undefined;
    return { stamp, seenMs, ...(owner === undefined ? {} : { owner }), row: isRun ? rowOf(runId, setId, found ?? { run: null, schema: null, why: 'it has no run.json' }, readTags(dir)) : null, metrics: 0 };
  };

  for (const name of folderNames(resultsDir)) {
    const dir = path.join(resultsDir, name);
    const before = Object.hasOwn(old.folders, name) ? old.folders[name] : undefined;
    const stamp = stampOf(dir);
    if (stamp === null) continue; // gone meanwhile
    const own = runStamp(dir, stamp);
    if (own !== null || before?.set === false || fs.existsSync(path.join(dir, 'raw', 'plan.json'))) {
      const run = lookAtRun(dir, name, null, before?.runs[''], own ?? stamp);
      if (run.row === null) { changed ||= before !== undefined; continue; }
      index.folders[name] = { set: false, stamp, seenMs, tags: [], runs: { '': run } };
      continue;
    }
    // A set: what is in it is known while its own time stands still.
    const known = before !== undefined && before.set && before.stamp === stamp && settled(stamp, before.seenMs);
    const names = known ? Object.keys(before.runs) : folderNames(dir);
    const tags = known ? before.tags : readTags(dir);
    const runs: Record<string, IndexedRun> = {};
    for (const inner of names) {
      const innerDir = path.join(dir, inner);
      const innerStamp = stampOf(innerDir);
      if (innerStamp === null) { changed = true; continue; }
      runs[inner] = lookAtRun(innerDir, `${name}/${inner}`, name, before?.runs[inner], runStamp(innerDir, innerStamp) ?? innerStamp);
    }
    if (!Object.values(runs).some((run) => run.row !== null)) { changed ||= before !== undefined; continue; }
    if (!known) changed = true;
    index.folders[name] = { set: true, stamp, seenMs: known ? before.seenMs : seenMs, tags, runs };
  }
  if (Object.keys(old.folders).some((name) => !Object.hasOwn(index.folders, name))) changed = true;
  if (changed) saveIndex(resultsDir, index);
  return { resultsDir, index, read, changed };
}

/** Every run, its set's tags added to its own, oldest first. */
export function indexedRuns(index: RunIndex): { readonly row: RunRow; readonly entry: IndexedRun }[] {
  const runs = Object.values(index.folders).flatMap((folder) => Object.values(folder.runs).flatMap((entry) => {
    if (entry.row === null) return [];
    const row = entry.owner === undefined || goesOn(entry.owner) ? entry.row : { ...entry.row, ...killed(entry.owner) };
    return [{ entry, row: folder.tags.length === 0 ? row : { ...row, tags: [...new Set([...folder.tags, ...row.tags])].sort() } }];
  }));
  const key = ({ row }: { readonly row: RunRow }): string => `${row.started ?? ''} ${row.run_id}`;
  return runs.map((run) => [key(run), run] as const).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, run]) => run);
}

/** Sub-folders that may be runs or sets. */
function folderNames(dir: string): string[] {
  try {
    return fs.readdirSync(dir, { withFileTypes: true })
      .filter((entry) => !entry.name.startsWith('.') && (entry.isDirectory() || (entry.isSymbolicLink() && isFolder(path.join(dir, entry.name))))).map((entry) => entry.name);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT') return [];
    throw new UserError(`${dir}: cannot read the results folder (${error instanceof Error ? error.message : String(error)}); name another`);
  }
}

const isFolder = (file: string): boolean => fs.statSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false;

function stampOf(file: string): string | null {
  try {
    const stat = fs.statSync(file, { throwIfNoEntry: false });
    return stat === undefined ? null : stat.isDirectory() ? String(stat.mtimeMs) : `${stat.mtimeMs}+${stat.size}`;
  } catch {
    return null; // not for us to look into
  }
}

/** null where there is no run.json. */
function runStamp(dir: string, folderStamp: string): string | null {
  const own = stampOf(path.join(dir, runJsonName));
  return own === null ? null : `${folderStamp} ${own}`;
}

const settled = (stamp: string, seenMs: number): boolean => stamp.split(' ').every((part) => Number.parseFloat(part) + settledMs < seenMs);
