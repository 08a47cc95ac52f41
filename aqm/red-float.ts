/**
 * The part of RED that its variants share, in floating point: Floyd & Jacobson, "Random Early Detection Gateways for
 * Congestion Avoidance", IEEE/ACM Transactions on Networking 1(4), 1993, figure 2. A variant supplies p_b as a function
 * of the average; here are the average, its decay while the link idles, the correction by count, ECN and the limit.
 *
 * The version followed, where the paper and ns-2 (queue/red.cc) leave a choice:
 * - `count` is the packets since the last signal, without the present one (section 7): so the intervals between signals
 *   are uniform on 1 … 1/p_b. Figure 2 of the paper increments it first, which makes the longest interval 1/p_b − 1.
 * - A packet that finds fewer than two waiting passes, as in ns-2 and not in the paper: otherwise an average from the past
 *   goes on to drop while the queue is gone. One long flow at 20 Mbit/s and 50 ms then reaches 91 % instead of 89 % (the
 *   article in results/ has 92.3 %). ns-2 counts bytes in that rule when it counts them elsewhere; here packets always.
 * - ns-2 also lets the first packet after avg has crossed min pass. Not followed: the paper does not.
 * - Idle time begins when the last packet has been sent: at its dequeue plus size / `bandwidth`. avg then decays by
 *   (1 − w)^(idle / s), s the time to send `avpkt` bytes (section 4), with a real exponent; ns-2 rounds it down and adds 1.
 * - A packet dropped for want of room resets count, as in ns-2; the paper does not speak of it.
 * - `bytemode`: ns-2's bytes_: count in units of `avpkt` bytes, p_a times size / avpkt. ns-2 rounds that count down.
 * - `wait`: ns-2's wait_: intervals uniform on 1/p_b + 1 … 2/p_b. Not in the paper; off by default (on in ns-2).
 * - From max on (twice max with `gentle`) ECT packets are marked too, as the paper and Linux do; `harddrop` drops them,
 *   as ns-2 and RFC 3168, section 7, do.
 *
 * Linux's red (red.ts) is its relative: bytes only, integers, w a power of two, no gentle, a table for the idle decay.
 */

import { z } from 'zod';
import { zBytes } from '../testbed/qdiscs/schemas.js';
import { zProbability, zRate } from '../testbed/units.js';
import type { AqmContext, QueuedPacket } from './aqm.js';
import { flag, number, type Params } from './params.js';
import { below, limitsOf, sizeOf, zQueueSize, type Limits, type QueueSize } from './queue-size.js';
import { SingleQueue } from './single-queue.js';

/** A probability or weight above 0. */
export const zAboveZero = zProbability.refine((p) => p > 0, { error: 'expected a number above 0, up to 1' });

/** Parameters that every variant has; tc's names where tc has the thing. */
export const redShape = {
  limit: zQueueSize.optional(),
  min: zQueueSize.optional(),
  max: zQueueSize.optional(),
  w: zAboveZero.optional(),
  probability: zAboveZero.optional(),
  avpkt: zBytes.optional(),
  bandwidth: zRate.optional(),
  bytemode: z.boolean().optional(),
  wait: z.boolean().optional(),
  ecn: z.boolean().optional(),
  harddrop: z.boolean().optional(),
} as const;

export interface RedDefaults {
  readonly limit: number;
  readonly min: number;
  readonly max: number;
}
/** min_th and max_th of section 8's simulations; 1000 packets is a device's default queue. */
export const PAPER_DEFAULTS: RedDefaults = { limit: 1000, min: 5, max: 15 };

const packets = (amount: number): QueueSize => ({ amount, unit: 'packets' });

/** min and max: given; or one from the other (max = 3 min, Floyd 1997); or the defaults, in packets. */
function thresholds(params: Readonly<Record<string, unknown>>, defaults: RedDefaults): { min: QueueSize; max: QueueSize } {
  const min = sizeOf(params['min']), max = sizeOf(params['max']);
  if (min && max) return { min, max };
  if (min) return { min, max: { amount: 3 * min.amount, unit: min.unit } };
  if (max) return { min: { amount: max.amount / 3, unit: max.unit }, max };
  return { min: packets(defaults.min), max: packets(defaults.max) };
}

/** `schema` with the checks between parameters. @param defaults null where thresholds that are not given depend on the link */
export function checkedRed<Schema extends z.ZodObject>(schema: Schema, defaults: RedDefaults | null): Schema {
  return schema.superRefine((given, context) => {
    const params = given as Readonly<Record<string, unknown>>;
    const min = sizeOf(params['min']), max = sizeOf(params['max']);
    if (min && max && min.unit !== max.unit) {
      context.addIssue({ code: 'custom', path: ['max'], message: `expected max in ${min.unit}, as min` });
      return;
    }
    below(params, 'min', 'max', {}, context);
    const limit = packets(defaults?.limit ?? PAPER_DEFAULTS.limit);
    const known: Record<string, QueueSize> = { limit };
    if (defaults || min || max) known['max'] = thresholds(params, defaults ?? PAPER_DEFAULTS).max;
    below(params, 'max', 'limit', known, context);
    if (params['harddrop'] === true && params['ecn'] !== true) context.addIssue({ code: 'custom', path: ['harddrop'], message: 'expected ecn: true with harddrop: without ECN every signal is a drop' });
  });
}

