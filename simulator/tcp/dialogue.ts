/**
 * A TCP connection that carries short messages both ways, each a write and a segment of its own (TCP_NODELAY): the control connection of a tool. As
 * Linux 6.12: it acknowledges quickly at first, then with its answers or a delayed acknowledgement (pingpong mode), and what two short segments
 * bring once they are read; it repeats a message by a loss probe, then by RTO (RFC 6298).
 * Differences: windows are taken never to be reached; what is lost is repeated by timers only; CE is not echoed.
 */

import { Alarm } from '../alarm.js';
import type { Network } from '../network.js';
import { kind, type Packet } from '../packet.js';
import type { Endpoint, Route } from '../route.js';
import { atoMin, delackLongest, delackMax, hz, jiffies, rtoMax, rtoMinUs, timeoutInit, timeoutMinUs, timerLevel, timerNs, usToJiffies } from './clock.js';

/** What a message is that ends the stream: FIN. */
const endOfStream = 0;
const mostQuickAcks = 16;
const mostSyns = 7;
const mostTimeouts = 15;

export class DialogueEnd implements Endpoint {
  /** Something can be read. */
  readable: () => void = () => {};
  /** The handshake is over, as far as this end knows. */
  connected: () => void = () => {};
  /** It was given up. */
  failed: (why: string) => void = () => {};

  private readonly headerBytes: number;
  private readonly retransmission: Alarm;
  private readonly delack: Alarm;
  private readonly sent: number[] = [];
  private una = 0;
  private readonly arrived: number[] = [];
  private rcvNxt = 0;
  private readTo = 0;
  private established = false;
  private over = false;
  private tries = 0;
  private sentNs = NaN;
  private srttUs = 0;
  private rto = timeoutInit;
  private backoff = 0;
  private probe = false;
  // icsk_ack
  private scheduled = false;
  private pushed = 0;
  private pingpong = false;
  private quick = 0;
  private ato = 0;
  private lastReceived = -Infinity;
  private delackJiffies = 0;

  constructor(private readonly network: Network, private readonly route: Route, private readonly isClient: boolean, v6: boolean, private readonly ecn: boolean) {
    this.headerBytes = v6 ? 72 : 52;
    this.retransmission = new Alarm(network.events, () => this.timeout());
    this.delack = new Alarm(network.events, () => this.delackDue());
  }

  release(): void {
    this.over = true;
    this.retransmission.release();
    this.delack.release();
  }

  /** connect(): the client's. */
  connect(): void { this.sendSyn(); }

  private sendSyn(): void {
    const packet = this.take(this.isClient ? kind.syn : kind.synAck, 8);
    packet.ece = this.ecn;
    packet.cwr = this.ecn && this.isClient;
    this.sentNs = this.tries++ === 0 ? this.network.events.now : NaN;
    // tcp_syn_linear_timeouts: a client's first four repetitions a second apart, then doubling.
    this.set(this.retransmission, timeoutInit * 2 ** Math.max(0, this.tries - (this.isClient ? 5 : 1)));
    this.network.send(packet);
  }

  private take(packetKind: number, payload: number): Packet {
    const packet = this.network.pool.take(this.route, packetKind, this.headerBytes + payload);
    packet.pureAck = packetKind !== kind.data;
    packet.seq = 0;
    packet.payload = 0;
    packet.ack = this.rcvNxt;
    return packet;
  }

  /** Writes a message. */
  say(bytes: number): void {
    if (this.over) return;
    this.sent.push(bytes);
    if (jiffies(this.network.events.now) - this.lastReceived < this.ato) this.pingpong = true;
    if (this.una === this.sent.length - 1 || this.probe) this.armProbe();
    this.transmit(this.sent.length - 1); // which the other end may have answered when this returns
  }
  /** Ends this end's stream. */
  close(): void { this.say(endOfStream); }

  /** @param delta jiffies */
  private set(alarm: Alarm, delta: number): void {
    const { events } = this.network;
    alarm.set(timerNs(events.now, delta), events.takeTimerOrder(timerLevel(delta)));
  }

  private transmit(k: number, again = false): void {
    const bytes = this.sent[k]!;
    const packet = this.take(bytes === endOfStream ? kind.fin : kind.data, bytes);
    packet.seq = k;
    packet.payload = bytes;
    packet.push = true;
    if (this.ecn && bytes !== endOfStream) packet.ecn = 2;
    this.sentNs = again ? NaN : this.network.events.now; // Karn's algorithm
    this.acknowledged();
    this.network.send(packet);
  }

  /** tcp_schedule_loss_probe */
  private armProbe(): void {
    const out = this.sent.length - this.una;
    const us = 2 * this.srttUs + (out === 1 ? rtoMinUs : timeoutMinUs);
    this.probe = true;
    this.set(this.retransmission, Math.min(usToJiffies(us), this.rto));
  }

  private timeout(): void {
    if (!this.established) {
      if (this.tries >= (this.isClient ? mostSyns : mostSyns - 1)) {
        if (this.isClient) this.failed(`connection timed out: no answer to ${mostSyns} SYNs of its control connection`);
      } else this.sendSyn();
      return;
    }
    if (this.una >= this.sent.length) return;
    const wasProbe = this.probe;
    this.probe = false;
    if (!wasProbe && ++this.backoff > mostTimeouts) {
      this.failed(`its control connection timed out: ${mostTimeouts} retransmission timeouts in a row`);
      return;
    }
    this.set(this.retransmission, Math.min(this.rto * 2 ** this.backoff, rtoMax));
    this.transmit(wasProbe ? this.sent.length - 1 : this.una, true);
  }

