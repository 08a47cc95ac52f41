/**
 * One direction of a link: a queue discipline of aqm/ and the shaper that empties it on a schedule of its own, with
 * the arithmetic of Linux's HTB and TBF (net/sched/sch_htb.c, sch_tbf.c; the same as the simulator's, simulator/link.ts): the next packet is
 * due at (schedule + size × 8 / rate), never at (now + …), so that being late once does not lower the rate. As HTB, it does not ask an empty queue.
 *
 * All times are those of the packets' schedule, on the run's clock: when the process wakes late, it catches up as if it had not,
 * and only the hand-over to the device is late.
 */

import { ETHERNET_HEADER, type AqmContext, type AqmKind, type DropReason, type QueueDiscipline } from '../aqm/aqm.js';
import { changeQueue } from '../aqm/change.js';
import { aqms } from '../aqm/registry.js';
import { Actor, before, type EventQueue } from '../simulator/events.js';
import { Random } from '../simulator/random.js';
import { TokenBucket } from '../simulator/token-bucket.js';
import { Lateness } from '../testbed/agent/loop.js';
import { UserError } from '../testbed/errors.js';
import type { PlanEvent, PlanQueue, PlanWire } from '../testbed/plan/plan.js';
import { addressBytes } from '../testbed/linux/rtnetlink.js';
import type { DaemonDirection, DirectionStatistics } from './config.js';
import { writeDsField } from './packet.js';
import type { PacketRecords } from './records.js';
import { ipAt, type Slot, type SlotPool } from './slots.js';
import { noWire, Wire } from './wire.js';

/** @throws UserError for a kind that aqm/ has not */
export function aqmOf(queue: PlanQueue, where: string): AqmKind {
  const kind = aqms.get(queue.kind);
  if (kind === undefined) throw new UserError(`${where}: the userspace bottleneck has no queue discipline ${JSON.stringify(queue.kind)}; it has ${[...aqms.keys()].join(', ')}`);
  return kind;
}

/** A discipline's periodic update (PIE's 15 ms). */
class AqmTimer extends Actor {
  constructor(private readonly events: EventQueue, private readonly link: Link) {
    super();
    events.add(this);
  }
  arm(): void {
    const at = this.link.queue!.timerNs;
    if (at === Infinity) this.events.cancel(this.actorId);
    else this.events.scheduleOrdered(this.actorId, Math.max(at, this.events.now), before.aqmTimer);
  }
  override fire(): void {
    this.link.queue!.tick(this.events.now);
    this.arm();
    this.link.kick();
  }
}

const addressKey = (view: DataView, at: number, words: number): string | number => {
  if (words === 1) return view.getInt32(at);
  return `${view.getInt32(at)} ${view.getInt32(at + 4)} ${view.getInt32(at + 8)} ${view.getInt32(at + 12)}`;
};

export class Link extends Actor {
  readonly name: string;
  readonly out: number;
  queue: QueueDiscipline | null = null;
  state: readonly string[] = [];
  records: PacketRecords | null = null;
  arrived = 0;
  sentPackets = 0;
  sentBytes = 0;
  drops = 0;
  private marksBefore = 0;
  private rateBps: number | null;
  private nsPerByte = 0;
  private burstNs = 0;
  /** From when the next packet may leave, ns. */
  readyNs = 0;
  waiting = false;
  private readonly overheadBytes: number;
  private readonly framing: number;
  private readonly random: Random;
  private readonly context: AqmContext;
  private kind: AqmKind | null = null;
  /** TBF's; null for HTB. */
  private readonly bucket: TokenBucket | null;
  private timer: AqmTimer | null = null;
  private readonly wires: Wire[] = [];
  private readonly byDestination = new Map<string | number, Wire>();
  private readonly general: Wire;
  /** Sojourn since the last statistics. */
  private sojourn = new Lateness();
  private sojournSum = 0;

