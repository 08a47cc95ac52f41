/**
 * Sizes of queues in the disciplines that papers describe: packets (`20p`, or a plain whole number: the papers count
 * packets) or bytes (`30kB`). Once validated, packets are a number and bytes the text `30000B`.
 */

import { z } from 'zod';
import { zPackets, zSize } from '../testbed/units.js';
import type { Params } from './params.js';

export interface QueueSize {
  readonly amount: number;
  readonly unit: 'packets' | 'bytes';
}

export const zQueueSize = z.union([zPackets, zSize.transform((bytes) => `${bytes}B`)]);

/** @returns undefined when the user did not set it */
export function sizeOf(value: unknown): QueueSize | undefined {
  if (typeof value === 'number') return { amount: value, unit: 'packets' };
  const match = typeof value === 'string' ? /^(\d+)B$/.exec(value) : null;
  return match === null ? undefined : { amount: Number(match[1]), unit: 'bytes' };
}

/** A limit in packets, in bytes, or both; Infinity where there is none. */
export interface Limits {
  readonly packets: number;
  readonly bytes: number;
}

/** `limit`, by default so many packets. */
export function limitsOf(params: Params, defaultPackets: number): Limits {
  const limit = sizeOf(params['limit']) ?? { amount: defaultPackets, unit: 'packets' };
  return limit.unit === 'packets' ? { packets: limit.amount, bytes: Infinity } : { packets: Infinity, bytes: limit.amount };
}

export const sizeText = (size: QueueSize): string => (size.unit === 'packets' ? `${size.amount}p` : `${size.amount}B`);

/** Refuses `low` at or above `high` where both are given (or have a default) in the same unit. */
export function below(params: Readonly<Record<string, unknown>>, low: string, high: string, defaults: Readonly<Record<string, QueueSize>>, context: z.RefinementCtx): void {
  const a = sizeOf(params[low]) ?? defaults[low], b = sizeOf(params[high]) ?? defaults[high];
  if (a === undefined || b === undefined || a.unit !== b.unit || a.amount < b.amount) return;
  // At the one the user wrote.
  const [key, message] = params[low] === undefined
    ? [high, `expected ${high} above ${low} (${sizeText(a)}${params[low] === undefined ? ' by default' : ''})`]
    : [low, `expected ${low} below ${high} (${sizeText(b)}${params[high] === undefined ? ' by default' : ''})`];
  context.addIssue({ code: 'custom', path: [key], message });
}
