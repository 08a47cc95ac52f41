/**
 * What a cable does to packets after they left the queue: delay, jitter, loss, duplication, reordering, in the order of
 * Linux's net/sched/sch_netem.c, for real packets. The same rules as the simulator's wire (simulator/wire.ts): loss before duplication,
 * jitter uniform in [delay − jitter, delay + jitter), a `reorder` fraction is sent at once, packets leave in order of their due time.
 */

import { DelayLine } from '../simulator/delay-line.js';
import type { EventQueue } from '../simulator/events.js';
import type { Random } from '../simulator/random.js';
import type { PlanWire } from '../testbed/plan/plan.js';
import type { Slot, SlotPool } from './slots.js';

export const noWire: PlanWire = { delayNs: 0, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: Infinity };

export class Wire extends DelayLine<Slot> {
  /** Packets dropped for want of room, which is never asked for. */
  overflowed = 0;
  lost = 0;
  private setting = noWire;
  /** Nothing but delay. */
  private plain = true;
  /** No packet is out sooner than this after it came in, ns. */
  leastNs = 0;

  constructor(events: EventQueue, private readonly pool: SlotPool, private readonly random: Random, private readonly out: (slot: Slot, dueNs: number) => void, setting: PlanWire) {
    super(events);
    this.set(setting);
  }

  set(setting: PlanWire): void {
    this.setting = setting;
    this.plain = setting.jitterNs === 0 && setting.loss === 0 && setting.duplicate === 0 && setting.reorder === 0;
    this.leastNs = setting.reorder > 0 ? 0 : Math.max(0, Math.floor(setting.delayNs - setting.jitterNs));
  }

  /** When the next packet is due, ns; Infinity when there is none. */
  get nextNs(): number { return this.head === null ? Infinity : this.head.arriveNs; }

  push(slot: Slot): void {
    const { setting } = this;
    if (!this.plain) {
      if (setting.loss > 0 && this.random.fraction() < setting.loss) {
        this.lost++;
        this.pool.give(slot);
        return;
      }
      if (setting.duplicate > 0 && this.random.fraction() < setting.duplicate) this.copy(slot);
    }
    this.delay(slot);
  }

  private copy(slot: Slot): void {
    const twin = this.pool.take();
    if (twin === null) {
      this.overflowed++;
      return;
    }
    slot.bytes.copy(twin.bytes);
    twin.length = slot.length;
    twin.from = slot.from;
    twin.opaque = slot.opaque;
    this.delay(twin);
  }

  private delay(slot: Slot): void {
    const { setting } = this;
    const now = this.events.now;
    if (this.held >= setting.limitPackets) {
      this.overflowed++;
      this.pool.give(slot);
      return;
    }
    let delayNs = setting.delayNs;
    if (setting.reorder > 0 && this.random.fraction() < setting.reorder) delayNs = 0;
    else if (setting.jitterNs > 0) delayNs = Math.max(0, Math.floor(delayNs - setting.jitterNs + this.random.fraction() * 2 * setting.jitterNs));
    if (delayNs === 0 && this.head === null) {
      this.out(slot, now);
      return;
    }
    this.insert(slot, now + delayNs);
  }

  protected override arrived(slot: Slot): void { this.out(slot, slot.arriveNs); }
}
