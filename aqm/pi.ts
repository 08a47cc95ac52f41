/**
 * PI: Hollot, Misra, Towsley, Gong, "On Designing Improved Controllers for AQM Routers Supporting TCP Flows", INFOCOM
 * 2001: the drop probability is sampled every `tupdate` as
 *   p(k) = p(k − 1) + a (q(k) − qref) − b (q(k − 1) − qref), kept within 0 … 1,
 * and every arrival is signalled with it. Defaults are the paper's design (section VI): a 1.822·10^-5, b 1.816·10^-5,
 * 160 Hz, qref 200 packets, buffer 800 packets. (They suit its link, 3750 packets/s and 60 flows; ns-2's queue/pi.cc has
 * 170 Hz and qref 50.)
 *
 * Linux has PIE, which controls the delay instead and tunes itself. Differences from the paper: `bytemode` (p times size /
 * avpkt) and a queue counted in bytes (qref in bytes: in units of avpkt) are ns-2's.
 */

import { z } from 'zod';
import { zBytes } from '../testbed/qdiscs/schemas.js';
import { zTime } from '../testbed/units.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { flag, number, positiveTimes } from './params.js';
import { below, limitsOf, sizeOf, zQueueSize, type Limits, type QueueSize } from './queue-size.js';
import { SingleQueue } from './single-queue.js';

interface PiParams {
  readonly a: number;
  readonly b: number;
  /** In packets, or in units of avpkt bytes. */
  readonly qref: number;
  readonly inBytes: boolean;
  readonly tupdateNs: number;
  readonly avpkt: number;
  readonly bytemode: boolean;
}

class Pi extends SingleQueue {
  private prob = 0;
  private qOld = 0;

  constructor(context: AqmContext, limits: Limits, ecn: boolean, private readonly params: PiParams, startNs: number) {
    super(context, limits, ecn);
    this.timerNs = startNs + params.tupdateNs;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    if (this.overLimit(packet, nowNs)) return;
    const { bytemode, avpkt } = this.params;
    if (this.chance(bytemode ? (this.prob * packet.size) / avpkt : this.prob) && this.signal(packet, this.ecn, nowNs)) return;
    this.accept(packet);
  }

  override tick(nowNs: number): void {
    const { a, b, qref, inBytes, avpkt, tupdateNs } = this.params;
    const q = inBytes ? this.backlogBytes / avpkt : this.backlogPackets;
    this.prob = Math.min(1, Math.max(0, this.prob + a * (q - qref) - b * (this.qOld - qref)));
    this.qOld = q;
    this.timerNs = nowNs + tupdateNs;
  }

  override readState(into: Float64Array): void {
    into[0] = this.early;
    into[1] = this.pdrop;
    into[2] = this.prob;
  }
}

const A = 1.822e-5, B = 1.816e-5;
const QREF: QueueSize = { amount: 200, unit: 'packets' };
const LIMIT_PACKETS = 800;
const zGain = z.number({ error: 'expected a gain above 0, up to 1' }).gt(0, { error: 'expected a gain above 0, up to 1' }).max(1, { error: 'expected a gain above 0, up to 1' });

export const pi: AqmKind = {
  kind: 'pi',
  schema: positiveTimes(
    z.strictObject({
      limit: zQueueSize.optional(), qref: zQueueSize.optional(), a: zGain.optional(), b: zGain.optional(), tupdate: zTime.optional(),
      avpkt: zBytes.optional(), bytemode: z.boolean().optional(), ecn: z.boolean().optional(),
    }).superRefine((params, context) => {
      below(params, 'qref', 'limit', { qref: QREF, limit: { amount: LIMIT_PACKETS, unit: 'packets' } }, context);
      // a − b is the gain of the integral: without it the queue does not return to qref.
      const { a = A, b = B } = params;
      if (b >= a) context.addIssue({ code: 'custom', path: [params.b === undefined ? 'a' : 'b'], message: `expected b (${b}) below a (${a})` });
    }),
    'tupdate',
  ),
  state: ['early', 'pdrop', 'prob'],
  create(params, context, startNs) {
    const qref = sizeOf(params['qref']) ?? QREF, avpkt = number(params, 'avpkt', context.mtuBytes), inBytes = qref.unit === 'bytes';
    const settings: PiParams = {
      a: number(params, 'a', A), b: number(params, 'b', B), qref: inBytes ? qref.amount / avpkt : qref.amount, inBytes,
      tupdateNs: number(params, 'tupdate', 6.25e6), avpkt, bytemode: flag(params, 'bytemode', false),
    };
    return new Pi(context, limitsOf(params, LIMIT_PACKETS), flag(params, 'ecn', false), settings, startNs);
  },
};
