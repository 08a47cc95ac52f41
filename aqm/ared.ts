/**
 * Adaptive RED: Floyd, Gummadi, Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of RED's Active Queue
 * Management", 2001. Every 0.5 s max_p moves so that the average stays within 0.4 … 0.6 of the way from min to max
 * (figure 3: additive increase by alpha = min(0.01, max_p / 4), multiplicative decrease by beta = 0.9, max_p within
 * 0.01 … 0.5); w = 1 − exp(−1/C), C the link's packets a second (section 6); min = max(5, target C / 2), max = 3 min
 * (section 6); gentle.
 *
 * Differences from Linux (red with `adaptive`): Linux adapts max_p alone, from the w and thresholds it is given, in
 * integers and without gentle. Differences from the paper: none; max_p begins at 0.1, as in ns-2 (the paper leaves it
 * open), the average that is judged has decayed with idle time, and what red-float.ts lists. (ns-2 adapts at the first
 * arrival after the interval; here the interval is exact.)
 */

import { z } from 'zod';
import { UserError } from '../testbed/errors.js';
import { zTime } from '../testbed/units.js';
import type { AqmContext, AqmKind } from './aqm.js';
import { flag, number, positiveTimes, type Params } from './params.js';
import { sizeText } from './queue-size.js';
import { RedClassic } from './red-classic.js';
import { bandwidthOf, checkedRed, PAPER_DEFAULTS, RED_STATE, redSettings, redShape, zAboveZero, type RedSettings } from './red-float.js';

const BOTTOM = 0.01, TOP = 0.5;

class AdaptiveRed extends RedClassic {
  constructor(
    context: AqmContext, settings: RedSettings,
    private readonly intervalNs: number, private readonly alpha: number, private readonly beta: number, startNs: number,
  ) {
    super(context, settings, startNs);
    this.timerNs = startNs + intervalNs;
  }

  override tick(nowNs: number): void {
    const avg = this.averageAt(nowNs), { min } = this.settings;
    if (avg > min + 0.6 * this.span && this.maxP <= TOP) this.maxP += Math.min(this.alpha, this.maxP / 4);
    else if (avg < min + 0.4 * this.span && this.maxP >= BOTTOM) this.maxP *= this.beta;
    this.timerNs = nowNs + this.intervalNs;
  }
}

function resolve(params: Params, context: AqmContext): RedSettings {
  const avpkt = number(params, 'avpkt', context.mtuBytes);
  const packetsPerSecond = bandwidthOf(params, context) / (8 * avpkt);
  const min = Math.max(5, (number(params, 'target', 5e6) / 1e9) * packetsPerSecond / 2);
  const settings = redSettings(params, context, { ...PAPER_DEFAULTS, min, max: 3 * min }, 0.1);
  const { limits, max, inBytes } = settings;
  const limit = inBytes ? limits.bytes : limits.packets;
  if (Number.isFinite(limit) && max >= limit) {
    const unit = inBytes ? 'bytes' : 'packets';
    throw new UserError(`queue ared: max would be ${sizeText({ amount: Math.round(max), unit })} (three times half of target × bandwidth), which must be below limit (${sizeText({ amount: limit, unit })}); expected a larger limit, a smaller target, or min and max`);
  }
  return { ...settings, w: number(params, 'w', 1 - Math.exp(-1 / packetsPerSecond)), gentle: flag(params, 'gentle', true) };
}

export const ared: AqmKind = {
  kind: 'ared',
  schema: positiveTimes(
    checkedRed(
      z.strictObject({
        ...redShape, gentle: z.boolean().optional(), target: zTime.optional(), tupdate: zTime.optional(),
        alpha: zAboveZero.optional(), beta: zAboveZero.refine((beta) => beta < 1, { error: 'expected a factor above 0 and below 1, such as 0.9' }).optional(),
      }),
      null,
    ),
    'target', 'tupdate',
  ),
  state: RED_STATE,
  create: (params, context, startNs) =>
    new AdaptiveRed(context, resolve(params, context), number(params, 'tupdate', 500e6), number(params, 'alpha', 0.01), number(params, 'beta', 0.9), startNs),
};
