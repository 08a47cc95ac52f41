/** Finding runs on disk: every folder of the results folder that is a run (run.json) or a set (sub-folders that are). Reads run.json only. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { InvalidArgumentError } from 'commander';
import { UserError } from '../errors.js';
import { readRunJson } from '../records/run-json.js';
import type { RunJson } from '../records/run-json.js';
import { editDistance } from '../store/nearest.js';
import { indexedRuns, scanRuns } from '../store/run-index.js';
import type { RunRow } from '../store/run-row.js';

export const defaultResults = path.join('results', 'runs');

/** What an option that names a folder of runs takes; the default one need not be there yet. @throws InvalidArgumentError for commander to print */
export function folderOfRuns(name: string): string {
  const stat = fs.statSync(name, { throwIfNoEntry: false });
  if (stat === undefined) throw new InvalidArgumentError('there is no such folder; expected one with runs in it');
  if (!stat.isDirectory()) throw new InvalidArgumentError('is a file; expected a folder with runs in it');
  return name;
}

export interface FoundRun { readonly id: string; readonly dir: string; readonly run: RunJson | null }
export interface Found {
  /** The folder's name. */
  readonly id: string;
  readonly dir: string;
  /** One for a run of its own; a set's runs. */
  readonly runs: readonly FoundRun[];
  readonly set: boolean;
  /** Earliest start, ISO 8601; '' when no run.json tells. */
  readonly started: string;
}

/** @returns runs and sets, oldest first. @throws UserError when the folder cannot be read */
export function findRuns(resultsDir: string): Found[] {
  let entries: fs.Dirent[];
  try {
    entries = fs.readdirSync(resultsDir, { withFileTypes: true });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw new UserError(`${resultsDir}: cannot read the results folder (${error instanceof Error ? error.message : String(error)}); name another`);
  }
  return entries.flatMap((entry) => (entry.isDirectory() ? found(path.join(resultsDir, entry.name)) ?? [] : []))
    .sort((a, b) => (a.started < b.started ? -1 : a.started > b.started ? 1 : a.id < b.id ? -1 : 1));
}

/** What a folder is; null when it is neither a run nor a set. */
export function found(dir: string): Found | null {
  const id = path.basename(path.resolve(dir));
  const own = readRunJson(dir);
  if (own !== null || fs.existsSync(path.join(dir, 'run.json')) || fs.existsSync(path.join(dir, 'raw', 'plan.json'))) {
    return { id, dir, runs: [{ id, dir, run: own }], set: false, started: own?.started ?? '' };
  }
  let names: string[];
  try {
    names = fs.readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map((entry) => entry.name).sort();
  } catch {
    return null;
  }
  const runs = names.flatMap((name): FoundRun[] => {
    const run = readRunJson(path.join(dir, name));
    return run === null ? [] : [{ id: `${id}/${name}`, dir: path.join(dir, name), run }];
  });
  if (runs.length === 0) return null;
  return { id, dir, runs, set: true, started: runs.reduce((least, { run }) => (run!.started < least ? run!.started : least), runs[0]!.run!.started) };
}

/**
 * A run or set by folder, id, unique beginning of an id, unique ending after a `-`, or `last`.
 * @throws UserError when there is none, or several; names those that come near
 */
export function resolveRun(name: string, resultsDir: string): Found {
  const stat = name === '' ? undefined : fs.statSync(name, { throwIfNoEntry: false });
  const isFolder = stat?.isDirectory() ?? false;
  const asFolder = isFolder ? found(path.resolve(name)) : null; // `.` has no name to call it by
  if (asFolder !== null) return asFolder;
  const rows = indexedRuns(scanRuns(resultsDir).index).map(({ row }) => row);
  const given = isFolder ? `${name} is a folder, but not a run's (it has neither run.json nor raw/plan.json), and there is ` : stat !== undefined ? `${name} is a file, where the folder of a run is expected, and there is ` : '';
  if (rows.length === 0) throw new UserError(given === '' ? `no run in ${resultsDir}; start one with: testbed run FILE` : `${given}no run in ${resultsDir}`);
  const ids = [...new Set(rows.map((row) => row.set_id ?? row.run_id))];
  const open = (id: string): Found => {
    const entry = found(path.join(resultsDir, id));
    if (entry === null) throw new UserError(`${path.join(resultsDir, id)} is gone`);
    return entry;
  };
  const slash = name.indexOf('/');
  const beginning = slash < 0 ? name : name.slice(0, slash);
  const wanted = beginning === 'last' ? newest(rows) : beginning;
  const matches = ids.includes(wanted) ? [wanted] : ids.filter((id) => id.startsWith(wanted) || id.split('-').at(-1)!.startsWith(wanted));
  if (wanted === '' || matches.length === 0) {
    throw new UserError(`${given}no run ${JSON.stringify(name)} in ${resultsDir}; near: ${nearest(wanted, ids).join(', ')} (testbed list shows all)`);
  }
  if (matches.length > 1) {
    const shown = matches.slice(-5);
    throw new UserError(`${JSON.stringify(name)} may be any of ${matches.length} runs in ${resultsDir}: ${shown.join(', ')}${matches.length > 5 ? ', …' : ''}; give more of its name, or \`last\``);
  }
  const match = open(matches[0]!);
  if (slash < 0) return match;
  const part = name.slice(slash + 1);
  const inside = match.runs.filter((run) => run.id.slice(match.id.length + 1).startsWith(part));
  const one = inside.find((run) => run.id.slice(match.id.length + 1) === part) ?? (inside.length === 1 ? inside[0] : undefined);
  if (!match.set) throw new UserError(`no run ${JSON.stringify(part)} in ${match.id}: that is one run, not a set${beginning === 'last' ? ' (`last` is what was started last)' : ''}; give it without ${JSON.stringify(`/${part}`)}, or name a set (testbed list shows all)`);
  if (one === undefined) {
    throw new UserError(`${inside.length > 1 ? 'several runs' : 'no run'} ${JSON.stringify(part)} in ${match.id}; near: ${nearest(part, match.runs.map((run) => run.id.slice(match.id.length + 1))).join(', ')}`);
  }
  return { id: one.id, dir: one.dir, runs: [one], set: false, started: one.run?.started ?? '' };
}

/** The entry that started last; a set starts with its first run. */
function newest(rows: readonly RunRow[]): string {
  const starts = new Map<string, string>();
  for (const row of rows) {
    const id = row.set_id ?? row.run_id;
    const known = starts.get(id);
    if (known === undefined || (row.started ?? '') < known) starts.set(id, row.started ?? '');
  }
  return [...starts].reduce((best, each) => (each[1] > best[1] || (each[1] === best[1] && each[0] > best[0]) ? each : best))[0];
}

/** The five names closest by edit distance of their beginnings. */
export function nearest(name: string, candidates: readonly string[]): string[] {
  return candidates.map((candidate) => [Math.min(editDistance(name, candidate.slice(0, Math.max(name.length, 1))), editDistance(name, candidate.split('-').at(-1)!)), candidate] as const)
    .sort(([a, left], [b, right]) => a - b || (left < right ? -1 : 1)).slice(0, 5).map(([, candidate]) => candidate);
}
