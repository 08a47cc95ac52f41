/**
 * Where packets lie while they are queued or on a wire: slots of fixed size in large blocks of memory, each with the
 * fields a queue discipline sees. A block never moves and is never given back; nothing is allocated per packet.
 */

import type { QueuedPacket } from '../aqm/aqm.js';

/** Offset of the IP header in a slot: an Ethernet header fits before it. */
export const ipAt = 14;

export class Slot implements QueuedPacket {
  size = 0;
  ecn = 0;
  marked = false;
  flowHash = NaN;
  srcHash = NaN;
  dstHash = NaN;
  dscp = 0;
  pureAck = false;
  datagram = false;
  ackNumber = NaN;
  edtNs = 0;
  enqueueNs = NaN;
  next: Slot | null = null;

  /** Bytes from the IP header on. */
  length = 0;
  /** Where it came in, as the port counts. */
  from = 0;
  /** Not IP (ARP, a VLAN tag): passed through the queue like any packet, never looked into. */
  opaque = false;
  /** When it reached the queue, ns, and its DS field then. */
  queuedNs = NaN;
  fieldOnArrival = 0;
  /** When it is to leave the wire, ns, and the order among equals. */
  arriveNs = NaN;
  order = NaN;
  /** For the record: how many came to the queue before it, flow id, data direction, ECN codepoint on arrival. */
  arrival = 0;
  flow = 0;
  forward = 0;
  ecnOnArrival = 0;

  /** @param bytes this slot alone; @param view the whole block, in which the slot begins at `at` */
  constructor(readonly bytes: Buffer, readonly view: DataView, readonly at: number) {
    this.size = 0;
  }
}

/** Few, or making them would hold up the packets that come meanwhile for ms. */
const blockSlots = 64;
/** There from the start: most runs never need more. */
const firstBytes = 8 << 20;

export class SlotPool {
  private free: Slot | null = null;
  private blocks = 0;
  private readonly maxBlocks: number;
  /** In use now. */
  used = 0;

  /**
   * @param slotBytes a whole frame of the largest MTU
   * @param maxBytes all slots together; packets that find none are lost and counted by the caller
   */
  constructor(private readonly slotBytes: number, maxBytes: number) {
    const blocks = (bytes: number): number => Math.max(1, Math.floor(bytes / (slotBytes * blockSlots)));
    this.maxBlocks = blocks(maxBytes);
    while (this.blocks < blocks(Math.min(maxBytes, firstBytes))) this.grow();
  }

  private grow(): void {
    this.blocks++;
    const memory = new ArrayBuffer(this.slotBytes * blockSlots);
    const view = new DataView(memory);
    for (let i = blockSlots - 1; i >= 0; i--) {
      const slot = new Slot(Buffer.from(memory, i * this.slotBytes, this.slotBytes), view, i * this.slotBytes);
      slot.next = this.free;
      this.free = slot;
    }
  }

  /** null when all are in use and no more may be made. */
  take(): Slot | null {
    if (this.free === null) {
      if (this.blocks >= this.maxBlocks) return null;
      this.grow();
    }
    const slot = this.free!;
    this.free = slot.next;
    slot.next = null;
    this.used++;
    return slot;
  }

  give(slot: Slot): void {
    slot.next = this.free;
    this.free = slot;
    this.used--;
  }
}
