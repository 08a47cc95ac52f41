/**
 * CAKE: Høiland-Jørgensen, Täht, Morton, "Piece of CAKE", LANMAN 2018, as Linux 6.12 has it (net/sched/sch_cake.c):
 * a deficit-mode shaper, diffserv tins, an 8-way set-associative flow hash, fairness between hosts and flows, COBALT
 * (cobalt-core.ts) on every flow, ACK filter, framing compensation. Without `bandwidth` it does not shape, as in Linux.
 * `autorate-ingress` sets the rate to 15/16 of an average of what arrives between pauses. A change keeps everything but what waits in tins that are no
 * longer used, which is thrown away uncounted.
 *
 * Differences from Linux:
 * - truesize is a model (truesize.ts): that of local TCP and UDP senders, exact where it was measured.
 * - The ACK filter sees what packets carry here: pure ACKs and their number. Only a pure ACK triggers it (Linux: any
 *   segment with ACK), and SACK blocks, time stamps and ECN echoes are taken not to differ between two ACKs.
 * - nat, fwmark and split-gso have no meaning here: no conntrack, marks or GSO.
 * - autorate-ingress: boot is long ago; Linux's first window begins at boot and ends with the first packet.
 * - A change of framing counts at once; in Linux what waits keeps the length it had at its arrival.
 * - `overhead` is counted from the IP packet: the size less an Ethernet header, which is what Linux subtracts on Ethernet.
 * - Host keys come with the packet instead of being hashed from its addresses.
 */

import { ackFilters, cake as qdisc, chosen, framingOf, presets, switchOf } from '../testbed/qdiscs/cake.js';
import { bytesPerSecond } from '../testbed/qdiscs/parameters.js';
import { ETHERNET_HEADER, type AqmContext, type AqmKind, type QueuedPacket } from './aqm.js';
import { isolation, tinModes, tinPlan, type TinPlan } from './cake-tins.js';
import { CobaltVars, type CobaltParams } from './cobalt-core.js';
import { Discipline } from './discipline.js';
import { PacketFifo } from './packet-fifo.js';
import { number, type Params } from './params.js';
import { truesize } from './truesize.js';

const WAYS = 8, QUEUES = 1024, MAX_TINS = 8, HEAP = QUEUES * MAX_TINS;
/** Bits of the isolation modes (CAKE_FLOW_…). */
const BY_SRC = 1, BY_DST = 2, BY_FLOW = 4;
/** State of a flow queue (CAKE_SET_…). */
const NONE = 0, SPARSE = 1, SPARSE_WAIT = 2, BULK = 3, DECAYING = 4;

class Flow extends CobaltVars {
  readonly queue = new PacketFifo();
  deficit = 0;
  set = NONE;
  srcHost = 0;
  dstHost = 0;
  /** Counted among its tin's. */
  tried = false;
  chain: Chain | null = null;
  previous: Flow | null = null;
  following: Flow | null = null;
  constructor(readonly index: number) { super(); }
}

/** A list a flow can leave from anywhere: a decaying flow may come back at any time. */
class Chain {
  head: Flow | null = null;
  private tail: Flow | null = null;

  remove(flow: Flow): void {
    if (flow.previous === null) this.head = flow.following;
    else flow.previous.following = flow.following;
    if (flow.following === null) this.tail = flow.previous;
    else flow.following.previous = flow.previous;
    flow.previous = null;
    flow.following = null;
    flow.chain = null;
  }

  /** list_move_tail() */
  moveToEnd(flow: Flow): void {
    if (flow.chain !== null) flow.chain.remove(flow);
    flow.previous = this.tail;
    if (this.tail === null) this.head = flow;
    else this.tail.following = flow;
    this.tail = flow;
    flow.chain = this;
  }
}

/** cake_set_rate(): time a byte as a fixed-point number, ns × 2^shift, and the tin's COBALT. */
class Rate {
  /** 0: unlimited. */
  readonly ns: number;
  /** 2^shift */
  private readonly scale: number;
  readonly flowQuantum: number;
  readonly cobalt: CobaltParams;

