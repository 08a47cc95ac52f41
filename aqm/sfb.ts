/**
 * SFB, stochastic fair BLUE: Feng, Kandlur, Saha, Shin, U. Michigan CSE-TR-387-99 (1999), as Linux 6.12 has it
 * (net/sched/sch_sfb.c): 8 levels of 16 bins, each with BLUE's marking probability in 1/65536; a flow's probability
 * is the smallest of its bins; flows at 1 are limited to `penalty_rate`. In front of a pfifo of `limit` packets.
 * A change starts anew: sfb_change() zeroes the bins, draws new perturbations and drops what waits in the old pfifo.
 *
 * Differences from Linux:
 * - The hash mixes the packet's flow key with seeded perturbations (integer.ts) instead of SipHash over its addresses.
 * - Defaults are tc's, which differ from the kernel's own (increment 33 and decrement 3 in 65536).
 */

import { sfb as qdisc, sizes } from '../testbed/qdiscs/sfb.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { NOT_ECT, setCe } from './ecn.js';
import { TX_QUEUE_PACKETS } from './fifo.js';
import { perturbHash } from './integer.js';
import { jiffiesNs, timeoutNs } from './jiffies.js';
import { PacketFifo } from './packet-fifo.js';
import { number, type Params } from './params.js';
import { U32Ring } from './u32-ring.js';

const LEVELS = 8, BINS = 16, MAX_PROB = 0xffff;

class Bins {
  readonly qlen = new Uint16Array(LEVELS * BINS);
  readonly pMark = new Uint16Array(LEVELS * BINS);
  perturbation = 0;

  add(hash: number, change: 1 | -1): void {
    for (let level = 0; level < LEVELS; level++) {
      const at = level * BINS + ((hash >>> (4 * level)) & 15);
      const qlen = this.qlen[at]! + change;
      if (qlen >= 0 && qlen <= 0xffff) this.qlen[at] = qlen;
    }
  }
  /** A zero would mean "not hashed". */
  hash(flowHash: number): number {
    return perturbHash(flowHash, this.perturbation) || 1;
  }
}

class Sfb extends Discipline {
  private readonly queue = new PacketFifo();
  private readonly bins = [new Bins(), new Bins()] as const;
  /** Hashes of every waiting packet in both sets of bins; 0: not counted there. */
  private readonly hashes = [new U32Ring(), new U32Ring()] as const;
  private limit = 0;
  private max = 0;
  private binSize = 0;
  private increment = 0;
  private decrement = 0;
  private penaltyRate = 0;
  private penaltyBurst = 0;
  private rehashIntervalNs = 0;
  private warmupNs = 0;
  private slot: 0 | 1 = 0;
  private doubleBuffering = false;
  private rehashNs = 0;
  private tokens = 0;
  private tokenNs = 0;
  private minQlen = 0;
  private minProb = 0;

  private earlydrop = 0;
  private penaltydrop = 0;
  private bucketdrop = 0;
  private queuedrop = 0;

  constructor(context: AqmContext, params: Params, startNs: number) {
    super(context);
    this.set(params, startNs);
  }

  /** sfb_change() */
  private set(params: Params, nowNs: number): void {
    const { max, target } = sizes(params);
    const units = (key: string, fallback: number) => (params[key] === undefined ? fallback : Math.floor(number(params, key, 0) * MAX_PROB + 0.5));
    this.limit = number(params, 'limit', TX_QUEUE_PACKETS);
    this.max = max;
    this.binSize = target;
    this.increment = units('increment', 33);
    this.decrement = units('decrement', 3);
    this.penaltyRate = number(params, 'penalty_rate', 10);
    this.penaltyBurst = number(params, 'penalty_burst', 20);
    this.rehashIntervalNs = timeoutNs(number(params, 'rehash', 600e9));
    this.warmupNs = timeoutNs(number(params, 'db', 60e9));
    this.rehashNs = jiffiesNs(nowNs);
    this.tokens = this.penaltyBurst;
    this.tokenNs = jiffiesNs(nowNs);
    this.slot = 0;
    this.doubleBuffering = false;
    for (const bins of this.bins) {
      bins.qlen.fill(0);
      bins.pMark.fill(0);
      bins.perturbation = this.context.randomU32();
    }
  }

  override change(params: Params, nowNs: number): void {
    for (let packet = this.dequeue(); packet !== null; packet = this.dequeue()) this.context.drop(packet, 'limit', nowNs);
    this.set(params, nowNs);
  }

  /** BLUE on the flow's eight bins; leaves their smallest length and probability in minQlen and minProb. */
  private updateBins(bins: Bins, hash: number): void {
    let minQlen = 0xffffffff, minProb = 0xffffffff;
    for (let level = 0; level < LEVELS; level++) {
      const at = level * BINS + ((hash >>> (4 * level)) & 15);
      const qlen = bins.qlen[at]!;
      let prob = bins.pMark[at]!;
      if (qlen === 0) prob = prob > this.decrement ? prob - this.decrement : 0;
      else if (qlen >= this.binSize) prob = Math.min(MAX_PROB, prob + this.increment);
      bins.pMark[at] = prob;
      if (qlen < minQlen) minQlen = qlen;
      if (prob < minProb) minProb = prob;
    }
    this.minQlen = minQlen;
    this.minProb = minProb;
  }

