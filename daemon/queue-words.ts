/**
 * A queue discipline as tc's words have it: `codel target 5ms noecn`, `fq_codel limit 1000 quantum 300`. Names, units and ranges are
 * those of the discipline's schema in aqm/, which also scenario files are checked by.
 */

import { aqms } from '../aqm/registry.js';
import { UserError } from '../testbed/errors.js';
import type { PlanQueue } from '../testbed/plan/plan.js';
import { zQueue } from '../testbed/scenario/queue.js';

/** @param option for messages: `--queue` @param more parameters given apart from the words, such as `limit`, taken where the words have none @throws UserError */
export function parseQueueWords(text: string, option: string, more: Readonly<Record<string, string>> = {}): PlanQueue {
  const [kind = '', ...words] = text.trim().split(/\s+/);
  const problem = (message: string): UserError => new UserError(`${option} ${JSON.stringify(text)}: ${message}`, 2);
  const known = aqms.get(kind);
  if (known === undefined) throw problem(`the userspace bottleneck has no queue discipline ${JSON.stringify(kind)}; expected one of ${[...aqms.keys()].sort().join(', ')}`);
  const shape = known.schema.shape;
  const accepts = (key: string, value: unknown): boolean => shape[key] !== undefined && shape[key].safeParse(value).success;
  const parameters: Record<string, string | number | boolean> = {};
  const take = (key: string, word: string): void => {
    parameters[key] = accepts(key, word) || !/^-?\d+(\.\d+)?$/.test(word) ? word : Number(word);
  };
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const equals = word.indexOf('=');
    if (equals > 0) take(word.slice(0, equals), word.slice(equals + 1));
    else if (accepts(word, true) && !(i + 1 < words.length && accepts(word, words[i + 1]))) parameters[word] = true;
    else if (word.startsWith('no') && shape[word] === undefined && accepts(word.slice(2), false)) parameters[word.slice(2)] = false;
    else if (shape[word] === undefined) throw problem(`${kind} has no parameter ${JSON.stringify(word)}; expected ${Object.keys(shape).length === 0 ? 'none' : Object.keys(shape).join(', ')}`);
    else if (i + 1 >= words.length) throw problem(`${word} has no value after it`);
    else take(word, words[++i]!);
  }
  for (const [key, value] of Object.entries(more)) {
    if (shape[key] === undefined) throw new UserError(`--${key} ${value}: ${kind} has no ${key}`, 2);
    if (!(key in parameters)) take(key, value);
  }
  const result = zQueue.safeParse({ kind, in: 'daemon', ...parameters });
  if (!result.success) {
    const messages = result.error.issues.flatMap((issue) => (issue.code === 'invalid_union' ? issue.errors.flat() : [issue]));
    const told = messages.filter((issue) => issue.path.length > 0);
    throw problem([...new Set((told.length > 0 ? told : messages).map((issue) => `${issue.path.join('.')}${issue.path.length > 0 ? ': ' : ''}${issue.message}`))].join('; '));
  }
  return result.data;
}
