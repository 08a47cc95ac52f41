/**
 * Decision replay: the kernel's arrivals and the instants at which the link asked for a packet go to a queue of aqm/, and every
 * packet it hands out, every drop and every mark must be the kernel's. Where chance decides, ours is given the kernel's decision (chance.ts).
 *
 * What the record shows of the kernel: arrivals, departures in order, and CE marks as a change of a packet's ECN bits. A
 * drop shows as a packet that never leaves; when it happened, the queue samples tell (samples.ts). Under HTB the leaf is
 * asked exactly when a packet leaves: a class whose leaf is empty, or that has no tokens, is not asked (htb_dequeue,
 * net/sched/sch_htb.c), so a departure is all there is to know of when it was asked. TBF looks earlier: peek.ts.
 */

import type { AqmContext, AqmKind, QueueDiscipline } from '../../aqm/aqm.js';
import { PendingByKey } from '../records/match.js';
import { KernelChance, tallyAgrees, type ChanceOutcome } from './chance.js';
import { FirstDisagreement, seenOf, type Disagreement, type PacketSeen } from './disagreement.js';
import type { EventSource } from './events.js';
import type { KernelFates } from './fates.js';
import { Fates, ReplayPackets, type ReplayPacket } from './packet.js';
import { Slips } from './slips.js';
import { SampleJudge, type QueueSamples, type SamplesVerdict } from './samples.js';

const CE = 3;
/** See SampleJudge. */
const laterNs = 200_000;
/** Interrupts of one instant, each of which reads the clock a few times (256 ns). */
const earlierNs = 2_000;
/** Bits of a packet's fate. */
const [WE_SENT, WE_DROPPED, WE_MARKED, KERNEL_SENT, KERNEL_MARKED] = [1, 2, 4, 8, 16] as const;
/** Our clock at run time 0. Far from 0, as the kernel's is: its u32 times are then never taken for "not set". Whole units of 64 ns, of 1024 ns and of jiffies. */
const origin = 108 * 80e6;

/** Sets a packet's flow and host keys. The flow key is the hash in the record before, where there is one. */
export type SetKeys = (packet: ReplayPacket) => void;

export interface ReplayRequest {
  readonly source: EventSource;
  readonly kind: AqmKind;
  readonly params: Readonly<Record<string, number | boolean | string>>;
  readonly mtuBytes: number;
  readonly rateBps: number | null;
  readonly overheadBytes: number;
  readonly keys: SetKeys | null;
  /** Flow keys are the hashes that the kernel chose queues by. */
  readonly placed: boolean;
  /** The queue is under TBF and cannot show a packet without taking it out. */
  readonly peeked: boolean;
  /** The kernel's decisions where chance decides, and the scale of probabilities; null: none is made by chance. */
  readonly chance: { readonly fates: KernelFates; readonly scale: number } | null;
  /** The kernel's monotonic clock at run time 0, modulo what matters: CoDel counts in units of 1024 ns, others in jiffies. */
  readonly phaseNs: number;
  /** When the discipline was made, ns of the run. */
  readonly startNs: number;
  readonly samples: QueueSamples | null;
  readonly tolerances: Readonly<Record<string, number>>;
  /** Departures (by number) at which ours is asked so many ns later than the record says: decisions within a clock step of their threshold. */
  readonly nudges: ReadonlyMap<number, number>;
  /** Updates of the timer, by number, that come only after so many events at or after their time: the kernel's interrupts are now and then late. Negative: before the events of the same instant (`earlierNs`). */
  readonly lateTicks: ReadonlyMap<number, number>;
  /** Column of the samples that shows when each update of the timer came, and so when the next is due; null: it comes every period (slips.ts). */
  readonly slips: string | null;
  /** Decisions by chance that only later departures tell, by number (`ChanceOutcome.taken` counts them): those made as is less likely. */
  readonly otherwise: ReadonlySet<number>;
  /** ns of the run after which nothing is judged. */
  readonly untilNs: number;
  /** Ends at the first disagreement. */
  readonly stopAtFirst: boolean;
}

