/**
 * Names a user gives to routers, links, hosts, traffic classes and probes. They become namespace names, device
 * names, file names and table values, so only letters, digits, `_` and `-` are taken, and the nearest known name
 * is offered for one that is not there.
 */

import { z } from 'zod';

const pattern = /^[A-Za-z][A-Za-z0-9_-]*$/;
export const nameRule = 'a name of at most 32 letters, digits, _ and -, beginning with a letter';

/** A name; also the keys of every map of named things. */
export const zName = z.string({ error: `expected ${nameRule}` })
  .max(32, { error: `expected ${nameRule}` })
  .regex(pattern, { error: `expected ${nameRule}` });

/** Levenshtein distance of two short words. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

/** The known name a mistyped one most likely meant, or undefined when none is near. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  if (word.length > 64 || known.length > 500) return undefined;
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    const d = distance(word.toLowerCase(), candidate.toLowerCase());
    if (d < bestDistance) [best, bestDistance] = [candidate, d];
  }
  return best;
}

/** `did you mean "codel"? ` or nothing; for messages. */
export function suggestion(word: string, known: readonly string[]): string {
  const near = nearest(word, known);
  return near === undefined ? '' : `did you mean "${near}"? `;
}

/** `a, b, c` with the end left out when the list is long. */
export function enumerate(known: readonly string[], most = 20): string {
  return known.length <= most ? known.join(', ') : `${known.slice(0, most).join(', ')}, … (${known.length} in all)`;
}
