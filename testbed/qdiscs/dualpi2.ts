/**
 * DualPI2, RFC 9332 (net/sched/sch_dualpi2.c of Linux 6.17, tc_dualpi2_xstats; iproute2 q_dualpi2.c). Words that come in pairs in tc are one key here:
 * `drop_on_overload` (false: overflow), `drop_enqueue` (false: drop_dequeue), `any_ect` (false: l4s_ect), `split_gso`.
 * Defaults: limit 10000p, target 15ms, tupdate 16ms, alpha 0.16, beta 3.2, step_thresh 1ms, coupling_factor 2, drop_on_overload,
 * drop_dequeue, classic_protection 10%, l4s_ect, split_gso.
 */

import { z } from 'zod';
import { UserError } from '../errors.js';
import { attributeU8, attributeU32 } from '../linux/attributes.js';
import { zPackets, zProbability, zTime } from '../units.js';
import { decodeU32s, microseconds, numberWord, timeWord, u32At } from './parameters.js';
import type { Qdisc, QueueParams } from './qdisc.js';
import { packetsOf, zBytes, zCount } from './schemas.js';

/** alpha and beta travel as 1/256 Hz; ALPHA_BETA_MAX of sch_dualpi2.c. */
const scale = 256;
const alphaBetaMax = (2 << 23) - 1;
const zFactor = z.number({ error: 'expected a number such as 0.16' }).min(1 / scale, { error: 'expected at least 0.00390625 (1/256)' })
  .max(alphaBetaMax / scale, { error: `expected at most ${alphaBetaMax / scale}` });
const zSomeTime = zTime.refine((ns) => ns >= 1000, { error: 'expected at least 1us' });

/** `max_rtt` and `typical_rtt` choose target, tupdate, alpha and beta (RFC 9332 appendix A.1; q_dualpi2.c). Times in µs, factors scaled. */
export function fromRtt(params: QueueParams): { target: number; tupdate: number; alpha: number; beta: number } | undefined {
  let longest = microseconds(Number(params['max_rtt'] ?? 0));
  let typical = microseconds(Number(params['typical_rtt'] ?? 0));
  if (!longest && !typical) return undefined;
  if (!typical) typical = Math.max(Math.floor(longest / 6), 1);
  if (!longest) longest = typical * 6;
  const tupdate = Math.max(Math.floor(Math.min(typical, longest / 3)), 1);
  const alpha = (tupdate / longest / longest) * 1e6 * Math.fround(0.1);
  const beta = (Math.fround(0.3) / longest) * 1e6;
  if (alpha < 1 / scale || beta < 1 / scale || beta > alphaBetaMax) throw new UserError(`queue dualpi2: max_rtt of ${longest} µs gives no usable alpha and beta; set target, tupdate, alpha and beta instead`);
  return { target: typical, tupdate, alpha: Math.floor(alpha * scale), beta: Math.floor(beta * scale) };
}

export const dualpi2: Qdisc = {
  kind: 'dualpi2',
  nested: true,
  since: '6.17',
  schema: z.strictObject({
    limit: zPackets.optional(), memlimit: zBytes.optional(), target: zSomeTime.optional(), tupdate: zSomeTime.optional(), alpha: zFactor.optional(), beta: zFactor.optional(),
    max_rtt: zSomeTime.optional(), typical_rtt: zSomeTime.optional(), coupling_factor: zCount(1, 255).optional(),
    step_thresh: z.union([zSomeTime, z.string().regex(/^\s*[1-9]\d*\s*(?:p|packets?)\s*$/, { error: 'expected a time such as 1ms or packets such as 5p' }).transform((text) => `${Number.parseInt(text, 10)}p`)]).optional(),
    min_qlen_step: zCount(0, 0xffffffff).optional(), drop_on_overload: z.boolean().optional(), drop_enqueue: z.boolean().optional(),
    classic_protection: zProbability.optional(), any_ect: z.boolean().optional(), split_gso: z.boolean().optional(),
  }).superRefine((params, context) => {
    const { max_rtt: longest, typical_rtt: typical } = params;
    if (longest !== undefined && typical !== undefined && typical > longest) context.addIssue({ code: 'custom', path: ['typical_rtt'], message: 'expected typical_rtt of at most max_rtt' });
    if (longest === undefined && typical === undefined) return;
    for (const key of ['target', 'tupdate', 'alpha', 'beta'] as const) {
      if (params[key] !== undefined) context.addIssue({ code: 'custom', path: [key], message: `expected no ${key} beside max_rtt or typical_rtt, which choose it` });
    }
  }),
  encode: (params) => {
    const out: Buffer[] = [];
    const u32 = (type: number, value: number | undefined): void => { if (value !== undefined) out.push(attributeU32(type, value)); };
    const u8 = (type: number, value: number | undefined): void => { if (value !== undefined) out.push(attributeU8(type, value)); };
    const number = (key: string): number | undefined => (params[key] === undefined ? undefined : Number(params[key]));
    const time = (key: string): number | undefined => (params[key] === undefined ? undefined : microseconds(Number(params[key])));
    const factor = (key: string): number | undefined => (params[key] === undefined ? undefined : Math.floor(Math.fround(Number(params[key])) * scale));
    const automatic = fromRtt(params);
    u32(1, number('limit'));
    u32(2, number('memlimit'));
    u32(4, automatic?.tupdate ?? time('tupdate'));
    u32(3, automatic?.target ?? time('target'));
    u32(5, automatic?.alpha ?? factor('alpha'));
    u32(6, automatic?.beta ?? factor('beta'));
    if (params['any_ect'] !== undefined) u8(14, params['any_ect'] ? 3 : 1);
    u8(11, number('drop_on_overload'));
    u8(10, number('coupling_factor'));
    u8(15, number('split_gso'));
    const step = packetsOf(params['step_thresh']);
    if (step === undefined) u32(8, time('step_thresh')); else u32(7, step);
    u32(9, number('min_qlen_step'));
    u8(12, number('drop_enqueue'));
    if (params['classic_protection'] !== undefined) u8(13, Math.round(Number(params['classic_protection']) * 100));
    return Buffer.concat(out);
  },
  tcWords: (params) => Object.entries(params).flatMap(([key, value]) => {
    switch (key) {
      case 'target': case 'tupdate': case 'max_rtt': case 'typical_rtt': return [key, timeWord(Number(value))];
      case 'step_thresh': return [key, packetsOf(value) === undefined ? timeWord(Number(value)) : String(value)];
      case 'drop_on_overload': return [value ? key : 'overflow'];
      case 'drop_enqueue': return [value ? key : 'drop_dequeue'];
      case 'any_ect': return [value ? key : 'l4s_ect'];
      case 'split_gso': return [value ? key : 'no_split_gso'];
      case 'classic_protection': return [key, `${Math.round(Number(value) * 100)}%`];
      default: return [key, numberWord(Number(value))];
    }
  }),
  state: ['prob', 'delay_c', 'delay_l', 'packets_in_c', 'packets_in_l', 'step_marks', 'credit', 'memory_used', 'maxq'],
  /** struct tc_dualpi2_xstats: probability of 2^32, delays in µs. */
  decodeState: (xstats) => decodeU32s(xstats, [[0, 2 ** -32], [4, 1000], [8, 1000], [12, 1], [16, 1], [28, 1], [32, 1, 'signed'], [36, 1], [20, 1]]),
  decodeMarks: (xstats) => u32At(xstats, 24),
};
