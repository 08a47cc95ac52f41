/**
 * Removing runs. Only a folder that is a run's goes, and of a set only its runs and what testbed itself put beside them:
 * anything else stays where it is, and is named. A run that goes on, or of which that cannot be told, is refused.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { summarise, summaryName } from '../analysis/summary.js';
import { found } from '../cli/runs.js';
import type { Found } from '../cli/runs.js';
import { UserError } from '../errors.js';
import { liveness } from '../records/liveness.js';
import { reportName, writeReport } from '../report/report.js';
import { indexName } from './run-index.js';
import { readRun } from './run-row.js';
import { tagsName } from './tags.js';

/** Files testbed puts into a set's folder. */
const setFiles: ReadonlySet<string> = new Set([summaryName, reportName, tagsName]);

/**
 * @param resultsDir folder of the runs: never removed itself, though it looks like a set when its runs are of their own
 * @param force also what may be running, as far as can be told
 * @throws UserError when it may not be removed
 */
export function checkRemovable(entry: Found, resultsDir: string, force = false): void {
  const inside = path.relative(path.resolve(entry.dir), path.resolve(resultsDir));
  if (!inside.startsWith('..') || fs.existsSync(path.join(entry.dir, indexName))) throw new UserError(`${entry.dir} is a folder of runs, not a run: name the runs (testbed list)`);
  if (fs.lstatSync(entry.dir).isSymbolicLink()) throw new UserError(`${entry.dir} is a link: remove the folder it leads to, or the link, by hand`);
  for (const run of entry.runs) {
    // What `found` takes for a run must also look like one: never trust a name alone with what cannot be undone.
    const read = readRun(run.dir);
    if ((read === null || read.schema === null) && !fs.existsSync(path.join(run.dir, 'raw', 'plan.json'))) throw new UserError(`${run.dir} is not a run's folder (neither a run.json of testbed nor raw/plan.json): it is left alone`);
    const state = liveness(run.run);
    if (state === 'running') throw new UserError(`${run.id} is still running (process ${run.run!.owner!.pid}): stop it first`);
    if (state === 'unknown' && !force) throw new UserError(`${run.id} says that it is running, and not by which process: if it is not, remove it with --force`);
  }
}

export interface Removed { readonly bytes: number; /** What was no run's and stays. */ readonly left: readonly string[] }

/** Removes what `checkRemovable` has let through. @throws UserError when the file system refuses */
export function removeRuns(entry: Found): Removed {
  try {
    let bytes = 0;
    for (const run of entry.runs) {
      bytes += sizeOf(run.dir);
      // First out of the way by its name, so that no one takes half a run for one.
      const aside = path.join(path.dirname(run.dir), `.removing-${path.basename(run.dir)}`);
      fs.renameSync(run.dir, aside);
      fs.rmSync(aside, { recursive: true, force: true });
    }
    if (!entry.set) return { bytes, left: [] };
    const others = fs.readdirSync(entry.dir);
    const left = others.filter((name) => !setFiles.has(name)).map((name) => path.join(entry.dir, name));
    if (left.length > 0) return { bytes, left };
    for (const name of others) fs.rmSync(path.join(entry.dir, name), { force: true });
    fs.rmdirSync(entry.dir);
    return { bytes, left: [] };
  } catch (error) {
    throw new UserError(`${entry.dir} could not be removed (${error instanceof Error ? error.message : String(error)})`);
  }
}

/**
 * A run was taken out of a set: the figures over its seeds, and the set's page where it has one, are made anew of those that are left.
 * @returns whether there was anything to bring up to date
 */
export async function refreshSet(setDir: string): Promise<boolean> {
  if (!fs.existsSync(path.join(setDir, summaryName))) return false; // no set of ours
  const page = fs.existsSync(path.join(setDir, reportName));
  for (const name of [summaryName, reportName]) fs.rmSync(path.join(setDir, name), { force: true });
  if (found(setDir) === null) return true; // that was the last
  await summarise(setDir);
  if (page) await writeReport(setDir);
  return true;
}

/** Bytes of the files below a folder. */
export function sizeOf(dir: string): number {
  let bytes = 0;
  for (const item of fs.readdirSync(dir, { withFileTypes: true })) {
    const file = path.join(dir, item.name);
    bytes += item.isDirectory() ? sizeOf(file) : fs.lstatSync(file).size;
  }
  return bytes;
}
