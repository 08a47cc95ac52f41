/**
 * TRED, three-section RED: Feng, Huang, Xu, Chang, "Congestion Control Scheme Performance Analysis Based on Nonlinear
 * RED", IEEE Systems Journal 11(4), 2017. With x = (avg − min) / (max − min), p_b is
 *   9 max_p x³                 for light load, x below 1/3,
 *   max_p x                    for moderate load, as RED,
 *   max_p + 9 max_p (x − 1)³   for high load, x from 2/3,
 * and 1 from max on; the three meet at 1/3 and 2/3 of max_p.
 *
 * Not in Linux. Differences from the paper: what red-float.ts lists.
 */

import { z } from 'zod';
import type { AqmKind } from './aqm.js';
import { checkedRed, FloatRed, PAPER_DEFAULTS, RED_STATE, redSettings, redShape } from './red-float.js';

class ThreeSectionRed extends FloatRed {
  protected override dropProbability(): number {
    const { min, max } = this.settings;
    if (this.avg >= max) return 1;
    const x = (this.avg - min) / this.span;
    if (x < 1 / 3) return 9 * this.maxP * x * x * x;
    if (x < 2 / 3) return this.maxP * x;
    const y = x - 1;
    return this.maxP + 9 * this.maxP * y * y * y;
  }
}

export const tred: AqmKind = {
  kind: 'tred',
  schema: checkedRed(z.strictObject(redShape), PAPER_DEFAULTS),
  state: RED_STATE,
  create: (params, context, startNs) => new ThreeSectionRed(context, redSettings(params, context, PAPER_DEFAULTS, 0.02), startNs),
};