  /** sfb_rate_limit(): true when an inelastic flow may not send now. */
  private overPenaltyRate(exactNs: number): boolean {
    const nowNs = jiffiesNs(exactNs);
    if (this.penaltyRate === 0 || this.penaltyBurst === 0) return true;
    if (this.tokens < 1) {
      const age = Math.min(10e9, nowNs - this.tokenNs);
      this.tokens = Math.min(this.penaltyBurst, Math.floor((age * this.penaltyRate) / 1e9));
      this.tokenNs = nowNs;
      if (this.tokens < 1) return true;
    }
    this.tokens--;
    return false;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    if (this.backlogPackets >= this.limit) {
      this.queuedrop++;
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    if (this.rehashIntervalNs > 0) {
      const jiffies = jiffiesNs(nowNs);
      const due = this.rehashNs + this.rehashIntervalNs;
      if (jiffies > due) {
        this.bins[this.slot].perturbation = this.context.randomU32();
        this.slot = this.slot === 0 ? 1 : 0;
        this.doubleBuffering = false;
        this.rehashNs = jiffies;
      } else if (!this.doubleBuffering && this.warmupNs > 0 && jiffies > due - this.warmupNs) {
        this.doubleBuffering = true;
      }
    }
    const active = this.bins[this.slot];
    const hash = active.hash(packet.flowHash);
    this.updateBins(active, hash);
    const { minQlen, minProb } = this;
    let otherHash = 0;
    if (minQlen >= this.max) {
      this.bucketdrop++;
      this.context.drop(packet, 'aqm', nowNs);
      return;
    }
    if (minProb >= MAX_PROB) {
      if (this.doubleBuffering) {
        const other = this.bins[this.slot === 0 ? 1 : 0];
        otherHash = other.hash(packet.flowHash);
        this.updateBins(other, otherHash);
      }
      if (this.overPenaltyRate(nowNs)) {
        this.penaltydrop++;
        this.context.drop(packet, 'aqm', nowNs);
        return;
      }
    } else {
      const { chance } = this.context;
      const random = chance === undefined ? this.context.randomU32() & MAX_PROB : 0;
      if (chance === undefined ? random < minProb : chance.signals(packet, minProb / (MAX_PROB + 1))) {
        // Marking that often means an unresponsive flow or bad congestion: drop a share instead.
        const dropped = Math.max(0, (minProb - (MAX_PROB >> 1)) * 2);
        const drop = chance === undefined ? random < dropped : dropped > 0 && packet.ecn !== NOT_ECT && chance.drops(packet, dropped / minProb);
        if (drop || !setCe(packet)) {
          this.earlydrop++;
          this.context.drop(packet, 'aqm', nowNs);
          return;
        }
        this.marks++;
      }
    }
    this.queue.push(packet);
    this.backlogPackets++;
    this.backlogBytes += packet.size;
    const hash0 = this.slot === 0 ? hash : otherHash, hash1 = this.slot === 0 ? otherHash : hash;
    this.hashes[0].push(hash0);
    this.hashes[1].push(hash1);
    if (hash0 !== 0) this.bins[0].add(hash0, 1);
    if (hash1 !== 0) this.bins[1].add(hash1, 1);
  }

  override dequeue(): QueuedPacket | null {
    const packet = this.queue.shift();
    if (packet === null) return null;
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    const hash0 = this.hashes[0].shift(), hash1 = this.hashes[1].shift();
    if (hash0 !== 0) this.bins[0].add(hash0, -1);
    if (hash1 !== 0) this.bins[1].add(hash1, -1);
    return packet;
  }

  /** sfb_peek(): the pfifo's head. */
  override peek(): QueuedPacket | null {
    return this.queue.head;
  }

  override readState(into: Float64Array): void {
    const { qlen, pMark } = this.bins[this.slot];
    let longest = 0, largest = 0, total = 0;
    for (let i = 0; i < LEVELS * BINS; i++) {
      if (qlen[i]! > longest) longest = qlen[i]!;
      if (pMark[i]! > largest) largest = pMark[i]!;
      total += pMark[i]!;
    }
    into[0] = this.earlydrop;
    into[1] = this.penaltydrop;
    into[2] = this.bucketdrop;
    into[3] = this.queuedrop;
    into[4] = 0;
    into[5] = longest;
    into[6] = largest / MAX_PROB;
    into[7] = Math.floor(total / (LEVELS * BINS)) / MAX_PROB;
  }
}

export const sfb: AqmKind = {
  kind: 'sfb',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (params, context, startNs) => new Sfb(context, params, startNs),
};
