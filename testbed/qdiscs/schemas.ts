/** Building blocks of the qdiscs' schemas: ranges the kernel or tc would refuse, with the field's own words. */

import { z } from 'zod';
import { zPackets, zSize } from '../units.js';

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

/** `20p` → 20; undefined for a number of bytes. */
export function packetsOf(value: number | boolean | string | undefined): number | undefined {
  const match = typeof value === 'string' ? /^(\d+)p$/.exec(value) : null;
  return match ? Number(match[1]) : undefined;
}