  constructor(readonly bytesPerSecond: number, mtuBytes: number, targetNs: number, rttNs: number) {
    let ns = 0n, shift = 0;
    if (bytesPerSecond > 0) {
      shift = 34;
      ns = (1_000_000_000n << 34n) / BigInt(Math.max(64, bytesPerSecond));
      for (; ns >> 34n !== 0n; shift--) ns >>= 1n;
    }
    this.ns = Number(ns);
    this.scale = 2 ** shift;
    this.flowQuantum = bytesPerSecond > 0 ? Math.max(Math.min(Math.floor(bytesPerSecond / 4096), 1514), 300) : 1514;
    const mtuTimeNs = this.duration(mtuBytes);
    const target = Math.max(Math.floor((mtuTimeNs * 3) / 2), targetNs);
    this.cobalt = { targetNs: target, intervalNs: Math.max(rttNs + target - targetNs, target * 2), mtuTimeNs };
  }

  /** (bytes × ns) >> shift. Exact: ns is below 2^34. */
  duration(bytes: number): number {
    return Math.floor((bytes * this.ns) / this.scale);
  }
}

class Tin {
  /** Made when first used. */
  readonly flows: (Flow | null)[] = new Array<Flow | null>(QUEUES).fill(null);
  readonly tags = new Uint32Array(QUEUES);
  readonly srcTags = new Uint32Array(QUEUES);
  readonly dstTags = new Uint32Array(QUEUES);
  readonly srcBulkFlows = new Uint16Array(QUEUES);
  readonly dstBulkFlows = new Uint16Array(QUEUES);
  readonly newFlows = new Chain();
  readonly oldFlows = new Chain();
  readonly decayingFlows = new Chain();
  /** Queues at rest that were over target once: COBALT's reciprocal root is 1 there, and 0 in all others. */
  tried = 0;
  sparseFlows = 0;
  bulkFlows = 0;
  deficit = 0;
  backlog = 0;
  timeNextNs = 0;

  packets = 0;
  dropped = 0;
  ackDrops = 0;
  marked = 0;
  peakDelay = 0;
  averageDelay = 0;
  baseDelay = 0;

  constructor(readonly number: number, public rate: Rate, public quantum: number) {}

  /** The state of queue `index`, also of one not yet made. */
  setOf(index: number): number {
    const flow = this.flows[index]!;
    return flow === null ? NONE : flow.set;
  }
  flow(index: number): Flow {
    return (this.flows[index] ??= new Flow(index));
  }
}

/** The flows with packets of a tin, but for `flow`: each has its turn before that one's next. */
function others(tin: Tin, flow: Flow): { flow: Flow; deficit: number }[] {
  const found: { flow: Flow; deficit: number }[] = [];
  for (const chain of [tin.newFlows, tin.oldFlows]) {
    for (let other = chain.head; other !== null; other = other.following) if (other !== flow && other.queue.head !== null) found.push({ flow: other, deficit: other.deficit });
  }
  return found;
}

/** cake_ewma(), with 2^shift */
const ewma = (average: number, sample: number, weight: number): number => average - Math.floor(average / weight) + Math.floor(sample / weight);

interface CakeOptions {
  readonly plan: TinPlan;
  /** Bytes/s; 0: unlimited. */
  readonly bandwidth: number;
  readonly targetNs: number;
  readonly rttUs: number;
  readonly autorate: boolean;
  /** As given; 0: from the rate. */
  readonly memlimit: number;
  readonly flowMode: number;
  readonly overhead: number | null;
  readonly mpu: number;
  /** 0 none, 1 ATM, 2 PTM. */
  readonly cell: number;
  readonly ingress: boolean;
  readonly wash: boolean;
  /** 0 off, 1 on, 2 aggressive. */
  readonly ackFilter: number;
}

