/**
 * Which flows share a queue of a flow-queueing discipline whose hash the record does not hold (hashes.ts reads those that it does): it is keyed with a
 * secret that no one outside the kernel sees. The map is taken from the order of packets: inside one queue packets leave in the order they came.
 * A packet that leaves while an earlier one of another flow still waits (and leaves later) shows that the two flows have
 * queues of their own. Two flows share one that never showed it although they met often, or although one of them had at
 * least once come in behind far more bytes of the other than fair turns would have let go first.
 */

import { PendingByKey } from '../records/match.js';
import { none } from '../records/record-file.js';
import type { EventSource } from './events.js';
import { Fates } from './packet.js';

/** Meetings without a sign of two queues that make it one: with fair turns each meeting shows it about every second time. */
const enoughMeetings = 64;
/** That much more than the arriving flow itself has waiting, bytes: two rounds of a full-size quantum, and one for what the other may have had to its credit. */
const farMoreBytes = 3 * 1514;
/** Flows told apart; beyond, all are taken to have queues of their own. */
const mostFlows = 2048;

/** How flows were spread over queues. */
export interface Sharing {
  /** `hash`: each packet's is in the record. `order`: found from the order in which packets left. */
  readonly from: 'hash' | 'order';
  readonly queues: number;
  /** Flows that shared a queue with another, at one time or another. */
  readonly collisions: readonly (readonly string[])[];
  /** Packets of no flow of the plan. */
  readonly strangers: number;
  /** Times that a flow took another hash; of `order` they are not known. */
  readonly moves: number | null;
}

export class Buckets implements Sharing {
  readonly from = 'order';
  readonly moves = null;

  private constructor(
    private readonly index: ReadonlyMap<number, number>, private readonly bucket: Int32Array, private readonly apart: Uint8Array, private readonly met: Float64Array,
    /** Packets of no flow of the plan (ARP, tools' control connections): their queue is not known. */
    readonly strangers: number,
  ) {}

  static of(index: ReadonlyMap<number, number>, bucket: Int32Array, apart: Uint8Array, met: Float64Array, strangers: number): Buckets {
    return new Buckets(index, bucket, apart, met, strangers);
  }

  /** Queue of a flow and direction, 0 … flows − 1; −1 for a packet of no known flow. */
  queueOf(flow: number, forward: number): number {
    return flow === none.i32 ? -1 : this.bucket[this.index.get(identity(flow, forward))!]!;
  }
  get flows(): number { return this.bucket.length; }
  get queues(): number { return new Set(this.bucket).size; }

  /** Flows that share a queue with another. */
  get collisions(): readonly (readonly string[])[] {
    const members = new Map<number, string[]>();
    for (const [id, flow] of this.index) members.set(this.bucket[flow]!, [...members.get(this.bucket[flow]!) ?? [], nameOf(id)]);
    return [...members.values()].filter((names) => names.length > 1);
  }

  /**
   * Maps that differ by one flow's place and that the record allows: the flow on its own, or with one that it met and never
   * was apart from. For a flow that met others too seldom, or behind too few of their packets, to be sure.
   */
  *otherPlaces(flow: number, forward: number): Generator<Buckets> {
    const me = this.index.get(identity(flow, forward));
    if (me === undefined || this.apart.length === 0) return;
    const at = (other: number): number => (me < other ? me * this.flows + other : other * this.flows + me);
    const mates = [...this.bucket.keys()].filter((other) => other !== me && this.bucket[other] === this.bucket[me]);
    const moved = (to: number): Buckets => {
      const bucket = this.bucket.slice();
      // A queue goes by the number of one of its members: what is left behind keeps one that is not mine.
      if (bucket[me] === me && mates.length > 0) for (const mate of mates) bucket[mate] = mates[0]!;
      bucket[me] = to === me ? me : bucket[to]!;
      return new Buckets(this.index, bucket, this.apart, this.met, this.strangers);
    };
    if (mates.length > 0) yield moved(me);
    for (let other = 0; other < this.flows; other++) {
      if (other !== me && this.bucket[other] !== this.bucket[me] && this.met[at(other)]! > 0 && this.apart[at(other)] === 0) yield moved(other);
    }
  }
}

/** Of a flow's packets in one direction. */
export const identity = (flow: number, forward: number): number => flow * 2 + forward;

