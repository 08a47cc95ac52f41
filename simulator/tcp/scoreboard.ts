/**
 * What a sender knows of each segment in flight: its flags (SACKed, lost, retransmitted), when it was last sent, and the
 * delivery counters of that moment; plus the list of segments in order of their last transmission that RACK walks
 * (tsorted_sent_queue). Rings of typed arrays indexed by segment number; they double when the window outgrows them.
 * Follows the fields of struct tcp_skb_cb (include/net/tcp.h); a segment here is one MSS, never a merged buffer.
 */

export const flag = { sacked: 1, lost: 2, retransmitted: 4, everRetransmitted: 8, appLimited: 16, delivered: 32, push: 64, burstEnd: 128 } as const;
const absent = -1;

export class Scoreboard {
  capacity: number;
  mask: number;
  flags: Uint8Array;
  /** Last transmission, µs. */
  sentUs: Float64Array;
  /** tp->delivered, delivered_ce, delivered_mstamp and first_tx_mstamp when it was sent. */
  delivered: Uint32Array;
  deliveredCe: Uint32Array;
  deliveredUs: Float64Array;
  firstSentUs: Float64Array;
  /** Order of transmission: neighbours as segment numbers; −1 none, −2 not in the list. */
  private following: Int32Array;
  private preceding: Int32Array;
  first = absent;
  private last = absent;

  constructor(capacity = 32) {
    this.capacity = capacity;
    this.mask = capacity - 1;
    this.flags = new Uint8Array(capacity);
    this.sentUs = new Float64Array(capacity);
    this.delivered = new Uint32Array(capacity);
    this.deliveredCe = new Uint32Array(capacity);
    this.deliveredUs = new Float64Array(capacity);
    this.firstSentUs = new Float64Array(capacity);
    this.following = new Int32Array(capacity).fill(-2);
    this.preceding = new Int32Array(capacity).fill(-2);
  }

  /** Makes room for segments [una, end), of which [una, nxt) are in flight. */
  reserve(una: number, nxt: number, end: number): void {
    if (end - una <= this.capacity) return;
    let capacity = this.capacity;
    while (end - una > capacity) capacity *= 2;
    const fresh = new Scoreboard(capacity);
    for (let segment = una; segment < nxt; segment++) {
      const i = segment & this.mask;
      const j = segment & fresh.mask;
      fresh.flags[j] = this.flags[i]!;
      fresh.sentUs[j] = this.sentUs[i]!;
      fresh.delivered[j] = this.delivered[i]!;
      fresh.deliveredCe[j] = this.deliveredCe[i]!;
      fresh.deliveredUs[j] = this.deliveredUs[i]!;
      fresh.firstSentUs[j] = this.firstSentUs[i]!;
      fresh.following[j] = this.following[i]!;
      fresh.preceding[j] = this.preceding[i]!;
    }
    this.capacity = capacity;
    this.mask = fresh.mask;
    this.flags = fresh.flags;
    this.sentUs = fresh.sentUs;
    this.delivered = fresh.delivered;
    this.deliveredCe = fresh.deliveredCe;
    this.deliveredUs = fresh.deliveredUs;
    this.firstSentUs = fresh.firstSentUs;
    this.following = fresh.following;
    this.preceding = fresh.preceding;
  }

  /** To the end of the order of transmission. */
  sentLast(segment: number): void {
    const { mask, following, preceding } = this;
    const i = segment & mask;
    if (following[i] !== -2) this.unlink(segment);
    following[i] = absent;
    preceding[i] = this.last;
    if (this.last === absent) this.first = segment;
    else following[this.last & mask] = segment;
    this.last = segment;
  }

  unlink(segment: number): void {
    const { mask, following, preceding } = this;
    const i = segment & mask;
    const next = following[i]!;
    if (next === -2) return;
    const previous = preceding[i]!;
    if (previous === absent) this.first = next; else following[previous & mask] = next;
    if (next === absent) this.last = previous; else preceding[next & mask] = previous;
    following[i] = -2;
    preceding[i] = -2;
  }

  after(segment: number): number { return this.following[segment & this.mask]!; }
}
