/**
 * Decision replay of a discipline that draws no random numbers: the kernel's arrivals and the instants at which the
 * link asked for a packet go to a queue of aqm/, and every packet it hands out, every drop and every mark must be the
 * kernel's.
 *
 * What the record shows of the kernel: arrivals, departures in order, and CE marks as a change of a packet's ECN bits. A
 * drop shows as a packet that never leaves; when it happened, the queue samples tell (samples.ts). Under HTB the leaf is
 * asked exactly when a packet leaves: a class whose leaf is empty, or that has no tokens, is not asked (htb_dequeue,
 * net/sched/sch_htb.c), so a departure is all there is to know of when it was asked.
 */

import type { AqmContext, AqmKind, QueueDiscipline } from '../../aqm/aqm.js';
import { PendingByKey } from '../records/match.js';
import type { EventSource } from './events.js';
import { Fates, ReplayPackets, type ReplayPacket } from './packet.js';
import { SampleJudge, type QueueSamples, type SamplesVerdict } from './samples.js';

const CE = 3;
/** See SampleJudge. */
const laterNs = 200_000;
/** Bits of a packet's fate. */
const [WE_SENT, WE_DROPPED, WE_MARKED, KERNEL_SENT, KERNEL_MARKED] = [1, 2, 4, 8, 16] as const;

export interface ExactRequest {
  readonly source: EventSource;
  readonly kind: AqmKind;
  readonly params: Readonly<Record<string, number | boolean | string>>;
  readonly mtuBytes: number;
  readonly rateBps: number | null;
  readonly overheadBytes: number;
  /** Flow key of a packet. */
  readonly flowHash: (flow: number, forward: number) => number;
  /** The kernel's monotonic clock at run time 0, modulo 1024 ns: CoDel counts in units of it. */
  readonly phaseNs: number;
  readonly samples: QueueSamples | null;
  readonly tolerances: Readonly<Record<string, number>>;
  /** Departures (by number) at which ours is asked so many ns later than the record says: decisions within a clock step of their threshold. */
  readonly nudges: ReadonlyMap<number, number>;
  /** ns of the run after which nothing is judged. */
  readonly untilNs: number;
  /** Ends at the first disagreement. */
  readonly stopAtFirst: boolean;
}

/** One packet of a disagreement, as the record has it. */
export interface PacketSeen { readonly seq: number; readonly flow: number; readonly forward: boolean; readonly sizeBytes: number; readonly arrivedNs: number }
export interface Disagreement {
  /** ns of the run. */
  readonly tNs: number;
  /** Departures before it that agreed. */
  readonly after: number;
  readonly what: string;
  readonly kernel: PacketSeen | null;
  readonly ours: PacketSeen | null;
  readonly ourState: Readonly<Record<string, number>>;
  /** The kernel's last sample before it. */
  readonly kernelSample: Readonly<Record<string, number>> | null;
}

export interface ExactOutcome {
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
  /** Random numbers that the discipline asked for: none, or the replay proves nothing. */
  readonly randomNumbers: number;
}

