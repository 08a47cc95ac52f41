/**
 * Probes: a packet each interval, echoed by the destination with the same size. Forward and reverse one-way delay are
 * exact; for `ping` only the round trip is recorded, as that tool knows no more.
 */

import type { PlanProbe } from '../testbed/plan/plan.js';
import { Actor } from './events.js';
import type { Network } from './network.js';
import { kind, type Packet } from './packet.js';
import type { Endpoint, Route } from './route.js';

/** Gets each probe's row: an answer when it comes, a loss (NaN) once that is certain. */
export type ProbeRow = (probeId: number, seq: number, sentNs: number, rttNs: number, forwardNs: number, reverseNs: number) => void;

class Echo implements Endpoint {
  constructor(private readonly network: Network, private readonly back: Route) {}
  receive(packet: Packet): void {
    const reply = this.network.pool.take(this.back, kind.reply, packet.ipBytes);
    reply.seq = packet.seq;
    reply.sentNs = packet.sentNs;
    reply.answeredNs = this.network.events.now;
    this.network.send(reply);
  }
}

export class Probe extends Actor implements Endpoint {
  private readonly out: Route;
  private seq = 0;
  /** Send times of the probes [oldest, seq) that are not all answered: a ring; NaN where answered. */
  private waiting = new Float64Array(64).fill(NaN);
  private oldest = 0;
  answered = 0;
  over = false;

  constructor(private readonly network: Network, private readonly plan: PlanProbe, private readonly row: ProbeRow) {
    super();
    network.events.add(this);
    const key = (a: string, b: string): string => `${a} ${plan.port} ${b} ${plan.port} ${plan.tool === 'ping' || plan.tool === 'fping' ? 'icmp' : 'udp'}`;
    this.out = network.route(plan.src, plan.srcAddress, plan.dstAddress, -1 - plan.id, true, key(plan.srcAddress, plan.dstAddress));
    const back = network.route(plan.dst, plan.dstAddress, plan.srcAddress, -1 - plan.id, false, key(plan.dstAddress, plan.srcAddress));
    this.out.sink = new Echo(network, back);
    back.sink = this;
    network.events.schedule(this.actorId, plan.startNs);
  }

  override fire(): void {
    const now = this.network.events.now;
    if (now > this.plan.stopNs) { this.over = true; return; }
    if (this.seq - this.oldest === this.waiting.length) this.grow();
    this.waiting[this.seq & (this.waiting.length - 1)] = now;
    const packet = this.network.pool.take(this.out, kind.probe, this.plan.sizeBytes);
    packet.seq = this.seq++;
    packet.sentNs = now;
    this.network.send(packet);
    const next = this.plan.startNs + this.seq * this.plan.intervalNs;
    if (next <= this.plan.stopNs) this.network.events.schedule(this.actorId, next);
    else this.over = true;
  }

  private grow(): void {
    const old = this.waiting;
    this.waiting = new Float64Array(old.length * 2).fill(NaN);
    for (let s = this.oldest; s < this.seq; s++) this.waiting[s & (this.waiting.length - 1)] = old[s & (old.length - 1)]!;
  }

  receive(packet: Packet): void {
    const i = packet.seq & (this.waiting.length - 1);
    if (packet.seq < this.oldest || !(this.waiting[i]! === packet.sentNs)) return; // a duplicate
    this.waiting[i] = NaN;
    this.answered++;
    const now = this.network.events.now;
    const owd = this.plan.tool === 'builtin' || this.plan.tool === 'irtt';
    this.row(this.plan.id, packet.seq, packet.sentNs, now - packet.sentNs, owd ? packet.answeredNs - packet.sentNs : NaN, owd ? now - packet.answeredNs : NaN);
    this.settle(now - 60e9);
  }

  /** Forgets what was answered, and gives up what was sent before `lostBeforeNs`. */
  settle(lostBeforeNs: number): void {
    while (this.oldest < this.seq) {
      const i = this.oldest & (this.waiting.length - 1);
      const sent = this.waiting[i]!;
      if (sent >= lostBeforeNs) return;
      if (sent === sent) this.row(this.plan.id, this.oldest, sent, NaN, NaN, NaN);
      this.waiting[i] = NaN;
      this.oldest++;
    }
  }
}
