/**
 * One run as the store knows it: a row of the view `runs`, made from the folder's run.json. Folders written by another
 * version are read by the reader of their schema number, or shown with that number and left out of every other view.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import type { RunJson, RunStatus } from '../records/run-json.js';
import { runJsonName } from '../records/run-json.js';

/** `unreadable`: no run.json, half of one, or one of a schema this testbed does not know. */
export type StoredStatus = RunStatus | 'unreadable';

export interface RunRow {
  /** The folder below the results folder: `dumbbell-…-a1b2c3`, or `set/queue-codel-seed1` inside a set. */
  readonly run_id: string;
  /** The set's folder; null for a run of its own. */
  readonly set_id: string | null;
  readonly scenario: string | null;
  readonly engine: string | null;
  readonly machine: string | null;
  readonly clock: string | null;
  readonly hosts: string | null;
  readonly kernel: string | null;
  readonly seed: number | null;
  readonly status: StoredStatus;
  /** ISO 8601. */
  readonly started: string | null;
  readonly ended: string | null;
  readonly wall_s: number | null;
  readonly tags: readonly string[];
  readonly findings: readonly string[];
  readonly error: string | null;
  readonly plan_hash: string | null;
  readonly git_commit: string | null;
  /** run.json's schema number; null when there is none to read. */
  readonly schema: number | null;
  readonly varied: Readonly<Record<string, string>>;
}

/** What reads a run.json of each schema number. A later schema adds a line here and keeps this one. */
const readers: Readonly<Record<number, (value: object) => RunJson>> = { 1: (value) => value as RunJson };
export const knownSchemas: readonly number[] = Object.keys(readers).map(Number);

export type ReadRun =
  | { readonly run: RunJson; readonly schema: number }
  | { readonly run: null; readonly schema: number | null; readonly why: string }
  /** There is no run.json. */
  | null;

/** run.json of a folder, of any schema known here. */
export function readRun(runDir: string): ReadRun {
  let text: string;
  try {
    text = fs.readFileSync(path.join(runDir, runJsonName), 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    return { run: null, schema: null, why: `run.json cannot be read (${code})` };
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { run: null, schema: null, why: 'run.json is not whole' };
  }
  const schema = typeof value === 'object' && value !== null && 'schema' in value && typeof value.schema === 'number' ? value.schema : null;
  if (schema === null) return { run: null, schema: null, why: 'run.json has no schema number' };
  const reader = Object.hasOwn(readers, schema) ? readers[schema] : undefined;
  if (reader === undefined) return { run: null, schema, why: otherSchema(schema) };
  const run = reader(value as object);
  if (typeof run.name !== 'string' || typeof run.status !== 'string' || typeof run.varied !== 'object' || run.varied === null) return { run: null, schema, why: 'run.json lacks the name, status or varied values of a run' };
  return { run, schema };
}

export const otherSchema = (schema: number): string =>
  `it is of schema ${schema}, written by ${schema > Math.max(...knownSchemas) ? 'a newer' : 'an older'} testbed; this one reads ${knownSchemas.join(', ')}`;

export function rowOf(runId: string, setId: string | null, read: Exclude<ReadRun, null>, tags: readonly string[]): RunRow {
  const { run } = read;
  if (run === null) {
    return {
      run_id: runId, set_id: setId, scenario: null, engine: null, machine: null, clock: null, hosts: null, kernel: null, seed: null, status: 'unreadable',
      started: null, ended: null, wall_s: null, tags, findings: [], error: read.why, plan_hash: null, git_commit: null, schema: read.schema, varied: {},
    };
  }
  const wallMs = run.ended ? Date.parse(run.ended) - Date.parse(run.started) : NaN;
  return {
    run_id: runId, set_id: setId, scenario: run.name, engine: run.engine ?? null, machine: run.machine ?? null, clock: run.clock ?? null, hosts: run.hosts ?? null,
    kernel: run.kernel?.release ?? null, seed: typeof run.seed === 'number' ? run.seed : null, status: run.status, started: run.started ?? null, ended: run.ended ?? null,
    wall_s: Number.isFinite(wallMs) ? wallMs / 1000 : null, tags, findings: [...new Set((run.findings ?? []).map((finding) => finding.rule))],
    error: run.error ?? null, plan_hash: run.planHash ?? null, git_commit: run.gitCommit ?? null, schema: read.schema,
    varied: Object.fromEntries(Object.entries(run.varied).map(([key, value]) => [key, String(value)])),
  };
}
