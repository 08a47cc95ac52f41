/**
 * A queue discipline in a scenario: `codel`, `{ kind: red, min: 20p, max: 60p }`, `{ kind: pi2, in: daemon }`, or tc's
 * own words for one that has no schema here: `{ tc: "netem limit 1000" }`. Parameters are checked by the
 * registries: testbed/qdiscs (the kernel's) and aqm/ (the userspace daemon's and the simulator's).
 */

import { z } from 'zod';
import { aqms } from '../../aqm/registry.js';
import type { PlanQueue } from '../plan/plan.js';
import { qdiscs } from '../qdiscs/registry.js';
import { newMap, type Data, type DataMap } from './data.js';
import { expectation, explain, onlyExpected } from './explain.js';
import { enumerate, suggestion } from './names.js';

/** A queue as a scenario has it. */
export interface ScenarioQueue extends PlanQueue {
  /** The file itself says `in: kernel`: there it stays, whatever the kernel lacks. */
  readonly keptInKernel?: true;
}

/** Every name `kind` may have, in order. */
export function queueKinds(): string[] {
  return [...new Set([...qdiscs.keys(), ...aqms.keys()])].sort();
}

function kindProblem(kind: string): string {
  const known = queueKinds();
  return `there is no queue discipline ${JSON.stringify(kind)}; ${suggestion(kind, known)}expected ${enumerate(known, 60)}, or { tc: "…" } for another qdisc`;
}

const tcWord = /^[A-Za-z0-9_.:%/+,=-]{1,64}$/;
const tcRule = "tc's words for the qdisc, such as \"fq_codel limit 1000\", of letters, digits and . : % / + , = - _";
/** testbed says where the queue stands; `ingress` is a parameter of cake, but no queue of a bottleneck. */
const placeWords: readonly string[] = ['dev', 'parent', 'handle', 'root'];
const noQueue: readonly string[] = [...placeWords, 'ingress', 'clsact', 'stab', 'estimator', 'help', 'add', 'change', 'replace', 'qdisc', 'tc'];
const zTc = z.union([
  z.string({ error: `expected ${tcRule}` }).transform((text) => text.trim().split(/\s+/)),
  z.array(z.string({ error: 'expected each word as text; a number in quotes, such as "1000"' })),
]).superRefine((words, context) => {
  const refuse = (message: string): void => { context.addIssue({ code: 'custom', message }); };
  if (words.length === 0 || words[0] === '') refuse(`expected ${tcRule}; there is no word`);
  else if (words.length > 64) refuse(`expected at most 64 words for tc, not ${words.length}`);
  else if (noQueue.includes(words[0]!)) refuse(`expected the name of the qdisc first, such as "fq_codel limit 1000", not ${words[0]!} (testbed says where it stands)`);
  else if (words.some((word) => placeWords.includes(word))) refuse(`expected no ${words.find((word) => placeWords.includes(word))!}: testbed says where the queue stands`);
  else if (!words.every((word) => tcWord.test(word)) || !/^[a-z]/.test(words[0]!)) refuse(`expected ${tcRule}; ${JSON.stringify(words.find((word) => !tcWord.test(word)) ?? words[0])} is none`);
});

const zKindName = z.string({ error: 'expected the name of a queue discipline, such as codel' });
const zPlace = z.enum(['kernel', 'daemon']);

const zQueueName = zKindName.transform((kind, context): ScenarioQueue => resolveQueue(kind, {}, undefined, context));

type Context = z.core.$RefinementCtx<unknown>;

/** Checks the parameters against the registry the queue is in, and resolves their units. */
function resolveQueue(kind: string, params: Readonly<Record<string, unknown>>, place: 'kernel' | 'daemon' | undefined, context: Context, path: string[] = []): PlanQueue {
  const inKernel = qdiscs.get(kind);
  const inDaemon = aqms.get(kind);
  const give = (message: string, at: (string | number)[]): PlanQueue => {
    context.addIssue({ code: 'custom', message, path: at });
    return z.NEVER;
  };
  if (!inKernel && !inDaemon) return give(kindProblem(kind), path);
  const where = place ?? (inKernel ? 'kernel' : 'daemon');
  const known = where === 'kernel' ? inKernel : inDaemon;
  if (!known) {
    return give(where === 'kernel'
      ? `the kernel has no queue discipline ${JSON.stringify(kind)}; expected in: daemon (the userspace bottleneck has it)`
      : `the userspace daemon has no queue discipline ${JSON.stringify(kind)}; expected in: kernel`, path.length > 0 ? ['in'] : []);
  }
  const data: DataMap = newMap();
  for (const key of Object.keys(params)) data[key] = params[key] as Data;
  const result = known.schema.safeParse(data, { error: expectation });
  if (!result.success) {
    for (const problem of explain(result.error.issues, data)) {
      context.addIssue({ code: 'custom', message: onlyExpected(problem.message), path: [...problem.path] });
    }
    return z.NEVER;
  }
  const values: Record<string, number | boolean | string> = {};
  for (const [key, value] of Object.entries(result.data)) {
    if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'string') values[key] = value;
  }
  return { kind, in: where, params: values };
}

const mapWords = 'a map such as { kind: codel, target: 5ms }';
const zQueueMap = z.looseObject({
  kind: zKindName.optional().meta({ description: "Name of the queue discipline: tc's where Linux has it." }),
  in: zPlace.optional().meta({ description: 'kernel (a qdisc) or daemon (the userspace bottleneck). Default: kernel where Linux has it.' }),
  tc: zTc.optional().meta({ description: "Raw tc words, for a qdisc that has no parameters here; kernel only." }),
}, { error: (issue) => (issue.code === 'invalid_type' ? `expected ${mapWords}` : undefined) }).transform((map, context): ScenarioQueue => {
  const { kind, in: place, tc, ...params } = map;
  const give = (message: string, path: string[]): ScenarioQueue => {
    context.addIssue({ code: 'custom', message, path });
    return z.NEVER;
  };
  if (tc !== undefined) {
    if (kind !== undefined && kind !== 'raw') return give('the words of tc stand alone; expected no kind beside tc', ['tc']);
    if (place === 'daemon') return give('the words of tc are for the kernel; expected in: kernel', ['in']);
    const other = Object.keys(params)[0];
    if (other !== undefined) return give('the words of tc stand alone; expected no other key beside tc', [other]);
    return { kind: 'raw', in: 'kernel', params: {}, tc };
  }
  if (kind === undefined) {
    const near = Object.keys(params).map((key) => suggestion(key, ['kind', 'forward', 'reverse', 'tc'])).join('');
    return give(`expected kind: the name of a queue discipline, such as codel${near ? `; ${near.trim()}` : ''}`, ['kind']);
  }
  if (kind === 'raw') return give('expected tc: "…" with the words of the qdisc', ['tc']);
  return { ...resolveQueue(kind, params, place, context, ['kind']), ...(place === 'kernel' ? { keptInKernel: true } : {}) };
});

export const zQueue = z.union([zQueueName, zQueueMap]).meta({ id: 'Queue', title: 'Queue discipline' });
