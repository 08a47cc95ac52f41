/** Which runs are old enough to go: ended before a time, without a tag, not running. A set goes whole or not at all. */

import type { RunRow } from './run-row.js';

export interface Candidate { readonly id: string; readonly runs: readonly RunRow[] }
export interface Choice { readonly remove: readonly string[]; readonly tagged: readonly string[]; /** Other schema, no run.json: their age is not known. */ readonly unreadable: readonly string[] }

/** @param before wall time, ms */
export function oldRuns(entries: readonly Candidate[], before: number): Choice {
  const remove: string[] = [];
  const tagged: string[] = [];
  const unreadable: string[] = [];
  for (const { id, runs } of entries) {
    const readable = runs.filter(({ status }) => status !== 'unreadable');
    const newest = Math.max(...readable.map(({ ended, started }) => Date.parse(ended ?? started ?? '')));
    if (readable.length < runs.length || !Number.isFinite(newest)) unreadable.push(id);
    else if (newest >= before) continue;
    else if (runs.some(({ tags }) => tags.length > 0)) tagged.push(id);
    else remove.push(id);
  }
  return { remove, tagged, unreadable };
}

/** `30d`, `12h`, `2w` → ms, or undefined. */
export function parseAge(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(h|d|w)$/.exec(text.trim());
  return match === null ? undefined : Number(match[1]) * { h: 3600e3, d: 86400e3, w: 604800e3 }[match[2] as 'h' | 'd' | 'w'];
}
