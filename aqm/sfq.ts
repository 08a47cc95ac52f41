/**
 * SFQ: McKenney, INFOCOM 1990, as Linux 6.12 has it (net/sched/sch_sfq.c): round robin with allotments in bytes over
 * hashed flows, the longest flow pays when the whole is over `limit`; with `redflowlimit`, RED (red-core.ts) on every
 * flow ("SFQRED").
 * A change keeps flows and what waits; the longest flows pay, counted, where the limit is lower; with `perturb` new packets are hashed anew while those
 * that wait keep their flows, and the period begins again. `divisor` cannot change: the kernel (sfq_change) would then look outside its hash table.
 *
 * Differences from Linux:
 * - The hash mixes the packet's flow key with a seeded perturbation (integer.ts) instead of SipHash over its addresses.
 * - `perturb` is exact and takes a time; Linux's timer is deferrable and counts whole seconds. It is off by default in both.
 * - No tc filters and no classification by skb->priority.
 */

import { averagingLog, checkThreshold, probability32 } from '../testbed/qdiscs/red-arithmetic.js';
import { resolveRed, sfq as qdisc } from '../testbed/qdiscs/sfq.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { perturbHash } from './integer.js';
import { PacketFifo } from './packet-fifo.js';
import { flag, number, quantumOf, type Params } from './params.js';
import { RED_DONT_MARK, RED_HARD_MARK, RedParams, RedVars } from './red-core.js';

const MAX_DEPTH = 127;
const EMPTY = 0xffff;
const MAX_FLOWS = 0x10000 - MAX_DEPTH - 1;

class Slot {
  readonly queue = new PacketFifo();
  readonly red = new RedVars();
  hash = 0;
  allot = 0;
  next = 0;
}

interface RedOnFlows { readonly params: RedParams; readonly ecn: boolean; readonly harddrop: boolean }

/** What sfq_change() sets. */
interface SfqSettings {
  readonly limit: number;
  readonly divisor: number;
  readonly maxDepth: number;
  /** maxflows: bounds the limit; slots are as many as at creation. */
  readonly maxFlows: number;
  readonly quantum: number;
  readonly headdrop: boolean;
  readonly red: RedOnFlows | null;
  readonly perturbNs: number;
}

class Sfq extends Discipline {
  private readonly slots: Slot[] = [];
  private readonly table: Uint16Array;
  /** Slots chained by their length: index `flows + d` anchors those with d packets (0: the unused). */
  private readonly chainNext: Uint32Array;
  private readonly chainPrev: Uint32Array;
  private depth = 0;
  /** Slot before the one whose turn it is; −1: none active. */
  private tail = -1;
  private perturbation: number;
  private readonly rehashed = new PacketFifo();
  private readonly redCounts = new Float64Array(6);

  /** Slots. */
  private readonly flows: number;
  private readonly divisor: number;
  private limit: number;
  private maxFlows: number;
  private maxDepth: number;
  private quantum: number;
  private headdrop: boolean;
  private red: RedOnFlows | null;
  private perturbNs: number;

  constructor(context: AqmContext, settings: SfqSettings, startNs: number) {
    super(context);
    const flows = settings.maxFlows;
    this.flows = this.maxFlows = flows;
    this.divisor = settings.divisor;
    this.limit = settings.limit;
    this.maxDepth = settings.maxDepth;
    this.quantum = settings.quantum;
    this.headdrop = settings.headdrop;
    this.red = settings.red;
    this.perturbNs = settings.perturbNs;
    this.perturbation = context.randomU32();
    this.table = new Uint16Array(this.divisor).fill(EMPTY);
    this.chainNext = new Uint32Array(flows + MAX_DEPTH + 1);
    this.chainPrev = new Uint32Array(flows + MAX_DEPTH + 1);
    for (let d = flows; d < this.chainNext.length; d++) this.chainNext[d] = this.chainPrev[d] = d;
    for (let x = 0; x < flows; x++) {
      this.slots.push(new Slot());
      this.link(x);
    }
    if (this.perturbNs > 0) this.timerNs = startNs + this.perturbNs;
  }

  override change(params: Params, nowNs: number): void {
    const settings = settingsOf(params, this.context, { limit: this.limit, maxFlows: this.maxFlows });
    this.limit = settings.limit;
    this.maxFlows = settings.maxFlows;
    this.maxDepth = settings.maxDepth;
    this.quantum = settings.quantum;
    this.headdrop = settings.headdrop;
    // RED, once there, stays: sfq_change() only exchanges it.
    if (settings.red !== null) this.red = settings.red;
    this.perturbNs = settings.perturbNs;
    while (this.backlogPackets > this.limit && this.tail >= 0) this.dropFromLongest(nowNs);
    this.timerNs = Infinity;
    if (this.perturbNs > 0) {
      this.timerNs = nowNs + this.perturbNs;
      this.perturbation = this.context.randomU32();
    }
  }