  receive(packet: Packet): void {
    if (this.over) return;
    const { now } = this.network.events;
    if (packet.kind === kind.syn || packet.kind === kind.synAck) {
      if (!this.isClient) { if (!this.established) this.sendSyn(); return; }
      if (!this.established) this.establish(now);
      this.sendAck();
      if (this.sent.length === 0) this.connected();
      return;
    }
    if (!this.established) {
      if (this.isClient) return;
      this.establish(now);
      this.connected();
    }
    this.onAck(packet.ack, now);
    if (packet.kind === kind.ack) return;
    this.onMessage(packet, now);
  }

  private establish(now: number): void {
    this.established = true;
    this.retransmission.cancel();
    if (this.sentNs >= 0) this.measure(Math.floor((now - this.sentNs) / 1000));
  }

  /** The variation is taken to be twice the round trip, as after the first measurement, and 200 ms at least. */
  private measure(rttUs: number): void {
    this.srttUs = this.srttUs === 0 ? rttUs : this.srttUs + Math.floor((rttUs - this.srttUs) / 8);
    this.rto = Math.min(rtoMax, usToJiffies(this.srttUs + Math.max(rtoMinUs, 2 * this.srttUs)));
  }

  private onAck(ack: number, now: number): void {
    if (ack <= this.una) return;
    this.una = ack;
    this.backoff = 0;
    if (ack === this.sent.length && this.sentNs >= 0) this.measure(Math.floor((now - this.sentNs) / 1000));
    if (this.una < this.sent.length) this.armProbe();
    else {
      this.retransmission.cancel();
      this.probe = false;
    }
  }

  private onMessage({ seq, payload }: Packet, now: number): void {
    if (seq < this.rcvNxt) { this.sendAck(); return; }
    this.arrived[seq] = payload;
    this.scheduled = true;
    if (seq > this.rcvNxt) { this.sendAck(); return; }
    while (this.arrived[this.rcvNxt] !== undefined) this.rcvNxt++;
    this.eventDataReceived(jiffies(now));
    // __tcp_ack_snd_check: before it is read.
    if (payload === endOfStream || (this.quick > 0 && !this.pingpong)) this.sendAck();
    else this.sendDelayed(jiffies(now));
    this.readable();
  }

  /** Reads the next message. @returns its bytes; 0 for the end of the other end's stream; null when nothing is there */
  read(): number | null {
    if (this.over || this.readTo >= this.rcvNxt) return null;
    const bytes = this.arrived[this.readTo++]!;
    // tcp_cleanup_rbuf; else the answer carries the acknowledgement.
    if (this.scheduled && this.readTo === this.rcvNxt && (this.pushed > 1 || (this.pushed > 0 && !this.pingpong))) this.sendAck();
    return bytes;
  }

  /** tcp_event_data_recv, tcp_measure_rcv_mss of a short segment. */
  private eventDataReceived(now: number): void {
    this.pushed++;
    if (this.ato === 0) {
      this.quick = mostQuickAcks;
      this.ato = atoMin;
    } else {
      const m = now - this.lastReceived;
      if (m <= atoMin / 2) this.ato = (this.ato >> 1) + atoMin / 2;
      else if (m < this.ato) this.ato = Math.min((this.ato >> 1) + m, this.rto, delackMax);
      else if (m > this.rto) this.quick = mostQuickAcks;
    }
    this.lastReceived = now;
  }

  /** tcp_send_delayed_ack */
  private sendDelayed(now: number): void {
    let { ato } = this;
    if (ato > atoMin) {
      const longest = this.pingpong || this.pushed > 0 ? delackMax : hz / 2;
      ato = Math.min(ato, this.srttUs > 0 ? Math.min(longest, Math.max(usToJiffies(this.srttUs), atoMin)) : longest);
    }
    ato = Math.min(ato, delackLongest);
    let timeout = now + ato;
    if (this.delack.pending) {
      if (this.delackJiffies <= now + (ato >> 2)) { this.sendAck(); return; }
      timeout = Math.min(timeout, this.delackJiffies);
    }
    this.delackJiffies = timeout;
    this.set(this.delack, timeout - now);
  }

  /** tcp_delack_timer_handler */
  private delackDue(): void {
    if (!this.scheduled) return;
    if (this.pingpong) {
      this.pingpong = false;
      this.ato = atoMin;
    } else this.ato = Math.min(this.ato << 1, this.rto);
    this.sendAck();
  }

  /** tcp_event_ack_sent */
  private acknowledged(): void {
    if (this.scheduled && this.quick > 0 && --this.quick === 0) this.ato = atoMin;
    this.scheduled = false;
    this.pushed = 0;
    this.delack.cancel();
  }
  private sendAck(): void {
    const packet = this.take(kind.ack, 0);
    this.acknowledged();
    this.network.send(packet);
  }
}

/** Both ends of one connection. */
export class Dialogue {
  readonly client: DialogueEnd;
  readonly server: DialogueEnd;
  /** @param out the client's way to the server; @param ecn both ends agree on ECN */
  constructor(network: Network, private readonly out: Route, private readonly back: Route, v6: boolean, ecn: boolean) {
    this.client = new DialogueEnd(network, out, true, v6, ecn);
    this.server = new DialogueEnd(network, back, false, v6, ecn);
    out.sink = this.server;
    back.sink = this.client;
  }
  release(): void {
    this.out.sink = this.back.sink = null;
    this.client.release();
    this.server.release();
  }
}