export async function replayExactly(request: ExactRequest): Promise<ExactOutcome> {
  const { kind, phaseNs } = request;
  const packets = new ReplayPackets();
  const fates = new Fates();
  const pending = new PendingByKey();
  let ourDrops = 0, randomNumbers = 0;
  const context: AqmContext = {
    randomU32: () => {
      randomNumbers++;
      return 0;
    },
    drop: (packet) => {
      const dropped = packet as ReplayPacket; // only ours are ever enqueued
      fates.set(dropped.seq, WE_DROPPED);
      ourDrops++;
      packets.give(dropped);
    },
    mtuBytes: request.mtuBytes + 14,
    rateBps: request.rateBps,
  };
  // Far from 0, as the kernel's clock is: its u32 times are then never taken for "not set".
  const originNs = 2 ** 33 + phaseNs;
  const queue: QueueDiscipline = kind.create(request.params, context, originNs);
  const advance = (nowNs: number): void => { while (queue.timerNs <= nowNs) queue.tick(queue.timerNs); };
  randomNumbers = 0; // those of its creation perturb hashes, which `flowHash` allows for
  const judge = request.samples === null ? null : new SampleJudge(request.samples, queue, kind.state, request.tolerances, originNs, laterNs, () => ourDrops, advance);
  const arrivals: PacketTimes = new PacketTimes();
  let departures = 0, own = 0, differentDepartures = 0, differentMarks = 0, kernelMarks = 0, ourMarks = 0;
  let first: Disagreement | null = null;
  const disagree = (tNs: number, what: string, kernel: number, ours: ReplayPacket | null): void => {
    if (first !== null) return;
    const state = new Float64Array(kind.state.length);
    queue.readState(state, tNs + originNs);
    first = {
      tNs, after: departures, what, kernel: arrivals.seen(kernel), ours: ours === null ? null : { seq: ours.seq, flow: ours.flow, forward: ours.forward, sizeBytes: ours.size, arrivedNs: ours.tNs },
      ourState: { backlog_packets: queue.backlogPackets, backlog_bytes: queue.backlogBytes, drops: ourDrops, marks: queue.marks, ...Object.fromEntries(kind.state.map((name, i) => [name, state[i]!])) },
      kernelSample: judge?.latest(tNs) ?? null,
    };
  };

  events: for await (const chunk of request.source.chunks()) {
    for (let i = 0; i < chunk.count; i++) {
      const tNs = chunk.t[i]!;
      if (tNs > request.untilNs) break events;
      judge?.before(tNs);
      const nowNs = tNs + originNs;
      advance(nowNs);
      const [lo, hi, ecn] = [chunk.keyLo[i]!, chunk.keyHi[i]!, chunk.ecn[i]!];
      if (chunk.leaving[i] === 0) {
        const packet = packets.take();
        packet.seq = fates.add();
        packet.keyLo = lo;
        packet.keyHi = hi;
        packet.size = chunk.size[i]! + request.overheadBytes;
        packet.flow = chunk.flow[i]!;
        packet.forward = chunk.forward[i] === 1;
        packet.flowHash = request.flowHash(packet.flow, chunk.forward[i]!);
        packet.ecn = ecn;
        packet.tNs = tNs;
        arrivals.push(packet);
        pending.push(lo, hi, packet.seq);
        queue.enqueue(packet, nowNs);
        continue;
      }
      const sent = pending.shift(lo, hi);
      if (sent < 0) {
        own++;
        continue;
      }
      fates.set(sent, KERNEL_SENT);
      const ours = queue.dequeue(nowNs + (request.nudges.get(departures) ?? 0)) as ReplayPacket | null; // only ours are ever enqueued
      if (ours === null || ours.keyLo !== lo || ours.keyHi !== hi) {
        differentDepartures++;
        disagree(tNs, ours === null ? 'the kernel sent a packet, ours had none to send' : 'the kernel sent another packet than ours', sent, ours);
      } else {
        if (ours.ecn !== ecn) {
          differentMarks++;
          disagree(tNs, ecn === CE ? 'the kernel marked a packet, ours did not' : 'ours marked a packet, the kernel did not', sent, ours);
        }
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
      departures++;
      if (first !== null && request.stopAtFirst) break events;
    }
  }
  const samples = judge?.finish(request.untilNs) ?? null;
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
    arrivals: fates.length, departures, kernelDrops: neverSent - waiting, ourDrops, kernelMarks, ourMarks, waiting, differentDepartures, differentFates, differentMarks, own, first, samples, randomNumbers,
  };
}

/** What a disagreement is told with: the last arrivals, in a ring. */
class PacketTimes {
  private static readonly kept = 1 << 16;
  private readonly t = new Float64Array(PacketTimes.kept);
  private readonly size = new Uint32Array(PacketTimes.kept);
  private readonly flow = new Int32Array(PacketTimes.kept);
  private readonly direction = new Uint8Array(PacketTimes.kept);
  private readonly ecnBits = new Uint8Array(PacketTimes.kept);
  push(packet: ReplayPacket): void {
    const at = packet.seq % PacketTimes.kept;
    this.t[at] = packet.tNs;
    this.size[at] = packet.size;
    this.flow[at] = packet.flow;
    this.direction[at] = packet.forward ? 1 : 0;
    this.ecnBits[at] = packet.ecn;
  }
  /** Codepoint on arrival. */
  ecn(seq: number): number { return this.ecnBits[seq % PacketTimes.kept]!; }
  seen(seq: number): PacketSeen {
    const at = seq % PacketTimes.kept;
    return { seq, flow: this.flow[at]!, forward: this.direction[at] === 1, sizeBytes: this.size[at]!, arrivedNs: this.t[at]! };
  }
}