  /** @param send hands a packet to its device @throws UserError for a queue that aqm/ cannot make */
  constructor(private readonly events: EventQueue, private readonly pool: SlotPool, { direction, mtuBytes, out }: DaemonDirection, seed: number, send: (slot: Slot, out: number, dueNs: number) => void) {
    super();
    events.add(this);
    this.name = direction.name;
    this.out = out;
    this.overheadBytes = direction.overheadBytes;
    this.framing = mtuBytes + direction.overheadBytes;
    this.random = new Random(seed, `${direction.name} queue`);
    this.rateBps = direction.rateBps;
    this.bucket = direction.shaper === 'tbf' ? new TokenBucket(this.framing, events.now, direction.bucket) : null;
    const rate = (): number | null => this.rateBps;
    this.context = {
      randomU32: () => this.random.u32(),
      drop: (packet, reason) => this.dropped(packet as Slot, reason),
      mtuBytes: mtuBytes + ETHERNET_HEADER,
      get rateBps() { return rate(); },
    };
    const leave = (slot: Slot, dueNs: number): void => send(slot, this.out, dueNs);
    const makeWire = (setting: PlanWire, stream: string): Wire => {
      const wire = new Wire(events, pool, new Random(seed, stream), leave, setting);
      this.wires.push(wire);
      return wire;
    };
    let general: Wire | null = null;
    // First match decides: what follows an entry without `to` is never reached.
    direction.wire.forEach((setting, i) => {
      if (general !== null) return;
      const wire = makeWire(setting, `${direction.name} wire ${i}`);
      if (setting.to === undefined) general = wire;
      for (const address of setting.to ?? []) {
        const bytes = addressBytes(address);
        const key = addressKey(new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0, bytes.length / 4);
        if (!this.byDestination.has(key)) this.byDestination.set(key, wire);
      }
    });
    this.general = general ?? makeWire(noWire, `${direction.name} wire`);
    if (direction.rateBps !== null) this.setRate(direction.rateBps);
    if (direction.rateBps !== null && direction.queue?.in === 'daemon') this.create(direction.queue);
  }

  /** This direction queues here; otherwise only its wire is ours. */
  get queues(): boolean { return this.queue !== null; }

  private create(queue: PlanQueue): void {
    this.kind = aqmOf(queue, `link ${this.name}`);
    this.queue = this.kind.create(queue.params, this.context, this.events.now);
    this.state = this.kind.state;
    this.timer ??= new AqmTimer(this.events, this);
    this.timer.arm();
  }

  /** @throws UserError when the change cannot be */
  change({ set }: PlanEvent): void {
    if (set.rateBps !== undefined && this.queue !== null) this.setRate(set.rateBps);
    if (set.wire !== undefined) this.general.set(set.wire);
    if (set.queue !== undefined && this.queue !== null) this.setQueue(set.queue);
  }

  private setRate(rateBps: number): void {
    this.rateBps = rateBps;
    this.nsPerByte = 8e9 / rateBps;
    if (this.bucket !== null) {
      // TBF's timer goes on; the next packet that comes finds the full bucket.
      this.bucket.setRate(this.nsPerByte);
      return;
    }
    this.burstNs = Math.floor(this.framing * this.nsPerByte);
    if (this.waiting) this.events.schedule(this.actorId, this.events.now);
  }

  /** New parameters of the same kind, as `tc qdisc change`. */
  private setQueue(queue: PlanQueue): void {
    const before = this.queue!;
    this.queue = changeQueue(before, this.kind!, queue.params, this.context, this.events.now);
    if (this.queue !== before) this.marksBefore += before.marks;
    this.timer!.arm();
    this.kick();
  }

  get marks(): number { return this.queue === null ? 0 : this.marksBefore + this.queue.marks; }

  /** A packet came in at `events.now`. */
  arrive(slot: Slot): void {
    const { queue, events } = this;
    slot.arrival = this.arrived++;
    if (queue === null) {
      this.wireOf(slot).push(slot);
      return;
    }
    slot.size = slot.length + this.overheadBytes;
    slot.queuedNs = events.now;
    slot.ecnOnArrival = slot.ecn;
    slot.fieldOnArrival = (slot.dscp << 2) | slot.ecn;
    slot.marked = false;
    queue.enqueue(slot, events.now);
    if (this.bucket !== null) this.transmitByTokens(this.bucket);
    // One that waits for a time of its own (fq, cake) may have been given what can go at once.
    else if (!this.waiting || queue.readyNs !== Infinity) this.transmit();
  }

  kick(): void { if (!this.waiting) this.send(); }

  private dropped(slot: Slot, reason: DropReason): void {
    if (reason !== 'purge') this.drops++;
    this.records?.write(slot, NaN, reason);
    this.pool.give(slot);
  }

  private transmit(): void {
    const { events } = this;
    const { now } = events;
    const queue = this.queue!;
    for (;;) {
      if (this.readyNs > now) {
        this.waiting = queue.backlogPackets > 0;
        if (this.waiting) events.schedule(this.actorId, this.readyNs);
        return;
      }
      if (queue.backlogPackets === 0) {
        this.waiting = false;
        return;
      }
      const slot = queue.dequeue(now) as Slot | null;
      if (slot === null) {
        this.waiting = queue.backlogPackets > 0 && queue.readyNs !== Infinity;
        if (this.waiting) events.schedule(this.actorId, Math.max(now + 1, Math.ceil(queue.readyNs)));
        return;
      }
      this.readyNs = Math.max(this.readyNs, now - this.burstNs) + Math.floor(slot.size * this.nsPerByte);
      this.leave(slot, now);
    }
  }

