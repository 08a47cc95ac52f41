/**
 * pfifo_fast: three FIFOs in strict priority, as Linux 6.12 has it (net/sched/sch_generic.c), each as long as the
 * device's txqueuelen (1000). It has no parameters.
 *
 * A band is a ring whose consumer gives places back in batches (__ptr_ring_discard_one(), include/linux/ptr_ring.h), so it holds 985 … 1000
 * packets.
 *
 * Differences from Linux: the priority comes from the DSCP alone, as for forwarded packets (priority.ts); a local
 * sender's SO_PRIORITY is not known here.
 */

import { pfifoFast as qdisc } from '../testbed/qdiscs/pfifo_fast.js';
import type { AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { TX_QUEUE_PACKETS } from './fifo.js';
import { PacketFifo } from './packet-fifo.js';
import { bandOfDscp } from './priority.js';

/** ptr_ring_init(): 2 × SMP_CACHE_BYTES / sizeof(void *), caches of 64 bytes. */
const BATCH = 16;

/** skb_array of txqueuelen places. */
class Band extends PacketFifo {
  /** Where the next packet is taken, and from where on places are still to be given back. */
  private consumerHead = 0;
  private consumerTail = 0;

  get full(): boolean {
    return this.packets + (this.consumerHead - this.consumerTail) >= TX_QUEUE_PACKETS;
  }

  override shift(): QueuedPacket | null {
    const packet = super.shift();
    if (packet === null) return null;
    this.consumerHead++;
    if (this.consumerHead - this.consumerTail >= BATCH || this.consumerHead >= TX_QUEUE_PACKETS) {
      if (this.consumerHead >= TX_QUEUE_PACKETS) this.consumerHead = 0;
      this.consumerTail = this.consumerHead;
    }
    return packet;
  }
}

class PfifoFast extends Discipline {
  private readonly bands = [new Band(), new Band(), new Band()] as const;

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const band = this.bands[bandOfDscp(packet.dscp)]!;
    if (band.full) {
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    band.push(packet);
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  override dequeue(): QueuedPacket | null {
    const packet = this.bands[0].shift() ?? this.bands[1].shift() ?? this.bands[2].shift();
    if (packet !== null) {
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
    }
    return packet;
  }

  override peek(): QueuedPacket | null {
    return this.bands[0].head ?? this.bands[1].head ?? this.bands[2].head;
  }
}

export const pfifoFast: AqmKind = {
  kind: 'pfifo_fast',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (_, context) => new PfifoFast(context),
};
