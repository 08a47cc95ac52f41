/**
 * One direction of a link at its sending end: a queue discipline and the shaper that empties it. Serialisation takes (IP bytes + overheadBytes) × 8 / rate, whole ns rounded down as Linux's
 * psched_l2t_ns does.
 *
 * `model: linux` shapes as HTB does (net/sched/sch_htb.c): a packet leaves at once when there is credit, and
 * its serialisation time is paid afterwards; with `burst` of one packet it may thus send two packets back to back
 * after an idle time. Or as TBF (token-bucket.ts): it looks at the next packet to know what it costs, so the discipline decides on it when the
 * one before left, and the packet waits for its tokens.
 * `model: classic` is a wire: a packet reaches the far end when its last bit has been serialised.
 */

import type { PlanDirection, PlanQueue } from '../testbed/plan/plan.js';
import { ETHERNET_HEADER, type AqmContext, type AqmKind, type DropReason, type QueueDiscipline, type QueuedPacket } from '../aqm/aqm.js';
import { changeQueue } from '../aqm/change.js';
import { Actor, before } from './events.js';
import type { Network } from './network.js';
import type { Packet } from './packet.js';
import { Random } from './random.js';
import type { PacketRecords } from './records.js';
import { TokenBucket } from './token-bucket.js';
import type { Wire } from './wire.js';

/** Disciplines that compute their own hash of addresses and ports (skb_get_hash_perturb); the others take the one the packet carries. */
const sortByTuple: ReadonlySet<string> = new Set(['sfq', 'sfb', 'hhf', 'choke', 'drr']);

/** Calls a discipline's periodic update at its time. */
class AqmTimer extends Actor {
  constructor(private readonly network: Network, private readonly link: Link) {
    super();
    network.events.add(this);
  }
  arm(): void {
    const at = this.link.queue!.timerNs;
    if (at === Infinity) this.network.events.cancel(this.actorId);
    else if (at !== this.network.events.timeOf(this.actorId)) this.network.events.scheduleOrdered(this.actorId, Math.max(at, this.network.events.now), before.aqmTimer);
  }
  override fire(): void {
    this.link.queue!.tick(this.network.events.now);
    const at = this.link.queue!.timerNs;
    if (at !== Infinity) this.network.events.scheduleOrdered(this.actorId, Math.max(at, this.network.events.now), before.aqmTimer);
    this.link.kick();
  }
}

export class Link extends Actor {
  queue: QueueDiscipline | null = null;
  /** Columns of the discipline's own state in queue records. */
  stateColumns: readonly string[] = [];
  wires: readonly Wire[] = [];
  /** Where packet records go; null when they are off or this is no bottleneck. */
  records: PacketRecords | null = null;
  private arrived = 0;
  sentPackets = 0;
  sentBytes = 0;
  drops = 0;
  private nsPerByte = NaN;
  private rateBps: number | null;
  private readonly overheadBytes: number;
  private readonly framing: number;
  /** Token bucket: from when the next packet may leave, ns; and how far behind `now` that may lie. */
  private readyNs = NaN;
  private burstNs = NaN;
  private waiting = false;
  private timer: AqmTimer | null = null;
  private kind: AqmKind | null = null;
  private readonly context: AqmContext;
  private sortsByTuple = false;
  private readonly random: Random;
  private readonly asksOnlyFull: boolean;
  /** TBF's; null for HTB and a wire. */
  private readonly bucket: TokenBucket | null;

  constructor(private readonly network: Network, readonly setting: PlanDirection, readonly mtuBytes: number, readonly bottleneck: boolean, seed: number, private readonly serialises: boolean) {
    super();
    network.events.add(this);
    this.random = new Random(seed, `${setting.name} queue`);
    this.asksOnlyFull = !serialises && setting.shaper === 'htb';
    this.overheadBytes = setting.overheadBytes;
    this.framing = mtuBytes + setting.overheadBytes;
    this.readyNs = 0;
    this.burstNs = 0;
    this.nsPerByte = 0;
    this.rateBps = setting.rateBps;
    this.bucket = !serialises && setting.shaper === 'tbf' ? new TokenBucket(this.framing, network.events.now, setting.bucket) : null;
    const rate = (): number | null => this.rateBps;
    this.context = {
      randomU32: () => this.random.u32(),
      drop: (packet, reason, nowNs) => this.dropped(packet as Packet, reason, nowNs),
      mtuBytes: mtuBytes + ETHERNET_HEADER,
      get rateBps() { return rate(); },
    };
    if (setting.rateBps !== null) this.setRate(setting.rateBps);
    if (setting.queue !== null) this.create(setting.queue);
  }

  private create(queue: PlanQueue): void {
    this.kind = this.network.aqm(queue);
    // A host's own fq has a flow for each socket, whatever hash the socket's packets carry.
    this.sortsByTuple = sortByTuple.has(queue.kind) || (queue.kind === 'fq' && !this.bottleneck);
    this.queue = this.kind.create(queue.params, this.context, this.network.events.now);
    this.stateColumns = this.kind.state;
    this.timer ??= new AqmTimer(this.network, this);
    this.timer.arm();
  }

