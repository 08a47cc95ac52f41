/**
 * RED and Adaptive RED: Floyd & Jacobson 1993 and Floyd, Gummadi, Shenker 2001, as Linux 6.12 has them
 * (net/sched/sch_red.c, include/net/red.h; the algorithm is in red-core.ts), in bytes, with tc's parameters. In
 * front of a bfifo of `limit` bytes.
 *
 * As in Linux, an idle period begins when dequeue is asked and finds nothing. Under HTB the kernel never asks an
 * empty leaf: whoever imitates that must not ask either.
 *
 * Differences from Linux: none. (The adaptive timer counts jiffies of HZ = 100: jiffies.ts.)
 */

import { bytesPerSecond } from '../testbed/qdiscs/parameters.js';
import { averagingLog, checkThreshold, idleDamping, probability32 } from '../testbed/qdiscs/red-arithmetic.js';
import { red as qdisc, resolveRed } from '../testbed/qdiscs/red.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { Discipline } from './discipline.js';
import { setCe } from './ecn.js';
import { timerNs } from './jiffies.js';
import { PacketFifo } from './packet-fifo.js';
import { flag } from './params.js';
import { RED_DONT_MARK, RED_HARD_MARK, RedParams, RedVars } from './red-core.js';

/** red_adaptative_timer(): every HZ / 2 jiffies. */
const ADAPT_NS = timerNs(500e6);
/** context.mtuBytes is psched_mtu(): the IP MTU and this. */
export const ETHERNET_HEADER = 14;

export class Red extends Discipline {
  private readonly queue = new PacketFifo();
  protected readonly vars = new RedVars();
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
  create(params, context, startNs) {
    const resolved = resolveRed(params, { mtuBytes: context.mtuBytes - ETHERNET_HEADER, rateBps: context.rateBps });
    const { minBytes, maxBytes, avpktBytes } = resolved;
    const wlog = averagingLog('red', minBytes, resolved.burstPackets, avpktBytes);
    checkThreshold('red', 'max', maxBytes, wlog);
    const { cellLog, table } = idleDamping('red', wlog, avpktBytes, bytesPerSecond(resolved.bandwidthBps));
    const parms = new RedParams(minBytes, maxBytes, wlog, probability32(resolved.probability), cellLog, table);
    return new Red(
      context, parms, resolved.limitBytes,
      flag(params, 'ecn', false), flag(params, 'harddrop', false), flag(params, 'nodrop', false), flag(params, 'adaptive', false), startNs,
    );
  },
};