class Cake extends Discipline {
  /** Made when first needed; those that a change put out of use may come back. */
  private readonly allTins: Tin[] = [];
  private tins: readonly Tin[] = [];
  private rate!: Rate;
  /** The shaper's now, bytes/s. */
  private bandwidth: number;
  /** Bytes of truesize. */
  private bufferLimit = Infinity;
  private timeNextNs = 0;
  private failsafeNextNs = 0;
  private bufferUsed = 0;
  private bufferMaxUsed = 0;
  private tin!: Tin;
  private queueIndex = 0;

  /** Queues by backlog, largest first, once memory ran out; a queue is tin + 8 × index. */
  private readonly heap = new Uint16Array(HEAP);
  private readonly heapIndex = new Uint16Array(HEAP);
  private readonly backlogs = new Float64Array(HEAP);
  private overflowTimeout = 0;

  // autorate-ingress: what arrives between two pauses is a window.
  private lastPacketNs = -Infinity;
  private averageIntervalNs = 0;
  private windowBeginNs = -Infinity;
  private windowBytes = 0;
  private peakBandwidth: number;

  constructor(context: AqmContext, private options: CakeOptions) {
    super(context);
    this.bandwidth = options.bandwidth;
    this.configure();
    this.peakBandwidth = this.bandwidth;
    for (let i = 0; i < HEAP; i++) this.heap[i] = this.heapIndex[i] = i;
  }

  /** cake_reconfigure() */
  private configure(): void {
    const { options, bandwidth, context } = this;
    const { plan, targetNs, rttUs, memlimit } = options;
    this.tins = plan.rates(bandwidth).map((share, i) => {
      const rate = new Rate(share, context.mtuBytes, targetNs, rttUs * 1000), quantum = plan.quanta[i]!;
      const tin = (this.allTins[i] ??= new Tin(i, rate, quantum));
      tin.rate = rate;
      tin.quantum = quantum;
      return tin;
    });
    this.tin = this.tins[0]!;
    this.rate = this.tin.rate;
    const wanted = memlimit || (bandwidth > 0 ? Math.max(Math.floor((bandwidth * rttUs) / 250_000) % 2 ** 32, 4 << 20) : 0xffffffff);
    this.bufferLimit = Math.min(wanted, Math.max(10240 * context.mtuBytes, memlimit));
  }

  override change(params: Params, nowNs: number): void {
    this.options = resolve(params);
    // What autorate has found stays where no bandwidth is given.
    if (params['bandwidth'] !== undefined || params['unlimited'] === true) this.bandwidth = this.options.bandwidth;
    this.configure();
    for (let i = this.tins.length; i < this.allTins.length; i++) this.clear(this.allTins[i]!, nowNs);
  }

  /** cake_clear_tin() */
  private clear(tin: Tin, nowNs: number): void {
    for (const flow of tin.flows) {
      for (let packet = flow?.queue.shift() ?? null; packet !== null; packet = flow!.queue.shift()) {
        this.account(tin, flow!.index, packet, -1);
        if (this.overflowTimeout !== 0) this.siftDown(this.heapIndex[tin.number + MAX_TINS * flow!.index]!);
        this.context.drop(packet, 'purge', nowNs);
      }
    }
  }

  /** The estimate of the incoming rate in cake_enqueue(). */
  private estimateRate(nowNs: number): void {
    const interval = Math.min(nowNs - this.lastPacketNs, 1e9);
    // Bursts, as Wi-Fi makes them, are to count as one.
    this.averageIntervalNs = ewma(this.averageIntervalNs, interval, interval > this.averageIntervalNs ? 4 : 256);
    this.lastPacketNs = nowNs;
    if (interval <= this.averageIntervalNs) return;
    const found = Math.floor((this.windowBytes * 1e9) / (nowNs - this.windowBeginNs));
    this.peakBandwidth = ewma(this.peakBandwidth, found, found > this.peakBandwidth ? 4 : 256);
    this.windowBytes = 0;
    this.windowBeginNs = nowNs;
    // Linux waits for 250 ms since a time that it never sets.
    this.bandwidth = Math.floor((this.peakBandwidth * 15) / 16);
    this.configure();
  }

