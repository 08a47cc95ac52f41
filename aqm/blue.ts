/**
 * BLUE: Feng, Shin, Kandlur, Saha, "The BLUE Active Queue Management Algorithms", IEEE/ACM Transactions on Networking
 * 10(4), 2002, figure 3: one probability p for every arrival. Upon a loss for want of room (or a queue longer than `l`):
 * p += d1; upon an idle link: p −= d2; at most once a `freeze_time`. Defaults: d1 0.0025, d2 0.00025, freeze_time
 * 100 ms, which are among those of the paper's experiments; `l` is off.
 *
 * Linux has it only per flow, in sfb, and as a part of COBALT in cake. Differences from the paper: an idle link is taken
 * to be an event that recurs every freeze_time while it lasts (the paper speaks of the event only); idleness begins when
 * the last packet has been sent, at its dequeue plus size / `bandwidth`.
 */

import { z } from 'zod';
import { zRate, zTime } from '../testbed/units.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { flag, number, positiveTimes } from './params.js';
import { below, limitsOf, sizeOf, zQueueSize, type Limits, type QueueSize } from './queue-size.js';
import { bandwidthOf, zAboveZero } from './red-float.js';
import { SingleQueue } from './single-queue.js';

interface BlueParams {
  readonly d1: number;
  readonly d2: number;
  readonly freezeNs: number;
  readonly high: QueueSize | undefined;
  readonly nsPerByte: number;
}

class Blue extends SingleQueue {
  private prob = 0;
  private lastUpdateNs: number;
  private idleSinceNs: number;

  constructor(context: AqmContext, limits: Limits, ecn: boolean, private readonly params: BlueParams, startNs: number) {
    super(context, limits, ecn);
    this.lastUpdateNs = startNs - params.freezeNs;
    this.idleSinceNs = startNs;
  }

  /** When an idle link brings its next update. */
  private firstIdleUpdateNs(): number {
    return Math.max(this.idleSinceNs, this.lastUpdateNs + this.params.freezeNs);
  }
  /** Updates that an idle link has brought by now. */
  private idleUpdates(nowNs: number): number {
    const first = this.firstIdleUpdateNs();
    return this.backlogPackets > 0 || nowNs < first ? 0 : 1 + Math.floor((nowNs - first) / this.params.freezeNs);
  }

  private settleIdle(nowNs: number): void {
    const times = this.idleUpdates(nowNs);
    if (times === 0) return;
    this.lastUpdateNs = this.firstIdleUpdateNs() + (times - 1) * this.params.freezeNs;
    this.prob = Math.max(0, this.prob - times * this.params.d2);
  }

  private congested(nowNs: number): void {
    if (nowNs - this.lastUpdateNs <= this.params.freezeNs) return;
    this.prob = Math.min(1, this.prob + this.params.d1);
    this.lastUpdateNs = nowNs;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    this.settleIdle(nowNs);
    if (this.overLimit(packet, nowNs)) {
      this.congested(nowNs);
      return;
    }
    if (this.chance(this.prob) && this.signal(packet, this.ecn, nowNs)) return;
    this.accept(packet);
    const { high } = this.params;
    if (high !== undefined && (high.unit === 'packets' ? this.backlogPackets : this.backlogBytes) > high.amount) this.congested(nowNs);
  }

  protected override departed(packet: QueuedPacket, nowNs: number): void {
    if (this.backlogPackets === 0) this.idleSinceNs = nowNs + packet.size * this.params.nsPerByte;
  }

  override readState(into: Float64Array, nowNs: number): void {
    into[0] = this.early;
    into[1] = this.pdrop;
    into[2] = Math.max(0, this.prob - this.idleUpdates(nowNs) * this.params.d2);
  }
}

const LIMIT_PACKETS = 1000;

export const blue: AqmKind = {
  kind: 'blue',
  schema: positiveTimes(
    z.strictObject({
      limit: zQueueSize.optional(), d1: zAboveZero.optional(), d2: zAboveZero.optional(), freeze_time: zTime.optional(), l: zQueueSize.optional(),
      bandwidth: zRate.optional(), ecn: z.boolean().optional(),
    }).superRefine((params, context) => below(params, 'l', 'limit', { limit: { amount: LIMIT_PACKETS, unit: 'packets' } }, context)),
    'freeze_time',
  ),
  state: ['early', 'pdrop', 'prob'],
  create(params, context, startNs) {
    const settings: BlueParams = {
      d1: number(params, 'd1', 0.0025), d2: number(params, 'd2', 0.00025), freezeNs: number(params, 'freeze_time', 100e6),
      high: sizeOf(params['l']), nsPerByte: 8e9 / bandwidthOf(params, context),
    };
    return new Blue(context, limitsOf(params, LIMIT_PACKETS), flag(params, 'ecn', false), settings, startNs);
  },
};
