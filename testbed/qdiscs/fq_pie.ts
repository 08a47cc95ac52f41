/**
 * FQ-PIE (net/sched/sch_fq_pie.c, tc_fq_pie_xstats; iproute2 q_fq_pie.c). Defaults: limit 10240p, flows 1024, target 15ms, tupdate 15ms,
 * alpha 2, beta 20, quantum one packet, memory_limit 32MiB, ecn_prob 10 %, noecn.
 */

import { z } from 'zod';
import { zPackets, zTime } from '../units.js';
import { decodeU32s, encodeParameters, parameterWords, u32At, type Parameter } from './parameters.js';
import type { Qdisc } from './qdisc.js';
import { positiveTimes, zBytes, zCount } from './schemas.js';

/** In iproute2's order. */
const parameters: readonly Parameter[] = [
  { key: 'limit', type: 1, as: 'number' },
  { key: 'flows', type: 2, as: 'number' },
  { key: 'target', type: 3, as: 'time' },
  { key: 'tupdate', type: 4, as: 'time' },
  { key: 'alpha', type: 5, as: 'number' },
  { key: 'beta', type: 6, as: 'number' },
  { key: 'quantum', type: 7, as: 'number' },
  { key: 'memory_limit', type: 8, as: 'number' },
  { key: 'ecn_prob', type: 9, as: 'number' },
  { key: 'ecn', type: 10, as: 'flag' },
  { key: 'bytemode', type: 11, as: 'flag' },
  { key: 'dq_rate_estimator', type: 12, as: 'flag', no: 'no_dq_rate_estimator' },
];

export const fqPie: Qdisc = {
  kind: 'fq_pie',
  hashes: true,
  fixed: ['flows'], // fq_pie_change
  nested: true,
  schema: positiveTimes(z.strictObject({
    limit: zPackets.optional(), flows: zCount(1, 65536).optional(), target: zTime.optional(), tupdate: zTime.optional(),
    alpha: zCount(1, 32).optional(), beta: zCount(1, 32).optional(), quantum: zBytes.refine((n) => n <= 1 << 20, { error: 'expected at most 1MiB' }).optional(), memory_limit: zBytes.optional(),
    /** Per cent: above it marks turn into drops. */
    ecn_prob: zCount(1, 99).optional(),
    ecn: z.boolean().optional(), bytemode: z.boolean().optional(), dq_rate_estimator: z.boolean().optional(),
  }), 'target', 'tupdate'),
  encode: (params) => encodeParameters(parameters, params),
  tcWords: (params) => parameterWords(parameters, params),
  state: ['packets_in', 'dropped', 'overlimit', 'overmemory', 'new_flow_count', 'new_flows_len', 'old_flows_len', 'memory_usage'],
  decodeState: (xstats) => decodeU32s(xstats, [[0, 1], [4, 1], [8, 1], [12, 1], [20, 1], [24, 1], [28, 1], [32, 1]]),
  decodeMarks: (xstats) => u32At(xstats, 16),
};
