/** CoDel (net/sched/sch_codel.c, include/uapi/linux/pkt_sched.h tc_codel_xstats; iproute2 q_codel.c). Defaults: limit 1000p, target 5ms, interval 100ms, noecn. */

import { z } from 'zod';
import { zPackets, zTime } from '../units.js';
import { decodeU32s, encodeParameters, parameterWords, u32At, type Parameter } from './parameters.js';
import type { Qdisc } from './qdisc.js';
import { positiveTimes, targetBelowInterval } from './schemas.js';

/** In iproute2's order. */
const parameters: readonly Parameter[] = [
  { key: 'limit', type: 2, as: 'number' },
  { key: 'interval', type: 3, as: 'time' },
  { key: 'target', type: 1, as: 'time' },
  { key: 'ecn', type: 4, as: 'flag' },
  { key: 'ce_threshold', type: 5, as: 'time' },
];

export const codel: Qdisc = {
  kind: 'codel',
  schema: targetBelowInterval(positiveTimes(z.strictObject({
    limit: zPackets.optional(), target: zTime.optional(), interval: zTime.optional(), ecn: z.boolean().optional(), ce_threshold: zTime.optional(),
  }), 'target', 'interval')),
  encode: (params) => encodeParameters(parameters, params),
  tcWords: (params) => parameterWords(parameters, params),
  state: ['count', 'lastcount', 'ldelay', 'dropping', 'drop_next', 'drop_overlimit', 'ce_mark', 'maxpacket'],
  /** struct tc_codel_xstats; its times are µs. */
  decodeState: (xstats) => decodeU32s(xstats, [[4, 1], [8, 1], [12, 1000], [28, 1], [16, 1000, 'signed'], [20, 1], [32, 1], [0, 1]]),
  /** Marked by CoDel's law and by ce_threshold; a packet both marked counts twice, as in the kernel. */
  decodeMarks: (xstats) => u32At(xstats, 24) + u32At(xstats, 32),
};
