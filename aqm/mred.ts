/**
 * MRED, modified RED: Feng, Agarwal, Jayaraman, Siew, "Modified RED gateways under bursty traffic", IEEE Communications
 * Letters 8(5), 2004: everything is dropped only when both the average and the queue itself have reached max; while a
 * burst has passed and only the average is still up there, dropping stays probabilistic.
 *
 * Several schemes are called MRED (multi-level RED among them); this is the one meant here. We know the letter by its
 * abstract and by its re-implementation for ns-3; from the latter is what happens with avg ≥ max and the queue below
 * max: p_b goes on along RED's line, above max_p, up to 1.
 *
 * Not in Linux. Differences from the paper: as far as we can tell none but what red-float.ts lists.
 */

import { z } from 'zod';
import type { AqmKind } from './aqm.js';
import { checkedRed, FloatRed, PAPER_DEFAULTS, RED_STATE, redSettings, redShape } from './red-float.js';

class ModifiedRed extends FloatRed {
  protected override dropProbability(queued: number): number {
    const { max } = this.settings;
    return this.avg >= max && queued >= max ? 1 : this.line();
  }
}

export const mred: AqmKind = {
  kind: 'mred',
  schema: checkedRed(z.strictObject(redShape), PAPER_DEFAULTS),
  state: RED_STATE,
  create: (params, context, startNs) => new ModifiedRed(context, redSettings(params, context, PAPER_DEFAULTS, 0.02), startNs),
};
