/**
 * DropTail: pfifo (counted in packets) and bfifo (in bytes), as Linux 6.12 has them (net/sched/sch_fifo.c). The
 * defaults are Linux's for a device with txqueuelen 1000.
 *
 * A changed limit drops nothing that waits already.
 *
 * Differences from Linux: none.
 */

import { bfifo as bytesQdisc } from '../testbed/qdiscs/bfifo.js';
import { pfifo as packetsQdisc } from '../testbed/qdiscs/pfifo.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { PacketFifo } from './packet-fifo.js';
import { number, type Params } from './params.js';

/** txqueuelen of an Ethernet device. */
export const TX_QUEUE_PACKETS = 1000;

class Fifo extends Discipline {
  private readonly queue = new PacketFifo();

  constructor(context: AqmContext, private limitPackets: number, private limitBytes: number) {
    super(context);
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    if (this.backlogPackets >= this.limitPackets || this.backlogBytes + packet.size > this.limitBytes) {
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    this.queue.push(packet);
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  override dequeue(): QueuedPacket | null {
    const packet = this.queue.shift();
    if (packet !== null) {
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
    }
    return packet;
  }

  /** qdisc_peek_head() */
  override peek(): QueuedPacket | null {
    return this.queue.head;
  }

  override change(params: Params): void {
    if (this.limitPackets !== Infinity) this.limitPackets = number(params, 'limit', TX_QUEUE_PACKETS);
    else this.limitBytes = number(params, 'limit', TX_QUEUE_PACKETS * this.context.mtuBytes);
  }
}

export const pfifo: AqmKind = {
  kind: 'pfifo',
  schema: packetsQdisc.schema,
  state: packetsQdisc.state,
  create: (params, context) => new Fifo(context, number(params, 'limit', TX_QUEUE_PACKETS), Infinity),
};

export const bfifo: AqmKind = {
  kind: 'bfifo',
  schema: bytesQdisc.schema,
  state: bytesQdisc.state,
  create: (params, context) => new Fifo(context, Infinity, number(params, 'limit', TX_QUEUE_PACKETS * context.mtuBytes)),
};