export interface RedSettings {
  readonly limits: Limits;
  /** In packets, or in bytes. */
  readonly min: number;
  readonly max: number;
  readonly inBytes: boolean;
  /** Weight of a sample in the average. */
  readonly w: number;
  /** max_p */
  readonly probability: number;
  readonly avpkt: number;
  readonly nsPerByte: number;
  readonly gentle: boolean;
  readonly bytemode: boolean;
  readonly wait: boolean;
  readonly ecn: boolean;
  readonly harddrop: boolean;
}

/** @param probability max_p by default */
export function redSettings(params: Params, context: AqmContext, defaults: RedDefaults, probability: number): RedSettings {
  const { min, max } = thresholds(params, defaults);
  return {
    limits: limitsOf(params, defaults.limit),
    min: min.amount,
    max: max.amount,
    inBytes: min.unit === 'bytes',
    w: number(params, 'w', 0.002),
    probability: number(params, 'probability', probability),
    avpkt: number(params, 'avpkt', context.mtuBytes),
    nsPerByte: 8e9 / bandwidthOf(params, context),
    gentle: flag(params, 'gentle', false),
    bytemode: flag(params, 'bytemode', false),
    wait: flag(params, 'wait', false),
    ecn: flag(params, 'ecn', false),
    harddrop: flag(params, 'harddrop', false),
  };
}
/** The link's rate, bits/s; tc's default for red where it is unknown. */
export const bandwidthOf = (params: Params, context: AqmContext): number => number(params, 'bandwidth', context.rateBps ?? 10e6);

/** State columns of every variant; `qavg` and thresholds in packets or bytes, as min and max were given. */
export const RED_STATE = ['early', 'pdrop', 'qavg', 'max_p'] as const;

export abstract class FloatRed extends SingleQueue {
  /** Average queue, in the unit of min and max. */
  protected avg = 0;
  protected maxP: number;
  /** Packets (bytemode: units of avpkt) since the last signal. */
  private count = 0;
  private idleSinceNs: number;
  protected readonly span: number;

  constructor(context: AqmContext, protected readonly settings: RedSettings, startNs: number) {
    super(context, settings.limits, settings.ecn);
    this.maxP = settings.probability;
    this.span = settings.max - settings.min;
    this.idleSinceNs = startNs;
  }

  /** p_b at an arrival that finds avg ≥ min and `queued`, two packets or more, waiting; 1 and above: every packet. */
  protected abstract dropProbability(queued: number): number;

  /** The average has been updated by an arrival. */
  protected averaged(before: number): void {
    void before;
  }

  /** RED's line from 0 at min to max_p at max, unbounded beyond. */
  protected line(): number {
    return (this.maxP * (this.avg - this.settings.min)) / this.span;
  }

  /** The average now: while the link idles it decays as if empty queues had been sampled. */
  protected averageAt(nowNs: number): number {
    if (this.backlogPackets > 0 || nowNs <= this.idleSinceNs) return this.avg;
    const { w, avpkt, nsPerByte } = this.settings;
    return this.avg * (1 - w) ** ((nowNs - this.idleSinceNs) / (avpkt * nsPerByte));
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const { settings } = this;
    const queued = settings.inBytes ? this.backlogBytes : this.backlogPackets;
    const before = this.avg;
    if (this.backlogPackets > 0) {
      this.avg += settings.w * (queued - this.avg);
    } else {
      this.avg = this.averageAt(nowNs);
      if (nowNs > this.idleSinceNs) this.idleSinceNs = nowNs;
    }
    this.averaged(before);
    if (this.overLimit(packet, nowNs)) {
      this.count = 0;
      return;
    }
    if (this.avg < settings.min || this.backlogPackets < 2) {
      this.count = 0;
    } else {
      const pb = this.dropProbability(queued);
      if (pb >= 1) {
        this.count = 0;
        if (this.signal(packet, this.ecn && !settings.harddrop, nowNs)) return;
      } else if (this.chance(this.corrected(pb, packet.size))) {
        this.count = 0;
        if (this.signal(packet, this.ecn, nowNs)) return;
      } else {
        this.count += settings.bytemode ? packet.size / settings.avpkt : 1;
      }
    }
    this.accept(packet);
  }

  /** p_a from p_b and count. */
  private corrected(pb: number, size: number): number {
    const { bytemode, wait, avpkt } = this.settings;
    const expected = this.count * pb;
    let pa: number;
    if (!wait) pa = expected < 1 ? pb / (1 - expected) : 1;
    else pa = expected < 1 ? 0 : expected < 2 ? pb / (2 - expected) : 1;
    return bytemode && pa < 1 ? (pa * size) / avpkt : pa;
  }

  protected override departed(packet: QueuedPacket, nowNs: number): void {
    if (this.backlogPackets === 0) this.idleSinceNs = nowNs + packet.size * this.settings.nsPerByte;
  }

  override readState(into: Float64Array, nowNs: number): void {
    into[0] = this.early;
    into[1] = this.pdrop;
    into[2] = this.averageAt(nowNs);
    into[3] = this.maxP;
  }
}