export interface ReplayOutcome {
  readonly arrivals: number;
  readonly departures: number;
  /** Arrivals that the kernel never sent and that were not waiting at the end. */
  readonly kernelDrops: number;
  readonly ourDrops: number;
  readonly kernelMarks: number;
  readonly ourMarks: number;
  /** Neither sent nor dropped at the end of the record. */
  readonly waiting: number;
  /** Departures at which the two handed out different packets. */
  readonly differentDepartures: number;
  /** Packets that one side sent and the other did not. */
  readonly differentFates: number;
  readonly differentMarks: number;
  /** Left without having been seen entering: the router's own. They are not replayed. */
  readonly own: number;
  readonly first: Disagreement | null;
  readonly samples: SamplesVerdict | null;
  readonly chance: ChanceOutcome | null;
  /** Random numbers that decided something: none, or the replay proves nothing. */
  readonly randomNumbers: number;
}

export const differences = (outcome: ReplayOutcome): number => outcome.differentDepartures + outcome.differentFates + outcome.differentMarks + (outcome.samples?.different ?? 0);
export const agrees = (outcome: ReplayOutcome): boolean => differences(outcome) === 0 && Object.values(outcome.chance?.tallies ?? {}).every(tallyAgrees);

export async function replayDecisions(request: ReplayRequest): Promise<ReplayOutcome> {
  const { kind, phaseNs } = request;
  const packets = new ReplayPackets();
  const fates = new Fates();
  const pending = new PendingByKey();
  const originNs = origin + phaseNs;
  let ourDrops = 0, randomNumbers = 0;
  const chance = request.chance === null ? undefined : new KernelChance(request.chance.fates, request.chance.scale, request.otherwise, request.placed);
  const context: AqmContext = {
    chance,
    randomU32: () => {
      randomNumbers++;
      return 0;
    },
    drop: (packet, why) => {
      const dropped = packet as ReplayPacket; // only ours are ever enqueued
      fates.set(dropped.seq, WE_DROPPED);
      ourDrops++;
      if (why === 'limit') chance?.full(packet);
      packets.give(dropped);
    },
    mtuBytes: request.mtuBytes + 14,
    rateBps: request.rateBps,
  };
  const queue: QueueDiscipline = kind.create(request.params, context, originNs + request.startNs);
  let ticks = 0, eventsSinceDue = 0, due = -1;
  const slips = request.slips === null || request.samples === null ? null : new Slips(queue, request.samples, request.slips, originNs);
  const advance = (toNs: number): void => {
    for (;;) {
      const late = request.lateTicks.get(ticks) ?? 0;
      if (queue.timerNs - (late < 0 ? earlierNs : 0) > toNs) return;
      if (due !== ticks) [due, eventsSinceDue] = [ticks, 0];
      if (eventsSinceDue < late) return;
      const tickNs = slips === null ? queue.timerNs : slips.next(toNs);
      if (tickNs === null) return;
      ticks++;
      queue.tick(tickNs);
    }
  };
  randomNumbers = 0; // those of its creation perturb hashes, which the keys allow for
  const judge = request.samples === null ? null : new SampleJudge(request.samples, queue, kind.state, request.tolerances, originNs, laterNs, earlierNs, () => ourDrops, advance);
  const first = new FirstDisagreement(kind, queue, originNs, () => ourDrops, judge);
  const arrivals = new LastArrivals();
  let departures = 0, ownPackets = 0, differentDepartures = 0, differentMarks = 0, kernelMarks = 0, ourMarks = 0;
  let lastNs = 0;

  events: for await (const chunk of request.source.chunks()) {
    for (let i = 0; i < chunk.count; i++) {
      const tNs = chunk.t[i]!;
      if (tNs > request.untilNs || (request.chance !== null && fates.length >= request.chance.fates.decided)) break events;
      lastNs = tNs;
      judge?.before(tNs);
      const nowNs = tNs + originNs;
      advance(nowNs);
      eventsSinceDue++;
      const [lo, hi, ecn] = [chunk.keyLo[i]!, chunk.keyHi[i]!, chunk.ecn[i]!];
      if (chunk.leaving[i] === 0) {
        const packet = packets.take();
        packet.seq = fates.add();
        packet.keyLo = lo;
        packet.keyHi = hi;
        packet.size = chunk.size[i]! + request.overheadBytes;
        packet.flow = chunk.flow[i]!;
        packet.forward = chunk.forward[i] === 1;
        packet.ecn = ecn;
        packet.tNs = tNs;
        packet.flowHash = chunk.hash === null ? 0 : chunk.hash[i]!;
        request.keys?.(packet);
        arrivals.push(packet);
        pending.push(lo, hi, packet.seq);
        queue.enqueue(packet, nowNs);
        if (request.peeked) queue.peek(nowNs);
        continue;
      }
      const sent = pending.shift(lo, hi);
      if (sent < 0) {
        ownPackets++;
        continue;
      }
      fates.set(sent, KERNEL_SENT);
      if (chance !== undefined) chance.expect(chunk.flow[i]!, chunk.forward[i]!);
      const ours = queue.dequeuePeeked(nowNs + (request.nudges.get(departures) ?? 0)) as ReplayPacket | null; // only ours are ever enqueued
      if (ours === null || ours.keyLo !== lo || ours.keyHi !== hi) {
        differentDepartures++;
        first.note(tNs, departures, ours === null ? 'the kernel sent a packet, ours had none to send' : 'the kernel sent another packet than ours', arrivals.seen(sent), ours === null ? null : seenOf(ours));
      } else if (ours.ecn !== ecn) {
        differentMarks++;
        first.note(tNs, departures, ecn === CE ? 'the kernel marked a packet, ours did not' : 'ours marked a packet, the kernel did not', arrivals.seen(sent), seenOf(ours));
      }
      if (ecn === CE && arrivals.ecn(sent) !== CE) { kernelMarks++; fates.set(sent, KERNEL_MARKED); }
      if (ours !== null && ours.seq !== sent && ours.keyLo === lo && ours.keyHi === hi) {
        // Two packets that nothing tells apart (resets that answer a closed flow are such): which of them the kernel sent is a matter of names.
        if ((fates.get(sent) & WE_DROPPED) !== 0) {
          fates.clear(sent, WE_DROPPED);
          fates.set(ours.seq, WE_DROPPED);
        }
        ours.seq = sent;
      }
      if (ours !== null) {
        fates.set(ours.seq, WE_SENT | (ours.marked ? WE_MARKED : 0));
        if (ours.marked) ourMarks++;
        packets.give(ours);
      }
      if (request.peeked) queue.peek(nowNs);
      departures++;
      if (first.found !== null && request.stopAtFirst) break events;
    }
  }
  const samples = judge?.finish(request.chance === null ? request.untilNs : Math.min(request.untilNs, lastNs)) ?? null;
  let differentFates = 0, waiting = 0, neverSent = 0;
  for (let seq = 0; seq < fates.length; seq++) {
    const fate = fates.get(seq);
    if ((fate & KERNEL_SENT) === 0) {
      neverSent++;
      if ((fate & WE_SENT) !== 0) differentFates++;
      else if ((fate & WE_DROPPED) === 0) waiting++;
    } else if ((fate & WE_DROPPED) !== 0) {
      differentFates++;
    }
  }
  return {
    arrivals: fates.length, departures, kernelDrops: neverSent - waiting, ourDrops, kernelMarks, ourMarks, waiting, differentDepartures, differentFates, differentMarks,
    own: ownPackets, first: first.found, samples, chance: chance?.outcome() ?? null,
    // With chance in the kernel's hands, what is still drawn (RED's number) decides nothing.
    randomNumbers: chance === undefined ? randomNumbers : 0,
  };
}

/** What a disagreement is told with: the last arrivals, in a ring. */
class LastArrivals {
  private static readonly kept = 1 << 16;
  private readonly t = new Float64Array(LastArrivals.kept);
  private readonly size = new Uint32Array(LastArrivals.kept);
  private readonly flow = new Int32Array(LastArrivals.kept);
  private readonly direction = new Uint8Array(LastArrivals.kept);
  private readonly ecnBits = new Uint8Array(LastArrivals.kept);
  push(packet: ReplayPacket): void {
    const at = packet.seq % LastArrivals.kept;
    this.t[at] = packet.tNs;
    this.size[at] = packet.size;
    this.flow[at] = packet.flow;
    this.direction[at] = packet.forward ? 1 : 0;
    this.ecnBits[at] = packet.ecn;
  }
  /** Codepoint on arrival. */
  ecn(seq: number): number { return this.ecnBits[seq % LastArrivals.kept]!; }
  seen(seq: number): PacketSeen {
    const at = seq % LastArrivals.kept;
    return { seq, flow: this.flow[at]!, forward: this.direction[at] === 1, sizeBytes: this.size[at]!, arrivedNs: this.t[at]! };
  }
}
