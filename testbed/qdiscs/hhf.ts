/**
 * Heavy-hitter filter (net/sched/sch_hhf.c, tc_hhf_xstats; iproute2 q_hhf.c). Defaults: limit 1000p, quantum one packet, hh_limit 2048,
 * reset_timeout 40ms, admit_bytes 128KiB, evict_timeout 1s, non_hh_weight 2.
 */

import { z } from 'zod';
import { zPackets, zTime } from '../units.js';
import { decodeU32s, encodeParameters, parameterWords, type Parameter } from './parameters.js';
import type { Qdisc } from './qdisc.js';
import { zBytes, zCount } from './schemas.js';

/** In iproute2's order. */
const parameters: readonly Parameter[] = [
  { key: 'limit', type: 1, as: 'number' },
  { key: 'quantum', type: 2, as: 'number' },
  { key: 'hh_limit', type: 3, as: 'number' },
  { key: 'reset_timeout', type: 4, as: 'time' },
  { key: 'admit_bytes', type: 5, as: 'number' },
  { key: 'evict_timeout', type: 6, as: 'time' },
  { key: 'non_hh_weight', type: 7, as: 'number' },
];

/** tc leaves out a time of 0, so a shorter one than 1 µs cannot be set. */
const zSomeTime = zTime.refine((ns) => ns >= 1000, { error: 'expected a time of at least 1us' });

export const hhf: Qdisc = {
  kind: 'hhf',
  schema: z.strictObject({
    limit: zPackets.optional(), quantum: zBytes.optional(), hh_limit: zCount(1, 2048).optional(), reset_timeout: zSomeTime.optional(),
    admit_bytes: zBytes.optional(), evict_timeout: zSomeTime.optional(), non_hh_weight: zCount(1, 0x7fffffff).optional(),
  }).superRefine(({ quantum = 1, non_hh_weight = 2 }, context) => {
    // hhf_change: the product must be a positive int.
    if (quantum * non_hh_weight > 0x7fffffff) context.addIssue({ code: 'custom', path: ['non_hh_weight'], message: 'expected quantum × non_hh_weight below 2^31' });
  }),
  encode: (params) => encodeParameters(parameters, params),
  tcWords: (params) => parameterWords(parameters, params),
  state: ['drop_overlimit', 'hh_overlimit', 'hh_tot_count', 'hh_cur_count'],
  decodeState: (xstats) => decodeU32s(xstats, [[0, 1], [4, 1], [8, 1], [12, 1]]),
  decodeMarks: () => Number.NaN,
};
