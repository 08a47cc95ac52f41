/**
 * One side of a comparison: a run, a set, or several joined with commas (`a,b,c`), read from disk and sorted into cells, one
 * a combination of what the set varied. `SET:queue=codel` takes only the runs that varied so.
 */

import * as fs from 'node:fs';
import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';
import type { Metrics } from '../analysis/metrics.js';
import { readMetrics } from '../analysis/summary.js';
import { readPlan } from '../records/ingest.js';
import type { RunJson } from '../records/run-json.js';
import { resolveRun } from '../cli/runs.js';
import type { FoundRun } from '../cli/runs.js';
import { figuresOf } from './figures.js';
import type { RunFigures } from './compare.js';

export interface ComparedRun extends RunFigures {
  readonly id: string;
  readonly dir: string;
  readonly run: RunJson;
  readonly metrics: Metrics;
}
export interface NotCompared { readonly id: string; readonly status: string; readonly reason: string }

export interface Operand {
  /** As it was given. */
  readonly given: string;
  /** What `:key=value` chose. */
  readonly chosen: Readonly<Record<string, string>>;
  /** By seed, then id. */
  readonly runs: readonly ComparedRun[];
  readonly notCompared: readonly NotCompared[];
}

/** Names for --allow of runs that are otherwise left out, by status. */
export const allowedStatus = ['incomplete', 'invalid'] as const;

/**
 * @param given folder, id, beginning of an id, `last`; several with commas between; `:key=value` after it
 * @param allow names among `allowedStatus`
 * @throws UserError when nothing of it can be compared; says why of each run
 */
export function readOperand(given: string, resultsDir: string, allow: ReadonlySet<string>): Operand {
  const { pieces, chosen } = parse(given);
  const all = pieces.flatMap((piece) => resolveRun(piece, resultsDir).runs);
  const candidates = uniqueBy(all, ({ dir }) => fs.realpathSync(dir));
  const chosenRuns = candidates.filter(({ run }) => run === null || Object.entries(chosen).every(([key, value]) => valueOf(run.varied, key) === value));
  if (chosenRuns.length === 0 || chosenRuns.every(({ run }) => run === null && Object.keys(chosen).length > 0)) {
    const values = [...new Set(candidates.flatMap(({ run }) => Object.entries(run?.varied ?? {}).map(([key, value]) => `${key}=${value}`)))];
    throw new UserError(`${given}: no run varied so; ${values.length === 0 ? 'nothing was varied in it' : `expected among ${values.join(', ')}`}`);
  }
  const runs: ComparedRun[] = [];
  const notCompared: NotCompared[] = [];
  for (const candidate of chosenRuns) {
    const read = readRun(candidate, allow);
    if ('reason' in read) notCompared.push(read);
    else runs.push(read);
  }
  if (runs.length === 0) {
    throw new UserError(`${given}: nothing to compare. ${notCompared.slice(0, 10).map(({ id, reason }) => `${id}: ${reason}`).join('\n')}${notCompared.length > 10 ? `\nand ${notCompared.length - 10} more` : ''}`);
  }
  runs.sort((a, b) => a.seed - b.seed || (a.id < b.id ? -1 : 1));
  return { given, chosen, ...withoutRepeats(runs, notCompared) };
}

function parse(given: string): { pieces: string[]; chosen: Record<string, string> } {
  if (given === '') throw new UserError("'': expected a run or set: a folder, an id, the beginning of an id, or `last`");
  if (fs.existsSync(given)) return { pieces: [given], chosen: {} };
  const [names, ...choices] = given.split(/:(?=[A-Za-z_][\w.[\]-]*=)/);
  const pieces = fs.existsSync(names!) ? [names!] : names!.split(',').filter((piece) => piece !== '');
  if (pieces.length === 0) throw new UserError(`${given}: expected a run or set before the colon`);
  return { pieces, chosen: Object.fromEntries(choices.map((choice) => { const at = choice.indexOf('='); return [choice.slice(0, at), choice.slice(at + 1)]; })) };
}

/** By whole key, or by its last part (`queue` for `topology.links.BL.queue`). */
function valueOf(varied: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(varied, key) ? varied[key] : Object.entries(varied).find(([full]) => full.split('.').at(-1) === key)?.[1];
}

function uniqueBy<T>(list: readonly T[], key: (item: T) => string): T[] {
  return [...new Map(list.map((item) => [key(item), item])).values()];
}

