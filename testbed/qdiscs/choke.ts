/**
 * CHOKe (net/sched/sch_choke.c, tc_choke_xstats; iproute2 q_choke.c): RED that also drops a packet and a queued one of the same flow.
 * Limits are packets. tc insists on `limit` and `bandwidth`; left out they are 1000p and the shaper's rate (10mbit without one).
 */

import { z } from 'zod';
import { UserError } from '../errors.js';
import { attribute, attributeU32 } from '../linux/attributes.js';
import { zPackets, zProbability, zRate } from '../units.js';
import { bytesPerSecond, decodeU32s, numberWord, rateWord, u32At } from './parameters.js';
import type { Qdisc, QdiscContext, QueueParams } from './qdisc.js';
import { averagingLog, checkThreshold, idleDamping, probability32, probabilityLog } from './red-arithmetic.js';
import { zBytes, zCount } from './schemas.js';

/** CHOKE_MAX_QUEUE (sch_choke.c), packets. */
const maxLimit = 128 * 1024 - 1;

export function resolve(params: QueueParams, context: QdiscContext) {
  const limit = Number(params['limit'] ?? 1000);
  const max = Number(params['max'] ?? 0) || Math.floor(limit / 4);
  const min = Number(params['min'] ?? 0) || Math.floor(max / 3);
  const burst = Number(params['burst'] ?? 0) || Math.floor((2 * min + max) / 3);
  if (max > limit) throw new UserError(`queue choke: max (${max} packets) must not be above limit (${limit} packets)`);
  if (min >= max) throw new UserError(`queue choke: min (${min} packets) must be below max (${max} packets)`);
  return {
    limit, min, max, burst, avpkt: Number(params['avpkt'] ?? 1000), probability: Number(params['probability'] ?? 0.02),
    bandwidth: Number(params['bandwidth'] ?? context.rateBps ?? 10e6), ecn: params['ecn'] === true,
  };
}

export const choke: Qdisc = {
  kind: 'choke',
  schema: z.strictObject({
    limit: zPackets.refine((n) => n <= maxLimit, { error: `expected at most ${maxLimit}p` }).optional(), min: zPackets.optional(), max: zPackets.optional(),
    burst: zCount(1, 0x7fffffff).optional(), avpkt: zBytes.optional(), bandwidth: zRate.optional(), ecn: z.boolean().optional(),
    probability: zProbability.refine((p) => p > 0, { error: 'expected a probability above 0' }).optional(),
  }).superRefine(({ min, max, limit }, context) => {
    if (min !== undefined && max !== undefined && min >= max) context.addIssue({ code: 'custom', path: ['min'], message: `expected min below max (${max}p)` });
    if (max !== undefined && limit !== undefined && max > limit) context.addIssue({ code: 'custom', path: ['max'], message: `expected max of at most limit (${limit}p)` });
  }),
  encode: (params, context) => {
    const { limit, min, max, burst, avpkt, probability, bandwidth, ecn } = resolve(params, context);
    const wlog = averagingLog('choke', min * avpkt, burst, avpkt);
    checkThreshold('choke', 'max', max, wlog);
    const { cellLog, table } = idleDamping('choke', wlog, avpkt, bytesPerSecond(bandwidth));
    const options = Buffer.alloc(16);
    [limit, min, max].forEach((value, index) => options.writeUInt32LE(value, 4 * index));
    options.set([wlog, probabilityLog('choke', min * avpkt, max * avpkt, probability), cellLog, Number(ecn)], 12);
    return Buffer.concat([attribute(1, options), attribute(2, table), attributeU32(3, probability32(probability))]);
  },
  tcWords: (params, context) => {
    const { limit, min, max, burst, avpkt, probability, bandwidth, ecn } = resolve(params, context);
    return [
      'limit', String(limit), 'min', String(min), 'max', String(max), 'avpkt', String(avpkt), 'burst', String(burst),
      'probability', numberWord(probability), 'bandwidth', rateWord(bandwidth), ...(ecn ? ['ecn'] : []),
    ];
  },
  state: ['early', 'pdrop', 'other', 'matched'],
  decodeState: (xstats) => decodeU32s(xstats, [[0, 1], [4, 1], [8, 1], [16, 1]]),
  decodeMarks: (xstats) => u32At(xstats, 12),
};
