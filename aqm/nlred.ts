/**
 * Nonlinear RED: Zhou, Yeung, Li, "Nonlinear RED: A simple yet efficient active queue management scheme", Computer
 * Networks 50(18), 2006: p_b = max_p' ((avg − min) / (max − min))² from min to max, 1 from max on. max_p' is 1.5 max_p,
 * so that p_b averaged from min to max is RED's (section 3); `probability` is max_p, as in ns-3.
 *
 * Not in Linux. Differences from the paper: p_b is at most 1 (for `probability` above 2/3), and what red-float.ts lists.
 */

import { z } from 'zod';
import type { AqmKind } from './aqm.js';
import { checkedRed, FloatRed, PAPER_DEFAULTS, RED_STATE, redSettings, redShape } from './red-float.js';

class NonlinearRed extends FloatRed {
  protected override dropProbability(): number {
    const { min, max } = this.settings;
    if (this.avg >= max) return 1;
    const x = (this.avg - min) / this.span;
    return 1.5 * this.maxP * x * x;
  }
}

export const nlred: AqmKind = {
  kind: 'nlred',
  schema: checkedRed(z.strictObject(redShape), PAPER_DEFAULTS),
  state: RED_STATE,
  create: (params, context, startNs) => new NonlinearRed(context, redSettings(params, context, PAPER_DEFAULTS, 0.02), startNs),
};
