/** A FIFO of packets linked by their own `next`: the list under every discipline. Nothing is allocated. */

import type { QueuedPacket } from './aqm.js';

export class PacketFifo {
  head: QueuedPacket | null = null;
  tail: QueuedPacket | null = null;
  packets = 0;
  bytes = 0;

  push(packet: QueuedPacket): void {
    packet.next = null;
    if (this.tail === null) this.head = packet;
    else this.tail.next = packet;
    this.tail = packet;
    this.packets++;
    this.bytes += packet.size;
  }

  shift(): QueuedPacket | null {
    const packet = this.head;
    if (packet === null) return null;
    this.head = packet.next;
    if (this.head === null) this.tail = null;
    packet.next = null;
    this.packets--;
    this.bytes -= packet.size;
    return packet;
  }

  /** Takes out the packet after `previous` (null: the first). The caller knows that it is there. */
  removeAfter(previous: QueuedPacket | null): QueuedPacket {
    const packet = (previous === null ? this.head : previous.next)!;
    if (previous === null) this.head = packet.next;
    else previous.next = packet.next;
    if (this.tail === packet) this.tail = previous;
    packet.next = null;
    this.packets--;
    this.bytes -= packet.size;
    return packet;
  }
}