  /** cake_calc_overhead(): what the link is charged for a packet, bytes. */
  private charged(size: number): number {
    const { overhead, mpu, cell } = this.options;
    let length = Math.max(overhead === null ? size : size - ETHERNET_HEADER + overhead, mpu);
    if (cell === 1) length = Math.floor((length + 47) / 48) * 53;
    else if (cell === 2) length += Math.floor((length + 63) / 64);
    return length;
  }

  /** cake_advance_shaper() */
  private advanceShaper(tin: Tin, size: number, nowNs: number, isDrop: boolean): number {
    const length = this.charged(size);
    if (this.rate.ns !== 0) {
      const tinNs = tin.rate.duration(length), wholeNs = this.rate.duration(length);
      if (tin.timeNextNs < nowNs) tin.timeNextNs += tinNs;
      else if (tin.timeNextNs < nowNs + tinNs) tin.timeNextNs = nowNs + tinNs;
      this.timeNextNs += wholeNs;
      if (!isDrop) this.failsafeNextNs += wholeNs + Math.floor(wholeNs / 2);
    }
    return length;
  }

  private hasSrcHosts(): boolean {
    return (this.options.flowMode & (BY_SRC | BY_FLOW)) === (BY_SRC | BY_FLOW);
  }
  private hasDstHosts(): boolean {
    return (this.options.flowMode & (BY_DST | BY_FLOW)) === (BY_DST | BY_FLOW);
  }

  private countHosts(tin: Tin, flow: Flow, change: 1 | -1): void {
    if (this.hasSrcHosts()) this.countSrcHost(tin, flow, change);
    if (this.hasDstHosts()) this.countDstHost(tin, flow, change);
  }
  private countSrcHost(tin: Tin, flow: Flow, change: 1 | -1): void {
    const count = tin.srcBulkFlows[flow.srcHost]! + change;
    if (count >= 0 && count <= QUEUES) tin.srcBulkFlows[flow.srcHost] = count;
  }
  private countDstHost(tin: Tin, flow: Flow, change: 1 | -1): void {
    const count = tin.dstBulkFlows[flow.dstHost]! + change;
    if (count >= 0 && count <= QUEUES) tin.dstBulkFlows[flow.dstHost] = count;
  }

  /** cake_get_flow_quantum(): shared among the busier host's flows; the random part keeps rounding from adding up. */
  private flowQuantum(tin: Tin, flow: Flow, afresh: boolean): number {
    const units = this.quantumUnits(tin, flow);
    const { chance } = this.context;
    if (chance === undefined) return (units + (this.context.randomU32() & 0xffff)) >>> 16;
    chance.rounded(flow, (units & 0xffff) / 0x10000, afresh);
    return units >>> 16;
  }

  /** In 2^-16 bytes. */
  private quantumUnits(tin: Tin, flow: Flow): number {
    let load = 1;
    if (this.hasSrcHosts()) load = Math.max(load, tin.srcBulkFlows[flow.srcHost]!);
    if (this.hasDstHosts()) load = Math.max(load, tin.dstBulkFlows[flow.dstHost]!);
    return tin.rate.flowQuantum * Math.floor(65535 / load);
  }

  private usedUp(tin: Tin, flow: Flow): boolean {
    const { chance } = this.context;
    if (chance === undefined) return flow.deficit <= 0;
    return chance.usedUp(flow, flow.deficit, flow.queue.head, flow.set === BULK && tin.bulkFlows + tin.sparseFlows === 1, this.quantumUnits(tin, flow) >>> 16, () => others(tin, flow));
  }

  /** A host's entry among 8 ways, by tag, else the first without bulk flows. */
  private static findHost(tags: Uint32Array, bulkFlows: Uint16Array, hash: number): number {
    const inner = hash & (WAYS - 1), outer = (hash & (QUEUES - 1)) - inner;
    for (let i = 0; i < WAYS; i++) {
      const at = outer + ((inner + i) & (WAYS - 1));
      if (tags[at] === hash) return at;
    }
    let at = outer + inner;
    for (let i = 0; i < WAYS; i++) {
      const way = outer + ((inner + i) & (WAYS - 1));
      if (bulkFlows[way] === 0) {
        at = way;
        break;
      }
    }
    tags[at] = hash;
    return at;
  }

