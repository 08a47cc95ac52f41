/** What the kernel did with each arrival: known beforehand to a replay that follows its decisions by chance. */

import { PendingByKey } from '../records/match.js';
import type { EventSource } from './events.js';
import { Fates } from './packet.js';

/** MATCHED, TAKEN: of packets that never left CHOKe (matches.ts). */
export const [SENT, MARKED, ARRIVED_CE, MATCHED, TAKEN] = [1, 2, 4, 8, 16] as const;
const CE = 3;
/** What has not left so long before the end of the record never will. */
const longestWaitNs = 2e9;

/** `fates`: bits of the above by order of arrival. `decided`: arrivals from here on may still wait at the end. */
export interface KernelFates { readonly fates: Fates; readonly decided: number }

/**
 * @param hashed queues are chosen by the hash that the record holds: packets of one hash are in one queue. Else those of one flow are
 * @param untilNs departures after it decide nothing: at its end a run cuts its flows, and the resets that answer take another queue
 * @param fifo the whole queue is one: whatever arrived before one that left, and did not leave, was dropped. Else that holds of each flow's (or hash's) packets with ECN, and of those without.
 */
export async function kernelFates(source: EventSource, fifo: boolean, hashed: boolean, untilNs: number): Promise<KernelFates> {
  const fates = new Fates();
  const pending = new PendingByKey();
  const flows = new Map<number, Undecided>();
  let lastNs = 0;
  for await (const chunk of source.chunks()) {
    for (let i = 0; i < chunk.count; i++) {
      lastNs = chunk.t[i]!;
      // DualPI2 has a queue for packets with ECN; marking leaves them with it.
      const flow = fifo ? 0 : (hashed ? chunk.hash![i]! : chunk.flow[i]! * 2 + chunk.forward[i]!) * 2 + (chunk.ecn[i] === 0 ? 0 : 1);
      let undecided = flows.get(flow);
      if (undecided === undefined) flows.set(flow, undecided = new Undecided());
      if (chunk.leaving[i] === 0) {
        const seq = fates.add();
        if (chunk.ecn[i] === CE) fates.set(seq, ARRIVED_CE);
        pending.push(chunk.keyLo[i]!, chunk.keyHi[i]!, seq);
        undecided.add(seq, lastNs);
        continue;
      }
      // Of packets that nothing tells apart, one that arrived before what has left already cannot be the one that leaves now: it was dropped.
      let seq = pending.shift(chunk.keyLo[i]!, chunk.keyHi[i]!);
      while (seq >= 0 && seq < undecided.first) seq = pending.shift(chunk.keyLo[i]!, chunk.keyHi[i]!);
      if (seq < 0) continue;
      fates.set(seq, SENT | (chunk.ecn[i] === CE && (fates.get(seq) & ARRIVED_CE) === 0 ? MARKED : 0));
      if (lastNs <= untilNs) undecided.departed(seq);
    }
  }
  let decided = fates.length;
  for (const undecided of flows.values()) decided = Math.min(decided, undecided.since(Math.min(lastNs, untilNs) - longestWaitNs));
  return { fates, decided };
}

/** Arrivals of a FIFO after the latest of those that left. */
class Undecided {
  private seqs: number[] = [];
  private times: number[] = [];
  private from = 0;
  /** Whatever arrived before this one has left or was dropped. */
  first = 0;

  add(seq: number, tNs: number): void {
    this.seqs.push(seq);
    this.times.push(tNs);
  }
  departed(seq: number): void {
    if (seq < this.first) return;
    this.first = seq + 1;
    while (this.from < this.seqs.length && this.seqs[this.from]! <= seq) this.from++;
    if (this.from < 1024 || this.from * 2 < this.seqs.length) return;
    this.seqs = this.seqs.slice(this.from);
    this.times = this.times.slice(this.from);
    this.from = 0;
  }
  /** The first that arrived at `tNs` or later; Infinity: none. */
  since(tNs: number): number {
    for (let at = this.from; at < this.seqs.length; at++) if (this.times[at]! >= tNs) return this.seqs[at]!;
    return Infinity;
  }
}