  private link(x: number): void {
    const anchor = this.flows + this.slots[x]!.queue.packets;
    const next = this.chainNext[anchor]!;
    this.chainNext[x] = next;
    this.chainPrev[x] = anchor;
    this.chainNext[anchor] = x;
    this.chainPrev[next] = x;
  }

  /** Takes x out of its chain; true when that chain is empty now. Call before its length changes. */
  private unlink(x: number): boolean {
    const next = this.chainNext[x]!, prev = this.chainPrev[x]!;
    this.chainNext[prev] = next;
    this.chainPrev[next] = prev;
    return next === prev;
  }

  private shiftFrom(x: number): QueuedPacket {
    const slot = this.slots[x]!;
    const before = slot.queue.packets;
    const emptied = this.unlink(x);
    const packet = slot.queue.shift()!;
    if (emptied && this.depth === before) this.depth--;
    this.link(x);
    return packet;
  }

  private popFrom(x: number): QueuedPacket {
    const slot = this.slots[x]!;
    const before = slot.queue.packets;
    const emptied = this.unlink(x);
    let previous: QueuedPacket | null = null;
    // At most 127 packets in a slot.
    for (let p = slot.queue.head!; p.next !== null; p = p.next) previous = p;
    const packet = slot.queue.removeAfter(previous);
    if (emptied && this.depth === before) this.depth--;
    this.link(x);
    return packet;
  }

  private pushTo(x: number, packet: QueuedPacket): void {
    const slot = this.slots[x]!;
    this.unlink(x);
    slot.queue.push(packet);
    if (this.depth < slot.queue.packets) this.depth = slot.queue.packets;
    this.link(x);
    if (slot.queue.packets !== 1) return;
    // A flow that begins waits for all others first: new flows could otherwise freeze old ones.
    if (this.tail < 0) {
      slot.next = x;
    } else {
      slot.next = this.slots[this.tail]!.next;
      this.slots[this.tail]!.next = x;
    }
    this.tail = x;
    slot.allot = this.quantum;
  }

