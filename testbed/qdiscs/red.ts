/**
 * RED, random early detection (net/sched/sch_red.c, include/net/red.h, tc_red_xstats; iproute2 q_red.c, tc_red.c).
 *
 * tc insists on `limit` and `avpkt`. Here they may be left out: `avpkt` is then a full packet with its Ethernet header (what
 * the queue counts, so that `20p` is twenty full packets), `limit` four times `max` (the converse of tc's own max = limit/4),
 * or 1000 packets when there is no `max` either. `bandwidth` is the shaper's rate (tc: 10mbit).
 */

import { z } from 'zod';
import { UserError } from '../errors.js';
import { attribute, attributeU32 } from '../linux/attributes.js';
import { zProbability, zRate } from '../units.js';
import { bytesPerSecond, decodeU32s, numberWord, rateWord, u32At } from './parameters.js';
import type { Qdisc, QdiscContext, QueueParams } from './qdisc.js';
import { averagingLog, checkThreshold, idleDamping, probability32, probabilityLog } from './red-arithmetic.js';
import { packetsOf, zBytes, zBytesOrPackets, zCount } from './schemas.js';

/** TC_RED_… (pkt_sched.h). */
const flagBits = { ecn: 1, harddrop: 2, adaptive: 4, nodrop: 8 } as const;
type FlagName = keyof typeof flagBits;
const flagNames = Object.keys(flagBits) as FlagName[];

export interface RedParameters {
  readonly limitBytes: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly avpktBytes: number;
  readonly burstPackets: number;
  readonly probability: number;
  readonly bandwidthBps: number;
  readonly flags: readonly FlagName[];
}

/** All of RED's parameters in bytes, defaults filled in: for the kernel, tc and simulators alike. @throws UserError */
export function resolveRed(params: QueueParams, context: QdiscContext): RedParameters {
  const avpkt = Number(params['avpkt'] ?? context.mtuBytes + 14);
  const bytes = (key: string): number => {
    const packets = packetsOf(params[key]);
    return packets === undefined ? Number(params[key] ?? 0) : packets * avpkt;
  };
  let min = bytes('min');
  let max = bytes('max');
  const limit = bytes('limit') || (max ? 4 * max : min ? 12 * min : 1000 * avpkt);
  if (!max) max = min ? 3 * min : Math.floor(limit / 4);
  if (!min) min = Math.floor(max / 3);
  const burst = Number(params['burst'] ?? 0) || Math.floor((2 * min + max) / (3 * avpkt));
  if (min >= max) throw new UserError(`queue red: min (${min} bytes) must be below max (${max} bytes)`);
  if (limit <= max) throw new UserError(`queue red: limit (${limit} bytes) must be above max (${max} bytes)`);
  return {
    limitBytes: limit, minBytes: min, maxBytes: max, avpktBytes: avpkt, burstPackets: burst, probability: Number(params['probability'] ?? 0.02),
    bandwidthBps: Number(params['bandwidth'] ?? context.rateBps ?? 10e6), flags: flagNames.filter((name) => params[name] === true),
  };
}

export const red: Qdisc = {
  kind: 'red',
  schema: z.strictObject({
    limit: zBytesOrPackets.optional(), min: zBytesOrPackets.optional(), max: zBytesOrPackets.optional(), avpkt: zBytes.optional(), burst: zCount(1, 0x7fffffff).optional(),
    probability: zProbability.refine((p) => p > 0, { error: 'expected a probability above 0' }).optional(), bandwidth: zRate.optional(),
    adaptive: z.boolean().optional(), ecn: z.boolean().optional(), harddrop: z.boolean().optional(), nodrop: z.boolean().optional(),
  }).superRefine((params, context) => {
    const pairs = [['min', 'max'], ['max', 'limit']] as const;
    for (const [low, high] of pairs) {
      const [a, b] = [params[low], params[high]];
      const comparable = a !== undefined && b !== undefined && (packetsOf(a) === undefined) === (packetsOf(b) === undefined);
      if (comparable && (packetsOf(a) ?? Number(a)) >= (packetsOf(b) ?? Number(b))) context.addIssue({ code: 'custom', path: [low], message: `expected ${low} below ${high} (${b})` });
    }
    // red_validate_flags, sch_red.c
    if (params.nodrop && !params.ecn) context.addIssue({ code: 'custom', path: ['nodrop'], message: 'expected ecn: true with nodrop: it marks instead of dropping' });
    if (params.harddrop && params.nodrop) context.addIssue({ code: 'custom', path: ['harddrop'], message: 'expected not both harddrop and nodrop' });
  }),
  encode: (params, context) => {
    const { limitBytes, minBytes, maxBytes, avpktBytes, burstPackets, probability, bandwidthBps, flags } = resolveRed(params, context);
    const wlog = averagingLog('red', minBytes, burstPackets, avpktBytes);
    checkThreshold('red', 'max', maxBytes, wlog);
    const { cellLog, table } = idleDamping('red', wlog, avpktBytes, bytesPerSecond(bandwidthBps));
    // struct tc_red_qopt; flags go in TCA_RED_FLAGS, a bitfield32 of value and selector.
    const options = Buffer.alloc(16);
    [limitBytes, minBytes, maxBytes].forEach((value, index) => options.writeUInt32LE(value, 4 * index));
    options.set([wlog, probabilityLog('red', minBytes, maxBytes, probability), cellLog], 12);
    const bits = Buffer.alloc(8);
    bits.writeUInt32LE(flags.reduce((sum, name) => sum | flagBits[name], 0), 0);
    bits.writeUInt32LE(15, 4);
    return Buffer.concat([attribute(1, options), attribute(2, table), attributeU32(3, probability32(probability)), attribute(4, bits)]);
  },
  tcWords: (params, context) => {
    const { limitBytes, minBytes, maxBytes, avpktBytes, burstPackets, probability, bandwidthBps, flags } = resolveRed(params, context);
    return [
      'limit', String(limitBytes), 'min', String(minBytes), 'max', String(maxBytes), 'avpkt', String(avpktBytes), 'burst', String(burstPackets),
      'probability', numberWord(probability), 'bandwidth', rateWord(bandwidthBps), ...flags,
    ];
  },
  state: ['early', 'pdrop', 'other'],
  decodeState: (xstats) => decodeU32s(xstats, [[0, 1], [4, 1], [8, 1]]),
  decodeMarks: (xstats) => u32At(xstats, 12),
};
