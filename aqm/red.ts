/**
 * RED and Adaptive RED: Floyd & Jacobson 1993 and Floyd, Gummadi, Shenker 2001, as Linux 6.12 has them
 * (net/sched/sch_red.c, include/net/red.h; the algorithm is in red-core.ts), in bytes, with tc's parameters. In
 * front of a bfifo of `limit` bytes.
 *
 * As in Linux, an idle period begins when dequeue is asked and finds nothing. Under HTB the kernel never asks an
 * empty leaf: whoever imitates that must not ask either.
 *
 * Differences from Linux:
 * - The adaptive timer is exact; Linux's runs on jiffies.
 * - `bandwidth` defaults to the link's rate when it is known; tc's default is 10mbit whatever the link.
 */

import { z } from 'zod';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { PacketFifo } from './packet-fifo.js';
import { bytes, flag, number, onOff, probability, rate, whole, type Params } from './params.js';
import { evalIdleDamping, evalWlog, maxPOf, RED_DONT_MARK, RED_HARD_MARK, RedParams, RedVars, thresholdFits } from './red-core.js';

const ADAPT_NS = 500e6;

class Red extends Discipline {
  private readonly queue = new PacketFifo();
  private readonly vars = new RedVars();
  private early = 0;
  private pdrop = 0;

  constructor(
    context: AqmContext,
    private readonly params: RedParams,
    private readonly limit: number,
    private readonly ecn: boolean,
    private readonly harddrop: boolean,
    private readonly nodrop: boolean,
    adaptive: boolean,
    startNs: number,
  ) {
    super(context);
    this.vars.startIdle(startNs);
    if (adaptive) this.timerNs = startNs + ADAPT_NS;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    this.vars.arrive(this.params, this.backlogBytes, nowNs);
    const action = this.vars.action(this.params, this.context.randomU32);
    if (action !== RED_DONT_MARK) {
      const mayMark = this.ecn && !(action === RED_HARD_MARK && this.harddrop);
      if (mayMark && setCe(packet)) {
        this.marks++;
      } else if (!mayMark || !this.nodrop) {
        this.early++;
        this.context.drop(packet, 'aqm', nowNs);
        return;
      }
    }
    if (this.backlogBytes + packet.size > this.limit) {
      this.pdrop++;
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    this.queue.push(packet);
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    const packet = this.queue.shift();
    if (packet === null) {
      this.vars.startIdle(nowNs);
      return null;
    }
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    return packet;
  }

  override tick(nowNs: number): void {
    this.params.adapt(this.vars.averageAt(this.params, nowNs));
    this.timerNs = nowNs + ADAPT_NS;
  }

  override readState(into: Float64Array, _nowNs: number): void {
    into[0] = this.early;
    into[1] = this.pdrop;
    into[2] = 0;
    into[3] = this.marks;
    into[4] = this.vars.qavg / 2 ** this.params.wlog;
    into[5] = this.params.maxP / 2 ** 32;
  }
}

/** Thresholds and burst with tc's defaults (tc/q_red.c; Floyd's recommendations), in the unit of `limit`. */
export function redThresholds(params: Params, limit: number, avpkt: number): { min: number; max: number; burst: number } {
  let min = number(params, 'min', 0), max = number(params, 'max', 0);
  if (max === 0) max = min !== 0 ? min * 3 : Math.floor(limit / 4);
  if (min === 0) min = Math.floor(max / 3);
  return { min, max, burst: number(params, 'burst', Math.floor((2 * min + max) / (3 * avpkt))) };
}

export type Problem = { readonly path: string; readonly message: string };

/** What tc and the kernel would refuse. `unit` bytes of one unit of the thresholds: 1, or avpkt when they count packets. */
export function redProblem(min: number, max: number, burst: number, avpkt: number, unit: number): Problem | null {
  if (min >= max) return { path: 'min', message: `min (${min}) must be below max (${max})` };
  const wlog = evalWlog(min * unit, burst, avpkt);
  if (wlog < 0) {
    return { path: 'burst', message: `burst (${burst} packets) is too small for min and avpkt; try ${1 + Math.floor((min * unit) / avpkt)} packets` };
  }
  if (!thresholdFits(max, wlog)) return { path: 'max', message: `max (${max}) with burst ${burst} is more than the kernel's RED can count; lower max or burst` };
  return null;
}

export const red: AqmKind = {
  kind: 'red',
  schema: z
    .strictObject({
      limit: bytes(),
      min: bytes().optional(),
      max: bytes().optional(),
      avpkt: bytes().optional(),
      burst: whole(1, 0x7fffffff).optional(),
      probability: probability().optional(),
      bandwidth: rate().optional(),
      adaptive: onOff().optional(),
      ecn: onOff().optional(),
      harddrop: onOff().optional(),
      nodrop: onOff().optional(),
    })
    .superRefine((params, check) => {
      const avpkt = params.avpkt ?? 1000;
      const { min, max, burst } = redThresholds(params as Params, params.limit, avpkt);
      const problem = redProblem(min, max, burst, avpkt, 1);
      if (problem) check.addIssue({ code: 'custom', path: [problem.path], message: problem.message });
      if (params.nodrop && !params.ecn) check.addIssue({ code: 'custom', path: ['nodrop'], message: 'nodrop means something only together with ecn: true' });
    }),
  state: ['early', 'pdrop', 'other', 'marked', 'qavg', 'max_p'],
  create(params, context, startNs) {
    const limit = number(params, 'limit', 0), avpkt = number(params, 'avpkt', 1000);
    const { min, max, burst } = redThresholds(params, limit, avpkt);
    const wlog = evalWlog(min, burst, avpkt);
    const damping = evalIdleDamping(wlog, avpkt, number(params, 'bandwidth', context.rateBps ?? 10e6));
    if (damping === null) throw new RangeError(`red: no idle damping table for avpkt ${avpkt} and this bandwidth`);
    const parms = new RedParams(min, max, wlog, maxPOf(number(params, 'probability', 0.02)), damping.scellLog, damping.stab);
    return new Red(
      context, parms, limit,
      flag(params, 'ecn', false), flag(params, 'harddrop', false), flag(params, 'nodrop', false), flag(params, 'adaptive', false), startNs,
    );
  },
};
