/**
 * Which datagrams of a flow have arrived: a sliding bitmap over the last `size` sequence numbers (as in RFC 6479's
 * anti-replay window, here a ring of 32-bit words), so that each is counted once however often and in whatever order it comes.
 * Exact while no datagram arrives later than `size` numbers behind the newest; those that do are counted apart, for
 * nobody can say whether they are new. Memory: size / 8 bytes.
 */

export class SequenceWindow {
  /** Different datagrams that arrived. */
  received = 0;
  /** Copies of datagrams that had arrived before. */
  duplicates = 0;
  /** Arrived so far behind the newest that the window no longer knows them. */
  tooLate = 0;
  /** Different datagrams that arrived after one with a higher number. */
  reordered = 0;
  private readonly words: Uint32Array;
  private readonly mask: number;
  /** One above the highest number seen. */
  private next = 0;

  /** @param size sequence numbers remembered; rounded up to a power of two, at least 64 */
  constructor(size: number) {
    const bits = 2 ** Math.max(6, Math.ceil(Math.log2(Math.max(1, size))));
    this.words = new Uint32Array(bits / 32);
    this.mask = bits - 1;
  }

  get size(): number { return this.mask + 1; }

  /** @param sequence a whole number from 0, below 2^53 */
  add(sequence: number): void {
    if (sequence >= this.next) {
      this.forget(this.next, Math.min(sequence + 1, this.next + this.size));
      this.next = sequence + 1;
    } else if (this.next - sequence > this.size) {
      this.tooLate++;
      return;
    } else if (this.has(sequence)) {
      this.duplicates++;
      return;
    } else {
      this.reordered++;
    }
    const bit = this.bit(sequence);
    this.words[bit >>> 5]! |= 1 << (bit & 31);
    this.received++;
  }

  private bit(sequence: number): number { return sequence % this.size; }
  private has(sequence: number): boolean {
    const bit = this.bit(sequence);
    return (this.words[bit >>> 5]! & (1 << (bit & 31))) !== 0;
  }

  /** Clears the places of numbers from … to − 1: they stood for others. At most `size` of them. */
  private forget(from: number, to: number): void {
    for (let sequence = from; sequence < to;) {
      const bit = this.bit(sequence);
      if ((bit & 31) === 0 && to - sequence >= 32) {
        this.words[bit >>> 5] = 0;
        sequence += 32;
      } else {
        this.words[bit >>> 5]! &= ~(1 << (bit & 31));
        sequence++;
      }
    }
  }
}