/** @param untilNs events after it are not looked at */
export async function findBuckets(source: EventSource, untilNs: number): Promise<Buckets> {
  const fates = new Fates();
  const pending = new PendingByKey();
  const index = new Map<number, number>();
  let strangers = 0;
  for await (const chunk of source.chunks()) {
    for (let i = 0; i < chunk.count; i++) {
      if (chunk.t[i]! > untilNs) break;
      if (chunk.leaving[i] === 0) {
        pending.push(chunk.keyLo[i]!, chunk.keyHi[i]!, fates.add());
        const flow = chunk.flow[i]!;
        if (flow === none.i32) strangers++;
        else if (!index.has(identity(flow, chunk.forward[i]!))) index.set(identity(flow, chunk.forward[i]!), index.size);
      } else {
        const seq = pending.shift(chunk.keyLo[i]!, chunk.keyHi[i]!);
        if (seq >= 0) fates.set(seq, 1);
      }
    }
  }
  const flows = index.size;
  const bucket = Int32Array.from({ length: flows }, (_, flow) => flow);
  const told = flows <= mostFlows ? flows * flows : 0;
  const meetings = new Float64Array(told);
  const apart = new Uint8Array(told);
  if (told > 0) {
    // Of each flow, the arrivals that wait and will leave, oldest first.
    const waiting: Fifo[] = Array.from({ length: flows }, () => new Fifo());
    const bytes = new Float64Array(flows);
    const present: number[] = [];
    const again = new PendingByKey();
    let arrivals = 0;
    for await (const chunk of source.chunks()) {
      for (let i = 0; i < chunk.count; i++) {
        if (chunk.t[i]! > untilNs) break;
        const flow = chunk.flow[i]!;
        const size = chunk.size[i]! + 14;
        if (chunk.leaving[i] === 0) {
          const seq = arrivals++;
          again.push(chunk.keyLo[i]!, chunk.keyHi[i]!, seq);
          if (flow === none.i32 || fates.get(seq) === 0) continue;
          const mine = index.get(identity(flow, chunk.forward[i]!))!;
          const own = bytes[mine]! + size;
          for (const other of present) {
            if (other !== mine && bytes[other]! > own + farMoreBytes) meetings[mine < other ? mine * flows + other : other * flows + mine]! += enoughMeetings;
          }
          if (waiting[mine]!.length === 0) present.push(mine);
          waiting[mine]!.push(seq);
          bytes[mine]! += size;
        } else {
          const seq = again.shift(chunk.keyLo[i]!, chunk.keyHi[i]!);
          if (seq < 0 || flow === none.i32) continue;
          const mine = index.get(identity(flow, chunk.forward[i]!))!;
          const own = waiting[mine]!;
          own.remove(seq);
          bytes[mine]! -= size;
          for (const other of present) {
            if (other === mine) continue;
            const [a, b] = mine < other ? [mine, other] : [other, mine];
            meetings[a * flows + b]!++;
            if (waiting[other]!.first < seq) apart[a * flows + b] = 1;
          }
          if (own.length === 0) present.splice(present.indexOf(mine), 1);
        }
      }
    }
    join(bucket, apart, meetings);
  }
  return Buckets.of(index, bucket, apart, meetings, strangers);
}

/** Joins flows that share a queue, those that met most first, never two groups of which any two members are apart. */
function join(bucket: Int32Array, apart: Uint8Array, meetings: Float64Array): void {
  const flows = bucket.length;
  const pairs: { readonly a: number; readonly b: number; readonly met: number }[] = [];
  for (let a = 0; a < flows; a++) {
    for (let b = a + 1; b < flows; b++) {
      const met = meetings[a * flows + b]!;
      if (apart[a * flows + b] === 0 && met >= enoughMeetings) pairs.push({ a, b, met });
    }
  }
  const members = Array.from(bucket, (_, flow) => [flow]);
  for (const { a, b } of pairs.sort((one, other) => other.met - one.met || one.a - other.a || one.b - other.b)) {
    const [into, from] = [bucket[a]!, bucket[b]!];
    if (into === from || members[into]!.some((x) => members[from]!.some((y) => apart[Math.min(x, y) * flows + Math.max(x, y)] === 1))) continue;
    for (const flow of members[from]!) bucket[flow] = into;
    members[into]!.push(...members[from]!);
    members[from] = [];
  }
}

export function nameOf(id: number): string {
  const flow = Math.floor(id / 2);
  return `${flow < 0 ? `probe ${-1 - flow}` : `flow ${flow}`}${id % 2 === 0 ? ' (acknowledgements)' : ''}`;
}

/** Numbers in ascending order of which mostly the first is taken. */
class Fifo {
  private readonly items: number[] = [];
  private from = 0;
  get length(): number { return this.items.length - this.from; }
  get first(): number { return this.items[this.from] ?? Infinity; }
  push(item: number): void { this.items.push(item); }
  remove(item: number): void {
    if (this.items[this.from] === item) this.from++;
    else this.items.splice(this.items.indexOf(item, this.from), 1);
    if (this.from > 1024 && this.from * 2 > this.items.length) {
      this.items.splice(0, this.from);
      this.from = 0;
    }
  }
}
