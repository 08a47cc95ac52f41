/**
 * run.json: what ran, on what, and whether its figures may be believed. Written first (status `running`) and
 * updated last; a folder whose status is not `complete` is never counted. Every write is atomic (a rename), so a
 * reader never sees half a file, also when the writer is killed.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Finding } from './raw.js';

export type RunStatus = 'running' | 'complete' | 'incomplete' | 'invalid' | 'failed';
export type RunFinding = Omit<Finding, 'type'>;

export interface RunJson {
  readonly schema: 1;
  /** The scenario's name. */
  readonly name: string;
  /** `planHash(plan)` of plan/hash.ts: two runs of one hash did the same thing. */
  readonly planHash: string;
  readonly engine: 'kernel' | 'sim';
  /** `local`, `uml:6.12`, …; `sim` for the simulator. */
  readonly machine: string;
  readonly clock: 'virtual' | 'real';
  /** How hosts were isolated: `netns`, `docker`; absent for the simulator. */
  readonly hosts?: string;
  /** null for the simulator. `config`: hash or name of the kernel's configuration. */
  readonly kernel: { readonly release: string | null; readonly config?: string } | null;
  readonly toolVersions: Readonly<Record<string, string>>;
  readonly seed: number;
  /** What `vary` set for this run; empty when nothing varies. */
  readonly varied: Readonly<Record<string, string>>;
  readonly gitCommit: string | null;
  /** The process that runs it and the machine's boot, while the status is `running`: whether it still goes on can be told. */
  readonly owner?: { readonly pid: number; readonly startTime: number; readonly bootId: string };
  /** Wall time, ISO 8601. */
  readonly started: string;
  readonly ended: string | null;
  /**
   * `incomplete`: interrupted, records kept. `invalid`: went to its end, but a finding of level `invalid` says its
   * figures must not be used. `failed`: could not run.
   */
  readonly status: RunStatus;
  /** Warnings, and what made the run invalid or fail: rule, message, level. */
  readonly findings: readonly RunFinding[];
  /** What the engine learned: sysctls as read back, achieved rates, … */
  readonly facts: Readonly<Record<string, unknown>>;
  /** Rows of each record table, and whatever else was counted. */
  readonly counts: Readonly<Record<string, number>>;
  /** The scenario as resolved. */
  readonly scenario?: unknown;
  /** Why it failed or stopped, in one line. */
  readonly error?: string;
}

export const runJsonName = 'run.json';

/** Write `value` as JSON to `file` so that it is either the old or the new text, never part of it. */
export function writeJsonAtomically(file: string, value: unknown): void {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    fs.writeFileSync(temporary, `${JSON.stringify(value, null, 2)}\n`);
    fs.renameSync(temporary, file);
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw error;
  }
}

export function writeRunJson(runDir: string, run: RunJson): void {
  writeJsonAtomically(path.join(runDir, runJsonName), run);
}

/** @returns null when the folder has no run.json, or one that is not of this version. */
export function readRunJson(runDir: string): RunJson | null {
  let text: string;
  try {
    text = fs.readFileSync(path.join(runDir, runJsonName), 'utf8');
  } catch {
    return null;
  }
  try {
    const run = JSON.parse(text) as Partial<RunJson> | null;
    return run !== null && typeof run === 'object' && run.schema === 1 && typeof run.status === 'string' ? (run as RunJson) : null;
  } catch {
    return null;
  }
}