  /** cake_hash(): the packet's queue in its tin. */
  private classify(tin: Tin, packet: QueuedPacket): number {
    const mode = this.options.flowMode;
    if (mode === 0) return 0;
    let hash = 0;
    if ((mode & BY_FLOW) !== 0) {
      hash = packet.flowHash >>> 0;
    } else {
      if ((mode & BY_SRC) !== 0) hash ^= packet.srcHash;
      if ((mode & BY_DST) !== 0) hash ^= packet.dstHash;
      hash >>>= 0;
    }
    const reduced = hash & (QUEUES - 1);
    if (tin.tags[reduced] === hash && tin.setOf(reduced) !== NONE) return reduced;

    const inner = reduced & (WAYS - 1), outer = reduced - inner;
    let found = -1;
    let allocate = false;
    for (let i = 0; i < WAYS && found < 0; i++) {
      const at = outer + ((inner + i) & (WAYS - 1));
      if (tin.tags[at] === hash) {
        found = at;
        allocate = tin.setOf(at) === NONE;
      }
    }
    for (let i = 0; i < WAYS && found < 0; i++) {
      const at = outer + ((inner + i) & (WAYS - 1));
      if (tin.setOf(at) === NONE) {
        found = at;
        allocate = true;
      }
    }
    if (found < 0) {
      // Every way is taken: share the queue it would have had.
      found = reduced;
      allocate = true;
      if (tin.setOf(found) === BULK) this.countHosts(tin, tin.flow(found), -1);
    }
    tin.tags[found] = hash;
    if (allocate) {
      const flow = tin.flow(found);
      if (this.hasSrcHosts()) {
        flow.srcHost = Cake.findHost(tin.srcTags, tin.srcBulkFlows, packet.srcHash >>> 0);
        if (flow.set === BULK) this.countSrcHost(tin, flow, 1);
      }
      if (this.hasDstHosts()) {
        flow.dstHost = Cake.findHost(tin.dstTags, tin.dstBulkFlows, packet.dstHash >>> 0);
        if (flow.set === BULK) this.countDstHost(tin, flow, 1);
      }
    }
    return found;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const { options } = this;
    const tin = this.tins[options.plan.index[packet.dscp]!]!;
    if (options.wash) packet.dscp = 0;
    const index = this.classify(tin, packet);
    const flow = tin.flow(index);

    if (tin.backlog === 0) {
      if (tin.timeNextNs < nowNs) tin.timeNextNs = nowNs;
      if (this.backlogPackets === 0 && this.timeNextNs < nowNs) {
        this.failsafeNextNs = nowNs;
        this.timeNextNs = nowNs;
      }
    }
    const backlogBefore = this.backlogBytes;
    flow.queue.push(packet);
    this.account(tin, index, packet, 1);
    tin.packets++;
    if (options.ackFilter !== 0) {
      const ack = this.filterAck(flow);
      if (ack !== null) {
        this.account(tin, index, ack, -1);
        tin.ackDrops++;
        if (options.ingress) this.advanceShaper(tin, ack.size, nowNs, true);
        this.context.drop(ack, 'filter', nowNs);
      }
    }
    if (this.overflowTimeout !== 0) this.siftUp(this.heapIndex[tin.number + MAX_TINS * index]!);
    if (options.autorate) {
      this.windowBytes += this.backlogBytes - backlogBefore;
      this.estimateRate(nowNs);
    } else {
      this.lastPacketNs = nowNs;
    }

    if (flow.set === NONE || flow.set === DECAYING) {
      tin.newFlows.moveToEnd(flow);
      flow.set = SPARSE;
      tin.sparseFlows++;
      flow.deficit = this.flowQuantum(tin, flow, true);
    } else if (flow.set === SPARSE_WAIT) {
      // It had been empty and counted as sparse, but stands in the bulk rotation.
      flow.set = BULK;
      tin.sparseFlows--;
      tin.bulkFlows++;
      this.countHosts(tin, flow, 1);
    }
    if (this.bufferUsed > this.bufferMaxUsed) this.bufferMaxUsed = this.bufferUsed;
    while (this.bufferUsed > this.bufferLimit) this.dropFromLongest(nowNs);
  }

