/**
 * Stochastic Fair Blue (net/sched/sch_sfb.c, tc_sfb_xstats; iproute2 q_sfb.c). Defaults: rehash 600s, db 60s, limit txqueuelen, max 25p, target 20p,
 * increment 0.0005, decrement 0.00005, penalty_rate 10 packets/s, penalty_burst 20p.
 */

import { z } from 'zod';
import { zPackets, zProbability, zTime } from '../units.js';
import { u32At } from './parameters.js';
import type { Qdisc, QueueParams } from './qdisc.js';
import { zCount } from './schemas.js';

/** SFB_MAX_PROB (pkt_sched.h). */
const maxProbability = 0xffff;
const milliseconds = (ns: number): number => Math.floor(ns / 1e6);
const optional = (params: QueueParams, key: string): number => Number(params[key] ?? 0);

/** q_sfb.c: `max` and `target` (bin size) derive from each other. */
export function sizes(params: QueueParams): { max: number; target: number } {
  let max = optional(params, 'max');
  let target = optional(params, 'target');
  if (max === 0) max = target >= 1 ? Math.floor((target * 5 + 1) / 4) : 25;
  if (target === 0) target = Math.floor((max * 4 + 3) / 5);
  return { max, target };
}
const scaled = (value: number): number => Math.floor(value * maxProbability + 0.5);
const zMilliseconds = zTime.refine((ns) => ns >= 1e6, { error: 'expected at least 1ms' });

export const sfb: Qdisc = {
  kind: 'sfb',
  schema: z.strictObject({
    rehash: zMilliseconds.optional(), db: zMilliseconds.optional(), limit: zPackets.optional(), max: zPackets.optional(), target: zPackets.optional(),
    increment: zProbability.optional(), decrement: zProbability.optional(), penalty_rate: zCount(1, 0xffffffff).optional(), penalty_burst: zCount(1, 0xffffffff).optional(),
  }),
  /** struct tc_sfb_qopt in TCA_SFB_PARMS. */
  encode: (params) => {
    const { max, target } = sizes(params);
    const out = Buffer.alloc(40);
    out.writeUInt16LE(40, 0);
    out.writeUInt16LE(1, 2);
    [
      params['rehash'] === undefined ? 600_000 : milliseconds(Number(params['rehash'])), params['db'] === undefined ? 60_000 : milliseconds(Number(params['db'])), max, target,
      params['increment'] === undefined ? Math.floor((maxProbability + 1000) / 2000) : scaled(Number(params['increment'])),
      params['decrement'] === undefined ? Math.floor((maxProbability + 10000) / 20000) : scaled(Number(params['decrement'])),
      optional(params, 'limit'), Number(params['penalty_rate'] ?? 10), Number(params['penalty_burst'] ?? 20),
    ].forEach((value, index) => out.writeUInt32LE(value, 4 + 4 * index));
    return out;
  },
  /** `rehash` and `db` are ms to tc, whatever its usage text says. */
  tcWords: (params) => Object.entries(params).flatMap(([key, value]) => [key, String(key === 'rehash' || key === 'db' ? milliseconds(Number(value)) : value)]),
  state: ['earlydrop', 'penaltydrop', 'bucketdrop', 'queuedrop', 'childdrop', 'maxqlen', 'maxprob', 'avgprob'],
  decodeState: (xstats) => [
    ...[0, 4, 8, 12, 16, 24].map((offset) => u32At(xstats, offset)), u32At(xstats, 28) / maxProbability, u32At(xstats, 32) / maxProbability,
  ],
  decodeMarks: (xstats) => u32At(xstats, 20),
};
