/** Packets under way, in order of their due time (netem's tfifo): under the simulator's wires and the daemon's. Nothing is allocated. */

import { Actor, type EventQueue } from './events.js';

export interface DelayedPacket<Packet> {
  /** When it reaches the end, ns, and the order of that event. */
  arriveNs: number;
  order: number;
  next: Packet | null;
}

export abstract class DelayLine<Packet extends DelayedPacket<Packet>> extends Actor {
  protected head: Packet | null = null;
  private tail: Packet | null = null;
  held = 0;

  constructor(protected readonly events: EventQueue) {
    super();
    events.add(this);
  }

  /** A packet has reached the end, at its `arriveNs`, which is now. */
  protected abstract arrived(packet: Packet): void;

  protected insert(packet: Packet, arriveNs: number): void {
    const { events, tail } = this;
    packet.arriveNs = arriveNs;
    packet.order = events.takeOrder();
    packet.next = null;
    this.held++;
    if (tail === null) {
      this.head = this.tail = packet;
      events.scheduleOrdered(this.actorId, arriveNs, packet.order);
    } else if (tail.arriveNs <= arriveNs) {
      tail.next = packet;
      this.tail = packet;
    } else if (arriveNs < this.head!.arriveNs) {
      packet.next = this.head;
      this.head = packet;
      events.scheduleOrdered(this.actorId, arriveNs, packet.order);
    } else {
      let previous = this.head!;
      while (previous.next!.arriveNs <= arriveNs) previous = previous.next!;
      packet.next = previous.next;
      previous.next = packet;
    }
  }

  override fire(): void {
    const packet = this.head!;
    const { next } = packet;
    this.head = next;
    this.held--;
    if (next === null) this.tail = null;
    else this.events.scheduleOrdered(this.actorId, next.arriveNs, next.order);
    packet.next = null;
    this.arrived(packet);
  }
}
