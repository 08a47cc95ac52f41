/**
 * Threshold policy: an arrival that finds `qth` or more waiting is dropped, or with `ecn` marked when it is ECN-capable:
 * the deterministic rule that AQMs are compared with, and with `ecn` the marking threshold K of DCTCP (Alizadeh et al.,
 * "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.1).
 *
 * Not in Linux as a qdisc (red with min = max is refused there). No published default: `qth` is 50 packets here.
 */

import { z } from 'zod';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { flag } from './params.js';
import { below, limitsOf, sizeOf, zQueueSize, type Limits, type QueueSize } from './queue-size.js';
import { SingleQueue } from './single-queue.js';

const QTH: QueueSize = { amount: 50, unit: 'packets' };
const LIMIT_PACKETS = 1000;

class Threshold extends SingleQueue {
  constructor(context: AqmContext, limits: Limits, ecn: boolean, private readonly qth: QueueSize) {
    super(context, limits, ecn);
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    if (this.overLimit(packet, nowNs)) return;
    const backlog = this.qth.unit === 'packets' ? this.backlogPackets : this.backlogBytes;
    if (backlog >= this.qth.amount && this.signal(packet, this.ecn, nowNs)) return;
    this.accept(packet);
  }

  override readState(into: Float64Array): void {
    into[0] = this.early;
    into[1] = this.pdrop;
  }
}

export const threshold: AqmKind = {
  kind: 'threshold',
  schema: z.strictObject({ limit: zQueueSize.optional(), qth: zQueueSize.optional(), ecn: z.boolean().optional() })
    .superRefine((params, context) => below(params, 'qth', 'limit', { qth: QTH, limit: { amount: LIMIT_PACKETS, unit: 'packets' } }, context)),
  state: ['early', 'pdrop'],
  create: (params, context) => new Threshold(context, limitsOf(params, LIMIT_PACKETS), flag(params, 'ecn', false), sizeOf(params['qth']) ?? QTH),
};
