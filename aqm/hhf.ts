/**
 * HHF, the heavy-hitter filter: Estan & Varghese, SIGCOMM 2002, as Linux 6.12 has it (net/sched/sch_hhf.c): a
 * multi-stage filter finds flows that sent more than `admit_bytes` in a `reset_timeout`; those share a second queue
 * of smaller weight. A flow that becomes heavy changes queues, so its packets may be reordered, as in Linux.
 * A change keeps everything; what is above a lower limit is dequeued and thrown away uncounted.
 *
 * Differences from Linux:
 * - The hash mixes the packet's flow key with a seeded perturbation (integer.ts) instead of SipHash over its addresses.
 */

import { hhf as qdisc } from '../testbed/qdiscs/hhf.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { perturbHash } from './integer.js';
import { jiffiesNs, timeoutNs } from './jiffies.js';
import { NewOldFlows, type WeightedFlow } from './new-old-flows.js';
import { PacketFifo } from './packet-fifo.js';
import { number, quantumOf, type Params } from './params.js';

const CHAINS = 1024, STAGES = 4, COUNTERS = 1024;
/** NLA_POLICY_MAX of hhf_policy */
const MAX_HEAVY = 2 * CHAINS;

class Bucket extends PacketFifo implements WeightedFlow<Bucket> {
  deficit = 0;
  nextFlow: Bucket | null = null;
  listed = false;
  constructor(public weight: number) { super(); }
}

class Hhf extends Discipline {
  private readonly heavy = new Bucket(1);
  private readonly light = new Bucket(1);
  private readonly round = new NewOldFlows<Bucket>();
  private readonly perturbation: number;

  /** Table T: chains of known heavy hitters, in preallocated entries. −1 ends a chain. */
  private readonly chainHead = new Int32Array(CHAINS).fill(-1);
  private readonly entryNext = Int32Array.from({ length: MAX_HEAVY }, (_, i) => (i + 1 < MAX_HEAVY ? i + 1 : -1));
  private readonly entryHash = new Uint32Array(MAX_HEAVY);
  private readonly entrySeenNs = new Float64Array(MAX_HEAVY);
  private freeEntry = 0;

  /** Filter F. A counter counts only if its generation is the current one (Linux: valid bits). */
  private readonly counters = new Float64Array(STAGES * COUNTERS);
  private readonly generations = new Int32Array(STAGES * COUNTERS);
  private readonly positions = new Int32Array(STAGES);
  private generation = 1;
  private resetNs: number;

  private dropOverlimit = 0;
  private heavyOverlimit = 0;
  private heavyTotal = 0;
  private heavyCurrent = 0;

  private limit = 0;
  private heavyLimit = 0;
  private resetTimeoutNs = 0;
  private admitBytes = 0;
  private evictTimeoutNs = 0;

  constructor(context: AqmContext, params: Params, startNs: number) {
    super(context);
    this.set(params);
    this.perturbation = context.randomU32();
    this.resetNs = jiffiesNs(startNs);
  }

  private set(params: Params): void {
    this.limit = number(params, 'limit', 1000);
    this.round.quantum = quantumOf(params, this.context.mtuBytes);
    this.heavyLimit = number(params, 'hh_limit', MAX_HEAVY);
    this.resetTimeoutNs = timeoutNs(number(params, 'reset_timeout', 40e6));
    this.admitBytes = number(params, 'admit_bytes', 131072);
    this.evictTimeoutNs = timeoutNs(number(params, 'evict_timeout', 1e9));
    this.light.weight = number(params, 'non_hh_weight', 2);
  }

  override change(params: Params, nowNs: number): void {
    this.set(params);
    this.dropWhile(() => this.backlogPackets > this.limit, () => this.dequeue(), 'purge', nowNs);
  }

  private expired(entry: number, nowNs: number): boolean {
    return this.entrySeenNs[entry]! + this.evictTimeoutNs < nowNs;
  }

  /** seek_list(): removes what is expired on the way, but never the last entry of a chain. */
  private findHeavy(hash: number, nowNs: number): number {
    const chain = hash & (CHAINS - 1);
    let previous = -1;
    for (let entry = this.chainHead[chain]!; entry >= 0; ) {
      const next = this.entryNext[entry]!;
      if (this.expired(entry, nowNs)) {
        if (next < 0) return -1;
        if (previous < 0) this.chainHead[chain] = next;
        else this.entryNext[previous] = next;
        this.entryNext[entry] = this.freeEntry;
        this.freeEntry = entry;
        this.heavyCurrent--;
      } else {
        if (this.entryHash[entry] === hash) return entry;
        previous = entry;
      }
      entry = next;
    }
    return -1;
  }