  private account(tin: Tin, index: number, packet: QueuedPacket, sign: 1 | -1): void {
    const size = sign * packet.size;
    this.backlogs[tin.number + MAX_TINS * index]! += size;
    tin.backlog += size;
    this.backlogBytes += size;
    this.backlogPackets += sign;
    this.bufferUsed += sign * truesize(packet);
  }

  /** cake_ack_filter(): takes out the oldest pure ACK that the last packet makes superfluous; two must be, or one right before it when aggressive. */
  private filterAck(flow: Flow): QueuedPacket | null {
    const trigger = flow.queue.tail!;
    if (!trigger.pureAck || flow.queue.head === trigger) return null;
    let eligible: QueuedPacket | null = null, beforeEligible: QueuedPacket | null = null, previous: QueuedPacket | null = null;
    let found = 0;
    for (let check = flow.queue.head!; check !== trigger; check = check.next!) {
      if (check.pureAck && check.flowHash === trigger.flowHash && ((trigger.ackNumber - check.ackNumber) | 0) > 0) {
        if (eligible === null) {
          eligible = check;
          beforeEligible = previous;
        }
        if (found++ > 0) return flow.queue.removeAfter(beforeEligible);
      }
      previous = check;
    }
    if (eligible !== null && this.options.ackFilter === 2 && eligible.next === trigger) return flow.queue.removeAfter(beforeEligible);
    return null;
  }

  /** cake_drop(): the head of the queue with the largest backlog. */
  private dropFromLongest(nowNs: number): void {
    if (this.overflowTimeout === 0) for (let i = HEAP / 2 - 1; i >= 0; i--) this.siftDown(i);
    this.overflowTimeout = 65535;
    const code = this.heap[0]!;
    const tin = this.tins[code % MAX_TINS], index = Math.floor(code / MAX_TINS);
    const flow = tin?.flows[index] ?? null;
    const packet = flow === null ? null : flow.queue.shift();
    if (tin === undefined || flow === null || packet === null) {
      // The ACK filter can shrink a queue without the heap: build it anew.
      this.overflowTimeout = 0;
      return;
    }
    flow.queueFull(tin.rate.cobalt, nowNs);
    this.account(tin, index, packet, -1);
    tin.dropped++;
    if (this.options.ingress) this.advanceShaper(tin, packet.size, nowNs, true);
    this.context.drop(packet, 'overload', nowNs);
    this.siftDown(0);
  }

  private swap(i: number, j: number): void {
    const a = this.heap[i]!, b = this.heap[j]!;
    this.heap[i] = b;
    this.heap[j] = a;
    this.heapIndex[a] = j;
    this.heapIndex[b] = i;
  }

  private siftDown(start: number): void {
    const { heap, backlogs } = this;
    for (let i = start; ; ) {
      const left = 2 * i + 1, right = left + 1;
      let largest = i, most = backlogs[heap[i]!]!;
      if (left < HEAP && backlogs[heap[left]!]! > most) {
        largest = left;
        most = backlogs[heap[left]!]!;
      }
      if (right < HEAP && backlogs[heap[right]!]! > most) largest = right;
      if (largest === i) return;
      this.swap(i, largest);
      i = largest;
    }
  }

  private siftUp(start: number): void {
    for (let i = start; i > 0; ) {
      const parent = (i - 1) >> 1;
      if (!(this.backlogs[this.heap[i]!]! > this.backlogs[this.heap[parent]!]!)) return;
      this.swap(i, parent);
      i = parent;
    }
  }

