/**
 * One direction of a link at its sending end: a queue discipline and the shaper that empties it. The shaper holds no
 * packet of its own; serialisation takes (IP bytes + overheadBytes) × 8 / rate, whole ns rounded down as Linux's
 * psched_l2t_ns does.
 *
 * `model: linux` shapes as HTB and TBF do (net/sched/sch_htb.c): a packet leaves at once when there is credit, and
 * its serialisation time is paid afterwards; HTB with `burst` of one packet may thus send two packets back to back
 * after an idle time. TBF sends when the whole packet is covered, here: without that second packet.
 * `model: classic` is a wire: a packet reaches the far end when its last bit has been serialised.
 */

import type { PlanDirection, PlanQueue } from '../testbed/plan/plan.js';
import type { AqmContext, AqmKind, DropReason, QueueDiscipline, QueuedPacket } from '../aqm/aqm.js';
import { Actor, before } from './events.js';
import type { Network } from './network.js';
import type { Packet } from './packet.js';
import { Random } from './random.js';
import type { PacketRecords } from './records.js';
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
  sentPackets = 0;
  sentBytes = 0;
  drops = 0;
  private nsPerByte = NaN;
  private readonly overheadBytes: number;
  private readonly framing: number;
  /** Token bucket: from when the next packet may leave, ns; and how far behind `now` that may lie. */
  private readyNs = NaN;
  private burstNs = NaN;
  private waiting = false;
  private timer: AqmTimer | null = null;
  private kind: AqmKind | null = null;
  private sortsByTuple = false;
  private readonly random: Random;
  private readonly asksOnlyFull: boolean;

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
    if (setting.rateBps !== null) this.setRate(setting.rateBps);
    if (setting.queue !== null) this.create(setting.queue);
  }

  private create(queue: PlanQueue): void {
    this.kind = this.network.aqm(queue);
    this.sortsByTuple = sortByTuple.has(queue.kind);
    const context: AqmContext = {
      randomU32: () => this.random.u32(),
      drop: (packet, reason, nowNs) => this.dropped(packet as Packet, reason, nowNs),
      mtuBytes: this.framing,
      rateBps: this.setting.rateBps,
    };
    this.queue = this.kind.create(queue.params, context, this.network.events.now);
    this.stateColumns = this.kind.state;
    this.timer ??= new AqmTimer(this.network, this);
    this.timer.arm();
  }

  setRate(rateBps: number): void {
    this.nsPerByte = 8e9 / rateBps;
    if (!this.serialises && this.setting.shaper === 'htb') this.burstNs = Math.floor(this.framing * this.nsPerByte);
    if (this.waiting) this.network.events.schedule(this.actorId, this.network.events.now);
  }

  /** New parameters: the discipline is created anew and takes over what waits, in its order. Linux changes in place; what differs is the algorithm's memory. */
  setQueue(queue: PlanQueue): void {
    const old = this.queue;
    const now = this.network.events.now;
    this.create(queue);
    if (old === null) return;
    this.marksBefore += old.marks;
    for (let packet = old.dequeue(now); packet !== null; packet = old.dequeue(now)) this.queue!.enqueue(packet, now);
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
    packet.flowHash = this.sortsByTuple ? packet.route!.tupleHash : packet.sentHash;
    packet.ecnOnArrival = packet.ecn;
    packet.marked = false;
    queue.enqueue(packet, now);
    if (!this.waiting) this.transmit();
  }

  /** Something may have become ready. */
  kick(): void { if (!this.waiting) this.transmit(); }

  private dropped(packet: Packet, _reason: DropReason, _nowNs: number): void {
    this.drops++;
    if (this.records !== null) this.records.write(packet, NaN, 1);
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
      this.sentPackets++;
      this.sentBytes += packet.size;
      if (this.records !== null) this.records.write(packet, now, 0);
      if (packet.owner !== null) packet.owner.released(packet);
      packet.route!.wires[packet.hop]!.push(packet, this.serialises ? serialisation : 0);
    }
  }

  /** At the end of the run: a record of each packet that still waits. */
  recordWaiting(): void {
    const { queue, records } = this;
    if (queue === null || records === null) return;
    this.records = null;
    for (let packet = queue.dequeue(this.network.events.now) as Packet | null; packet !== null; packet = queue.dequeue(this.network.events.now) as Packet | null) records.write(packet, NaN, 0);
  }

  override fire(): void {
    this.waiting = false;
    this.transmit();
  }
}
