/**
 * SFQ, stochastic fairness queueing, with RED on each flow if asked for (net/sched/sch_sfq.c, tc_sfq_qopt_v1; iproute2 q_sfq.c).
 * Defaults: limit 127p, depth 127, flows 128, divisor 1024, quantum one packet, no perturbation; with RED: max redflowlimit/4, min max/3, avpkt 1000, probability 0.02.
 * Its counters stand in the options it dumps, not in xstats.
 */

import { z } from 'zod';
import { zPackets, zProbability, zTime } from '../units.js';
import { numberWord, u32At } from './parameters.js';
import type { Qdisc, QueueParams } from './qdisc.js';
import { averagingLog, checkThreshold, probability32, probabilityLog } from './red-arithmetic.js';
import { zBytes, zCount } from './schemas.js';

const redKeys = ['redflowlimit', 'min', 'max', 'avpkt', 'burst', 'probability', 'ecn', 'harddrop'] as const;
const usesRed = (params: QueueParams): boolean => redKeys.some((key) => params[key] !== undefined && params[key] !== false);
const seconds = (ns: unknown): number => Math.floor(Number(ns ?? 0) / 1e9);

export function resolveRed(params: QueueParams) {
  const avpkt = Number(params['avpkt'] ?? 1000);
  const limit = Number(params['redflowlimit']);
  const max = Number(params['max'] ?? 0) || Math.floor(limit / 4);
  const min = Number(params['min'] ?? 0) || Math.floor(max / 3);
  const burst = Number(params['burst'] ?? 0) || Math.floor((2 * min + max) / (3 * avpkt));
  return { avpkt, limit, max, min, burst, probability: Number(params['probability'] ?? 0.02) };
}

export const sfq: Qdisc = {
  kind: 'sfq',
  statsIn: 'options',
  unchangeable: true, // sfq_qdisc_ops has no change
  fixed: ['divisor'], // sfq_change: it would go on with a hash table of the old size
  schema: z.strictObject({
    limit: zPackets.refine((n) => n > 1, { error: 'expected at least 2p' }).optional(), quantum: zBytes.refine((n) => n <= 1 << 20, { error: 'expected at most 1MiB' }).optional(),
    perturb: zTime.refine((ns) => ns % 1e9 === 0 && ns < 2e6 * 1e9, { error: 'expected whole seconds, such as 10s' }).optional(),
    divisor: z.int().refine((n) => n >= 1 && n <= 65536 && (n & (n - 1)) === 0, { error: 'expected a power of two up to 65536' }).optional(),
    flows: zCount(1, 65536).optional(), depth: zCount(1, 127).optional(), headdrop: z.boolean().optional(),
    redflowlimit: zBytes.optional(), min: zBytes.optional(), max: zBytes.optional(), avpkt: zBytes.optional(), burst: zCount(1, 0x7fffffff).optional(),
    probability: zProbability.refine((p) => p > 0, { error: 'expected a probability above 0' }).optional(), ecn: z.boolean().optional(), harddrop: z.boolean().optional(),
  }).superRefine((params, context) => {
    const given = redKeys.find((key) => params[key] !== undefined && params[key] !== false);
    if (given === undefined) return;
    if (params.redflowlimit === undefined) return context.addIssue({ code: 'custom', path: ['redflowlimit'], message: `expected redflowlimit (bytes a flow) with ${given}` });
    const { min, max, limit } = resolveRed(params as QueueParams);
    if (max > limit) context.addIssue({ code: 'custom', path: ['max'], message: `expected max of at most redflowlimit (${limit} bytes)` });
    if (min >= max) context.addIssue({ code: 'custom', path: ['min'], message: `expected min below max (${max} bytes)` });
  }),
  /** struct tc_sfq_qopt_v1, 72 bytes, as the whole of TCA_OPTIONS. */
  encode: (params) => {
    if (Object.keys(params).every((key) => params[key] === false)) return Buffer.alloc(0);
    const out = Buffer.alloc(72);
    [params['quantum'], seconds(params['perturb']), params['limit'], params['divisor'], params['flows'], params['depth'], params['headdrop']]
      .forEach((value, index) => out.writeUInt32LE(Number(value ?? 0), 4 * index));
    if (usesRed(params)) {
      const { avpkt, limit, max, min, burst, probability } = resolveRed(params);
      const wlog = averagingLog('sfq', min, burst, avpkt);
      checkThreshold('sfq', 'max', max, wlog);
      [limit, min, max].forEach((value, index) => out.writeUInt32LE(value, 28 + 4 * index));
      out.set([wlog, probabilityLog('sfq', min, max, probability), 0, (params['ecn'] ? 1 : 0) | (params['harddrop'] ? 2 : 0)], 40);
      out.writeUInt32LE(probability32(probability), 44);
    }
    return out;
  },
  tcWords: (params) => Object.entries(params).flatMap(([key, value]) => {
    if (typeof value === 'boolean') return value ? [key] : [];
    return [key, key === 'perturb' ? String(seconds(value)) : numberWord(Number(value))];
  }),
  state: ['prob_drop', 'forced_drop', 'prob_mark', 'forced_mark', 'prob_mark_head', 'forced_mark_head'],
  /** struct tc_sfqred_stats at the end of the options. */
  decodeState: (options) => [48, 52, 56, 60, 64, 68].map((offset) => u32At(options, offset)),
  decodeMarks: (options) => [56, 60, 64, 68].reduce((sum, offset) => sum + u32At(options, offset), 0),
};
