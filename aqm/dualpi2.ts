/**
 * DualPI2: RFC 9332, as Linux 6.18 has it (net/sched/sch_dualpi2.c; in the kernel since 6.17): an L4S and a Classic
 * queue, one PI controller, its probability squared for Classic and times `coupling_factor` for L4S, a step threshold
 * in the L4S queue, and a weighted round robin that protects Classic.
 * A change keeps the probability and what waits; where that is more than a lower limit allows, the Classic queue's head goes first, then the L4S queue's,
 * counted (as in 7.3; the first versions took from the Classic queue only).
 *
 * Differences from Linux:
 * - truesize is a model (truesize.ts).
 * - Packets are classified by ECN alone: no tc filters, no skb->priority, so nothing is exempt from marking. Nothing is
 *   GSO here: split_gso has no meaning.
 * - (delay − target) × gain is exact below 2^53 (a gain of 1000 Hz and 30 s of delay); the kernel has 64 bits.
 */

import { dualpi2 as qdisc, fromRtt } from '../testbed/qdiscs/dualpi2.js';
import { packetsOf } from '../testbed/qdiscs/schemas.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { NOT_ECT, setCe } from './ecn.js';
import { PacketFifo } from './packet-fifo.js';
import { flag, number, type Params } from './params.js';
import { truesize } from './truesize.js';
import { U32Ring } from './u32-ring.js';

const MAX_PROB = 0xffffffff;

/** dualpi2_scale_alpha_beta(): from 1/256 Hz to units of 64 ns. Exact: done once, in BigInt. */
const scaleGain = (perSecond256: number): number => Number(((BigInt(perSecond256) * BigInt(MAX_PROB)) >> 2n) / 1_000_000_000n);

interface DualPi2Params {
  readonly limit: number;
  readonly memoryLimit: number;
  readonly targetNs: number;
  readonly tupdateNs: number;
  readonly alpha: number;
  readonly beta: number;
  readonly stepPackets: number | null;
  readonly stepNs: number;
  readonly minQlenStep: number;
  readonly coupling: number;
  readonly dropOverload: boolean;
  readonly dropEarly: boolean;
  /** Weight of the Classic queue, per cent. */
  readonly classicWeight: number;
  readonly ecnMask: number;
}

class DualPi2 extends Discipline {
  private readonly classic = new PacketFifo();
  private readonly lowLatency = new PacketFifo();
  /** For every packet in the L queue: may the step threshold mark it? */
  private readonly mayStep = new U32Ring();
  private prob = 0;
  private lastDelay = 0;
  private credit = 0;
  private creditStart = 0;
  private memoryUsed = 0;
  private packetsInC = 0;
  private packetsInL = 0;
  private maxq = 0;
  private stepMarks = 0;

  constructor(context: AqmContext, private params: DualPi2Params, startNs: number) {
    super(context);
    this.protectClassic();
    this.timerNs = startNs + params.tupdateNs;
  }

  /** dualpi2_calculate_c_protection() */
  private protectClassic(): void {
    const { classicWeight } = this.params;
    this.creditStart = this.context.mtuBytes * (classicWeight - (100 - classicWeight));
    this.credit = this.creditStart;
  }

  override change(given: Params, nowNs: number): void {
    this.params = resolve(given, this.context);
    const { limit, memoryLimit } = this.params;
    if (given['classic_protection'] !== undefined) this.protectClassic();
    this.dropWhile(() => this.backlogPackets > limit || this.memoryUsed > memoryLimit, () => {
      const fromClassic = this.classic.packets > 0;
      const packet = fromClassic ? this.classic.shift() : this.lowLatency.shift();
      if (packet === null) return null;
      if (!fromClassic) this.mayStep.shift();
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
      this.memoryUsed -= truesize(packet);
      return packet;
    }, 'limit', nowNs);
  }

  private mark(packet: QueuedPacket): boolean {
    if (!setCe(packet)) return false;
    this.marks++;
    return true;
  }

  private roll(prob: number): boolean {
    return this.context.randomU32() <= prob;
  }
  /** One or two rolls, or what is given instead. @param hidden the packet will be marked anyway */
  private signals(packet: QueuedPacket, prob: number, rolls: 1 | 2, hidden = false): boolean {
    const { chance } = this.context;
    if (chance === undefined) return this.roll(prob) && (rolls === 1 || this.roll(prob));
    return chance.signals(packet, Math.min(1, (prob + 1) / 2 ** 32) ** rolls, hidden);
  }

  /** must_drop(): marks, or says that the packet must go. `inL`: it is in, or bound for, the L queue. `marked`: the step threshold will mark it in any case. */
  private mustDrop(packet: QueuedPacket, inL: boolean, marked: boolean): boolean {
    if (this.backlogBytes < 2 * this.context.mtuBytes) return false;
    const prob = this.prob, probL = prob * this.params.coupling;
    const overload = probL > MAX_PROB;
    if (!inL) {
      if (this.signals(packet, prob, 2)) {
        if (overload || packet.ecn === NOT_ECT) return true;
        this.mark(packet);
      }
      return false;
    }
    if (overload) {
      if (this.params.dropOverload && this.dropsOverload(packet, prob)) return true;
    } else {
      if (!this.signals(packet, probL, 1, marked)) return false;
      if (packet.ecn === NOT_ECT) return true;
    }
    this.mark(packet);
    return false;
  }

