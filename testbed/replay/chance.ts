/**
 * Decision replay of a FIFO that decides at arrival with random numbers (RED, PIE). Which number the kernel drew is not
 * known, what it did is: so ours is given the kernel's decision wherever chance decides, follows the kernel's path in
 * everything else, and says which probability each packet faced.
 *
 * - Where chance does not decide (a full queue, an average beyond max, a burst allowance), every decision must be the kernel's.
 * - Where it does, the kernel's decisions are independent given the probabilities, so their number has the mean sum(p) and
 *   the variance sum(p (1 − p)) (a Poisson binomial; a martingale, as p depends on the past). It must lie within 3.29
 *   standard deviations (99.9 % of runs do), also among the packets of each decile of the probabilities' range, there
 *   within 4.06 (99.995 %, so 99.95 % for ten together).
 */

import type { AqmContext, AqmKind, QueueDiscipline } from '../../aqm/aqm.js';
import { PendingByKey } from '../records/match.js';
import type { EventSource } from './events.js';
import type { Disagreement } from './exact.js';
import { Fates, ReplayPackets, type ReplayPacket } from './packet.js';
import { SampleJudge, type QueueSamples, type SamplesVerdict } from './samples.js';

/** A queue whose chance is in our hands. */
export interface SteeredQueue {
  readonly queue: QueueDiscipline;
  /** What chance decides at the next arrival, should it be asked. */
  steer(signal: boolean): void;
  /** The probability of a signal that the last arrival faced; NaN where chance was not asked. */
  faced(): number;
}
export type Steer = (kind: AqmKind, params: Readonly<Record<string, number | boolean | string>>, context: Omit<AqmContext, 'randomU32'>, startNs: number) => SteeredQueue;

export interface ChanceRequest {
  readonly source: EventSource;
  readonly kind: AqmKind;
  readonly params: Readonly<Record<string, number | boolean | string>>;
  readonly steer: Steer;
  readonly mtuBytes: number;
  readonly rateBps: number | null;
  readonly overheadBytes: number;
  /** When the discipline was made, on its own clock whose run time 0 is `originNs`. */
  readonly startNs: number;
  readonly samples: QueueSamples | null;
  readonly tolerances: Readonly<Record<string, number>>;
  /** Updates of the timer, by number, that come only after so many events at or after their time: the kernel's interrupts are now and then late. */
  readonly lateTicks: ReadonlyMap<number, number>;
  /** ns of the run at which to stop; Infinity: at its end. */
  readonly untilNs: number;
  readonly fates: KernelFates;
}
export const originNs = 2 ** 30;

export interface ChanceOutcome {
  readonly arrivals: number;
  readonly departures: number;
  readonly kernelDrops: number;
  readonly kernelMarks: number;
  /** Arrivals that chance decided on. */
  readonly chances: number;
  /** Signals (drops and marks) of the kernel among them, and what the probabilities add up to. */
  readonly signals: number;
  readonly expected: number;
  /** Standard deviation of that number. */
  readonly deviation: number;
  /** (signals − expected) / deviation */
  readonly z: number;
  /** The largest of the same by decile of the probabilities. */
  readonly worstDecileZ: number;
  /** Decisions without chance that differ, and departures that do. */
  readonly different: number;
  /** Dropped where both chance and a full queue may have been the reason. */
  readonly undecidable: number;
  readonly own: number;
  readonly first: Disagreement | null;
  readonly samples: SamplesVerdict | null;
}

/** See SampleJudge. */
const laterNs = 200_000;
const [SENT, MARKED] = [1, 2] as const;
const CE = 3;
export interface KernelFates { readonly fates: Fates; /** Arrivals from here on may still wait at the end. */ readonly decided: number }

/** What the kernel did with each arrival of a FIFO: whatever arrived before the last one that left, and did not leave, was dropped. */
export async function kernelFates(source: EventSource): Promise<KernelFates> {
  const fates = new Fates();
  const pending = new PendingByKey();
  const arrivedCe = new Fates();
  let decided = 0;
  for await (const chunk of source.chunks()) {
    for (let i = 0; i < chunk.count; i++) {
      if (chunk.leaving[i] === 0) {
        const seq = fates.add();
        arrivedCe.add();
        if (chunk.ecn[i] === CE) arrivedCe.set(seq, 1);
        pending.push(chunk.keyLo[i]!, chunk.keyHi[i]!, seq);
        continue;
      }
      // Of packets that nothing tells apart, one that arrived before what has left already cannot be the one that leaves now: it was dropped.
      let seq = pending.shift(chunk.keyLo[i]!, chunk.keyHi[i]!);
      while (seq >= 0 && seq < decided) seq = pending.shift(chunk.keyLo[i]!, chunk.keyHi[i]!);
      if (seq < 0) continue;
      fates.set(seq, SENT | (chunk.ecn[i] === CE && arrivedCe.get(seq) === 0 ? MARKED : 0));
      decided = Math.max(decided, seq + 1);
    }
  }
  return { fates, decided };
}

