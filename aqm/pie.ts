/**
 * PIE: RFC 8033, as Linux 6.12 has it (net/sched/sch_pie.c; the algorithm is in pie-core.ts).
 *
 * `tupdate` is counted in jiffies of HZ = 100, as in the kernels it is compared with (jiffies.ts): its default of 15 ms is
 * 30 ms there. Seen so in their statistics, on 6.12 and 7.3.
 *
 * A change keeps the probability and the phase of the updates, and drops from the head, counted, what is above a lower limit.
 *
 * Differences from Linux: none.
 */

import { pie as qdisc } from '../testbed/qdiscs/pie.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { PacketFifo } from './packet-fifo.js';
import { timerNs } from './jiffies.js';
import { flag, number, type Params } from './params.js';
import { pschedTicks, PieVars, TENTH_OF_MAX, type PieParams } from './pie-core.js';

/** The first update comes HZ / 2 jiffies after creation. */
export const FIRST_UPDATE_NS = timerNs(500e6);

class Pie extends Discipline {
  private readonly queue = new PacketFifo();
  private readonly vars = new PieVars();
  private packetsIn = 0;
  private overlimit = 0;
  private dropped = 0;
  private maxq = 0;

  constructor(
    context: AqmContext,
    private params: PieParams,
    private limit: number,
    private ecn: boolean,
    private periodNs: number,
    startNs: number,
  ) {
    super(context);
    this.timerNs = startNs + FIRST_UPDATE_NS;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    const vars = this.vars;
    if (this.backlogPackets >= this.limit) {
      this.overlimit++;
      this.reject(packet, true, nowNs);
      return;
    }
    if (vars.dropEarly(this.params, this.backlogBytes, packet.size, this.context.randomU32, packet, this.context.chance)) {
      if (!(this.ecn && vars.atMost(TENTH_OF_MAX) && setCe(packet))) {
        this.reject(packet, false, nowNs);
        return;
      }
      this.marks++;
    }
    this.packetsIn++;
    if (this.backlogPackets > this.maxq) this.maxq = this.backlogPackets;
    this.queue.push(packet);
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  private reject(packet: QueuedPacket, full: boolean, nowNs: number): void {
    this.dropped++;
    this.vars.clearAccumulated();
    this.context.drop(packet, full ? 'limit' : 'aqm', nowNs);
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    const packet = this.queue.shift();
    if (packet === null) return null;
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    this.vars.departed(packet, this.params, this.backlogBytes, nowNs);
    return packet;
  }

  override change(params: Params, nowNs: number): void {
    this.params = pieParams(params, this.context);
    this.limit = number(params, 'limit', 1000);
    this.ecn = flag(params, 'ecn', false);
    this.periodNs = timerNs(number(params, 'tupdate', 15e6));
    this.dropWhile(() => this.backlogPackets > this.limit, () => {
      const packet = this.queue.shift();
      if (packet === null) return null;
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
      return packet;
    }, 'limit', nowNs);
  }

  override tick(nowNs: number): void {
    this.vars.update(this.params, this.backlogBytes);
    this.timerNs = nowNs + this.periodNs;
  }

  override readState(into: Float64Array): void {
    into[0] = this.vars.dumpedProb;
    into[1] = Math.floor((this.vars.qdelay * 64) / 1000) * 1000;
    // bytes/s, as pie_dump_stats() unscales it
    into[2] = Math.floor((this.vars.avgDqRate * 15_625_000) / 256);
    into[3] = this.packetsIn;
    into[4] = this.dropped;
    into[5] = this.overlimit;
    into[6] = this.maxq;
  }
}

/** The parameters pie and fq_pie share. */
export function pieParams(params: Params, context: AqmContext): PieParams {
  return {
    target: pschedTicks(Math.floor(number(params, 'target', 15e6) / 1000) * 1000),
    alpha: number(params, 'alpha', 2),
    beta: number(params, 'beta', 20),
    bytemode: flag(params, 'bytemode', false),
    dqRateEstimator: flag(params, 'dq_rate_estimator', false),
    mtuBytes: Math.min(Math.max(context.mtuBytes, 1), 1 << 20),
  };
}

export const pie: AqmKind = {
  kind: 'pie',
  schema: qdisc.schema,
  state: qdisc.state,
  create: (params, context, startNs) =>
    new Pie(context, pieParams(params, context), number(params, 'limit', 1000), flag(params, 'ecn', false), timerNs(number(params, 'tupdate', 15e6)), startNs),
};
