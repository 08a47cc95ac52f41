/**
 * An independent FQ-CoDel in plain arrays and unbounded integers, from RFC 8290, section 4, with the kernel's number formats and its two
 * departures from the RFC: CoDel's "at most one MTU waits" looks at all flows together, and a batch drop raises a flow's count.
 */

import { oracleStep } from './codel-oracle.js';

export interface FqOraclePacket { readonly id: number; readonly ns: number; readonly size: number; readonly ect: boolean; readonly flow: number }
export interface FqOracleParams {
  readonly flows: number;
  readonly quantum: number;
  readonly limit: number;
  readonly batch: number;
  readonly ecn: boolean;
  readonly mtu: number;
  /** In codel time. */
  readonly target: bigint;
  readonly interval: bigint;
}

const MASK = 0xffffffffn, SIGN = 0x80000000n;
const ticks = (ns: number): bigint => (BigInt(ns) >> 10n) & MASK;
/** a is later than b. */
const later = (a: bigint, b: bigint): boolean => a !== b && ((a - b) & MASK) < SIGN;

interface FlowState { queue: FqOraclePacket[]; credit: number; count: bigint; lastCount: bigint; rec: bigint; firstAbove: bigint; dropNext: bigint; dropping: boolean; delay: bigint }

export class FqCodelOracle {
  readonly dropped: number[] = [];
  readonly marked: number[] = [];
  private readonly flows: FlowState[];
  private fresh: FlowState[] = [];
  private old: FlowState[] = [];

  constructor(private readonly params: FqOracleParams) {
    this.flows = Array.from({ length: params.flows }, () => ({ queue: [], credit: 0, count: 0n, lastCount: 0n, rec: 0n, firstAbove: 0n, dropNext: 0n, dropping: false, delay: 0n }));
  }

  private bytes(flow: FlowState): number { return flow.queue.reduce((sum, { size }) => sum + size, 0); }
  private get packets(): number { return this.flows.reduce((sum, { queue }) => sum + queue.length, 0); }
  private get backlog(): number { return this.flows.reduce((sum, flow) => sum + this.bytes(flow), 0); }

  enqueue(packet: FqOraclePacket): void {
    const flow = this.flows[packet.flow]!;
    flow.queue.push(packet);
    if (!this.fresh.includes(flow) && !this.old.includes(flow)) {
      this.fresh.push(flow);
      flow.credit = this.params.quantum;
    }
    if (this.packets <= this.params.limit) return;
    const fattest = this.flows.reduce((most, one) => (this.bytes(one) > this.bytes(most) ? one : most));
    const half = Math.floor(this.bytes(fattest) / 2);
    let gone = 0;
    for (let n = 0; n < this.params.batch && (n === 0 || gone < half); n++) {
      const head = fattest.queue.shift()!;
      gone += head.size;
      this.dropped.push(head.id);
      fattest.count = (fattest.count + 1n) & MASK;
    }
  }

  dequeue(ns: number): number | null {
    for (;;) {
      const fresh = this.fresh.length > 0;
      const flow = fresh ? this.fresh[0] : this.old[0];
      if (flow === undefined) return null;
      const leave = (): void => { (fresh ? this.fresh : this.old).shift(); };
      if (flow.credit <= 0) {
        flow.credit += this.params.quantum;
        leave();
        this.old.push(flow);
        continue;
      }
      const packet = this.codel(flow, ticks(ns));
      if (packet === null) {
        leave();
        if (fresh && this.old.length > 0) this.old.push(flow);
        continue;
      }
      flow.credit -= packet.size;
      return packet.id;
    }
  }

  /** RFC 8289, section 5.4: takes the head and says whether it has been bad for an interval. */
  private take(flow: FlowState, now: bigint): { packet: FqOraclePacket | null; bad: boolean } {
    const packet = flow.queue.shift() ?? null;
    if (packet === null) {
      flow.firstAbove = 0n;
      return { packet, bad: false };
    }
    flow.delay = (now - ticks(packet.ns)) & MASK;
    if (later(this.params.target, flow.delay) || this.backlog <= this.params.mtu) {
      flow.firstAbove = 0n;
      return { packet, bad: false };
    }
    if (flow.firstAbove !== 0n) return { packet, bad: later(now, flow.firstAbove) };
    flow.firstAbove = (now + this.params.interval) & MASK;
    return { packet, bad: false };
  }

  private law(flow: FlowState, from: bigint): bigint { return (from + ((this.params.interval * ((flow.rec << 16n) & MASK)) >> 32n)) & MASK; }

  private codel(flow: FlowState, now: bigint): FqOraclePacket | null {
    let { packet, bad } = this.take(flow, now);
    if (packet === null) {
      flow.dropping = false;
      return null;
    }
    const mark = (): boolean => {
      if (!this.params.ecn || !packet!.ect) return false;
      this.marked.push(packet!.id);
      return true;
    };
    if (flow.dropping) {
      if (!bad) flow.dropping = false;
      while (flow.dropping && !later(flow.dropNext, now)) {
        flow.count = (flow.count + 1n) & MASK;
        flow.rec = oracleStep(flow.count, flow.rec);
        if (mark()) {
          flow.dropNext = this.law(flow, flow.dropNext);
          return packet;
        }
        this.dropped.push(packet!.id);
        ({ packet, bad } = this.take(flow, now));
        if (bad) flow.dropNext = this.law(flow, flow.dropNext);
        else flow.dropping = false;
      }
      return packet;
    }
    if (!bad) return packet;
    if (!mark()) {
      this.dropped.push(packet.id);
      ({ packet } = this.take(flow, now));
    }
    flow.dropping = true;
    const since = (flow.count - flow.lastCount) & MASK;
    if (since > 1n && later(16n * this.params.interval, (now - flow.dropNext) & MASK)) {
      flow.count = since;
      flow.rec = oracleStep(since, flow.rec);
    } else {
      flow.count = 1n;
      flow.rec = 0xffffn;
    }
    flow.lastCount = flow.count;
    flow.dropNext = this.law(flow, now);
    return packet;
  }
}
