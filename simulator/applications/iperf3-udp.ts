/**
 * A UDP flow by iperf3 (iperf3.ts): a datagram of 4 bytes asks the server for a stream, one of 4 bytes answers. Then the client looks each millisecond of the test whether what
 * it has sent, payload only, is less than the rate makes until then, and sends until it is not: datagrams leave in bursts at whole milliseconds (iperf_check_throttle).
 * Difference: a datagram to a server that has closed is lost without the ICMP message that Linux answers it with.
 */

import type { PlanFlow } from '../../testbed/plan/plan.js';
import { pacingTimerNs, payloadRateBps, wholeSeconds } from '../../testbed/traffic/iperf3-settings.js';
import { SequenceWindow } from '../../testbed/traffic/sequence-window.js';
import { Alarm } from '../alarm.js';
import { Actor } from '../events.js';
import type { Network } from '../network.js';
import { kind, type Packet } from '../packet.js';
import type { Endpoint, Route } from '../route.js';
import type { UdpSource } from '../udp.js';
import { Iperf3Test, type Iperf3Stream } from './iperf3.js';

const askBytes = 4;
/** How long the client waits for the answer, ns (SO_RCVTIMEO of iperf_udp_connect). */
const answerTimeoutNs = 30e9;
/** Sequence numbers remembered at most, as the kernel engine's receiver. */
const mostRemembered = 2 ** 20;

class Inbox implements Endpoint {
  constructor(private readonly got: (packet: Packet) => void) {}
  receive(packet: Packet): void { this.got(packet); }
}

export class Iperf3Udp extends Actor implements UdpSource, Iperf3Stream {
  private readonly test: Iperf3Test;
  private readonly out: Route;
  private readonly back: Route;
  private readonly headerBytes: number;
  private readonly packetBytes: number;
  private readonly arrived: SequenceWindow;
  readonly payload: number;
  private readonly bitsPerNs: number;
  private testNs = NaN;
  private asked = false;
  private closed = false;
  private answered: () => void = () => {};
  private accepted: () => void = () => {};
  sent = 0;
  startNs = NaN;
  endNs = NaN;
  over = false;
  failed: string | null = null;

  constructor(private readonly network: Network, readonly plan: PlanFlow) {
    super();
    network.events.add(this);
    this.headerBytes = plan.srcAddress.includes(':') ? 48 : 28;
    this.packetBytes = plan.packetBytes ?? 0;
    this.payload = this.packetBytes - this.headerBytes;
    this.bitsPerNs = payloadRateBps(plan, this.payload) / 1e9;
    this.arrived = new SequenceWindow(Math.min(mostRemembered, Math.ceil((this.bitsPerNs * wholeSeconds(plan) * 1e9) / (8 * this.payload)) + 1));
    this.out = network.route(plan.src, plan.srcAddress, plan.dstAddress, plan.id, true, `${plan.srcAddress} ${plan.srcPort} ${plan.dstAddress} ${plan.dstPort} udp`);
    this.back = network.route(plan.dst, plan.dstAddress, plan.srcAddress, plan.id, false, `${plan.dstAddress} ${plan.dstPort} ${plan.srcAddress} ${plan.srcPort} udp`);
    this.out.sink = new Inbox((packet) => this.serverGets(packet));
    this.back.sink = new Inbox(() => this.answered());
    this.test = new Iperf3Test(network, plan, this, ({ failed, endNs }) => {
      this.over = true;
      this.failed = failed;
      this.endNs = endNs ?? NaN;
    });
    new Alarm(network.events, () => {
      this.startNs = network.events.now;
      this.test.start();
    }).set(plan.startNs);
  }

  get received(): number { return this.arrived.received; }
  get duplicates(): number { return this.arrived.duplicates; }

  connect(connected: () => void, accepted: () => void, failed: (why: string) => void): void {
    const timeout = new Alarm(this.network.events, () => failed('its server did not answer the datagram that asks for a stream within 30 s'));
    timeout.set(this.network.events.now + answerTimeoutNs);
    this.accepted = accepted;
    this.answered = () => {
      this.answered = () => {};
      timeout.release();
      connected();
    };
    this.send(this.out, this.headerBytes + askBytes, -1);
  }

  private serverGets({ seq }: Packet): void {
    if (this.closed) return;
    if (seq >= 0) {
      this.arrived.add(seq);
      return;
    }
    if (this.asked) return;
    this.asked = true;
    this.send(this.back, this.headerBytes + askBytes, -1);
    this.accepted();
  }

  private send(route: Route, ipBytes: number, seq: number): void {
    const packet = this.network.pool.take(route, kind.udp, ipBytes);
    packet.seq = seq;
    packet.payload = ipBytes - this.headerBytes;
    packet.ecn = this.plan.ecn ? 2 : 0;
    this.network.send(packet);
  }

  /** What was sent would take until then at the rate, ns since the test began. */
  private get paidNs(): number { return (8 * this.payload * this.sent) / this.bitsPerNs; }

  begin(testNs: number): void {
    this.testNs = testNs;
    this.fire();
  }
  override fire(): void {
    const { events } = this.network;
    // A clock read is later than the timer it belongs to: what is paid for exactly then is due. The first is sent unasked.
    do this.send(this.out, this.packetBytes, this.sent++); while (this.paidNs <= events.now - this.testNs);
    events.schedule(this.actorId, this.testNs + Math.ceil(this.paidNs / pacingTimerNs - 1e-9) * pacingTimerNs);
  }

  hold(writable: () => void): void {
    this.leave();
    writable();
  }
  leave(): void { if (this.actorId >= 0) this.network.events.cancel(this.actorId); }
  close(): void { this.closed = true; }
  free(): void { this.network.events.remove(this); }
}
