/**
 * REM, random exponential marking: Athuraliya, Li, Low, Yin, "REM: Active Queue Management", IEEE Network 15(3), 2001.
 * A price for rate mismatch and queue mismatch, updated every `tupdate` (equation 1),
 *   price = max(0, price + gamma (alpha (q − b) + x − c)),
 * q the queue, b its target (the paper's b*), x what arrived and c what the link can send in a tupdate, all in packets;
 * an arrival is signalled with probability 1 − phi^−price (equation 3). Defaults: gamma 0.001, alpha 0.1, phi 1.001, b 20
 * packets (paper, section on simulations), update 2 ms and weight of the newest x 1 (ns-2 queue/rem.cc, by its authors).
 *
 * Not in Linux. Differences from the paper: none. From ns-2: marks, like drops, are decided at arrival (ns-2 marks at
 * departure). With b in bytes the queue is counted in units of avpkt bytes, as ns-2's qib_ does.
 */

import { z } from 'zod';
import { zBytes } from '../testbed/qdiscs/schemas.js';
import { zRate, zTime } from '../testbed/units.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { flag, number, positiveTimes } from './params.js';
import { below, limitsOf, sizeOf, zQueueSize, type Limits, type QueueSize } from './queue-size.js';
import { bandwidthOf, zAboveZero } from './red-float.js';
import { SingleQueue } from './single-queue.js';

interface RemParams {
  readonly gamma: number;
  readonly alpha: number;
  readonly logPhi: number;
  /** Target queue and capacity of a tupdate, packets or units of avpkt bytes. */
  readonly b: number;
  readonly capacity: number;
  readonly inBytes: boolean;
  readonly avpkt: number;
  readonly w: number;
  readonly tupdateNs: number;
}

class Rem extends SingleQueue {
  private price = 0;
  private prob = 0;
  /** Arrivals in this tupdate, and their average. */
  private arrived = 0;
  private x = 0;

  constructor(context: AqmContext, limits: Limits, ecn: boolean, private readonly params: RemParams, startNs: number) {
    super(context, limits, ecn);
    this.timerNs = startNs + params.tupdateNs;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const share = this.params.inBytes ? packet.size / this.params.avpkt : 1;
    this.arrived += share;
    if (this.overLimit(packet, nowNs)) return;
    if (this.chance(this.prob * share) && this.signal(packet, this.ecn, nowNs)) return;
    this.accept(packet);
  }

  override tick(nowNs: number): void {
    const { gamma, alpha, logPhi, b, capacity, inBytes, avpkt, w, tupdateNs } = this.params;
    const q = inBytes ? this.backlogBytes / avpkt : this.backlogPackets;
    this.x += w * (this.arrived - this.x);
    this.arrived = 0;
    this.price = Math.max(0, this.price + gamma * (alpha * (q - b) + this.x - capacity));
    this.prob = -Math.expm1(-this.price * logPhi);
    this.timerNs = nowNs + tupdateNs;
  }

  override readState(into: Float64Array): void {
    into[0] = this.early;
    into[1] = this.pdrop;
    into[2] = this.prob;
    into[3] = this.price;
  }
}

const TARGET: QueueSize = { amount: 20, unit: 'packets' };
const LIMIT_PACKETS = 1000;
const phi = 'expected a base above 1, up to 100, such as 1.001';

export const rem: AqmKind = {
  kind: 'rem',
  schema: positiveTimes(
    z.strictObject({
      limit: zQueueSize.optional(), b: zQueueSize.optional(), gamma: zAboveZero.optional(), alpha: zAboveZero.optional(),
      phi: z.number({ error: phi }).gt(1, { error: phi }).max(100, { error: phi }).optional(), w: zAboveZero.optional(), tupdate: zTime.optional(),
      avpkt: zBytes.optional(), bandwidth: zRate.optional(), ecn: z.boolean().optional(),
    }).superRefine((params, context) => below(params, 'b', 'limit', { b: TARGET, limit: { amount: LIMIT_PACKETS, unit: 'packets' } }, context)),
    'tupdate',
  ),
  state: ['early', 'pdrop', 'prob', 'price'],
  create(params, context, startNs) {
    const target = sizeOf(params['b']) ?? TARGET, inBytes = target.unit === 'bytes';
    const avpkt = number(params, 'avpkt', context.mtuBytes), tupdateNs = number(params, 'tupdate', 2e6);
    const settings: RemParams = {
      gamma: number(params, 'gamma', 0.001), alpha: number(params, 'alpha', 0.1), logPhi: Math.log(number(params, 'phi', 1.001)),
      b: inBytes ? target.amount / avpkt : target.amount, capacity: (bandwidthOf(params, context) * tupdateNs) / (8e9 * avpkt), inBytes,
      avpkt, w: number(params, 'w', 1), tupdateNs,
    };
    return new Rem(context, limitsOf(params, LIMIT_PACKETS), flag(params, 'ecn', false), settings, startNs);
  },
};
