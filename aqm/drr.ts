/**
 * DRR: Shreedhar & Varghese, SIGCOMM 1995, as Linux 6.12 has it (net/sched/sch_drr.c).
 *
 * Differences from Linux: there DRR has no classes of its own: the user makes them and filters choose. Here, as in
 * testbed/qdiscs/drr.ts, `flows` classes stand ready, each a pfifo of `limit` packets, and a hash of the flow chooses;
 * it is the packet's flow key, not cls_flow's hash.
 */

import { drr as qdisc } from '../testbed/qdiscs/drr.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { TX_QUEUE_PACKETS } from './fifo.js';
import { FlowList, type ListedFlow } from './flow-list.js';
import { scaleHash } from './integer.js';
import { PacketFifo } from './packet-fifo.js';
import { number, quantumOf } from './params.js';

class DrrClass extends PacketFifo implements ListedFlow<DrrClass> {
  deficit = 0;
  nextFlow: DrrClass | null = null;
  listed = false;
}

class Drr extends Discipline {
  private readonly classes: DrrClass[] = [];
  private readonly active = new FlowList<DrrClass>();

  constructor(context: AqmContext, private readonly limit: number, flowCount: number, private readonly quantum: number) {
    super(context);
    for (let i = 0; i < flowCount; i++) this.classes.push(new DrrClass());
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const queue = this.classes[scaleHash(packet.flowHash, this.classes.length)]!;
    if (queue.packets >= this.limit) {
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    queue.push(packet);
    if (!queue.listed) {
      this.active.add(queue);
      queue.deficit = this.quantum;
    }
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  override dequeue(): QueuedPacket | null {
    for (let queue = this.active.head; queue !== null; queue = this.active.head) {
      const size = queue.head!.size;
      if (size > queue.deficit) {
        queue.deficit += this.quantum;
        this.active.add(this.active.shift());
        continue;
      }
      queue.deficit -= size;
      const packet = queue.shift()!;
      if (queue.packets === 0) this.active.shift();
      this.backlogPackets--;
      this.backlogBytes -= size;
      return packet;
    }
    return null;
  }
}

export const drr: AqmKind = {
  kind: 'drr',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (params, context) =>
    new Drr(
      context,
      number(params, 'limit', TX_QUEUE_PACKETS),
      number(params, 'flows', 64),
      quantumOf(params, context.mtuBytes),
    ),
};
