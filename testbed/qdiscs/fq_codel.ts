/**
 * FQ-CoDel (net/sched/sch_fq_codel.c, tc_fq_codel_qd_stats; iproute2 q_fq_codel.c). Defaults: limit 10240p, flows 1024, target 5ms,
 * interval 100ms, quantum one packet, memory_limit 32MiB, drop_batch 64, ecn.
 */

import { z } from 'zod';
import { attributeU8 } from '../linux/attributes.js';
import { zPackets, zTime } from '../units.js';
import { decodeU32s, encodeParameters, parameterWords, u32At, type Parameter } from './parameters.js';
import type { Qdisc, QueueParams } from './qdisc.js';
import { positiveTimes, targetBelowInterval, zBytes, zCount } from './schemas.js';

/** In iproute2's order; `ce_threshold_selector` comes between the two parts. */
const first: readonly Parameter[] = [
  { key: 'limit', type: 2, as: 'number' },
  { key: 'flows', type: 5, as: 'number' },
  { key: 'quantum', type: 6, as: 'number' },
  { key: 'interval', type: 3, as: 'time' },
  { key: 'target', type: 1, as: 'time' },
  { key: 'ecn', type: 4, as: 'flag' },
  { key: 'ce_threshold', type: 7, as: 'time' },
];
const last: readonly Parameter[] = [
  { key: 'memory_limit', type: 9, as: 'number' },
  { key: 'drop_batch', type: 8, as: 'number' },
];

const selector = /^\s*(0x[0-9a-fA-F]{1,2}|\d{1,3})\s*\/\s*(0x[0-9a-fA-F]{1,2}|\d{1,3})\s*$/;
function selectorOf(params: QueueParams): [value: number, mask: number] | undefined {
  const match = selector.exec(String(params['ce_threshold_selector'] ?? ''));
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

export const fqCodel: Qdisc = {
  kind: 'fq_codel',
  hashes: true,
  fixed: ['flows'], // fq_codel_change
  schema: targetBelowInterval(positiveTimes(z.strictObject({
    limit: zPackets.optional(), flows: zCount(1, 65536).optional(), target: zTime.optional(), interval: zTime.optional(), quantum: zBytes.optional(),
    ecn: z.boolean().optional(), ce_threshold: zTime.optional(), memory_limit: zBytes.optional(), drop_batch: zCount(1, 0xffffffff).optional(),
    ce_threshold_selector: z.string().regex(selector, { error: 'expected VALUE/MASK of DS field bits, such as 0x01/0x01' })
      .refine((text) => [...(selector.exec(text) ?? [])].slice(1).every((n) => Number(n) <= 255), { error: 'expected VALUE/MASK of 0 to 255, such as 0x01/0x01' }).optional(),
  }).superRefine(({ quantum }, context) => {
    // FQ_CODEL_QUANTUM_MAX (pkt_sched.h); fq_codel_change raises anything below 256.
    if (quantum !== undefined && quantum > 1 << 20) context.addIssue({ code: 'custom', path: ['quantum'], message: 'expected at most 1MiB' });
  }), 'target', 'interval')),
  encode: (params) => {
    const chosen = selectorOf(params);
    return Buffer.concat([
      encodeParameters(first, params), ...(chosen ? [attributeU8(11, chosen[1]), attributeU8(10, chosen[0])] : []), encodeParameters(last, params),
    ]);
  },
  tcWords: (params) => {
    const chosen = selectorOf(params);
    return [...parameterWords(first, params), ...(chosen ? ['ce_threshold_selector', `0x${chosen[0].toString(16)}/0x${chosen[1].toString(16)}`] : []), ...parameterWords(last, params)];
  },
  state: ['new_flow_count', 'new_flows_len', 'old_flows_len', 'drop_overlimit', 'drop_overmemory', 'memory_usage', 'ce_mark', 'maxpacket'],
  /** struct tc_fq_codel_xstats, type TCA_FQ_CODEL_XSTATS_QDISC (0), then tc_fq_codel_qd_stats. */
  decodeState: (xstats) => decodeU32s(xstats, [[16, 1], [20, 1], [24, 1], [8, 1], [36, 1], [32, 1], [28, 1], [4, 1]]),
  decodeMarks: (xstats) => u32At(xstats, 12) + u32At(xstats, 28),
};
