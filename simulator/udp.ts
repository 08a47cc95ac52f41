/**
 * UDP flows: constant bit rate and on-off. Datagram k of a burst leaves at burst start + k × (IP packet size × 8 / rate), as
 * the kernel engine's generator sends it: a product, so without drift; rounded up to whole ns.
 */

import type { PlanFlow } from '../testbed/plan/plan.js';
import { SequenceWindow } from '../testbed/traffic/sequence-window.js';
import { Actor } from './events.js';
import type { Network } from './network.js';
import { kind, type Packet } from './packet.js';
import type { Endpoint, Route } from './route.js';

/** Sequence numbers remembered at most, as the kernel engine's receiver. */
const mostRemembered = 2 ** 20;

class Sink implements Endpoint {
  constructor(readonly arrived: SequenceWindow) {}
  receive(packet: Packet): void { this.arrived.add(packet.seq); }
}

/** A UDP flow and its figures, whoever sends it. */
export interface UdpSource {
  readonly plan: PlanFlow;
  /** Payload of a datagram, bytes. */
  readonly payload: number;
  /** Datagrams sent; different ones received; copies. */
  readonly sent: number;
  readonly received: number;
  readonly duplicates: number;
  /** ns; NaN before it started, or ended. */
  readonly startNs: number;
  readonly endNs: number;
  /** Sending is over. */
  readonly over: boolean;
  /** Why it failed; null: it did not. */
  readonly failed: string | null;
}

export class UdpFlow extends Actor implements UdpSource {
  private readonly route: Route;
  private readonly sink: Sink;
  private readonly bursts: readonly (readonly [number, number])[];
  private readonly intervalNs: number;
  private readonly packetBytes: number;
  readonly payload: number;
  private burst = 0;
  private next = 0;
  sent = 0;
  startNs = NaN;
  endNs = NaN;
  private readonly ecn: number;
  readonly failed = null;

  constructor(private readonly network: Network, readonly plan: PlanFlow, endNs: number) {
    super();
    network.events.add(this);
    this.packetBytes = plan.packetBytes ?? 0;
    this.payload = this.packetBytes - (plan.srcAddress.includes(':') ? 48 : 28);
    this.intervalNs = (this.packetBytes * 8e9) / (plan.rateBps ?? 1);
    this.ecn = plan.ecn ? 2 : 0;
    const stopNs = Math.min(plan.stopNs ?? endNs, endNs);
    this.bursts = (plan.bursts ?? [[plan.startNs, stopNs] as const])
      .map(([from, to]) => [Math.max(from, plan.startNs), Math.min(to, stopNs)] as const)
      .filter(([from, to]) => from < to);
    const datagrams = this.bursts.reduce((sum, [from, to]) => sum + Math.ceil((to - from) / this.intervalNs), 0);
    this.sink = new Sink(new SequenceWindow(Math.min(datagrams, mostRemembered)));
    this.route = network.route(plan.src, plan.srcAddress, plan.dstAddress, plan.id, true, `${plan.srcAddress} ${plan.srcPort} ${plan.dstAddress} ${plan.dstPort} udp`);
    this.route.sink = this.sink;
    if (this.bursts.length > 0) network.events.schedule(this.actorId, this.bursts[0]![0]);
  }

  /** Different datagrams. */
  get received(): number { return this.sink.arrived.received; }
  get duplicates(): number { return this.sink.arrived.duplicates; }
  /** Sending is over. */
  get over(): boolean { return this.burst >= this.bursts.length; }

  override fire(): void {
    const burst = this.bursts[this.burst]!;
    const now = this.network.events.now;
    if (!(this.startNs >= 0)) this.startNs = now;
    const packet = this.network.pool.take(this.route, kind.udp, this.packetBytes);
    packet.seq = this.sent++;
    packet.payload = this.payload;
    packet.ecn = this.ecn;
    this.network.send(packet);
    let at = Math.ceil(burst[0] + ++this.next * this.intervalNs);
    if (at >= burst[1]) {
      this.burst++;
      this.next = 0;
      const following = this.bursts[this.burst];
      if (following === undefined) {
        this.endNs = burst[1];
        return;
      }
      at = following[0];
    }
    this.network.events.schedule(this.actorId, at);
  }
}
