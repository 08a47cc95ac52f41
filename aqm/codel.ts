/**
 * CoDel: RFC 8289, as Linux 6.12 has it (net/sched/sch_codel.c, include/net/codel_impl.h; the algorithm itself is in
 * codel-core.ts).
 *
 * A change keeps the control law's state and drops from the head, counted, what is above a lower limit.
 *
 * Differences from Linux: none.
 */

import { codel as qdisc } from '../testbed/qdiscs/codel.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { CE_THRESHOLD_OFF, codelDequeue, codelPeriod, codelTime, codelTimeToNs, CodelVars, type CodelOwner, type CodelParams } from './codel-core.js';
import { Discipline } from './discipline.js';
import { PacketFifo } from './packet-fifo.js';
import { flag, number, type Params } from './params.js';

/** DEFAULT_CODEL_LIMIT, packets */
const LIMIT = 1000;

export class Codel extends Discipline implements CodelOwner {
  private readonly queue = new PacketFifo();
  /** Tampered with by tests that must notice (testbed/testing/broken-aqms.ts). */
  protected readonly vars = new CodelVars();
  ceMarks = 0;
  maxPacket = 0;
  private dropOverlimit = 0;

  constructor(context: AqmContext, private limit: number, private params: CodelParams) {
    super(context);
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    if (this.backlogPackets >= this.limit) {
      this.dropOverlimit++;
      this.context.drop(packet, 'limit', nowNs);
      return;
    }
    this.queue.push(packet);
    this.backlogPackets++;
    this.backlogBytes += packet.size;
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    return codelDequeue(this, this.vars, this.params, nowNs);
  }

  codelPop(): QueuedPacket | null {
    const packet = this.queue.shift();
    if (packet !== null) {
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
    }
    return packet;
  }

  codelDrop(packet: QueuedPacket, nowNs: number): void {
    this.context.drop(packet, 'aqm', nowNs);
  }

  override change(params: Params, nowNs: number): void {
    this.params = codelParams(params, this.context, false);
    this.limit = number(params, 'limit', LIMIT);
    this.dropWhile(() => this.backlogPackets > this.limit, () => this.codelPop(), 'limit', nowNs);
  }

  override readState(into: Float64Array, nowNs: number): void {
    const { count, lastcount, ldelay, dropping, dropNext } = this.vars;
    into[0] = count;
    into[1] = lastcount;
    into[2] = codelTimeToNs(ldelay);
    into[3] = dropping ? 1 : 0;
    // Time until the next drop, negative when it is overdue; codel_dump_stats().
    const until = (dropNext - codelTime(nowNs)) | 0;
    into[4] = !dropping ? 0 : until >= 0 ? codelTimeToNs(until) : -codelTimeToNs(-until);
    into[5] = this.dropOverlimit;
    into[6] = this.ceMarks;
    into[7] = this.maxPacket;
  }
}

export const codel: AqmKind = {
  kind: 'codel',
  schema: qdisc.schema,
  state: qdisc.state,
  create(params: Params, context: AqmContext) {
    return new Codel(context, number(params, 'limit', LIMIT), codelParams(params, context, false));
  },
};

/** The parameters codel and fq_codel share. */
export function codelParams(params: Params, context: AqmContext, ecnDefault: boolean): CodelParams {
  const ceThreshold = params['ce_threshold'];
  // tc's `ce_threshold_selector VALUE/MASK`
  const [selector = 0, mask = 0] = String(params['ce_threshold_selector'] ?? '0/0').split('/').map(Number);
  return {
    target: codelPeriod(number(params, 'target', 5e6)),
    interval: codelPeriod(number(params, 'interval', 100e6)),
    ceThreshold: typeof ceThreshold === 'number' ? codelPeriod(ceThreshold) : CE_THRESHOLD_OFF,
    ceSelector: selector,
    ceMask: mask,
    mtuBytes: Math.min(context.mtuBytes, 1 << 20),
    ecn: flag(params, 'ecn', ecnDefault),
  };
}