  private dropsOverload(packet: QueuedPacket, prob: number): boolean {
    const { chance } = this.context;
    return chance === undefined ? this.roll(prob) && this.roll(prob) : chance.drops(packet, Math.min(1, (prob + 1) / 2 ** 32) ** 2);
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const { params } = this;
    const inL = (packet.ecn & params.ecnMask) !== 0;
    const memory = truesize(packet);
    if (this.backlogPackets >= params.limit || this.memoryUsed + memory > params.memoryLimit) {
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    if (params.dropEarly && this.mustDrop(packet, inL, false)) {
      this.context.drop(packet, 'aqm', nowNs);
      return;
    }
    this.memoryUsed += memory;
    if (this.backlogPackets > this.maxq) this.maxq = this.backlogPackets;
    if (inL) {
      this.mayStep.push(this.lowLatency.packets >= params.minQlenStep ? 1 : 0);
      this.packetsInL++;
      this.lowLatency.push(packet);
    } else {
      this.packetsInC++;
      this.classic.push(packet);
    }
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    const { params } = this;
    for (;;) {
      const cPackets = this.classic.packets, lPackets = this.lowLatency.packets;
      const inL = lPackets > 0 && (cPackets === 0 || this.credit <= 0);
      const packet = inL ? this.lowLatency.shift() : this.classic.shift();
      if (packet === null) {
        this.credit = this.creditStart;
        return null;
      }
      // Turns count only while both queues wait.
      const change = inL ? (cPackets > 0 ? params.classicWeight : 0) : lPackets > 0 ? params.classicWeight - 100 : 0;
      const stepAllowed = inL && this.mayStep.shift() === 1;
      const step = stepAllowed && (params.stepPackets !== null ? this.lowLatency.packets > params.stepPackets : nowNs - packet.enqueueNs > params.stepNs);
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
      this.memoryUsed -= truesize(packet);
      if (!params.dropEarly && this.mustDrop(packet, inL, step && packet.ecn !== NOT_ECT)) {
        this.context.drop(packet, 'aqm', nowNs);
        continue;
      }
      if (step) {
        if (packet.ecn === NOT_ECT) {
          this.context.drop(packet, 'aqm', nowNs);
          continue;
        }
        if (this.mark(packet)) this.stepMarks++;
      }
      this.credit += change * packet.size;
      return packet;
    }
  }

  override tick(nowNs: number): void {
    this.prob = this.nextProb(nowNs);
    this.lastDelay = this.delayAt(nowNs);
    this.timerNs = nowNs + this.params.tupdateNs;
  }
  afterTick(nowNs: number): number {
    return this.nextProb(nowNs) / 2 ** 32;
  }

  /** calculate_probability() */
  private nextProb(nowNs: number): number {
    const { params } = this;
    const delay = this.delayAt(nowNs);
    const delta = (delay - params.targetNs) * params.alpha + (delay - this.lastDelay) * params.beta;
    const old = this.prob;
    let prob: number;
    if (delta > 0) {
      prob = (Math.floor(delta / 64) + old) % 2 ** 32;
      if (prob < old) prob = MAX_PROB;
    } else {
      const lower = Math.floor(-delta / 64) % 2 ** 32;
      prob = old >= lower ? old - lower : 0;
    }
    return params.dropOverload ? prob : Math.min(prob, Math.floor(MAX_PROB / params.coupling));
  }

  /** Of the packet at the head of either queue, the longer. */
  private delayAt(nowNs: number): number {
    return Math.max(this.delayOf(this.classic, nowNs), this.delayOf(this.lowLatency, nowNs));
  }

  private delayOf(queue: PacketFifo, nowNs: number): number {
    return queue.head === null ? 0 : nowNs - queue.head.enqueueNs;
  }

  override readState(into: Float64Array, nowNs: number): void {
    into[0] = this.prob / 2 ** 32;
    into[1] = Math.floor(this.delayOf(this.classic, nowNs) / 1000) * 1000;
    into[2] = Math.floor(this.delayOf(this.lowLatency, nowNs) / 1000) * 1000;
    into[3] = this.packetsInC;
    into[4] = this.packetsInL;
    into[5] = this.stepMarks;
    into[6] = this.credit;
    into[7] = this.memoryUsed;
    into[8] = this.maxq;
  }
}

function resolve(params: Params, context: AqmContext): DualPi2Params {
  const automatic = fromRtt(params);
  const gain = (key: string, scaled: number | undefined, fallback: number): number =>
    scaleGain(scaled ?? (params[key] === undefined ? fallback : Math.floor(Math.fround(number(params, key, 0)) * 256)));
  const wholeUs = (ns: number): number => Math.floor(ns / 1000) * 1000;
  const limit = number(params, 'limit', 10000);
  return {
    limit,
    memoryLimit: number(params, 'memlimit', Math.min(0xffffffff, limit * 2 * context.mtuBytes)),
    targetNs: automatic ? automatic.target * 1000 : wholeUs(number(params, 'target', 15e6)),
    // convert_us_to_nsec(): 32 bits
    tupdateNs: Math.min(0xffffffff, automatic ? automatic.tupdate * 1000 : wholeUs(number(params, 'tupdate', 16e6))),
    alpha: gain('alpha', automatic?.alpha, 41),
    beta: gain('beta', automatic?.beta, 819),
    stepPackets: packetsOf(params['step_thresh']) ?? null,
    stepNs: Math.min(0xffffffff, wholeUs(number(params, 'step_thresh', 1e6))),
    minQlenStep: number(params, 'min_qlen_step', 0),
    coupling: number(params, 'coupling_factor', 2),
    dropOverload: flag(params, 'drop_on_overload', true),
    dropEarly: flag(params, 'drop_enqueue', false),
    classicWeight: Math.round(number(params, 'classic_protection', 0.1) * 100),
    ecnMask: flag(params, 'any_ect', false) ? 3 : 1,
  };
}

export const dualpi2: AqmKind = {
  kind: 'dualpi2',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (params, context, startNs) => new DualPi2(context, resolve(params, context), startNs),
};
