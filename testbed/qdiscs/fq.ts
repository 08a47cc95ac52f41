/**
 * FQ, fair queue with pacing (net/sched/sch_fq.c, tc_fq_qd_stats; iproute2 q_fq.c). Defaults: limit 10000p, flow_limit 100p, quantum 2 packets,
 * initial_quantum 10 packets, buckets 1024, pacing, refill_delay 40ms, orphan_mask 1023, timer_slack 10us, horizon 10s, horizon_drop.
 */

import { z } from 'zod';
import { attributeU8 } from '../linux/attributes.js';
import { zPackets, zRate, zTime } from '../units.js';
import { encodeParameters, parameterWords, u32At, u64At, type Parameter } from './parameters.js';
import type { Qdisc } from './qdisc.js';
import { zBytes, zCount } from './schemas.js';

/** In iproute2's order. */
const parameters: readonly Parameter[] = [
  { key: 'buckets', type: 8, as: 'buckets' },
  { key: 'limit', type: 1, as: 'number' },
  { key: 'flow_limit', type: 2, as: 'number' },
  { key: 'quantum', type: 3, as: 'number' },
  { key: 'initial_quantum', type: 4, as: 'number' },
  { key: 'pacing', type: 5, as: 'flag' },
  { key: 'maxrate', type: 7, as: 'rate' },
  { key: 'low_rate_threshold', type: 11, as: 'rate' },
  { key: 'refill_delay', type: 9, as: 'time' },
  { key: 'orphan_mask', type: 10, as: 'number' },
  { key: 'ce_threshold', type: 12, as: 'time' },
  { key: 'timer_slack', type: 13, as: 'timeNs' },
  { key: 'horizon', type: 14, as: 'time' },
];
/** 32 bits of bytes/s: what tc's get_rate takes. */
const zRate32 = zRate.refine((bps) => bps / 8 < 2 ** 32, { error: 'expected a rate below 34gbit' });

export const fq: Qdisc = {
  kind: 'fq',
  hashes: true,
  schema: z.strictObject({
    limit: zPackets.optional(), flow_limit: zPackets.optional(), quantum: zBytes.optional(), initial_quantum: zBytes.optional(), maxrate: zRate32.optional(),
    buckets: zCount(2, 262144).optional(), pacing: z.boolean().optional(), refill_delay: zTime.optional(), low_rate_threshold: zRate32.optional(),
    orphan_mask: zCount(1, 0xffffffff).optional(), timer_slack: zTime.refine((ns) => ns < 2 ** 32, { error: 'expected at most 4s' }).optional(),
    ce_threshold: zTime.optional(), horizon: zTime.refine((ns) => ns >= 1000, { error: 'expected at least 1us' }).optional(),
    /** Packets due later than the horizon: drop them (true) or send them at the horizon (false, tc's `horizon_cap`). */
    horizon_drop: z.boolean().optional(),
  }),
  encode: (params) => {
    const drop = params['horizon_drop'];
    return Buffer.concat([encodeParameters(parameters, params), ...(drop === undefined ? [] : [attributeU8(15, Number(drop))])]);
  },
  tcWords: (params) => {
    const drop = params['horizon_drop'];
    return [...parameterWords(parameters, params), ...(drop === undefined ? [] : [drop ? 'horizon_drop' : 'horizon_cap'])];
  },
  state: ['flows', 'inactive_flows', 'throttled_flows', 'throttled', 'flows_plimit', 'horizon_drops', 'horizon_caps', 'gc_flows'],
  /** struct tc_fq_qd_stats. */
  decodeState: (xstats) => [
    u32At(xstats, 64), u32At(xstats, 68), u32At(xstats, 72), u64At(xstats, 24), u64At(xstats, 32), u64At(xstats, 88), u64At(xstats, 96), u64At(xstats, 0),
  ],
  decodeMarks: (xstats) => u64At(xstats, 80),
};
