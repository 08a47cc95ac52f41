/** Short names for the sides, from what tells them apart: engine and kernel, what was chosen or varied, the scenario; else their ids. */

import { formatBps, formatVaried } from '../report/format.js';
import type { Operand } from './operand.js';
import { planOf } from './operand.js';

/** @returns as many different names as operands */
export function sideLabels(operands: readonly Operand[]): string[] {
  const parts: readonly ((operand: Operand) => string)[] = [
    ({ runs }) => one(runs.map(({ run }) => (run.engine === 'sim' ? 'simulator' : `Linux ${run.kernel?.release ?? run.machine}`))),
    ({ runs }) => one(runs.map((run) => queuesOf(run.run.varied) ?? bottleneckQueues(planOf(run)))),
    ({ runs }) => one(runs.map((run) => [...new Set(planOf(run).flows.flatMap(({ cc }) => cc ?? []))].join('/'))),
    ({ runs }) => one(runs.map((run) => [...new Set(planOf(run).links.filter(({ role }) => role === 'bottleneck').map(({ forward }) => formatBps(forward.rateBps)))].join('/'))),
    ({ runs }) => one(runs.map(({ run }) => run.machine)),
    ({ runs }) => one(runs.map(({ run }) => run.hosts ?? '')),
    ({ chosen }) => formatVaried(chosen),
    ({ runs }) => one(runs.map(({ run }) => formatVaried(run.varied))),
    ({ runs }) => one(runs.map(({ run }) => run.name)),
    ({ runs }) => one(runs.map(({ run }) => run.gitCommit?.slice(0, 8) ?? '')),
    seedsOf,
    ({ runs }) => runs.map(({ run }) => run.started.slice(0, 16).replace('T', ' ')).sort()[0]!,
  ];
  let labels = operands.map(() => '');
  for (const part of parts) {
    const values = operands.map(part);
    const distinct = new Set(values).size;
    // Only what adds to telling them apart becomes part of the name.
    const joined = labels.map((label, side) => [label, values[side]!].filter((text) => text !== '').join(', '));
    if (distinct > 1 && values.every((value) => value.length <= 40) && new Set(joined).size > new Set(labels).size) labels = joined;
    if (new Set(labels).size === labels.length && labels.every((label) => label !== '')) return labels;
  }
  return labels.map((label, side) => `${String.fromCharCode(65 + (side % 26))}${side >= 26 ? Math.floor(side / 26) : ''}${label === '' ? '' : ` (${label})`}`);
}

function seedsOf({ runs }: Operand): string {
  const all = [...new Set(runs.map(({ seed }) => seed))];
  return `seed${all.length > 1 ? 's' : ''} ${all.length > 4 ? `${all[0]} … ${all.at(-1)}` : all.join(', ')}`;
}

/** The one value of all; '' where there are several. */
function one(values: readonly string[]): string {
  const distinct = new Set(values);
  return distinct.size === 1 ? [...distinct][0]! : '';
}

function queuesOf(varied: Readonly<Record<string, string>>): string | null {
  const key = Object.keys(varied).find((name) => name.split('.').at(-1) === 'queue');
  return key === undefined ? null : varied[key]!;
}

function bottleneckQueues(plan: ReturnType<typeof planOf>): string {
  return [...new Set(plan.links.filter(({ role }) => role === 'bottleneck').flatMap(({ forward }) => (forward.queue === null ? [] : `${forward.queue.kind}${forward.queue.in === 'daemon' ? ' (daemon)' : ''}`)))].join('/');
}