export async function replayByChance(request: ChanceRequest): Promise<ChanceOutcome> {
  const { kind } = request;
  const packets = new ReplayPackets();
  const pending = new PendingByKey();
  let drops = 0, reason = '';
  let dropped: ReplayPacket | null = null;
  const steered = request.steer(kind, request.params, {
    drop: (packet, why) => {
      dropped = packet as ReplayPacket; // only ours are ever enqueued
      reason = why;
      drops++;
    },
    mtuBytes: request.mtuBytes + 14, rateBps: request.rateBps,
  }, request.startNs);
  const { queue } = steered;
  let ticks = 0, eventsSinceDue = 0, due = -1;
  const advance = (nowNs: number): void => {
    while (queue.timerNs <= nowNs) {
      if (due !== ticks) [due, eventsSinceDue] = [ticks, 0];
      if (eventsSinceDue < (request.lateTicks.get(ticks) ?? 0)) return;
      ticks++;
      queue.tick(queue.timerNs);
    }
  };
  const judge = request.samples === null ? null : new SampleJudge(request.samples, queue, kind.state, request.tolerances, originNs, laterNs, () => drops, advance);
  let seq = 0, departures = 0, own = 0, different = 0, undecidable = 0, kernelDrops = 0, kernelMarks = 0;
  const bins = Array.from({ length: 10 }, () => ({ n: 0, signals: 0, expected: 0, variance: 0 }));
  let lastNs = 0;
  let first: Disagreement | null = null;
  const disagree = (tNs: number, what: string, packet: ReplayPacket | null): void => {
    different++;
    if (first !== null) return;
    const state = new Float64Array(kind.state.length);
    queue.readState(state, tNs + originNs);
    const seen = packet === null ? null : { seq: packet.seq, flow: packet.flow, forward: packet.forward, sizeBytes: packet.size, arrivedNs: packet.tNs };
    first = {
      tNs, after: departures, what, kernel: seen, ours: seen,
      ourState: { backlog_packets: queue.backlogPackets, backlog_bytes: queue.backlogBytes, drops, marks: queue.marks, probability: steered.faced(), ...Object.fromEntries(kind.state.map((name, i) => [name, state[i]!])) },
      kernelSample: judge?.latest(tNs) ?? null,
    };
  };
  events: for await (const chunk of request.source.chunks()) {
    for (let i = 0; i < chunk.count; i++) {
      const tNs = chunk.t[i]!;
      if (tNs > request.untilNs || seq >= request.fates.decided) break events;
      lastNs = tNs;
      judge?.before(tNs);
      const nowNs = tNs + originNs;
      advance(nowNs);
      eventsSinceDue++;
      const [lo, hi] = [chunk.keyLo[i]!, chunk.keyHi[i]!];
      if (chunk.leaving[i] === 1) {
        if (pending.shift(lo, hi) < 0) {
          own++;
          continue;
        }
        const ours = queue.dequeue(nowNs) as ReplayPacket | null; // only ours are ever enqueued
        if (ours === null || ours.keyLo !== lo || ours.keyHi !== hi) disagree(tNs, 'the kernel sent another packet than ours', ours);
        if (ours !== null) packets.give(ours);
        departures++;
        continue;
      }
      const packet = packets.take();
      packet.seq = seq++;
      packet.keyLo = lo;
      packet.keyHi = hi;
      packet.size = chunk.size[i]! + request.overheadBytes;
      packet.flow = chunk.flow[i]!;
      packet.forward = chunk.forward[i] === 1;
      packet.ecn = chunk.ecn[i]!;
      packet.tNs = tNs;
      const fate = request.fates.fates.get(packet.seq);
      const [sent, marked] = [(fate & SENT) !== 0, (fate & MARKED) !== 0];
      if (sent) pending.push(lo, hi, packet.seq);
      else kernelDrops++;
      if (marked) kernelMarks++;
      dropped = null;
      steered.steer(!sent || marked);
      queue.enqueue(packet, nowNs);
      const probability = steered.faced();
      const weDropped = dropped !== null;
      if (weDropped && !sent && reason === 'limit' && !Number.isNaN(probability)) {
        undecidable++;
      } else if (!Number.isNaN(probability)) {
        const bin = bins[Math.min(9, Math.floor(probability * 10 / scale(kind)))]!;
        bin.n++;
        bin.expected += probability;
        bin.variance += probability * (1 - probability);
        if (!sent || marked) bin.signals++;
      }
      if (weDropped === sent) disagree(tNs, sent ? `ours dropped a packet (${reason}) that the kernel took` : 'the kernel dropped a packet that ours took', packet);
      else if (sent && packet.marked !== marked) disagree(tNs, marked ? 'the kernel marked a packet, ours did not' : 'ours marked a packet, the kernel did not', packet);
      if (weDropped) packets.give(packet);
    }
  }
  const total = bins.reduce((sum, bin) => ({ n: sum.n + bin.n, signals: sum.signals + bin.signals, expected: sum.expected + bin.expected, variance: sum.variance + bin.variance }));
  const z = (bin: { signals: number; expected: number; variance: number }): number => {
    const difference = bin.signals - bin.expected;
    return bin.variance > 1e-9 ? difference / Math.sqrt(bin.variance) : Math.abs(difference) < 1e-6 ? 0 : difference * Infinity;
  };
  return {
    arrivals: seq, departures, kernelDrops, kernelMarks, chances: total.n, signals: total.signals, expected: total.expected, deviation: Math.sqrt(total.variance), z: z(total),
    // A decile with few expected signals is no normal distribution: left to the total.
    worstDecileZ: bins.filter((bin) => bin.variance >= 10).map(z).reduce((worst, one) => (Math.abs(one) > Math.abs(worst) ? one : worst), 0),
    different, undecidable, own, first, samples: judge?.finish(Math.min(request.untilNs, lastNs)) ?? null,
  };
}

/** Deciles are of 0 … this. */
const scale = (kind: AqmKind): number => (kind.kind === 'red' ? 1 : 0.25);
