/** Building blocks of the qdiscs' schemas: ranges the kernel or tc would refuse, with the field's own words. */

import { z } from 'zod';
import { formatTime, zPackets, zSize } from '../units.js';

/** A whole number in a range. */
export const zCount = (min: number, max: number) => {
  const error = { error: `expected a whole number from ${min} to ${max}` };
  return z.int(error).min(min, error).max(max, error);
};
/** Bytes: `1514B`, `9kB`, or a plain number as tc takes it. */
export const zBytes = z.union([z.int({ error: 'expected a size such as 1514B or 60kB' }).positive({ error: 'expected a size above 0, such as 60kB' }), zSize]);
/**
 * A threshold in bytes (`60kB`) or in packets (`20p`, kept as written: how many bytes a packet has depends on `avpkt`).
 */
export const zBytesOrPackets = z.union([
  zBytes,
  z.string({ error: 'expected packets such as 20p or a size such as 60kB' })
    .regex(/^\s*[1-9]\d*\s*(?:p|packets?)\s*$/, { error: 'expected packets such as 20p or a size such as 60kB' })
    .transform((text) => `${Number.parseInt(text, 10)}p`),
]);
export { zPackets };

/** µs in 32 bits: what a time of a qdisc may be, ns. */
const longest = 0xffffffff * 1000;

/** `schema`, refusing times of 0 (tc would silently keep the default) and ones that do not fit its 32 bits of µs. */
export function positiveTimes<Schema extends z.ZodObject>(schema: Schema, ...keys: readonly string[]): Schema {
  return schema.superRefine((given, context) => {
    for (const key of keys) {
      const ns = (given as Readonly<Record<string, unknown>>)[key];
      if (typeof ns !== 'number') continue;
      if (ns < 1000) context.addIssue({ code: 'custom', path: [key], message: `expected a ${key} of at least 1us, such as 5ms` });
      if (ns > longest) context.addIssue({ code: 'custom', path: [key], message: `expected a ${key} of at most 4294s` });
    }
  });
}

/** `schema` of a CoDel, refusing a target at or above the interval: RFC 8289, section 4.3, has it at 5 to 10 % of it. Defaults in ns. */
export function targetBelowInterval<Schema extends z.ZodObject>(schema: Schema, defaultTarget = 5e6, defaultInterval = 100e6): Schema {
  return schema.superRefine((given, context) => {
    const { target, interval } = given as { readonly target?: number; readonly interval?: number };
    if ((target === undefined && interval === undefined) || (target ?? defaultTarget) < (interval ?? defaultInterval)) return;
    if (context.issues.length > 0) return; // one of them is no time of the kernel's at all, which was told
    // At the one the user wrote.
    if (target === undefined) context.addIssue({ code: 'custom', path: ['interval'], message: `expected interval above target (${formatTime(defaultTarget)} by default)` });
    else context.addIssue({ code: 'custom', path: ['target'], message: `expected target below interval (${formatTime(interval ?? defaultInterval)}${interval === undefined ? ' by default' : ''})` });
  });
}

/** `20p` → 20; undefined for a number of bytes. */
export function packetsOf(value: number | boolean | string | undefined): number | undefined {
  const match = typeof value === 'string' ? /^(\d+)p$/.exec(value) : null;
  return match ? Number(match[1]) : undefined;
}
