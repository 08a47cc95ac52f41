/**
 * FQ: the fair queue scheduler of Linux 6.12 (net/sched/sch_fq.c): three bands in weighted round robin by priority, in
 * each deficit round robin over flows with new ones first, a limit of packets a band and a flow, and the fast path
 * that lets up to 8 packets through while no flow may send. It paces: a packet with an earliest departure time
 * (`edtNs`, as TCP gives it) waits for it in its flow, beyond `horizon` it is dropped or capped, and `maxrate` spaces every
 * flow. Timers are late by `timer_slack`, as a lone hrtimer of Linux is.
 *
 * A change keeps everything; what is above a lower limit is dequeued, as far as it may leave now, and thrown away uncounted.
 *
 * Differences from Linux:
 * - A flow is the packet's key masked by `orphan_mask`, as for every forwarded packet. Packets with a departure time belong to a
 *   TCP socket and have a flow of their own by their whole key; UDP sockets do not, and nothing here has SO_MAX_PACING_RATE.
 * - Packets of a flow with departure times out of order (an ACK of a sender with data under way) are sorted in; of
 *   equal times Linux may prefer the other one.
 * - Of idle flows that a lookup forgets (fq-roots.ts), sockets' are kept: which tree theirs are in depends on their addresses.
 */

import { fq as qdisc } from '../testbed/qdiscs/fq.js';
import { bytesPerSecond } from '../testbed/qdiscs/parameters.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { FlowList, type ListedFlow } from './flow-list.js';
import { FqRoots } from './fq-roots.js';
import { jiffiesNs, oddJiffiesNs, timeoutNs } from './jiffies.js';
import { PacketFifo } from './packet-fifo.js';
import { flag, number, type Params } from './params.js';
import { bandOfDscp } from './priority.js';

const BANDS = 3;
/** Bytes a band may send a round: 9 : 3 : 1. */
const BAND_QUANTUM = [9 << 16, 3 << 16, 1 << 16] as const;
const FAST_PATH_PACKETS = 8;
/** FQ_GC_AGE */
const FORGOTTEN_AFTER_NS = 3e9;
/** Keys of sockets' flows are above those of forwarded packets. */
const SOCKETS = 2 ** 32;

/** skb->tstamp or the time of arrival: fq_skb_cb(skb)->time_to_send */
const timeToSend = (packet: QueuedPacket): number => (packet.edtNs > 0 ? packet.edtNs : packet.enqueueNs);

class Flow implements ListedFlow<Flow> {
  head: QueuedPacket | null = null;
  private tail: QueuedPacket | null = null;
  packets = 0;
  nextFlow: Flow | null = null;
  listed = false;
  throttled = false;
  band = 0;
  /** Not before this, ns. */
  timeNextNs = 0;
  /** Among flows throttled until the same time, the first comes first. */
  order = 0;
  /** @param emptiedNs f->age: in odd jiffies, so of two emptied 10 ms apart one may have to wait a jiffy longer for its quantum */
  constructor(public credit: number, public emptiedNs: number) {}

  /** flow_queue_add() */
  push(packet: QueuedPacket): void {
    const time = timeToSend(packet);
    this.packets++;
    if (this.tail === null || time >= timeToSend(this.tail)) {
      packet.next = null;
      if (this.tail === null) this.head = packet;
      else this.tail.next = packet;
      this.tail = packet;
      return;
    }
    let before: QueuedPacket | null = null;
    for (let next = this.head!; timeToSend(next) <= time; next = next.next!) before = next;
    packet.next = before === null ? this.head : before.next;
    if (before === null) this.head = packet;
    else before.next = packet;
  }

  shift(): QueuedPacket {
    const packet = this.head!;
    this.head = packet.next;
    if (this.head === null) this.tail = null;
    packet.next = null;
    this.packets--;
    return packet;
  }
}

/** q->delayed: throttled flows, the one due first on top of a binary heap. */
class Delayed {
  private readonly heap: Flow[] = [];
  private nextOrder = 0;

  get length(): number { return this.heap.length; }
  get first(): Flow | undefined { return this.heap[0]; }

  private static before(a: Flow, b: Flow): boolean {
    return a.timeNextNs < b.timeNextNs || (a.timeNextNs === b.timeNextNs && a.order < b.order);
  }

  push(flow: Flow): void {
    const { heap } = this;
    flow.order = this.nextOrder++;
    let i = heap.push(flow) - 1;
    for (; i > 0; ) {
      const parent = (i - 1) >> 1;
      if (!Delayed.before(flow, heap[parent]!)) break;
      heap[i] = heap[parent]!;
      i = parent;
    }
    heap[i] = flow;
  }

  /** The caller knows that there is one. */
  shift(): Flow {
    const { heap } = this;
    const top = heap[0]!, last = heap.pop()!;
    if (heap.length === 0) return top;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && Delayed.before(heap[child + 1]!, heap[child]!)) child++;
      if (!Delayed.before(heap[child]!, last)) break;
      heap[i] = heap[child]!;
      i = child;
    }
    heap[i] = last;
    return top;
  }
}

