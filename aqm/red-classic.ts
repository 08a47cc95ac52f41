/**
 * RED: Floyd & Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions on
 * Networking 1(4), 1993, with `gentle` (Floyd, "Recommendation on using the gentle_ variant of RED", 2000). What of the
 * paper and of ns-2 is followed stands in red-float.ts. Defaults are the paper's: w 0.002, min 5, max 15, max_p 1/50.
 *
 * Differences from Linux: `red` is Linux's; this one is the paper's, for comparing with papers and older simulators:
 * packets or bytes, floating point, any w, idle decay at the paper's pace, gentle. Differences from the paper: the
 * choices red-float.ts lists.
 */

import { z } from 'zod';
import type { AqmContext, AqmKind } from './aqm.js';
import { checkedRed, FloatRed, PAPER_DEFAULTS, RED_STATE, redSettings, redShape, type RedSettings } from './red-float.js';

export class RedClassic extends FloatRed {
  /** p_b beyond max: 1, or with gentle from max_p at max to 1 at twice max. */
  protected override dropProbability(): number {
    const { max, gentle } = this.settings;
    if (this.avg < max) return this.line();
    return gentle ? this.maxP + (1 - this.maxP) * (this.avg / max - 1) : 1;
  }
}

export const redClassic: AqmKind = {
  kind: 'red-classic',
  schema: checkedRed(z.strictObject({ ...redShape, gentle: z.boolean().optional() }), PAPER_DEFAULTS),
  state: RED_STATE,
  create: (params, context: AqmContext, startNs) => {
    const settings: RedSettings = redSettings(params, context, PAPER_DEFAULTS, 0.02);
    return new RedClassic(context, settings, startNs);
  },
};