  setRate(rateBps: number): void {
    this.rateBps = rateBps;
    this.nsPerByte = 8e9 / rateBps;
    if (!this.serialises && this.setting.shaper === 'htb') this.burstNs = Math.floor(this.framing * this.nsPerByte);
    // TBF's timer goes on; the next packet that comes finds the full bucket.
    if (this.bucket !== null) this.bucket.setRate(this.nsPerByte);
    else if (this.waiting) this.network.events.schedule(this.actorId, this.network.events.now);
  }

  /** New parameters of the same kind, as `tc qdisc change`. @throws UserError when they cannot be */
  setQueue(queue: PlanQueue): void {
    const before = this.queue;
    if (before === null) {
      this.create(queue);
      return;
    }
    this.queue = changeQueue(before, this.kind!, queue.params, this.context, this.network.events.now);
    if (this.queue !== before) this.marksBefore += before.marks;
    this.timer!.arm();
    this.kick();
  }
  private marksBefore = 0;
  get marks(): number { return this.queue === null ? NaN : this.marksBefore + this.queue.marks; }

  /** A packet arrives at the sending end. */
  arrive(packet: Packet): void {
    const queue = this.queue;
    if (queue === null) {
      packet.route!.wires[packet.hop]!.push(packet, 0);
      return;
    }
    const now = this.network.events.now;
    packet.size = packet.ipBytes + this.overheadBytes;
    packet.queuedNs = now;
    packet.arrival = this.arrived++;
    packet.flowHash = this.sortsByTuple ? packet.route!.tupleHash : packet.sentHash;
    packet.ecnOnArrival = packet.ecn;
    packet.marked = false;
    queue.enqueue(packet, now);
    if (this.bucket !== null) this.transmitByTokens(this.bucket);
    // One that waits for a time of its own (fq, cake) may have been given what can go at once.
    else if (!this.waiting || queue.readyNs !== Infinity) this.transmit();
  }

  /** Something may have become ready. */
  kick(): void { if (!this.waiting) this.send(); }

  private dropped(packet: Packet, reason: DropReason, _nowNs: number): void {
    if (reason !== 'purge') this.drops++;
    if (this.records !== null) this.records.write(packet, NaN, reason);
    if (packet.owner !== null) packet.owner.released(packet);
    this.network.pool.drop(packet);
  }

  private transmit(): void {
    const events = this.network.events;
    const now = events.now;
    const queue = this.queue!;
    for (;;) {
      if (this.readyNs > now) {
        if (queue.backlogPackets === 0) { this.waiting = false; return; }
        this.waiting = true;
        events.schedule(this.actorId, this.readyNs);
        return;
      }
      // HTB knows which classes hold packets and never asks an empty one; what a discipline does when it is asked in vain
      // (FQ-CoDel forgets a flow, RED's idle time begins) does not happen under it.
      if (queue.backlogPackets === 0 && this.asksOnlyFull) { this.waiting = false; return; }
      const packet = queue.dequeue(now) as (QueuedPacket & Packet) | null;
      if (packet === null) {
        this.waiting = false;
        if (queue.backlogPackets > 0 && queue.readyNs !== Infinity) {
          this.waiting = true;
          events.schedule(this.actorId, Math.max(now + 1, Math.ceil(queue.readyNs)));
        }
        return;
      }
      const serialisation = Math.floor(packet.size * this.nsPerByte);
      // No Math.max: what it returns is a small integer at first and a double later, which V8 would compile this twice for.
      const behind = now - this.burstNs;
      this.readyNs = (this.readyNs > behind ? this.readyNs : behind) + serialisation;
      this.leave(packet, now, this.serialises ? serialisation : 0);
    }
  }

  /** tbf_dequeue(), asked after every arrival and when the tokens for the packet it saw are there. */
  private transmitByTokens(bucket: TokenBucket): void {
    const events = this.network.events;
    const now = events.now;
    const queue = this.queue!;
    for (;;) {
      const packet = queue.peek(now) as (QueuedPacket & Packet) | null;
      if (packet === null) {
        this.waiting = queue.backlogPackets > 0 && queue.readyNs !== Infinity;
        if (this.waiting) events.schedule(this.actorId, Math.max(now + 1, Math.ceil(queue.readyNs)));
        return;
      }
      const wait = bucket.take(packet.size, now);
      if (wait > 0) {
        this.waiting = true;
        if (events.timeOf(this.actorId) !== now + wait) events.schedule(this.actorId, now + wait);
        return;
      }
      this.waiting = false;
      queue.dequeuePeeked(now);
      this.leave(packet, now, 0);
    }
  }

  private leave(packet: Packet, now: number, serialisation: number): void {
    this.sentPackets++;
    this.sentBytes += packet.size;
    if (this.records !== null) this.records.write(packet, now, null);
    if (packet.owner !== null) {
      packet.owner.released(packet);
      packet.owner = null; // queues further on are not the sender's own (skb_orphan)
    }
    packet.route!.wires[packet.hop]!.push(packet, serialisation);
  }

  private send(): void {
    if (this.bucket !== null) this.transmitByTokens(this.bucket);
    else this.transmit();
  }

  /** At the end of the run: a record of each packet that still waits. */
  recordWaiting(): void {
    const { queue, records } = this;
    if (queue === null || records === null) return;
    this.records = null;
    for (let packet = queue.dequeuePeeked(this.network.events.now) as Packet | null; packet !== null; packet = queue.dequeuePeeked(this.network.events.now) as Packet | null) records.write(packet, NaN, null);
  }

  override fire(): void {
    this.waiting = false;
    this.send();
  }
}
