/**
 * What a cable does to packets after they left the queue: delay, jitter, loss, duplication, reordering, as Linux's
 * sch_netem does them (net/sched/sch_netem.c), in its order: loss, duplicate, limit, delay; jitter uniform in
 * [delay − jitter, delay + jitter); a `reorder` fraction is sent at once; packets leave in order of their due time
 * (tfifo). Differences: no correlation between packets, no delay tables; loss comes before duplication, so that a
 * lost packet is never also duplicated.
 */

import type { PlanWire } from '../testbed/plan/plan.js';
import { DelayLine } from './delay-line.js';
import type { Network } from './network.js';
import type { Packet } from './packet.js';
import type { Random } from './random.js';

export class Wire extends DelayLine<Packet> {
  private delayNs = NaN;
  private jitterNs = NaN;
  private loss = NaN;
  private duplicate = NaN;
  private reorder = NaN;
  private limitPackets = Infinity;
  /** Nothing but delay: the common case, one addition a packet. */
  private plain = true;
  /** Packets dropped for want of room (`limitPackets`): the run is then invalid. */
  overflowed = 0;
  lost = 0;

  /** @param mayChange a plan event sets this wire: it then always works by events, so that packets keep their order across a change */
  constructor(private readonly network: Network, readonly linkName: string, setting: PlanWire | null, private readonly mayChange: boolean, private readonly random: Random) {
    super(network.events);
    this.set(setting ?? { delayNs: 0, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: Infinity });
  }

  set(setting: PlanWire): void {
    this.delayNs = setting.delayNs;
    this.jitterNs = setting.jitterNs;
    this.loss = setting.loss;
    this.duplicate = setting.duplicate;
    this.reorder = setting.reorder;
    this.limitPackets = setting.limitPackets;
    this.plain = setting.jitterNs === 0 && setting.loss === 0 && setting.duplicate === 0 && setting.reorder === 0;
  }

  /** True when a packet that comes in goes out in the same instant and call. */
  get immediate(): boolean { return this.plain && this.delayNs === 0 && !this.mayChange; }

  /** Takes a packet that leaves the sending end at `now + afterNs`. */
  push(packet: Packet, afterNs: number): void {
    if (this.plain) {
      if (this.delayNs === 0 && afterNs === 0 && !this.mayChange) { this.network.forward(packet); return; }
      if (this.held >= this.limitPackets) { this.overflow(packet); return; }
      this.insert(packet, this.events.now + afterNs + this.delayNs);
      return;
    }
    if (this.loss > 0 && this.random.fraction() < this.loss) {
      this.lost++;
      this.network.pool.drop(packet);
      return;
    }
    if (this.duplicate > 0 && this.random.fraction() < this.duplicate) this.delay(this.network.pool.copy(packet), afterNs);
    this.delay(packet, afterNs);
  }

  private delay(packet: Packet, afterNs: number): void {
    if (this.held >= this.limitPackets) { this.overflow(packet); return; }
    const left = this.events.now + afterNs;
    if (this.reorder > 0 && this.random.fraction() < this.reorder) { this.insert(packet, left); return; }
    let delay = this.delayNs;
    if (this.jitterNs > 0) delay = Math.max(0, Math.floor(delay - this.jitterNs + this.random.fraction() * 2 * this.jitterNs));
    this.insert(packet, left + delay);
  }

  private overflow(packet: Packet): void {
    this.overflowed++;
    this.network.pool.drop(packet);
  }

  protected override arrived(packet: Packet): void { this.network.forward(packet); }
}