  /** Unshaped: weighted deficit round robin between tins. @returns false when no tin has a flow to serve */
  private nextTinByWeight(): boolean {
    let wrapped = false, empty = true;
    for (;;) {
      const tin = this.tin;
      const flows = tin.sparseFlows + tin.bulkFlows;
      if (tin.deficit >= 0 && flows > 0) return true;
      if (tin.deficit <= 0) tin.deficit += tin.quantum;
      if (flows > 0) empty = false;
      const next = tin.number + 1;
      this.tin = this.tins[next < this.tins.length ? next : 0]!;
      if (next >= this.tins.length) {
        if (wrapped && empty) return false;
        wrapped = true;
      }
    }
  }

  /** Shaped: the highest tin that keeps its schedule, else the one due first. */
  private nextTinByTime(nowNs: number): boolean {
    let best = Infinity;
    let chosenTin = this.tins[0]!;
    for (let i = 0; i < this.tins.length; i++) {
      const tin = this.tins[i]!;
      if (tin.sparseFlows + tin.bulkFlows === 0) continue;
      const wait = tin.timeNextNs - nowNs;
      if (wait <= 0 || wait <= best) {
        best = wait;
        chosenTin = tin;
      }
    }
    this.tin = chosenTin;
    return chosenTin.sparseFlows + chosenTin.bulkFlows > 0;
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    this.readyNs = Infinity;
    // Decaying flows are looked at once a call, first of all.
    let first = true;
    for (;;) {
      if (this.backlogPackets === 0) return null;
      if (this.timeNextNs > nowNs && this.failsafeNextNs > nowNs) {
        this.readyNs = Math.min(this.timeNextNs, this.failsafeNextNs);
        return null;
      }
      if (!(this.rate.ns === 0 ? this.nextTinByWeight() : this.nextTinByTime(nowNs))) return null;
      const tin = this.tin;
      let again = true;
      while (again) {
        again = false;
        const flow = (first ? tin.decayingFlows.head : null) ?? tin.newFlows.head ?? tin.oldFlows.head ?? tin.decayingFlows.head;
        if (flow === null) break;
        this.queueIndex = flow.index;
        first = false;
        if (this.usedUp(tin, flow)) {
          if (flow.set === SPARSE) {
            if (flow.queue.head !== null) {
              tin.sparseFlows--;
              tin.bulkFlows++;
              this.countHosts(tin, flow, 1);
              flow.set = BULK;
            } else {
              flow.set = SPARSE_WAIT;
            }
          }
          flow.deficit += this.flowQuantum(tin, flow, false);
          tin.oldFlows.moveToEnd(flow);
          again = true;
          continue;
        }
        for (;;) {
          const packet = flow.queue.shift();
          if (packet === null) {
            this.rest(tin, flow, nowNs);
            break;
          }
          this.account(tin, this.queueIndex, packet, -1);
          if (this.overflowTimeout !== 0) this.siftDown(this.heapIndex[tin.number + MAX_TINS * this.queueIndex]!);
          const drop = flow.shouldDrop(packet, tin.rate.cobalt, this.options.ingress ? tin.bulkFlows : 0, nowNs, this.context.randomU32, this.context.chance, flow.queue.head === null, 1 - (1 - 1 / QUEUES) ** tin.tried);
          if (flow.ecnMarked) this.marks++;
          // The last packet of a queue may be marked but is not dropped.
          if (!drop || flow.queue.head === null) return this.send(tin, flow, packet, nowNs);
          if (this.options.ingress) {
            const length = this.advanceShaper(tin, packet.size, nowNs, true);
            flow.deficit -= length;
            tin.deficit -= length;
          }
          tin.dropped++;
          this.context.drop(packet, 'aqm', nowNs);
          if (this.options.ingress) {
            again = true;
            break;
          }
        }
      }
    }
  }

