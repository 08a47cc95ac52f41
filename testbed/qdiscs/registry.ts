/** Every kernel queue discipline with typed parameters, by tc's name. */

import { z } from 'zod';
import type { Qdisc } from './qdisc.js';
import { zPackets, zProbability, zTime } from '../units.js';

const stub = (kind: string, shape: z.ZodRawShape): Qdisc => ({
  kind, schema: z.strictObject(shape), encode: () => Buffer.alloc(0), tcWords: () => [], state: [], decodeState: () => [], decodeMarks: () => NaN,
});
const all: readonly Qdisc[] = [
  stub('pfifo', { limit: zPackets.optional() }),
  stub('codel', { limit: zPackets.optional(), target: zTime.optional(), interval: zTime.optional(), ecn: z.boolean().optional() }),
  stub('fq_codel', { limit: zPackets.optional(), target: zTime.optional(), interval: zTime.optional(), ecn: z.boolean().optional() }),
  stub('red', { min: zPackets, max: zPackets, probability: zProbability.optional(), ecn: z.boolean().optional() }),
];
export const qdiscs: ReadonlyMap<string, Qdisc> = new Map(all.map((q) => [q.kind, q]));