  /** alloc_new_hh(): an expired entry of the chain, or a new one at its end. */
  private newHeavy(hash: number, nowNs: number): number {
    const chain = hash & (CHAINS - 1);
    let last = -1;
    for (let entry = this.chainHead[chain]!; entry >= 0; entry = this.entryNext[entry]!) {
      if (this.expired(entry, nowNs)) return entry;
      last = entry;
    }
    const entry = this.freeEntry;
    if (entry < 0 || this.heavyCurrent >= this.heavyLimit) {
      this.heavyOverlimit++;
      return -1;
    }
    this.freeEntry = this.entryNext[entry]!;
    this.entryNext[entry] = -1;
    if (last < 0) this.chainHead[chain] = entry;
    else this.entryNext[last] = entry;
    this.heavyCurrent++;
    return entry;
  }

  /** hhf_classify() */
  private isHeavy(packet: QueuedPacket, exactNs: number): boolean {
    const nowNs = jiffiesNs(exactNs);
    if (this.resetNs + this.resetTimeoutNs < nowNs) {
      this.generation++;
      this.resetNs = nowNs;
    }
    const hash = perturbHash(packet.flowHash, this.perturbation);
    const known = this.findHeavy(hash, nowNs);
    if (known >= 0) {
      this.entrySeenNs[known] = nowNs;
      return true;
    }
    // Three chunks of ten bits, and the XOR of all.
    const { positions, counters, generations } = this;
    positions[0] = hash & 0x3ff;
    positions[1] = (hash >>> 10) & 0x3ff;
    positions[2] = (hash >>> 20) & 0x3ff;
    positions[3] = positions[0] ^ positions[1] ^ positions[2] ^ (hash >>> 30);
    let smallest = Infinity;
    for (let stage = 0; stage < STAGES; stage++) {
      const at = stage * COUNTERS + positions[stage]!;
      if (generations[at] !== this.generation) {
        counters[at] = 0;
        generations[at] = this.generation;
      }
      const value = counters[at]! + packet.size;
      if (value < smallest) smallest = value;
    }
    if (smallest > this.admitBytes) {
      const entry = this.newHeavy(hash, nowNs);
      if (entry < 0) return false;
      this.entryHash[entry] = hash;
      this.entrySeenNs[entry] = nowNs;
      this.heavyTotal++;
      // Its bytes are not counted: they must not push other flows over ("shielding").
      return true;
    }
    for (let stage = 0; stage < STAGES; stage++) {
      const at = stage * COUNTERS + positions[stage]!;
      if (counters[at]! < smallest) counters[at] = smallest;
    }
    return false;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const heavy = this.isHeavy(packet, nowNs);
    const bucket = heavy ? this.heavy : this.light;
    bucket.push(packet);
    this.backlogPackets++;
    this.backlogBytes += packet.size;
    if (heavy) this.round.beginOld(bucket);
    else this.round.begin(bucket);
    if (this.backlogPackets <= this.limit) return;
    this.dropOverlimit++;
    const dropped = (this.heavy.packets > 0 ? this.heavy : this.light).shift()!;
    this.backlogPackets--;
    this.backlogBytes -= dropped.size;
    this.context.drop(dropped, 'limit', nowNs);
  }

  override dequeue(): QueuedPacket | null {
    for (;;) {
      const bucket = this.round.next();
      if (bucket === null) return null;
      const packet = bucket.shift();
      if (packet === null) {
        this.round.emptied(bucket);
        continue;
      }
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
      bucket.deficit -= packet.size;
      return packet;
    }
  }

  override readState(into: Float64Array): void {
    into[0] = this.dropOverlimit;
    into[1] = this.heavyOverlimit;
    into[2] = this.heavyTotal;
    into[3] = this.heavyCurrent;
  }
}

export const hhf: AqmKind = {
  kind: 'hhf',
  schema: qdisc.schema.superRefine((given, check) => {
    if (Number(given['hh_limit'] ?? 0) > MAX_HEAVY) check.addIssue({ code: 'custom', path: ['hh_limit'], message: `expected at most ${MAX_HEAVY} heavy hitters` });
  }),
  state: qdisc.state,
  create: (params, context, startNs) => new Hhf(context, params, startNs),
};
