/**
 * Parameters of disciplines: the pieces their schemas are built from, with ranges and messages, and the way to read
 * a validated value or its default. What a user writes carries its unit (testbed/units.ts); after the schema times
 * are ns, sizes bytes, rates bits/s, probabilities 0 … 1.
 */

import { z } from 'zod';
import { zPackets, zProbability, zRate, zSize, zTime } from '../testbed/units.js';

export type Params = Readonly<Record<string, number | boolean | string>>;

/** A validated number, or the default when the user did not set it. */
export function number(params: Params, key: string, fallback: number): number {
  const value = params[key];
  return typeof value === 'number' ? value : fallback;
}
export function flag(params: Params, key: string, fallback: boolean): boolean {
  const value = params[key];
  return typeof value === 'boolean' ? value : fallback;
}
export function word(params: Params, key: string, fallback: string): string {
  const value = params[key];
  return typeof value === 'string' ? value : fallback;
}

/** tc sends times as u32 µs: the longest it can say is 4294 s. */
const LONGEST_NS = 0xffffffff * 1000;

/** A time above zero (tc cannot send less than 1 µs), ns. */
export const aboveZeroTime = zTime
  .refine((ns) => ns >= 1000, { error: 'expected a time of at least 1us, such as 5ms' })
  .refine((ns) => ns <= LONGEST_NS, { error: 'expected a time of at most 4294s' });
/** A time that may be zero, ns. */
export const anyTime = zTime.refine((ns) => ns <= LONGEST_NS, { error: 'expected a time of at most 4294s' });

/** Packets, 1 … max. */
export const packets = (max = 0x7fffffff) =>
  zPackets.refine((n) => n <= max, { error: `expected at most ${max} packets` });
/** Bytes, min … max. */
export const bytes = (min = 1, max = 0x7fffffff) =>
  zSize
    .refine((n) => n >= min, { error: `expected a size of at least ${min}B` })
    .refine((n) => n <= max, { error: `expected a size of at most ${max}B` });
/** A quantum: bytes a flow may send a round. Linux raises small ones to 256 itself and takes at most 1 MiB. */
export const quantum = () => bytes(1, 1 << 20);
/** A whole number, min … max. */
export const whole = (min: number, max: number) =>
  z
    .int({ error: `expected a whole number from ${min} to ${max}` })
    .min(min, { error: `expected a whole number from ${min} to ${max}` })
    .max(max, { error: `expected a whole number from ${min} to ${max}` });
/** Flow queues of a hash table. */
export const flows = () => whole(1, 65536);
/** A probability above 0. */
export const probability = () => zProbability.refine((p) => p > 0, { error: 'expected a probability above 0, such as 0.02 or 2%' });
export const rate = () => zRate;
export const onOff = () => z.boolean({ error: 'expected true or false' });

export { zProbability, zTime };
