/** PIE, RFC 8033 (net/sched/sch_pie.c, tc_pie_xstats; iproute2 q_pie.c). Defaults: limit 1000p, target 15ms, tupdate 15ms, alpha 2, beta 20, noecn, nobytemode. */

import { z } from 'zod';
import { zPackets, zTime } from '../units.js';
import { decodeU32s, encodeParameters, parameterWords, u32At, u64At, type Parameter } from './parameters.js';
import type { Qdisc } from './qdisc.js';
import { positiveTimes, zCount } from './schemas.js';

/** In iproute2's order. alpha and beta are in sixteenths. */
const parameters: readonly Parameter[] = [
  { key: 'limit', type: 2, as: 'number' },
  { key: 'tupdate', type: 3, as: 'time' },
  { key: 'target', type: 1, as: 'time' },
  { key: 'alpha', type: 4, as: 'number' },
  { key: 'beta', type: 5, as: 'number' },
  { key: 'ecn', type: 6, as: 'flag' },
  { key: 'bytemode', type: 7, as: 'flag' },
  { key: 'dq_rate_estimator', type: 8, as: 'flag', no: 'no_dq_rate_estimator' },
];

export const pie: Qdisc = {
  kind: 'pie',
  schema: positiveTimes(z.strictObject({
    limit: zPackets.optional(), target: zTime.optional(), tupdate: zTime.optional(), alpha: zCount(1, 32).optional(), beta: zCount(1, 32).optional(),
    ecn: z.boolean().optional(), bytemode: z.boolean().optional(), dq_rate_estimator: z.boolean().optional(),
  }), 'target', 'tupdate'),
  encode: (params) => encodeParameters(parameters, params),
  tcWords: (params) => parameterWords(parameters, params),
  /** `avg_dq_rate` in bytes/s, 0 without the estimator. */
  state: ['prob', 'delay', 'avg_dq_rate', 'packets_in', 'dropped', 'overlimit', 'maxq'],
  /** struct tc_pie_xstats: probability in 64 bits (sch_pie.c: prob << BITS_PER_BYTE), delay in µs. */
  decodeState: (xstats) => [u64At(xstats, 0) / 2 ** 64, ...decodeU32s(xstats, [[8, 1000], [12, 1], [20, 1], [24, 1], [28, 1], [32, 1]])],
  decodeMarks: (xstats) => u32At(xstats, 36),
};