  /** The slot of a flow, taking a free one when needed; −1 when there is none left. */
  private slotOf(hash: number): number {
    let x = this.table[hash]!;
    if (x !== EMPTY) return x;
    x = this.chainNext[this.flows]!;
    if (x >= this.flows) return -1;
    this.table[hash] = x;
    this.slots[x]!.hash = hash;
    return x;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const hash = perturbHash(packet.flowHash, this.perturbation) & (this.divisor - 1);
    const isNew = this.table[hash] === EMPTY;
    const x = this.slotOf(hash);
    if (x < 0) {
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    const slot = this.slots[x]!;
    if (isNew) {
      slot.red.reset();
    } else {
      if (this.red !== null && this.redRefuses(this.red, slot, packet, nowNs)) {
        this.congested(x, packet, true, nowNs);
        return;
      }
      if (slot.queue.packets >= this.maxDepth) {
        this.congested(x, packet, false, nowNs);
        return;
      }
    }
    this.backlogPackets++;
    this.backlogBytes += packet.size;
    this.pushTo(x, packet);
    if (this.backlogPackets > this.limit) this.dropFromLongest(nowNs);
  }

  /** RED on one flow, in bytes of its own backlog; marks the head of the queue instead of the arrival with `headdrop`. */
  private redRefuses(red: RedOnFlows, slot: Slot, packet: QueuedPacket, nowNs: number): boolean {
    slot.red.arrive(red.params, slot.queue.bytes, nowNs);
    const action = slot.red.action(red.params, this.context.randomU32);
    if (action === RED_DONT_MARK) return false;
    const forced = action === RED_HARD_MARK;
    if (red.ecn && !(forced && red.harddrop)) {
      // Counters in the order of `state`: probabilistic, then forced.
      if (this.headdrop && setCe(slot.queue.head!)) {
        this.marks++;
        this.redCounts[forced ? 5 : 4]!++;
        return false;
      }
      if (setCe(packet)) {
        this.marks++;
        this.redCounts[forced ? 3 : 2]!++;
        return false;
      }
    }
    this.redCounts[forced ? 1 : 0]!++;
    return true;
  }

  private congested(x: number, packet: QueuedPacket, early: boolean, nowNs: number): void {
    const reason = early ? 'aqm' : 'limit';
    if (!this.headdrop) {
      this.context.drop(packet, reason, nowNs);
      return;
    }
    const queue = this.slots[x]!.queue;
    const head = queue.shift()!;
    this.backlogBytes += packet.size - head.size;
    queue.push(packet);
    this.context.drop(head, reason, nowNs);
  }

  /** sfq_drop() */
  private dropFromLongest(nowNs: number): void {
    let x: number;
    if (this.depth > 1) {
      x = this.chainNext[this.flows + this.depth]!;
    } else {
      // Every flow has one packet: the flow whose turn it is loses it.
      x = this.slots[this.tail]!.next;
      this.retire(x);
    }
    const packet = this.headdrop ? this.shiftFrom(x) : this.popFrom(x);
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    this.context.drop(packet, 'limit', nowNs);
  }

  /** Takes the flow after `tail` out of the round. */
  private retire(x: number): void {
    const slot = this.slots[x]!;
    this.table[slot.hash] = EMPTY;
    if (slot.next === x) this.tail = -1;
    else this.slots[this.tail]!.next = slot.next;
  }

  override dequeue(): QueuedPacket | null {
    if (this.tail < 0) return null;
    let x = this.slots[this.tail]!.next;
    let slot = this.slots[x]!;
    while (slot.allot <= 0) {
      this.tail = x;
      slot.allot += this.quantum;
      x = slot.next;
      slot = this.slots[x]!;
    }
    const packet = this.shiftFrom(x);
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    if (slot.queue.packets === 0) this.retire(x);
    else slot.allot -= packet.size;
    return packet;
  }

  /** A new perturbation; what waits is hashed again, so that flows keep their order. */
  override tick(nowNs: number): void {
    this.timerNs = nowNs + this.perturbNs;
    this.perturbation = this.context.randomU32();
    if (this.tail < 0) return;
    const all = this.rehashed;
    for (let x = 0; x < this.flows; x++) {
      const slot = this.slots[x]!;
      if (slot.queue.packets === 0) continue;
      while (slot.queue.packets > 0) all.push(this.shiftFrom(x));
      slot.red.reset();
      this.table[slot.hash] = EMPTY;
    }
    this.tail = -1;
    for (let packet = all.shift(); packet !== null; packet = all.shift()) {
      const x = this.slotOf(perturbHash(packet.flowHash, this.perturbation) & (this.divisor - 1));
      if (x < 0 || this.slots[x]!.queue.packets >= this.maxDepth) {
        this.backlogPackets--;
        this.backlogBytes -= packet.size;
        this.context.drop(packet, 'limit', nowNs);
        continue;
      }
      if (this.red !== null) this.slots[x]!.red.arrive(this.red.params, this.slots[x]!.queue.bytes, nowNs);
      this.pushTo(x, packet);
    }
  }

  override readState(into: Float64Array): void {
    into.set(this.redCounts);
  }
}

/** `redflowlimit` asks for RED on every flow; the schema refuses the other words of RED without it. */
function redOnFlows(params: Params): RedOnFlows | null {
  if (params['redflowlimit'] === undefined) return null;
  const { min, max, avpkt, burst, probability } = resolveRed(params);
  const wlog = averagingLog('sfq', min, burst, avpkt);
  checkThreshold('sfq', 'max', max, wlog);
  return {
    params: new RedParams(min, max, wlog, probability32(probability), 0, null),
    ecn: flag(params, 'ecn', false),
    harddrop: flag(params, 'harddrop', false),
  };
}

/** The first part of sfq_change(). @param before what stood until now and stays where nothing else is given */
function settingsOf(params: Params, context: AqmContext, before: { readonly limit: number; readonly maxFlows: number }): SfqSettings {
  const maxDepth = number(params, 'depth', MAX_DEPTH), divisor = number(params, 'divisor', 1024);
  let { limit, maxFlows } = before;
  maxFlows = Math.min(number(params, 'flows', maxFlows), MAX_FLOWS);
  if (params['divisor'] !== undefined) maxFlows = Math.min(maxFlows, divisor);
  if (params['limit'] !== undefined) {
    limit = Math.min(number(params, 'limit', 0), maxDepth * maxFlows);
    maxFlows = Math.min(maxFlows, limit);
  }
  return { limit, divisor, maxDepth, maxFlows, quantum: quantumOf(params, context.mtuBytes), headdrop: flag(params, 'headdrop', false), red: redOnFlows(params), perturbNs: number(params, 'perturb', 0) };
}

export const sfq: AqmKind = {
  kind: 'sfq',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (params, context, startNs) => new Sfq(context, settingsOf(params, context, { limit: MAX_DEPTH, maxFlows: 128 }), startNs),
};
