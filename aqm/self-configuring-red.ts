/**
 * Self-configuring RED: Feng, Kandlur, Saha, Shin, "A Self-Configuring RED Gateway", INFOCOM 1999, figure 3: when the
 * average falls below min, max_p is divided by alpha (3); when it rises above max, multiplied by beta (2); once a
 * crossing, so between two changes the average must have been elsewhere.
 *
 * Not in Linux. Differences from the paper: max_p stays within 10^-6 … 1 (the paper bounds it nowhere; divided often
 * enough it would become 0 and never rise again), and what red-float.ts lists. A new queue is empty, so its status is
 * Below from the start (the paper leaves it open; ns-3 begins Above and so divides max_p at the first packet).
 */

import { z } from 'zod';
import type { AqmContext, AqmKind } from './aqm.js';
import { number } from './params.js';
import { RedClassic } from './red-classic.js';
import { checkedRed, PAPER_DEFAULTS, RED_STATE, redSettings, redShape, type RedSettings } from './red-float.js';

const BELOW = 0, BETWEEN = 1, ABOVE = 2;
const LEAST = 1e-6;

class SelfConfiguringRed extends RedClassic {
  private status = BELOW;

  constructor(context: AqmContext, settings: RedSettings, private readonly alpha: number, private readonly beta: number, startNs: number) {
    super(context, settings, startNs);
  }

  protected override averaged(): void {
    const { avg } = this, { min, max } = this.settings;
    if (avg > min && avg < max) {
      this.status = BETWEEN;
    } else if (avg < min && this.status !== BELOW) {
      this.status = BELOW;
      this.maxP = Math.max(LEAST, this.maxP / this.alpha);
    } else if (avg > max && this.status !== ABOVE) {
      this.status = ABOVE;
      this.maxP = Math.min(1, this.maxP * this.beta);
    }
  }
}

const zFactor = z.number({ error: 'expected a factor above 1, such as 2' }).gt(1, { error: 'expected a factor above 1, such as 2' }).max(1000, { error: 'expected a factor of at most 1000' });

export const selfConfiguringRed: AqmKind = {
  kind: 'self-configuring-red',
  schema: checkedRed(z.strictObject({ ...redShape, gentle: z.boolean().optional(), alpha: zFactor.optional(), beta: zFactor.optional() }), PAPER_DEFAULTS),
  state: RED_STATE,
  create: (params, context, startNs) =>
    new SelfConfiguringRed(context, redSettings(params, context, PAPER_DEFAULTS, 0.02), number(params, 'alpha', 3), number(params, 'beta', 2), startNs),
};
