/**
 * AQMRD: Karmeshu, Patel, Bhatnagar, "Adaptive mean queue size and its rate of change: queue management with random
 * dropping", 2016 (arXiv 1602.02241; Telecommunication Systems 65, 2017). avg is RED's; davg = avg(t) − avg(t − 1), from
 * arrival to arrival. While min ≤ avg < max the threshold mid_th moves by one packet an arrival: down if davg > 0, up if
 * davg < 0, within min … max. If davg > 0, packets are signalled along p1 below mid_th and along the steeper p2 from
 * mid_th to max; if davg ≤ 0 along p1 alone, as RED does; from max on all are. Defaults are the paper's set-up: w 0.002,
 * max_p 0.1, min 16, max 48, buffer 64 packets.
 *
 * The paper's formulas of p1 and p2 are not legible in our copy. Chosen to fit its text:
 *   p1 = max_p (avg − min) / (max − min), RED's line, the same in both cases;
 *   p2 = max_p + (1 − max_p) (avg − mid_th) / (max − mid_th), from max_p at mid_th to 1 at max.
 * So with davg > 0 p_b jumps up to max_p at mid_th. Chosen as well: mid_th begins half way between min and max, and
 * moves before the arrival that moves it is judged; with thresholds in bytes a packet is `avpkt` bytes.
 *
 * Not in Linux. Differences from the paper: the above, and what red-float.ts lists.
 */

import { z } from 'zod';
import type { AqmContext, AqmKind } from './aqm.js';
import { checkedRed, FloatRed, RED_STATE, redSettings, redShape, type RedDefaults, type RedSettings } from './red-float.js';

const DEFAULTS: RedDefaults = { limit: 64, min: 16, max: 48 };

class Aqmrd extends FloatRed {
  private midTh: number;
  private davg = 0;
  private readonly step: number;

  constructor(context: AqmContext, settings: RedSettings, startNs: number) {
    super(context, settings, startNs);
    this.midTh = (settings.min + settings.max) / 2;
    this.step = settings.inBytes ? settings.avpkt : 1;
  }

  protected override averaged(before: number): void {
    this.davg = this.avg - before;
    const { min, max } = this.settings;
    if (this.avg < min || this.avg >= max) return;
    if (this.davg > 0) this.midTh = Math.max(min, this.midTh - this.step);
    else if (this.davg < 0) this.midTh = Math.min(max, this.midTh + this.step);
  }

  protected override dropProbability(): number {
    const { max } = this.settings;
    if (this.avg >= max) return 1;
    if (this.davg <= 0 || this.avg < this.midTh) return this.line();
    return this.maxP + ((1 - this.maxP) * (this.avg - this.midTh)) / (max - this.midTh);
  }

  override readState(into: Float64Array, nowNs: number): void {
    super.readState(into, nowNs);
    into[4] = this.midTh;
  }
}

export const aqmrd: AqmKind = {
  kind: 'aqmrd',
  schema: checkedRed(z.strictObject(redShape), DEFAULTS),
  state: [...RED_STATE, 'mid_th'],
  create: (params, context, startNs) => new Aqmrd(context, redSettings(params, context, DEFAULTS, 0.1), startNs),
};
