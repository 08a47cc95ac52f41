/**
 * FQ-CoDel: RFC 8290, as Linux 6.12 has it (net/sched/sch_fq_codel.c): a hash into `flows` queues, deficit round robin
 * with new and old flows, CoDel on each queue, and up to `drop_batch` packets (half its backlog) from the fattest
 * flow when the whole is over `limit` or `memory_limit`.
 * A change keeps flows and control laws; what is above a lower limit is dequeued as if to be sent, CoDel deciding as ever, and thrown away
 * uncounted. `flows` cannot change.
 *
 * Differences from Linux:
 * - truesize is a model (truesize.ts): packets here carry none.
 * - No tc filters and no classification by skb->priority: the flow is the packet's flow key.
 */

import { fqCodel as qdisc } from '../testbed/qdiscs/fq_codel.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { codelParams } from './codel.js';
import { codelDequeue, codelTime, CodelVars, type CodelOwner, type CodelParams } from './codel-core.js';
import { Discipline } from './discipline.js';
import { scaleHash } from './integer.js';
import { NewOldFlows, type WeightedFlow } from './new-old-flows.js';
import { number, quantumOf, type Params } from './params.js';
import { truesize } from './truesize.js';

/** Codel time: 18 minutes, half of what a signed difference can tell. */
const LONG_AGO = 2 ** 30;

class Flow extends CodelVars implements WeightedFlow<Flow> {
  head: QueuedPacket | null = null;
  tail: QueuedPacket | null = null;
  deficit = 0;
  readonly weight = 1;
  nextFlow: Flow | null = null;
  listed = false;
  constructor(readonly index: number) { super(); }
}

class FqCodel extends Discipline implements CodelOwner {
  private readonly flows: Flow[] = [];
  private readonly backlogs: Uint32Array;
  private readonly round = new NewOldFlows<Flow>();
  private memoryUsage = 0;
  private dropOverlimit = 0;
  private dropOvermemory = 0;
  ceMarks = 0;
  maxPacket = 0;

  private codel!: CodelParams;
  private limit = 0;
  private memoryLimit = 0;
  private dropBatch = 0;

  constructor(context: AqmContext, params: Params, private readonly flowCount: number, startNs: number) {
    super(context);
    this.set(params);
    for (let i = 0; i < flowCount; i++) {
      const flow = new Flow(i);
      // The kernel's drop_next of 0 lies at boot, long ago. Here the clock may begin at 0: a batch drop would then give a new
      // flow the memory of dropping a moment ago, with a 1/sqrt(count) of 0, and all of its queue would go at once.
      flow.dropNext = (codelTime(startNs) - LONG_AGO) | 0;
      this.flows.push(flow);
    }
    this.backlogs = new Uint32Array(flowCount);
  }

  private set(params: Params): void {
    this.codel = codelParams(params, this.context, true);
    this.limit = number(params, 'limit', 10240);
    this.round.quantum = quantumOf(params, this.context.mtuBytes);
    this.memoryLimit = number(params, 'memory_limit', 32 << 20);
    this.dropBatch = number(params, 'drop_batch', 64);
  }

  override change(params: Params, nowNs: number): void {
    this.set(params);
    this.dropWhile(() => this.backlogPackets > this.limit || this.memoryUsage > this.memoryLimit, () => this.dequeue(nowNs), 'purge', nowNs);
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    const index = scaleHash(packet.flowHash, this.flowCount);
    const flow = this.flows[index]!;
    packet.enqueueNs = nowNs;
    packet.next = null;
    if (flow.head === null) flow.head = packet;
    else flow.tail!.next = packet;
    flow.tail = packet;
    this.backlogs[index]! += packet.size;
    this.backlogBytes += packet.size;
    this.round.begin(flow);
    this.memoryUsage += truesize(packet);
    this.backlogPackets++;
    const overMemory = this.memoryUsage > this.memoryLimit;
    if (this.backlogPackets <= this.limit && !overMemory) return;
    const dropped = this.dropFattest(nowNs);
    this.dropOverlimit += dropped;
    if (overMemory) this.dropOvermemory += dropped;
  }

  /** fq_codel_drop(): from the head of the flow with the largest backlog, until half of it or a batch is gone. */
  private dropFattest(nowNs: number): number {
    const backlogs = this.backlogs;
    let largest = 0, index = 0;
    for (let i = 0; i < backlogs.length; i++) {
      const backlog = backlogs[i]!;
      if (backlog > largest) {
        largest = backlog;
        index = i;
      }
    }
    const threshold = largest >>> 1;
    const flow = this.flows[index]!;
    let dropped = 0, droppedBytes = 0;
    do {
      const packet = this.codelPop(flow)!;
      droppedBytes += packet.size;
      this.context.drop(packet, 'overload', nowNs);
    } while (++dropped < this.dropBatch && droppedBytes < threshold);
    flow.count = (flow.count + dropped) >>> 0;
    return dropped;
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    for (;;) {
      const flow = this.round.next();
      if (flow === null) return null;
      const packet = codelDequeue(this, flow, this.codel, nowNs);
      if (packet === null) {
        this.round.emptied(flow);
        continue;
      }
      flow.deficit -= packet.size;
      return packet;
    }
  }

  codelPop(vars: CodelVars): QueuedPacket | null {
    // The vars handed to codelDequeue() are always a Flow of ours.
    const flow = vars as Flow;
    const packet = flow.head;
    if (packet === null) return null;
    flow.head = packet.next;
    packet.next = null;
    this.backlogs[flow.index]! -= packet.size;
    this.memoryUsage -= truesize(packet);
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    return packet;
  }

  codelDrop(packet: QueuedPacket, nowNs: number): void {
    this.context.drop(packet, 'aqm', nowNs);
  }

  override readState(into: Float64Array): void {
    into[0] = this.round.begun;
    into[1] = this.round.newFlows.length;
    into[2] = this.round.oldFlows.length;
    into[3] = this.dropOverlimit;
    into[4] = this.dropOvermemory;
    into[5] = this.memoryUsage;
    into[6] = this.ceMarks;
    into[7] = this.maxPacket;
  }
}

export const fqCodel: AqmKind = {
  kind: 'fq_codel',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (params, context, startNs) => new FqCodel(context, params, number(params, 'flows', 1024), startNs),
};