  /** tbf_dequeue(), asked after every arrival and when the tokens for the packet it saw are there. */
  private transmitByTokens(bucket: TokenBucket): void {
    const { events } = this;
    const { now } = events;
    const queue = this.queue!;
    for (;;) {
      const slot = queue.peek(now) as Slot | null;
      if (slot === null) {
        this.waiting = queue.backlogPackets > 0 && queue.readyNs !== Infinity;
        if (this.waiting) events.schedule(this.actorId, Math.max(now + 1, Math.ceil(queue.readyNs)));
        return;
      }
      const wait = bucket.take(slot.size, now);
      this.waiting = wait > 0;
      if (this.waiting) {
        events.schedule(this.actorId, now + wait);
        return;
      }
      queue.dequeuePeeked(now);
      this.leave(slot, now);
    }
  }

  private leave(slot: Slot, now: number): void {
    this.sentPackets++;
    this.sentBytes += slot.size;
    const sojournNs = now - slot.queuedNs;
    this.sojournSum += sojournNs;
    this.sojourn.add(sojournNs);
    this.records?.write(slot, now, null);
    const field = (slot.dscp << 2) | slot.ecn;
    if (field !== slot.fieldOnArrival) writeDsField(slot.view, slot.at + ipAt, slot.length, field);
    this.wireOf(slot).push(slot);
  }

  private send(): void {
    if (this.bucket !== null) this.transmitByTokens(this.bucket);
    else this.transmit();
  }

  override fire(): void {
    this.waiting = false;
    this.send();
  }

  private wireOf(slot: Slot): Wire {
    if (this.byDestination.size === 0 || slot.opaque || slot.length < 20) return this.general;
    const { view } = slot;
    const at = slot.at + ipAt;
    const version = view.getUint8(at) >>> 4;
    if (version === 4) return this.byDestination.get(addressKey(view, at + 16, 1)) ?? this.general;
    if (version === 6 && slot.length >= 40) return this.byDestination.get(addressKey(view, at + 24, 4)) ?? this.general;
    return this.general;
  }

  /** No packet already here leaves before this, ns. */
  get nextOutNs(): number {
    let least = Infinity, delay = Infinity;
    for (const wire of this.wires) {
      if (wire.nextNs < least) least = wire.nextNs;
      if (wire.leastNs < delay) delay = wire.leastNs;
    }
    if (this.waiting) least = Math.min(least, this.events.timeOf(this.actorId) + delay);
    return least;
  }
  /** No packet that comes in from now on leaves before this, ns. */
  nextOutOfArrival(nowNs: number): number {
    let delay = Infinity;
    for (const wire of this.wires) if (wire.leastNs < delay) delay = wire.leastNs;
    return (this.queue === null ? nowNs : Math.max(nowNs, this.readyNs)) + delay;
  }

  /** At the end: a record of each packet that still waits. */
  recordWaiting(): void {
    const { queue, records } = this;
    if (queue === null || records === null) return;
    this.records = null;
    const { now } = this.events;
    for (let slot = queue.dequeuePeeked(now) as Slot | null; slot !== null; slot = queue.dequeuePeeked(now) as Slot | null) records.write(slot, NaN, null);
  }

  /** Since the last call, where it says so. */
  statistics(): DirectionStatistics {
    const { sojourn, sojournSum } = this;
    this.sojourn = new Lateness();
    this.sojournSum = 0;
    return {
      name: this.name, rateBps: this.rateBps, arrivedPackets: this.arrived, sentPackets: this.sentPackets, sentBytes: this.sentBytes, drops: this.drops, marks: this.marks,
      backlogPackets: this.queue?.backlogPackets ?? 0, backlogBytes: this.queue?.backlogBytes ?? 0,
      lost: this.wires.reduce((sum, wire) => sum + wire.lost, 0), overflowed: this.wires.reduce((sum, wire) => sum + wire.overflowed, 0),
      sojournMeanNs: sojourn.count === 0 ? 0 : Math.round(sojournSum / sojourn.count), sojournP99Ns: Math.round(sojourn.quantile(0.99)), sojournMaxNs: Math.round(sojourn.maxNs),
    };
  }
}