  private send(tin: Tin, flow: Flow, packet: QueuedPacket, nowNs: number): QueuedPacket {
    if (flow.ecnMarked) tin.marked++;
    const delay = nowNs - packet.enqueueNs;
    tin.averageDelay = ewma(tin.averageDelay, delay, 256);
    tin.peakDelay = ewma(tin.peakDelay, delay, delay > tin.peakDelay ? 4 : 256);
    tin.baseDelay = ewma(tin.baseDelay, delay, delay < tin.baseDelay ? 4 : 256);
    const length = this.advanceShaper(tin, packet.size, nowNs, false);
    flow.deficit -= length;
    tin.deficit -= length;
    if (this.overflowTimeout !== 0) this.overflowTimeout--;
    return packet;
  }

  /** A queue was found empty: it decays, or leaves the rotation. */
  private rest(tin: Tin, flow: Flow, nowNs: number): void {
    flow.queueEmpty(tin.rate.cobalt, nowNs);
    if (flow.set === BULK) {
      tin.bulkFlows--;
      this.countHosts(tin, flow, -1);
    } else if (flow.set === SPARSE || flow.set === SPARSE_WAIT) {
      tin.sparseFlows--;
    }
    if (flow.pDrop !== 0 || flow.count !== 0 || nowNs < flow.dropNextNs) {
      tin.decayingFlows.moveToEnd(flow);
      flow.set = DECAYING;
    } else {
      flow.chain!.remove(flow);
      flow.set = NONE;
      if (!flow.tried && flow.recInvSqrt !== 0) {
        flow.tried = true;
        tin.tried++;
      }
    }
  }

  override readState(into: Float64Array): void {
    into[0] = this.peakBandwidth * 8;
    into[1] = this.bufferMaxUsed;
    const { order } = this.options.plan;
    const us = (ns: number): number => Math.floor(ns / 1000) * 1000;
    for (let i = 0; i < MAX_TINS; i++) {
      const at = 2 + 8 * i;
      const tin = i < order.length ? this.tins[order[i]!] : undefined;
      into[at] = tin?.packets ?? NaN;
      into[at + 1] = tin?.dropped ?? NaN;
      into[at + 2] = tin?.ackDrops ?? NaN;
      into[at + 3] = tin?.marked ?? NaN;
      into[at + 4] = tin?.backlog ?? NaN;
      into[at + 5] = us(tin?.peakDelay ?? NaN);
      into[at + 6] = us(tin?.averageDelay ?? NaN);
      into[at + 7] = us(tin?.baseDelay ?? NaN);
    }
  }
}

function resolve(params: Params): CakeOptions {
  const flowWord = chosen(isolation, params);
  const framing = framingOf(params);
  const ackWord = chosen(ackFilters, params);
  const preset = chosen(presets, params);
  const rttUs = params['rtt'] !== undefined ? Math.floor(number(params, 'rtt', 0) / 1000) : preset === undefined ? 100_000 : presets[preset]![1];
  const targetUs = preset !== undefined ? presets[preset]![0] : params['rtt'] !== undefined ? Math.max(Math.floor(rttUs / 20), 1) : 5000;
  return {
    plan: tinPlan(chosen(tinModes, params)),
    bandwidth: bytesPerSecond(number(params, 'bandwidth', 0)),
    targetNs: targetUs * 1000,
    rttUs,
    autorate: params['autorate-ingress'] === true,
    memlimit: number(params, 'memlimit', 0),
    flowMode: flowWord === undefined ? isolation['triple-isolate']! : isolation[flowWord]!,
    overhead: framing.overhead === undefined || framing.raw ? null : framing.overhead,
    mpu: framing.mpu ?? 0,
    cell: framing.cell ?? 0,
    ingress: switchOf(params, 'ingress', 'egress') ?? false,
    wash: switchOf(params, 'wash', 'nowash') ?? false,
    ackFilter: ackWord === undefined ? 0 : ackFilters[ackWord]!,
  };
}

export const cake: AqmKind = {
  kind: 'cake',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (params, context) => new Cake(context, resolve(params)),
};
