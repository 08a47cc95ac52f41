/**
 * RED and Adaptive RED: Floyd & Jacobson 1993 and Floyd, Gummadi, Shenker 2001, as Linux 6.12 has them
 * (net/sched/sch_red.c, include/net/red.h; the algorithm is in red-core.ts), in bytes, with tc's parameters. In
 * front of a bfifo of `limit` bytes.
 *
 * As in Linux, an idle period begins when dequeue is asked and finds nothing. Under HTB the kernel never asks an
 * empty leaf: whoever imitates that must not ask either.
 *
 * A change starts with an empty queue and an average of 0: red_change() gives it a new bfifo, and what waits in the old one is dropped.
 *
 * Differences from Linux: none. (The adaptive timer counts jiffies of HZ = 100: jiffies.ts.)
 */

import { bytesPerSecond } from '../testbed/qdiscs/parameters.js';
import { averagingLog, checkThreshold, idleDamping, probability32 } from '../testbed/qdiscs/red-arithmetic.js';
import { red as qdisc, resolveRed } from '../testbed/qdiscs/red.js';
import { ETHERNET_HEADER, type AqmContext, type AqmKind, type QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { timerNs } from './jiffies.js';
import { PacketFifo } from './packet-fifo.js';
import { flag, type Params } from './params.js';
import { RED_DONT_MARK, RED_HARD_MARK, RedParams, RedVars } from './red-core.js';

/** red_adaptative_timer(): every HZ / 2 jiffies. */
const ADAPT_NS = timerNs(500e6);

export class Red extends Discipline {
  private readonly queue = new PacketFifo();
  protected readonly vars = new RedVars();
  private early = 0;
  private pdrop = 0;

  private params!: RedParams;
  private limit = 0;
  private ecn = false;
  private harddrop = false;
  private nodrop = false;

  constructor(context: AqmContext, params: Params, startNs: number) {
    super(context);
    this.set(params, startNs);
    this.vars.startIdle(startNs);
  }

  private set(params: Params, nowNs: number): void {
    const { context } = this;
    const resolved = resolveRed(params, { mtuBytes: context.mtuBytes - ETHERNET_HEADER, rateBps: context.rateBps });
    const { minBytes, maxBytes, avpktBytes } = resolved;
    const wlog = averagingLog('red', minBytes, resolved.burstPackets, avpktBytes);
    checkThreshold('red', 'max', maxBytes, wlog);
    const { cellLog, table } = idleDamping('red', wlog, avpktBytes, bytesPerSecond(resolved.bandwidthBps));
    this.params = new RedParams(minBytes, maxBytes, wlog, probability32(resolved.probability), cellLog, table);
    this.limit = resolved.limitBytes;
    this.ecn = flag(params, 'ecn', false);
    this.harddrop = flag(params, 'harddrop', false);
    this.nodrop = flag(params, 'nodrop', false);
    this.timerNs = flag(params, 'adaptive', false) ? nowNs + ADAPT_NS : Infinity;
  }

  override change(params: Params, nowNs: number): void {
    this.set(params, nowNs);
    for (let packet = this.dequeue(nowNs); packet !== null; packet = this.dequeue(nowNs)) this.context.drop(packet, 'limit', nowNs);
    this.vars.restart(nowNs);
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    this.vars.arrive(this.params, this.backlogBytes, nowNs);
    const action = this.vars.action(this.params, this.context.randomU32, packet, this.context.chance);
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

  /** red_peek(): the bfifo's head. */
  override peek(): QueuedPacket | null {
    return this.queue.head;
  }

  override tick(nowNs: number): void {
    this.params.adapt(this.vars.averageAt(this.params, nowNs));
    this.timerNs = nowNs + ADAPT_NS;
  }

  override readState(into: Float64Array): void {
    into[0] = this.early;
    into[1] = this.pdrop;
    into[2] = 0;
    into[3] = this.vars.qavg / this.params.scale;
    into[4] = this.params.maxP / 2 ** 32;
  }
}

export const red: AqmKind = {
  kind: 'red',
  schema: qdisc.schema,
  state: [...qdisc.state, 'qavg', 'max_p'],
  create: (params, context, startNs) => new Red(context, params, startNs),
};
