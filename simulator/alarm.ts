/** A timer that calls a function once when it is due: for what happens seldom; whatever fires for each packet is an actor of its own. */

import { Actor, type EventQueue } from './events.js';

export class Alarm extends Actor {
  constructor(private readonly events: EventQueue, private readonly due: () => void) {
    super();
    events.add(this);
  }
  /** @param atNs not before now. @param order among events of that instant; default: after those scheduled so far */
  set(atNs: number, order: number = this.events.takeOrder()): void { this.events.scheduleOrdered(this.actorId, atNs, order); }
  cancel(): void { if (this.actorId >= 0) this.events.cancel(this.actorId); }
  get pending(): boolean { return this.actorId >= 0 && this.events.pending(this.actorId); }
  release(): void { this.events.remove(this); }
  override fire(): void {
    this.cancel();
    this.due();
  }
}