function readRun({ id, dir, run }: FoundRun, allow: ReadonlySet<string>): ComparedRun | NotCompared {
  const refuse = (status: string, reason: string): NotCompared => ({ id, status, reason });
  if (run === null) return refuse('unknown', 'its run.json is missing, cannot be read, or is of another version');
  const found = run.findings?.filter?.(({ level }) => level === 'invalid').map(({ rule, message }) => `${rule}: ${message}`) ?? [];
  const status = run.status === 'running' ? 'incomplete' : run.status;
  if (status === 'failed') return refuse(run.status, `it failed${run.error === undefined ? '' : `: ${run.error}`}`);
  if (status !== 'complete' && !allow.has(status)) {
    const why = status === 'invalid' ? `it is invalid${found.length > 0 ? ` (${found.join('; ')})` : ''}` : run.status === 'running' ? 'it has not ended' : 'it was interrupted';
    return refuse(run.status, `${why}; compare it all the same with --allow ${status}`);
  }
  const metrics = readMetrics(dir);
  if (metrics === null) return refuse(run.status, 'it has no metrics.json that can be read');
  if (metrics.schema !== 1) return refuse(run.status, `its metrics.json is of version ${JSON.stringify(metrics.schema)}; expected 1`);
  return { id, dir, run, metrics, seed: run.seed, figures: figuresOf(metrics) };
}

/** In virtual time the same plan gives the same bytes: a second one is no second sample, and would make the noise look smaller. */
function withoutRepeats(runs: readonly ComparedRun[], notCompared: readonly NotCompared[]): { runs: ComparedRun[]; notCompared: NotCompared[] } {
  const kept: ComparedRun[] = [];
  const left = [...notCompared];
  for (const candidate of runs) {
    const { run } = candidate;
    const same = kept.find((other) => run.clock === 'virtual' && other.run.clock === 'virtual' && other.run.planHash === run.planHash && other.run.engine === run.engine && other.run.kernel?.release === run.kernel?.release
      && other.run.gitCommit === run.gitCommit);
    if (same === undefined) kept.push(candidate);
    else left.push({ id: candidate.id, status: run.status, reason: `it repeats ${same.id} (same plan, seed and kernel in virtual time), so it adds no sample` });
  }
  return { runs: kept, notCompared: left };
}

/** @throws UserError when the plan cannot be read, or is none */
export function planOf(run: ComparedRun): Plan {
  const plan: Partial<Plan> = readPlan(run.dir);
  for (const part of ['nodes', 'links', 'flows', 'probes', 'events'] as const) {
    if (!Array.isArray(plan[part])) throw new UserError(`${run.dir}/raw/plan.json: not a plan (${part} is no list); the run cannot be compared`);
  }
  return plan as Plan;
}

// ---- Cells -------------------------------------------------------------------------------------------------------

export interface Cell {
  /** What was varied: the keys that tell this cell from others; empty when there is one cell. */
  readonly varied: Readonly<Record<string, string>>;
  /** One list of runs an operand. Never empty for the reference; null where that operand has no such runs. */
  readonly runs: readonly (readonly ComparedRun[] | null)[];
}
export interface Unmatched { readonly operand: number; readonly varied: Readonly<Record<string, string>>; readonly runs: readonly string[] }

/**
 * Matches runs by what varies within any of the sides. What is fixed on each side (`queue=codel` here, `queue=cake` there)
 * is what is compared, and does not count.
 */
export function matchCells(operands: readonly Operand[]): { readonly cells: readonly Cell[]; readonly unmatched: readonly Unmatched[] } {
  const varying = [...new Set(operands.flatMap(({ runs }) => {
    const keys = [...new Set(runs.flatMap(({ run }) => Object.keys(run.varied)))];
    return keys.filter((key) => new Set(runs.map(({ run }) => run.varied[key])).size > 1);
  }))];
  const keyOf = (run: RunJson): string => JSON.stringify(varying.map((key) => run.varied[key] ?? null));
  const grouped = operands.map(({ runs }) => {
    const groups = new Map<string, ComparedRun[]>();
    for (const run of runs) groups.set(keyOf(run.run), [...(groups.get(keyOf(run.run)) ?? []), run]);
    return groups;
  });
  const variedOf = (runs: readonly ComparedRun[]): Record<string, string> => Object.fromEntries(varying.flatMap((key) => { const value = runs[0]!.run.varied[key]; return value === undefined ? [] : [[key, value]]; }));
  const cells: Cell[] = [];
  const unmatched: Unmatched[] = [];
  for (const [key, runs] of grouped[0]!) {
    const others = grouped.slice(1).map((groups) => groups.get(key) ?? null);
    if (others.some((list) => list !== null)) cells.push({ varied: variedOf(runs), runs: [runs, ...others] });
    else unmatched.push({ operand: 0, varied: variedOf(runs), runs: runs.map(({ id }) => id) });
  }
  grouped.slice(1).forEach((groups, index) => {
    for (const [key, runs] of groups) if (!grouped[0]!.has(key)) unmatched.push({ operand: index + 1, varied: variedOf(runs), runs: runs.map(({ id }) => id) });
  });
  return { cells, unmatched };
}

