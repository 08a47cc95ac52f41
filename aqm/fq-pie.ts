/**
 * FQ-PIE, as Linux 6.12 has it (net/sched/sch_fq_pie.c): fq_codel's round robin with a PIE (pie-core.ts) on every
 * flow queue.
 * A change keeps flows and probabilities; what is above a lower limit is dequeued and thrown away uncounted. `flows` cannot change.
 *
 * Differences from Linux:
 * - truesize is a model (truesize.ts). As in Linux, being over memory_limit is only counted: nothing is dropped for it.
 * - All flows are updated at once; Linux does at most 2048 a jiffy.
 * - No tc filters and no classification by skb->priority: the flow is the packet's flow key.
 */

import { fqPie as qdisc } from '../testbed/qdiscs/fq_pie.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { scaleHash } from './integer.js';
import { timerNs } from './jiffies.js';
import { NewOldFlows, type WeightedFlow } from './new-old-flows.js';
import { PacketFifo } from './packet-fifo.js';
import { flag, number, quantumOf, type Params } from './params.js';
import { FIRST_UPDATE_NS, pieParams } from './pie.js';
import { percentOfMax, PieVars, type Constant, type PieParams } from './pie-core.js';
import { truesize } from './truesize.js';

class Flow extends PieVars implements WeightedFlow<Flow> {
  readonly queue = new PacketFifo();
  deficit = 0;
  readonly weight = 1;
  nextFlow: Flow | null = null;
  listed = false;
}

class FqPie extends Discipline {
  private readonly flows: Flow[] = [];
  private readonly round = new NewOldFlows<Flow>();
  private memoryUsage = 0;
  private packetsIn = 0;
  private overlimit = 0;
  private overmemory = 0;
  private dropped = 0;

  private params!: PieParams;
  private limit = 0;
  private memoryLimit = 0;
  /** Marks instead of drops up to this probability; null: never. */
  private markBelow!: Constant | null;
  private periodNs = 0;

  constructor(context: AqmContext, params: Params, private readonly flowCount: number, startNs: number) {
    super(context);
    this.set(params);
    for (let i = 0; i < flowCount; i++) this.flows.push(new Flow());
    this.timerNs = startNs + FIRST_UPDATE_NS;
  }

  private set(params: Params): void {
    this.params = pieParams(params, this.context);
    this.limit = number(params, 'limit', 10240);
    this.round.quantum = quantumOf(params, this.context.mtuBytes);
    this.memoryLimit = number(params, 'memory_limit', 32 << 20);
    this.markBelow = flag(params, 'ecn', false) ? percentOfMax(number(params, 'ecn_prob', 10)) : null;
    this.periodNs = timerNs(number(params, 'tupdate', 15e6));
  }

  override change(params: Params, nowNs: number): void {
    this.set(params);
    this.dropWhile(() => this.backlogPackets > this.limit, () => this.dequeue(nowNs), 'purge', nowNs);
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const flow = this.flows[scaleHash(packet.flowHash, this.flowCount)]!;
    const memory = truesize(packet);
    if (this.backlogPackets >= this.limit) {
      this.overlimit++;
      this.reject(flow, packet, true, nowNs);
      return;
    }
    if (this.memoryUsage > this.memoryLimit + memory) this.overmemory++;
    if (flow.dropEarly(this.params, flow.queue.bytes, packet.size, this.context.randomU32, packet, this.context.chance)) {
      if (this.markBelow === null || !flow.atMost(this.markBelow) || !setCe(packet)) {
        this.reject(flow, packet, false, nowNs);
        return;
      }
      this.marks++;
    }
    this.packetsIn++;
    this.memoryUsage += memory;
    this.backlogPackets++;
    this.backlogBytes += packet.size;
    flow.queue.push(packet);
    this.round.begin(flow);
  }

  private reject(flow: Flow, packet: QueuedPacket, full: boolean, nowNs: number): void {
    this.dropped++;
    flow.clearAccumulated();
    this.context.drop(packet, full ? 'limit' : 'aqm', nowNs);
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    for (;;) {
      const flow = this.round.next();
      if (flow === null) return null;
      const packet = flow.queue.shift();
      if (packet === null) {
        this.round.emptied(flow);
        continue;
      }
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
      this.memoryUsage -= truesize(packet);
      flow.deficit -= packet.size;
      flow.departed(packet, this.params, flow.queue.bytes, nowNs);
      return packet;
    }
  }

  override tick(nowNs: number): void {
    const { flows, params } = this;
    for (let i = 0; i < flows.length; i++) flows[i]!.update(params, flows[i]!.queue.bytes);
    this.timerNs = nowNs + this.periodNs;
  }

  override readState(into: Float64Array): void {
    into[0] = this.packetsIn;
    into[1] = this.dropped;
    into[2] = this.overlimit;
    into[3] = this.overmemory;
    into[4] = this.round.begun;
    into[5] = this.round.newFlows.length;
    into[6] = this.round.oldFlows.length;
    into[7] = this.memoryUsage;
  }
}

export const fqPie: AqmKind = {
  kind: 'fq_pie',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (params, context, startNs) => new FqPie(context, params, number(params, 'flows', 1024), startNs),
};
