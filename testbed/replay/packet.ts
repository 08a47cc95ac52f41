/** A packet as a queue discipline of aqm/ sees it, with what the record knows of it. Reused through a free list. */

import type { QueuedPacket } from '../../aqm/aqm.js';

export class ReplayPacket implements QueuedPacket {
  size = 0;
  ecn = 0;
  marked = false;
  flowHash = 0;
  srcHash = 0;
  dstHash = 0;
  dscp = 0;
  pureAck = false;
  datagram = false;
  ackNumber = 0;
  edtNs = 0;
  enqueueNs = NaN;
  next: ReplayPacket | null = null;

  /** Order of arrival in the record, from 0. */
  seq = 0;
  keyLo = 0;
  keyHi = 0;
  flow = 0;
  forward = false;
  /** Arrival, ns of the run. */
  tNs = NaN;
}

export class ReplayPackets {
  private free: ReplayPacket | null = null;

  take(): ReplayPacket {
    const packet = this.free;
    if (packet === null) return new ReplayPacket();
    this.free = packet.next;
    packet.next = null;
    packet.marked = false;
    return packet;
  }

  give(packet: ReplayPacket): void {
    packet.next = this.free;
    this.free = packet;
  }
}

/** A byte a packet, by order of arrival: what became of it. */
export class Fates {
  private bytes = new Uint8Array(1 << 16);
  length = 0;

  add(): number {
    if (this.length === this.bytes.length) {
      const larger = new Uint8Array(2 * this.length);
      larger.set(this.bytes);
      this.bytes = larger;
    }
    this.bytes[this.length] = 0;
    return this.length++;
  }
  get(seq: number): number { return this.bytes[seq]!; }
  set(seq: number, bits: number): void { this.bytes[seq]! |= bits; }
  clear(seq: number, bits: number): void { this.bytes[seq]! &= ~bits; }
}
