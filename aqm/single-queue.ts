/** One FIFO with a limit: what the disciplines that decide at arrival have in common. */

import type { AqmContext, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { PacketFifo } from './packet-fifo.js';
import type { Limits } from './queue-size.js';

export abstract class SingleQueue extends Discipline {
  protected readonly queue = new PacketFifo();
  /** Early drops (not marks), and drops for want of room. */
  protected early = 0;
  protected pdrop = 0;
  private readonly limitPackets: number;
  private readonly limitBytes: number;

  constructor(context: AqmContext, limits: Limits, protected readonly ecn: boolean) {
    super(context);
    this.limitPackets = limits.packets;
    this.limitBytes = limits.bytes;
  }

  /** Drops the packet when there is no room for it. */
  protected overLimit(packet: QueuedPacket, nowNs: number): boolean {
    if (this.backlogPackets < this.limitPackets && this.backlogBytes + packet.size <= this.limitBytes) return false;
    this.pdrop++;
    this.context.drop(packet, 'limit', nowNs);
    return true;
  }

  protected accept(packet: QueuedPacket): void {
    this.queue.push(packet);
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  /** The algorithm's signal: a mark where `mayMark` and the packet allow it, else a drop. @returns whether it was dropped */
  protected signal(packet: QueuedPacket, mayMark: boolean, nowNs: number): boolean {
    if (mayMark && setCe(packet)) {
      this.marks++;
      return false;
    }
    this.early++;
    this.context.drop(packet, 'aqm', nowNs);
    return true;
  }

  /** True with this probability; 1 is certain. */
  protected chance(probability: number): boolean {
    return this.context.randomU32() < probability * 0x100000000;
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    const packet = this.queue.shift();
    if (packet === null) return null;
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    this.departed(packet, nowNs);
    return packet;
  }

  /** These decide at arrival: nothing is lost by only looking. */
  override peek(): QueuedPacket | null {
    return this.queue.head;
  }

  /** A packet has left; the backlog is without it. */
  protected departed(packet: QueuedPacket, nowNs: number): void {
    void packet;
    void nowNs;
  }
}
