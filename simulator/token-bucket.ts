/**
 * TBF's token bucket (net/sched/sch_tbf.c tbf_dequeue): a packet leaves when there are tokens for all of it, so what is left of the bucket
 * after short packets lets others follow at once. Tokens are ns of the rate, as in Linux. Its peakrate is not modelled: no scenario sets one.
 */

export class TokenBucket {
  private nsPerByte = 0;
  private depthNs = 0;
  private tokensNs = 0;
  /** t_c: when a packet last left, ns. */
  private checkedNs = 0;

  /** @param burstBytes the bucket's depth: one packet of the MTU, with its framing */
  constructor(private readonly burstBytes: number, nowNs: number) {
    this.checkedNs = nowNs;
  }

  /** tbf_change(): a full bucket. */
  setRate(nsPerByte: number): void {
    this.nsPerByte = nsPerByte;
    this.depthNs = Math.floor(this.burstBytes * nsPerByte);
    this.tokensNs = this.depthNs;
  }

  /** @returns 0 when there were tokens for the packet, which are now taken; else how long to wait for them, ns */
  take(bytes: number, nowNs: number): number {
    const tokens = Math.min(this.tokensNs + Math.min(nowNs - this.checkedNs, this.depthNs), this.depthNs) - Math.floor(bytes * this.nsPerByte);
    if (tokens < 0) return -tokens;
    this.checkedNs = nowNs;
    this.tokensNs = tokens;
    return 0;
  }
}