class Band {
  readonly newFlows = new FlowList<Flow>();
  readonly oldFlows = new FlowList<Flow>();
  credit = 0;
  packets = 0;
  constructor(readonly quantum: number) {}
}

interface FqSettings {
  readonly limit: number;
  readonly flowLimit: number;
  readonly quantum: number;
  readonly initialQuantum: number;
  readonly orphanMask: number;
  readonly refillDelayNs: number;
  readonly ceThresholdNs: number;
  /** `pacing`: rates are kept at all. Departure times are kept in any case. */
  readonly rateEnable: boolean;
  /** Bytes/s; Infinity: none. */
  readonly maxRate: number;
  readonly lowRateThreshold: number;
  readonly timerSlackNs: number;
  readonly horizonNs: number;
  readonly horizonDrop: boolean;
}

function settingsOf(params: Params, context: AqmContext): FqSettings {
  const mtu = Math.min(Math.max(context.mtuBytes, 1), 1 << 20);
  return {
    limit: number(params, 'limit', 10000),
    flowLimit: number(params, 'flow_limit', 100),
    quantum: Math.min(Math.max(256, number(params, 'quantum', 2 * mtu)), 1 << 20),
    initialQuantum: number(params, 'initial_quantum', Math.min(10 * mtu, 1 << 20)),
    orphanMask: number(params, 'orphan_mask', 1023),
    refillDelayNs: timeoutNs(number(params, 'refill_delay', 40e6)),
    ceThresholdNs: number(params, 'ce_threshold', 0xffffffff * 1000),
    rateEnable: flag(params, 'pacing', true),
    maxRate: params['maxrate'] === undefined ? Infinity : bytesPerSecond(number(params, 'maxrate', 0)),
    lowRateThreshold: params['low_rate_threshold'] === undefined ? 550_000 / 8 : bytesPerSecond(number(params, 'low_rate_threshold', 0)),
    timerSlackNs: number(params, 'timer_slack', 10_000),
    horizonNs: number(params, 'horizon', 10e9),
    horizonDrop: flag(params, 'horizon_drop', true),
  };
}

class Fq extends Discipline {
  /** By masked flow key, and by key + 2^32 for sockets; filled as flows appear. */
  private readonly flows = new Map<number, Flow>();
  private readonly roots: FqRoots;
  private readonly fastPath = new PacketFifo();
  private readonly bands = BAND_QUANTUM.map((bytes) => new Band(bytes));
  private readonly delayed = new Delayed();
  private bandNumber = 0;
  /** Flows that hold packets, throttled ones too. */
  private activeFlows = 0;
  private throttledCount = 0;
  private flowsPlimit = 0;
  private horizonDrops = 0;
  private horizonCaps = 0;
  private forgotten = 0;

  /** @param buckets trees of flows */
  constructor(context: AqmContext, private settings: FqSettings, buckets: number) {
    super(context);
    this.roots = new FqRoots(buckets);
  }

