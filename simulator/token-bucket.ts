/**
 * TBF's token bucket (net/sched/sch_tbf.c tbf_dequeue): a packet leaves when there are tokens for all of it, so what is left of the bucket
 * after short packets lets others follow at once. Tokens are ns of the rate, as in Linux. With a peak rate there is a second bucket, of that rate, that a packet needs as
 * well: what a deep first bucket has saved then leaves at the peak rate, not at once.
 */

import type { PlanBucket } from '../testbed/plan/plan.js';

export class TokenBucket {
  private nsPerByte = 0;
  private depthNs = 0;
  private tokensNs = 0;
  /** 0 without a peak rate. */
  private readonly peakNsPerByte: number;
  private readonly peakDepthNs: number;
  private peakTokensNs = 0;
  private readonly burstBytes: number;
  /** t_c: when a packet last left, ns. */
  private checkedNs = 0;

  /**
   * @param packetBytes a packet of the MTU, with its framing: how deep the peak rate's bucket is, and the rate's where `set` says nothing
   * @param set absent: no peak rate
   */
  constructor(packetBytes: number, nowNs: number, set?: PlanBucket) {
    this.burstBytes = set?.burstBytes ?? packetBytes;
    const peakRateBps = set?.peakRateBps ?? null;
    this.peakNsPerByte = peakRateBps === null ? 0 : 8e9 / peakRateBps;
    this.peakDepthNs = Math.floor(packetBytes * this.peakNsPerByte);
    this.checkedNs = nowNs;
  }

  /** tbf_change(): full buckets. */
  setRate(nsPerByte: number): void {
    this.nsPerByte = nsPerByte;
    this.depthNs = Math.floor(this.burstBytes * nsPerByte);
    this.tokensNs = this.depthNs;
    this.peakTokensNs = this.peakDepthNs;
  }

  /** @returns 0 when there were tokens for the packet, which are now taken; else how long to wait for them, ns */
  take(bytes: number, nowNs: number): number {
    const gained = Math.min(nowNs - this.checkedNs, this.depthNs);
    const tokens = Math.min(this.tokensNs + gained, this.depthNs) - Math.floor(bytes * this.nsPerByte);
    if (this.peakNsPerByte > 0) {
      const peakTokens = Math.min(this.peakTokensNs + gained, this.peakDepthNs) - Math.floor(bytes * this.peakNsPerByte);
      if (tokens < 0 || peakTokens < 0) return Math.max(-tokens, -peakTokens);
      this.peakTokensNs = peakTokens;
    } else if (tokens < 0) return -tokens;
    this.checkedNs = nowNs;
    this.tokensNs = tokens;
    return 0;
  }
}
