/**
 * PI2: De Schepper, Bondarenko, Tsang, Briscoe, "PI2: A Linearized AQM for both Classic and Scalable TCP", CoNEXT 2016:
 * a PI controller of the queueing delay on p',
 *   p' += alpha (delay − target) + beta (delay − previous delay), every tupdate,
 * whose output is squared for Classic traffic (dropped, or marked if ECT(0)) and multiplied by the coupling factor k for
 * scalable traffic (ECT(1), and CE as it may be either: always marked). No auto-tuning and none of PIE's heuristics
 * but one: below two full packets nothing is signalled. Defaults are the paper's: alpha 5/16 Hz, beta 50/16 Hz, target
 * 20 ms, update 32 ms, k 2. p' stops at 1/k, where every scalable packet is marked and a quarter of Classic ones are.
 *
 * Linux has dualpi2, the same control over two queues, in integers. Differences from the paper: the delay is that of the
 * packet at the head, as in RFC 9332; the paper's module estimated it from the departure rate as PIE did. `ecn: false`
 * treats every packet as Classic and drops it.
 */

import { z } from 'zod';
import { zTime } from '../testbed/units.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { flag, number, positiveTimes } from './params.js';
import { limitsOf, zQueueSize, type Limits } from './queue-size.js';
import { SingleQueue } from './single-queue.js';

interface Pi2Params {
  readonly targetNs: number;
  readonly tupdateNs: number;
  /** Per ns of delay. */
  readonly alpha: number;
  readonly beta: number;
  readonly coupling: number;
}

class Pi2 extends SingleQueue {
  /** p' */
  private prob = 0;
  private delayOld = 0;

  constructor(context: AqmContext, limits: Limits, ecn: boolean, private readonly params: Pi2Params, startNs: number) {
    super(context, limits, ecn);
    this.timerNs = startNs + params.tupdateNs;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    if (this.overLimit(packet, nowNs)) return;
    if (this.backlogBytes >= 2 * this.context.mtuBytes) {
      const scalable = this.ecn && (packet.ecn & 1) === 1;
      // "Think once to mark, twice to drop."
      const hit = scalable ? this.chance(this.params.coupling * this.prob) : this.chance(this.prob) && this.chance(this.prob);
      if (hit && this.signal(packet, this.ecn, nowNs)) return;
    }
    this.accept(packet);
  }

  private delay(nowNs: number): number {
    return this.queue.head === null ? 0 : nowNs - this.queue.head.enqueueNs;
  }

  override tick(nowNs: number): void {
    const { targetNs, tupdateNs, alpha, beta, coupling } = this.params;
    const delay = this.delay(nowNs);
    this.prob = Math.min(1 / coupling, Math.max(0, this.prob + alpha * (delay - targetNs) + beta * (delay - this.delayOld)));
    this.delayOld = delay;
    this.timerNs = nowNs + tupdateNs;
  }

  override readState(into: Float64Array, nowNs: number): void {
    into[0] = this.early;
    into[1] = this.pdrop;
    into[2] = this.prob;
    into[3] = this.delay(nowNs);
  }
}

const gain = 'expected a gain in Hz above 0, up to 1000, such as 0.3125';
const zGain = z.number({ error: gain }).gt(0, { error: gain }).max(1000, { error: gain });
const coupling = 'expected a coupling factor from 1 to 255';

export const pi2: AqmKind = {
  kind: 'pi2',
  schema: positiveTimes(
    z.strictObject({
      limit: zQueueSize.optional(), target: zTime.optional(), tupdate: zTime.optional(), alpha: zGain.optional(), beta: zGain.optional(),
      coupling_factor: z.number({ error: coupling }).min(1, { error: coupling }).max(255, { error: coupling }).optional(), ecn: z.boolean().optional(),
    }),
    'target', 'tupdate',
  ),
  state: ['early', 'pdrop', 'prob', 'delay'],
  create(params, context, startNs) {
    const settings: Pi2Params = {
      targetNs: number(params, 'target', 20e6), tupdateNs: number(params, 'tupdate', 32e6),
      alpha: number(params, 'alpha', 5 / 16) / 1e9, beta: number(params, 'beta', 50 / 16) / 1e9, coupling: number(params, 'coupling_factor', 2),
    };
    return new Pi2(context, limitsOf(params, 1000), flag(params, 'ecn', true), settings, startNs);
  },
};
