/**
 * COBALT on one queue: the control of CAKE (cobalt-core.ts, Linux 6.12 net/sched/sch_cake.c; Palmei et al., LANMAN
 * 2019) without its flows, tins and shaper. Linux has it only inside CAKE; used here as CAKE uses it: the last packet
 * of the queue is never dropped, a full queue loses its head.
 *
 * Differences from Linux: `limit` counts packets; CAKE counts memory.
 */

import { z } from 'zod';
import { targetBelowInterval } from '../testbed/qdiscs/schemas.js';
import { zPackets, zTime } from '../testbed/units.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { CobaltVars, type CobaltParams } from './cobalt-core.js';
import { Discipline } from './discipline.js';
import { PacketFifo } from './packet-fifo.js';
import { number, positiveTimes, type Params } from './params.js';

/** Packets. */
const LIMIT = 1000;

class Cobalt extends Discipline {
  private readonly queue = new PacketFifo();
  private readonly vars = new CobaltVars();

  constructor(context: AqmContext, private params: CobaltParams, private limit: number) {
    super(context);
  }

  private pop(): QueuedPacket | null {
    const packet = this.queue.shift();
    if (packet !== null) {
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
    }
    return packet;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    this.queue.push(packet);
    this.backlogPackets++;
    this.backlogBytes += packet.size;
    if (this.backlogPackets <= this.limit) return;
    this.vars.queueFull(this.params, nowNs);
    this.context.drop(this.pop()!, 'limit', nowNs);
  }

  override dequeue(nowNs: number): QueuedPacket | null {
    const { vars, params } = this;
    for (;;) {
      const packet = this.pop();
      if (packet === null) {
        vars.queueEmpty(params, nowNs);
        return null;
      }
      const drop = vars.shouldDrop(packet, params, 0, nowNs, this.context.randomU32);
      if (vars.ecnMarked) this.marks++;
      if (!drop || this.backlogPackets === 0) return packet;
      this.context.drop(packet, 'aqm', nowNs);
    }
  }

  /** Keeps the control's state; a lower limit takes the head, without telling the control. */
  override change(params: Params, nowNs: number): void {
    this.params = controlOf(params, this.context);
    this.limit = number(params, 'limit', LIMIT);
    this.dropWhile(() => this.backlogPackets > this.limit, () => this.pop(), 'limit', nowNs);
  }

  override readState(into: Float64Array, nowNs: number): void {
    into[0] = this.vars.count;
    into[1] = this.vars.dropping ? 1 : 0;
    into[2] = this.vars.dropping ? this.vars.dropNextNs - nowNs : 0;
    into[3] = this.vars.pDrop / 2 ** 32;
  }
}

const controlOf = (params: Params, context: AqmContext): CobaltParams => ({
  targetNs: number(params, 'target', 5e6),
  intervalNs: number(params, 'interval', 100e6),
  mtuTimeNs: context.rateBps === null ? 0 : Math.floor((context.mtuBytes * 8e9) / context.rateBps),
});

export const cobalt: AqmKind = {
  kind: 'cobalt',
  schema: targetBelowInterval(positiveTimes(z.strictObject({ limit: zPackets.optional(), target: zTime.optional(), interval: zTime.optional() }), 'target', 'interval')),
  state: ['count', 'dropping', 'drop_next', 'prob'],
  create: (params, context) => new Cobalt(context, controlOf(params, context), number(params, 'limit', LIMIT)),
};