  override change(params: Params, nowNs: number): void {
    this.settings = settingsOf(params, this.context);
    const { limit } = this.settings;
    this.dropWhile(() => this.backlogPackets > limit, () => this.dequeue(nowNs), 'purge', nowNs);
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const { settings } = this;
    const bandNumber = bandOfDscp(packet.dscp);
    const band = this.bands[bandNumber]!;
    if (band.packets >= settings.limit) {
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    if (packet.edtNs > nowNs + settings.horizonNs) {
      if (settings.horizonDrop) {
        this.horizonDrops++;
        this.context.drop(packet, 'limit', nowNs);
        return;
      }
      this.horizonCaps++;
      packet.edtNs = nowNs + settings.horizonNs;
    }
    if (this.mayPass(packet, nowNs)) {
      this.fastPath.push(packet);
    } else {
      const key = packet.edtNs > 0 ? (packet.flowHash >>> 0) + SOCKETS : (packet.flowHash & settings.orphanMask) >>> 0;
      if (key < SOCKETS) this.forgetIdle(key, nowNs);
      let flow = this.flows.get(key);
      if (flow === undefined) {
        flow = new Flow(settings.initialQuantum, oddJiffiesNs(nowNs));
        this.flows.set(key, flow);
        if (key < SOCKETS) this.roots.add(key);
      }
      if (flow.packets >= settings.flowLimit) {
        this.flowsPlimit++;
        this.context.drop(packet, 'limit', nowNs);
        return;
      }
      if (!flow.listed && !flow.throttled) {
        // The list of the band it had, as in fq_enqueue(); the new band counts from its next turn.
        this.bands[flow.band]!.newFlows.add(flow);
        if (jiffiesNs(nowNs) > flow.emptiedNs + settings.refillDelayNs) flow.credit = Math.max(flow.credit, settings.quantum);
      }
      flow.band = bandNumber;
      band.packets++;
      if (flow.packets === 0) this.activeFlows++;
      flow.push(packet);
    }
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  /** fq_gc() */
  private forgetIdle(key: number, nowNs: number): void {
    for (const other of this.roots.forget(key, (one) => {
      const flow = this.flows.get(one)!;
      return !flow.listed && !flow.throttled && jiffiesNs(nowNs) > flow.emptiedNs + FORGOTTEN_AFTER_NS;
    })) {
      this.flows.delete(other);
      this.forgotten++;
    }
  }

  /** fq_fastpath_check() */
  private mayPass(packet: QueuedPacket, nowNs: number): boolean {
    if (packet.edtNs > nowNs) return false;
    if (this.backlogPackets > 0) {
      if (this.activeFlows !== this.delayed.length || this.fastPath.packets >= FAST_PATH_PACKETS) return false;
      const due = this.delayed.first;
      if (due !== undefined && due.timeNextNs <= nowNs) return false;
    }
    return this.settings.maxRate === Infinity;
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    this.readyNs = Infinity;
    if (this.backlogPackets === 0) return null;
    const first = this.fastPath.shift();
    if (first !== null) return this.send(first);
    for (let flow = this.delayed.first; flow !== undefined && flow.timeNextNs <= nowNs; flow = this.delayed.first) {
      this.delayed.shift();
      flow.throttled = false;
      this.bands[flow.band]!.oldFlows.add(flow);
    }
    const { quantum, ceThresholdNs } = this.settings;
    let band = this.bands[this.bandNumber]!;
    let retries = 0;
    for (;;) {
      const list = band.credit <= 0 ? null : band.newFlows.head !== null ? band.newFlows : band.oldFlows;
      const flow = list === null ? null : list.head;
      if (list === null || flow === null) {
        let found = false;
        while (!found && ++retries <= BANDS) {
          this.bandNumber = this.bandNumber + 1 === BANDS ? 0 : this.bandNumber + 1;
          band = this.bands[this.bandNumber]!;
          band.credit = Math.min(band.credit + band.quantum, band.quantum);
          if (band.credit > 0) found = true;
          else retries = 0;
        }
        if (found) continue;
        const due = this.delayed.first;
        if (due !== undefined) this.readyNs = due.timeNextNs + this.settings.timerSlackNs;
        return null;
      }
      if (flow.credit <= 0) {
        retries = 0;
        flow.credit += quantum;
        list.shift();
        this.bands[flow.band]!.oldFlows.add(flow);
        continue;
      }
      retries = 0;
      const packet = flow.head;
      if (packet === null) {
        list.shift();
        if (list === band.newFlows) this.bands[flow.band]!.oldFlows.add(flow);
        else flow.emptiedNs = oddJiffiesNs(nowNs);
        continue;
      }
      const timeNextNs = Math.max(timeToSend(packet), flow.timeNextNs);
      if (nowNs < timeNextNs) {
        list.shift();
        flow.timeNextNs = timeNextNs;
        flow.throttled = true;
        this.throttledCount++;
        this.delayed.push(flow);
        continue;
      }
      if (nowNs - timeNextNs - ceThresholdNs > 0 && setCe(packet)) this.marks++;
      flow.shift();
      if (flow.packets === 0) this.activeFlows--;
      this.bands[bandOfDscp(packet.dscp)]!.packets--;
      flow.credit -= packet.size;
      band.credit -= packet.size;
      this.pace(flow, packet, nowNs);
      return this.send(packet);
    }
  }

  private send(packet: QueuedPacket): QueuedPacket {
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    // The next device forwards it: skb_clear_tstamp().
    packet.edtNs = 0;
    return packet;
  }

  /** The end of fq_dequeue(): when the flow may send again. */
  private pace(flow: Flow, packet: QueuedPacket, nowNs: number): void {
    const { rateEnable, maxRate, lowRateThreshold, quantum } = this.settings;
    if (!rateEnable) return;
    let bytes = packet.size;
    if (packet.edtNs === 0) {
      if (maxRate <= lowRateThreshold) {
        flow.credit = 0;
      } else {
        // A whole quantum at once, then its time.
        bytes = Math.max(bytes, quantum);
        if (flow.credit > 0) return;
      }
    }
    if (maxRate === Infinity) return;
    let gap = Math.min(Math.floor((bytes * 1e9) / Math.max(maxRate, 1)), 1e9);
    // A timer that was late is made up for by at most half.
    if (flow.timeNextNs > 0) gap -= Math.min(Math.floor(gap / 2), nowNs - flow.timeNextNs);
    flow.timeNextNs = nowNs + gap;
  }

  override readState(into: Float64Array): void {
    into[0] = this.flows.size;
    into[1] = this.flows.size - this.activeFlows;
    into[2] = this.delayed.length;
    into[3] = this.throttledCount;
    into[4] = this.flowsPlimit;
    into[5] = this.horizonDrops;
    into[6] = this.horizonCaps;
    into[7] = this.forgotten;
  }
}

export const fq: AqmKind = {
  kind: 'fq',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (params, context) => new Fq(context, settingsOf(params, context), number(params, 'buckets', 1024)),
};
