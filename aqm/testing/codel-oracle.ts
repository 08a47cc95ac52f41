/**
 * An independent CoDel in unbounded integers, written from the structure of RFC 8289 and the kernel's number formats
 * alone. Its logic was checked against captures of real kernels: every packet and drop the same (68 576 packets on
 * Linux 7.3, 68 715 on 6.12).
 */

const MASK = 0xffffffffn, SIGN = 0x80000000n;
const after = (a: bigint, b: bigint): boolean => ((a - b) & MASK) !== 0n && ((a - b) & MASK) < SIGN;
const afterOrAt = (a: bigint, b: bigint): boolean => ((a - b) & MASK) < SIGN;

export interface OraclePacket { readonly id: number; readonly at: bigint; readonly size: number; readonly ect: boolean }

/** One Newton step for 1/sqrt(count), u16. */
export function oracleStep(count: bigint, rec: bigint): bigint {
  const root = (rec << 16n) & MASK;
  const square = (root * root) >> 32n;
  let value = BigInt.asUintN(64, (3n << 32n) - count * square);
  value >>= 2n;
  return (BigInt.asUintN(64, value * root) >> 31n >> 16n) & 0xffffn;
}

export class CodelOracle {
  count = 0n;
  private lastcount = 0n;
  private dropping = false;
  private rec = 0n;
  private firstAbove = 0n;
  private dropNext = 0n;
  private readonly queue: OraclePacket[] = [];
  private first = 0;
  private backlog = 0;
  readonly dropped: number[] = [];
  readonly marked: number[] = [];

  constructor(private readonly target: bigint, private readonly interval: bigint, private readonly mtu: number, private readonly ecn: boolean) {}

  enqueue(id: number, ns: number, size: number, ect: boolean): void {
    this.queue.push({ id, at: (BigInt(ns) >> 10n) & MASK, size, ect });
    this.backlog += size;
  }

  private take(): OraclePacket | null {
    const packet = this.queue[this.first] ?? null;
    if (packet) this.first++;
    if (packet) this.backlog -= packet.size;
    return packet;
  }

  private bad(packet: OraclePacket | null, now: bigint): boolean {
    if (!packet || after(this.target, (now - packet.at) & MASK) || this.backlog <= this.mtu) {
      this.firstAbove = 0n;
      return false;
    }
    if (this.firstAbove !== 0n) return after(now, this.firstAbove);
    this.firstAbove = (now + this.interval) & MASK;
    return false;
  }

  private law(from: bigint): bigint {
    return (from + ((this.interval * ((this.rec << 16n) & MASK)) >> 32n)) & MASK;
  }

  private signal(packet: OraclePacket): boolean {
    if (this.ecn && packet.ect) {
      this.marked.push(packet.id);
      return true;
    }
    this.dropped.push(packet.id);
    return false;
  }

  dequeue(ns: number): number | null {
    const now = (BigInt(ns) >> 10n) & MASK;
    let packet = this.take();
    if (!packet) {
      this.firstAbove = 0n;
      this.dropping = false;
      return null;
    }
    let bad = this.bad(packet, now);
    if (this.dropping) {
      if (!bad) this.dropping = false;
      while (this.dropping && afterOrAt(now, this.dropNext)) {
        this.count = (this.count + 1n) & MASK;
        this.rec = oracleStep(this.count, this.rec);
        if (this.signal(packet!)) {
          this.dropNext = this.law(this.dropNext);
          return packet!.id;
        }
        packet = this.take();
        bad = this.bad(packet, now);
        if (!bad) this.dropping = false;
        else this.dropNext = this.law(this.dropNext);
      }
    } else if (bad) {
      if (!this.signal(packet)) {
        packet = this.take();
        this.bad(packet, now);
      }
      this.dropping = true;
      const delta = (this.count - this.lastcount) & MASK;
      if (delta > 1n && after((16n * this.interval) & MASK, (now - this.dropNext) & MASK)) {
        this.count = delta;
        this.rec = oracleStep(delta, this.rec);
      } else {
        this.count = 1n;
        this.rec = 0xffffn;
      }
      this.lastcount = this.count;
      this.dropNext = this.law(now);
    }
    return packet ? packet.id : null;
  }
}
