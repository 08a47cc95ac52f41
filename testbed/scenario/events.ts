/**
 * `events`: changes during the run. `{ at: 20s, set: { BL1.rate: 5mbit } }`, or shorter
 * `{ at: 20s, set BL1.rate: 5mbit }`. A target is a link or an access link (`S1[0]`), a direction where only one is
 * meant (`BL1.reverse`), and one of its fields. A value without direction sets both, like everywhere.
 */

import { z } from 'zod';
import type { PlanQueue } from '../plan/plan.js';
import { zProbability, zTime } from '../units.js';
import { isMap, type Data } from './data.js';
import { expectation, explain, onlyExpected } from './explain.js';
import { suggestion } from './names.js';
import { show } from './problem.js';
import { perDirection, zDelay, zLinkRate, type PerDirection } from './quantity.js';
import { zQueue } from './queue.js';

const fields = {
  rate: perDirection(zLinkRate), delay: perDirection(zDelay), jitter: perDirection(zDelay),
  loss: perDirection(zProbability), duplicate: perDirection(zProbability), reorder: perDirection(zProbability),
  queue: perDirection(zQueue),
} as const;
type Field = keyof typeof fields;
export const eventFields = Object.keys(fields) as readonly Field[];

export interface Change {
  /** A link, a single host, or a group of hosts. */
  readonly target: string;
  /** One host of a group; null for all of them or for a link. */
  readonly index: number | null;
  readonly field: Field;
  readonly value: PerDirection<number | PlanQueue>;
  /** Where it is written, below the event. */
  readonly key: readonly string[];
}

const targetPattern = /^([A-Za-z][A-Za-z0-9_-]*)(?:\[(\d{1,6})\])?(?:\.(forward|reverse))?\.([a-z]+)$/;
const targetWords = `a link and what to change, such as BL1.rate or BL1.reverse.loss (${eventFields.join(', ')})`;

type Context = z.core.$RefinementCtx<unknown>;

function change(target: string, value: unknown, key: readonly string[], context: Context): Change | undefined {
  const match = targetPattern.exec(target.trim());
  if (!match) {
    const parts = /^([A-Za-z][A-Za-z0-9_-]*)(\[[^\]]*\])?\.([^.]+)\.([a-z]+)$/.exec(target.trim());
    if (parts) {
      context.addIssue({ code: 'custom', message: `there is no direction ${show(parts[3])} of ${parts[1]}${parts[2] ?? ''}; ${suggestion(parts[3]!, ['forward', 'reverse'])}expected forward, reverse, or none for both`, path: [...key] });
      return undefined;
    }
    context.addIssue({ code: 'custom', message: `the target ${show(target)} is not understood; expected ${targetWords}`, path: [...key] });
    return undefined;
  }
  const field = match[4]! as Field;
  if (!eventFields.includes(field)) {
    context.addIssue({ code: 'custom', message: `there is no ${show(match[4])} that an event could set; ${suggestion(match[4]!, eventFields)}expected ${targetWords}`, path: [...key] });
    return undefined;
  }
  if (field === 'queue') {
    const nameless = namelessQueue(value);
    if (nameless !== undefined) {
      context.addIssue({ code: 'custom', message: `the queue discipline of ${nameless} is not said; expected the one the queue has, such as { kind: codel, target: 2ms }`, path: [...key] });
      return undefined;
    }
  }
  const result = fields[field].safeParse(value, { error: expectation });
  if (!result.success) {
    for (const problem of explain(result.error.issues, value as Data)) {
      context.addIssue({ code: 'custom', message: onlyExpected(problem.message), path: [...key, ...problem.path] });
    }
    return undefined;
  }
  const both = result.data as PerDirection<number | PlanQueue>;
  const side = match[3] as 'forward' | 'reverse' | undefined;
  return {
    target: match[1]!, index: match[2] === undefined ? null : Number(match[2]), field, key,
    value: side === undefined ? both : { [side]: both[side] },
  };
}

/** Parameters given without the kind of queue they are of, or undefined. */
function namelessQueue(value: unknown): string | undefined {
  const map = value as Data;
  if (!isMap(map) || ['kind', 'tc', 'forward', 'reverse'].some((key) => key in map)) return undefined;
  const keys = Object.keys(map);
  // A mistyped key is told as such.
  return keys.length === 0 || keys.some((key) => suggestion(key, ['kind', 'forward', 'reverse']) !== '') ? undefined : keys.join(', ');
}

export const zEvent = z.looseObject({
  at: zTime.meta({ description: 'When, from the start of the run.' }),
  set: z.record(z.string(), z.unknown(), { error: 'expected a map of targets and their new values, such as { BL1.rate: 5mbit }' }).optional().meta({ description: 'Targets and their new values, such as BL1.rate: 5mbit. Also written as one key: set BL1.rate: 5mbit.' }),
}).transform((event, context) => {
  const changes: Change[] = [];
  const { at, set, ...rest } = event;
  const add = (target: string, value: unknown, key: readonly string[]): void => {
    const made = change(target, value, key, context);
    if (made) changes.push(made);
  };
  for (const [target, value] of Object.entries(set ?? {})) add(target, value, ['set', target]);
  for (const [key, value] of Object.entries(rest)) {
    const short = /^set\s+(.+)$/.exec(key);
    if (short) add(short[1]!, value, [key]);
    else context.addIssue({ code: 'custom', message: `unknown key ${show(key)}; ${suggestion(key, ['at', 'set'])}expected at, set, or set TARGET such as "set BL1.rate"`, path: [key] });
  }
  if (set === undefined && Object.keys(rest).length === 0) context.addIssue({ code: 'custom', message: 'expected what to change, such as set: { BL1.rate: 5mbit }', path: ['set'] });
  return { atNs: at, changes };
});
