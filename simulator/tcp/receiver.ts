/**
 * A TCP receiver as Linux 6.12 is one (net/ipv4/tcp_input.c, tcp_output.c, tcp_timer.c): quick ACKs at the start and while the window
 * grows, delayed ACKs with `ato`, compressed ACKs during reordering, SACK and D-SACK blocks, the receive window with its
 * auto-tuning (DRS, tcp_rcv_space_adjust), ECN echo, DCTCP's exact echo. Data are read as they arrive, in order.
 * Differences from Linux: sequence numbers count segments; memory is counted as payload at the scaling ratio
 * of full segments; an ACK for a PSH is sent for the last segment of the data only.
 * `model: classic`: an ACK a packet, unlimited window.
 */

import { Actor } from '../events.js';
import type { Network } from '../network.js';
import { kind, type Packet } from '../packet.js';
import type { Endpoint, Route } from '../route.js';
import { atoMin, delackLongest, delackMax, hz, jiffies, timerNs } from './clock.js';
import type { TcpModel } from './sender.js';

const rmemDefault = 131072;
/**
 * What the built-in generator's receivers ask for by SO_RCVLOWAT before they listen (testbed/traffic/tcp-flows.ts):
 * tcp_set_rcvlowat makes the buffer twice as large, because half of it is taken to be overhead before anything was received.
 */
const receiveRoom = 1 << 20;
/** What a received segment's buffer costs beside its payload, bytes (struct sk_buff, head, shared info), on the kernel of kernel/uml.config. */
const segmentOverhead = 832;
/** The built-in generator reads when this much waits (SO_RCVLOWAT), bytes. */
const lowWater = 65536;
const maxQuickAcks = 16;

class CompressedAckTimer extends Actor {
  constructor(private readonly receiver: TcpReceiver) { super(); }
  override fire(): void { this.receiver.compressedAckDue(); }
}

/** The peer's FIN and SYN-ACK, repeated until answered. */
class CloseTimer extends Actor {
  constructor(private readonly receiver: TcpReceiver) { super(); }
  override fire(): void { this.receiver.repeat(); }
}

export class TcpReceiver extends Actor implements Endpoint {
  private readonly headerBytes: number;
  private readonly compressedTimer: CompressedAckTimer;
  private readonly closeTimer: CloseTimer;

  /** Segments received in order, payload bytes among them. */
  rcvNxt = 0;
  bytes = NaN;
  private finSeq = -1;
  private established = false;
  private finSent = false;
  private repeats = 0;
  private peerEcn = false;

  // Out-of-order segments: a ring of flags over [rcvNxt, rcvNxt + capacity).
  private held = new Uint16Array(64);
  private mask = 63;
  private outOfOrder = 0;
  private sacks = 0;
  private readonly sackFrom = new Int32Array(5);
  private readonly sackTo = new Int32Array(5);
  private dsackFrom = -1;
  private dsackTo = 0;

  // Acknowledging (icsk_ack).
  private scheduled = false;
  private ackNow = false;
  private timerPending = false;
  private timeoutJiffies = 0;
  private timeoutNs = NaN;
  private ato = 0;
  private quick = 0;
  private lastReceived = 0;
  private rcvWup = 0;
  private compressed = 0;
  private compressedNxt = -1;
  private dupAcks = 0;
  private demandCwr = false;
  private ecnSeen = false;
  private ceState = 0;
  private ceRcvNxt = 0;
  private tsRecent = 0;
  private synTsVal = 0;

  // Receive window and its tuning, bytes and µs.
  /** tcp_measure_rcv_mss: payload in 256ths of the memory it takes. */
  private readonly ratio: number;
  private readonly readsLate: boolean;
  private unread = 0;
  private readUpTo = 0;
  private clamp: number;
  private rcvbuf = rmemDefault;
  private rcvSsthresh = 65535;
  private rcvWnd = 65535;
  private rightEdge = NaN;
  private spaceTarget: number;
  private spaceSeq = NaN;
  private spaceUs = NaN;
  private rttUs8 = 0;
  private rttTsEcr = -1;
  private srttJiffies = 0;
  /** Round trip of the handshake, µs × 8 (srtt_us): the receiver sends nothing that would measure it again. */
  private srttUs8 = 0;
  private synAckUs = NaN;

  private now = NaN;

  /**
   * @param dctcp echo CE exactly (the flow's congestion control needs it)
   * @param builtin the built-in generator receives: its buffer starts large; otherwise a tool that leaves it at tcp_rmem[1]
   */
  constructor(private readonly network: Network, private readonly route: Route, private readonly mss: number, private readonly model: TcpModel, private readonly ecn: boolean, private readonly dctcp: boolean, v6: boolean, builtin: boolean) {
    super();
    this.headerBytes = v6 ? 72 : 52;
    this.spaceTarget = 10 * mss;
    this.bytes = 0;
    this.rightEdge = 65535;
    this.spaceSeq = 0;
    this.spaceUs = 0;
    this.ratio = Math.floor((mss * 256) / (mss + segmentOverhead));
    this.readsLate = builtin && model.bufferLimits;
    if (builtin) this.rcvbuf = Math.max(this.rcvbuf, 2 * Math.min(receiveRoom, Math.floor(model.rmemMax / 2)));
    this.clamp = this.windowFrom(this.rcvbuf);
    // tcp_select_initial_window: half the buffer in whole segments; the SYN-ACK's field, not scaled, says 65535 at most.
    this.rcvSsthresh = this.rcvWnd = Math.floor(this.rcvbuf / 2 / mss) * mss;
    this.compressedTimer = new CompressedAckTimer(this);
    this.closeTimer = new CloseTimer(this);
    network.events.add(this);
    network.events.add(this.compressedTimer);
    network.events.add(this.closeTimer);
  }

  release(): void {
    this.network.events.remove(this);
    this.network.events.remove(this.compressedTimer);
    this.network.events.remove(this.closeTimer);
  }

  /** Clock of the time stamp option; it never reads 0, which an echo says when there was none. */
  private get nowMs(): number { return Math.floor(this.now / 1e6) + 1; }
  private get nowUs(): number { return Math.floor(this.now / 1000); }

  receive(packet: Packet): void {
    this.now = this.network.events.now;
    if (packet.kind === kind.syn) {
      this.peerEcn = packet.ece && (this.ecn || this.dctcp);
      this.synTsVal = this.tsRecent = packet.tsVal;
      this.repeats = 0;
      this.sendSynAck();
      return;
    }
    if (!this.established) {
      this.established = true;
      this.network.events.cancel(this.closeTimer.actorId);
      this.srttUs8 = (this.nowUs - this.synAckUs) * 8;
      this.srttJiffies = Math.ceil((this.nowUs - this.synAckUs) / (1e6 / hz));
      this.spaceUs = this.nowUs;
    }
    if (packet.kind === kind.ack) {
      if (packet.ack > 0) this.network.events.cancel(this.closeTimer.actorId);
      return;
    }
    if (packet.cwr && !this.dctcp) this.demandCwr = false;
    this.onData(packet);
  }

  private sendSynAck(): void {
    const packet = this.network.pool.take(this.route, kind.synAck, this.headerBytes + 8);
    packet.pureAck = true;
    packet.seq = 0;
    packet.ack = 0;
    packet.payload = 0;
    packet.window = Math.min(this.rcvWnd, 65535);
    packet.tsVal = this.nowMs;
    packet.tsEcr = this.synTsVal;
    packet.ece = this.peerEcn;
    this.synAckUs = this.nowUs;
    this.network.events.schedule(this.closeTimer.actorId, timerNs(this.now, hz * 2 ** Math.min(6, this.repeats)));
    this.network.send(packet);
  }

  /** The SYN-ACK or FIN was not answered. */
  repeat(): void {
    this.now = this.network.events.now;
    this.repeats++;
    if (this.finSent) { if (this.repeats < 8) this.sendFin(); return; }
    if (!this.established && this.repeats <= 5) this.sendSynAck();
  }

  private sendFin(): void {
    this.finSent = true;
    // The RTO of a connection that has sent nothing but its FIN: the handshake's round trip and 200 ms.
    const rto = this.srttJiffies + hz / 5;
    this.network.events.schedule(this.closeTimer.actorId, timerNs(this.now, rto * 2 ** Math.min(6, this.repeats)));
    this.sendAck(kind.fin, this.rcvNxt);
  }

  // ---- Data ----

  private reserve(segment: number): void {
    if (segment - this.rcvNxt < this.held.length) return;
    let capacity = this.held.length;
    while (segment - this.rcvNxt >= capacity) capacity *= 2;
    const held = new Uint16Array(capacity);
    for (let k = 0; k < this.held.length; k++) held[(this.rcvNxt + k) & (capacity - 1)] = this.held[(this.rcvNxt + k) & this.mask]!;
    this.held = held;
    this.mask = capacity - 1;
  }

  private onData(packet: Packet): void {
    const s = packet.seq;
    if (packet.fin) this.finSeq = s;
    if (s < this.rcvNxt) {
      // Seen before: at once, with a D-SACK.
      if (this.model.delayedAcks) this.enterQuickAck(maxQuickAcks);
      this.dsackFrom = s;
      this.dsackTo = s + 1;
      if (this.finSent && this.rcvNxt > this.finSeq) this.sendAck(kind.fin, this.rcvNxt);
      else this.sendAck(kind.ack, this.rcvNxt);
      return;
    }
    if (s <= this.rcvWup && packet.tsVal > this.tsRecent) this.tsRecent = packet.tsVal;
    this.scheduled = true;
    if (s === this.rcvNxt) {
      const hadHoles = this.outOfOrder > 0;
      this.bytes += packet.payload;
      this.rcvNxt++;
      if (hadHoles) this.drainHeld();
      if (this.readsLate) this.unread = this.bytes - this.readUpTo;
      this.eventDataReceived(packet);
      if (hadHoles) {
        this.removeSacks();
        if (this.outOfOrder === 0) this.ackNow = true;
      }
      if (this.unread >= lowWater) { this.readUpTo = this.bytes; this.unread = 0; }
      if (this.model.bufferLimits) this.adjustSpace(packet);
      if (this.finSeq >= 0 && this.rcvNxt > this.finSeq) {
        this.sendFin();
        return;
      }
      if (packet.push) this.ackNow = true;
    } else {
      this.checkCe(packet);
      this.reserve(s);
      const i = s & this.mask;
      if (this.held[i] !== 0) {
        this.dsackFrom = s;
        this.dsackTo = s + 1;
      } else {
        this.held[i] = packet.payload + 1;
        this.outOfOrder++;
        if (this.model.bufferLimits) this.growWindow();
      }
      this.addSack(s);
    }
    this.checkAck();
  }

  private drainHeld(): void {
    // The slot of the segment just delivered is free; what follows it may have come before.
    while (this.outOfOrder > 0) {
      const i = this.rcvNxt & this.mask;
      const held = this.held[i]!;
      if (held === 0) return;
      this.held[i] = 0;
      this.outOfOrder--;
      this.bytes += held - 1;
      this.rcvNxt++;
    }
  }

  /** tcp_sack_new_ofo_skb: the block that holds the newest segment comes first; at most four are kept. */
  private addSack(s: number): void {
    const { sackFrom, sackTo } = this;
    let from = s;
    let to = s + 1;
    let n = 0;
    // Take out every block that touches it, keeping the others' order.
    for (let k = 0; k < this.sacks; k++) {
      const f = sackFrom[k]!;
      const t = sackTo[k]!;
      if (f <= to && t >= from) { if (f < from) from = f; if (t > to) to = t; } else { sackFrom[n] = f; sackTo[n] = t; n++; }
    }
    if (n === 4) n = 3;
    for (let k = n; k > 0; k--) { sackFrom[k] = sackFrom[k - 1]!; sackTo[k] = sackTo[k - 1]!; }
    sackFrom[0] = from;
    sackTo[0] = to;
    this.sacks = n + 1;
  }

  private removeSacks(): void {
    const { sackFrom, sackTo } = this;
    let n = 0;
    if (this.outOfOrder > 0) {
      for (let k = 0; k < this.sacks; k++) {
        if (sackTo[k]! <= this.rcvNxt) continue;
        sackFrom[n] = sackFrom[k]!;
        sackTo[n] = sackTo[k]!;
        n++;
      }
    }
    this.sacks = n;
  }

  /** tcp_event_data_recv */
  private eventDataReceived(packet: Packet): void {
    const now = jiffies(this.now);
    if (this.model.delayedAcks) {
      if (this.ato === 0) {
        this.incrementQuick(maxQuickAcks);
        this.ato = atoMin;
      } else {
        const m = now - this.lastReceived;
        const rto = this.srttJiffies + hz / 5;
        if (m <= atoMin / 2) this.ato = (this.ato >> 1) + atoMin / 2;
        else if (m < this.ato) this.ato = Math.min((this.ato >> 1) + m, rto, delackMax);
        else if (m > rto) this.incrementQuick(maxQuickAcks);
      }
    }
    this.lastReceived = now;
    this.checkCe(packet);
    if (packet.payload >= 128 && this.model.bufferLimits) this.growWindow();
  }

  private incrementQuick(max: number): void {
    let quick = Math.floor(this.rcvWnd / (2 * this.mss));
    if (quick === 0) quick = 2;
    quick = Math.min(quick, max);
    if (quick > this.quick) this.quick = quick;
  }
  private enterQuickAck(max: number): void {
    this.incrementQuick(max);
    this.ato = atoMin;
  }

  /** __tcp_ecn_check_ce; dctcp_ece_ack_update */
  private checkCe(packet: Packet): void {
    if (!this.peerEcn || packet.payload === 0) return;
    const ce = packet.ecn === 3;
    if (packet.ecn === 0) {
      if (this.ecnSeen && this.model.delayedAcks) this.enterQuickAck(2);
      return;
    }
    if (this.dctcp) {
      const next = ce ? 1 : 0;
      if (this.ceState !== next) {
        if (this.timerPending) {
          this.demandCwr = this.ceState === 1;
          this.sendAck(kind.ack, this.ceRcvNxt);
          this.scheduled = true;
        }
        this.ackNow = true;
      }
      this.ceRcvNxt = this.rcvNxt;
      this.ceState = next;
      this.demandCwr = ce;
    }
    if (ce && !this.demandCwr) {
      if (this.model.delayedAcks) this.enterQuickAck(2);
      this.demandCwr = true;
    }
    this.ecnSeen = true;
  }

  // ---- Window ----

  private windowFrom(space: number): number { return Math.floor((space * this.ratio) / 256); }
  /** tcp_space: what waits to be read takes room too; segments in order are merged (tcp_try_coalesce) and cost their payload only. */
  private get space(): number { return this.clamp - this.outOfOrder * this.mss - Math.max(this.mss, this.windowFrom(this.unread)); }

  /** tcp_grow_window */
  private growWindow(): void {
    const room = Math.min(this.clamp, this.space) - this.rcvSsthresh;
    if (room <= 0) return;
    this.rcvSsthresh += Math.min(room, 2 * this.mss);
    this.quick |= 1;
  }

  /** tcp_rcv_rtt_measure_ts and tcp_rcv_space_adjust */
  private adjustSpace(packet: Packet): void {
    if (packet.tsEcr !== this.rttTsEcr && packet.payload === this.mss) {
      this.rttTsEcr = packet.tsEcr;
      const delta = (this.nowMs - packet.tsEcr) * 1000;
      if (delta > 0) {
        const m = delta * 8;
        this.rttUs8 = this.rttUs8 === 0 || m < this.rttUs8 ? m : this.rttUs8 - Math.floor(this.rttUs8 / 8) + delta;
      }
    }
    const us = this.nowUs;
    if (this.rttUs8 === 0 || us - this.spaceUs < Math.floor(this.rttUs8 / 8)) return;
    const copied = this.bytes - this.spaceSeq;
    if (copied > this.spaceTarget) {
      let window = 2 * copied + 16 * this.mss;
      window += 2 * Math.floor((window * (copied - this.spaceTarget)) / this.spaceTarget);
      const rcvbuf = Math.min(Math.floor((window * 256) / this.ratio), this.model.rmemMax);
      if (rcvbuf > this.rcvbuf) {
        this.rcvbuf = rcvbuf;
        this.clamp = this.windowFrom(rcvbuf);
      }
      this.spaceTarget = copied;
    }
    this.spaceSeq = this.bytes;
    this.spaceUs = us;
  }

  /** tcp_select_window: never moves the right edge back. */
  private selectWindow(): number {
    let free = Math.max(0, this.clamp - this.outOfOrder * this.mss);
    if (free < this.clamp / 2) this.quick = 0;
    if (free > this.rcvSsthresh) free = this.rcvSsthresh;
    const window = Math.ceil(free / 128) * 128;
    const acked = this.rcvNxt * this.mss;
    const edge = Math.max(this.rightEdge, acked + window);
    this.rightEdge = edge;
    this.rcvWnd = edge - acked;
    return this.rcvWnd;
  }

  // ---- Acknowledging ----

  /** __tcp_ack_snd_check */
  private checkAck(): void {
    if (!this.scheduled) return;
    if (!this.model.delayedAcks || this.rcvNxt - this.rcvWup > 1 || this.quick > 0 || this.ackNow) {
      this.sendAck(kind.ack, this.rcvNxt);
      return;
    }
    if (this.outOfOrder === 0) {
      this.sendDelayed();
      return;
    }
    if (this.compressed >= 44) { this.sendAck(kind.ack, this.rcvNxt); return; }
    if (this.compressedNxt !== this.rcvNxt) {
      this.compressedNxt = this.rcvNxt;
      this.dupAcks = 0;
    }
    if (this.dupAcks < 3) {
      this.dupAcks++;
      this.sendAck(kind.ack, this.rcvNxt);
      return;
    }
    this.compressed++;
    const timer = this.compressedTimer.actorId;
    if (this.network.events.pending(timer)) return;
    // tcp_comp_sack_delay_ns 1 ms or a twentieth of the round trip; the slack of 100 µs lets an idle kernel fire at the end of it.
    const rttUs8 = this.srttUs8 > 0 && this.srttUs8 < this.rttUs8 ? this.srttUs8 : this.rttUs8;
    const delay = Math.min(1e6, Math.floor((rttUs8 * 125) / 20));
    this.network.events.schedule(timer, this.now + delay + 100_000);
  }

  compressedAckDue(): void {
    this.now = this.network.events.now;
    if (this.compressed > 0) this.sendAck(kind.ack, this.rcvNxt);
  }

  /** tcp_send_delayed_ack */
  private sendDelayed(): void {
    let ato = this.ato;
    if (ato > atoMin) {
      const maxAto = Math.min(hz / 2, this.srttJiffies > 0 ? Math.max(this.srttJiffies, atoMin) : hz / 2);
      ato = Math.min(ato, maxAto);
    }
    ato = Math.min(ato, delackLongest);
    const now = jiffies(this.now);
    let timeout = now + ato;
    if (this.timerPending) {
      if (this.timeoutJiffies <= now + (ato >> 2)) { this.sendAck(kind.ack, this.rcvNxt); return; }
      if (timeout >= this.timeoutJiffies) timeout = this.timeoutJiffies;
    }
    this.timerPending = true;
    this.timeoutJiffies = timeout;
    this.timeoutNs = timerNs(this.now, timeout - now);
    const at = this.network.events.timeOf(this.actorId);
    if (at > this.timeoutNs || at <= this.now) this.network.events.schedule(this.actorId, this.timeoutNs);
  }

  /** tcp_delack_timer_handler */
  override fire(): void {
    if (!this.timerPending) return;
    this.now = this.network.events.now;
    if (this.now < this.timeoutNs) {
      this.network.events.schedule(this.actorId, this.timeoutNs);
      return;
    }
    this.timerPending = false;
    this.network.events.cancel(this.actorId);
    if (!this.scheduled) return;
    this.ato = Math.min(this.ato * 2, this.srttJiffies + hz / 5, delackMax);
    this.sendAck(kind.ack, this.rcvNxt);
  }

  private sendAck(packetKind: number, ack: number): void {
    const window = this.model.bufferLimits ? this.selectWindow() : 0x3fffffff;
    let sacks = this.sacks;
    const dsack = this.dsackFrom >= 0;
    const blocks = Math.min(3, sacks + (dsack ? 1 : 0));
    const packet = this.network.pool.take(this.route, packetKind, this.headerBytes + (blocks > 0 ? 4 + 8 * blocks : 0));
    packet.pureAck = true;
    packet.ack = ack;
    packet.seq = 0;
    packet.payload = 0;
    packet.ackNumber = ack * this.mss;
    packet.window = window;
    packet.tsVal = this.nowMs;
    packet.tsEcr = this.tsRecent;
    packet.ece = this.peerEcn && this.demandCwr;
    if (this.dctcp && this.peerEcn) packet.ecn = 2;
    if (blocks > 0) {
      packet.sacks = blocks;
      const { sackFrom, sackTo } = this;
      if (dsack) {
        packet.dsack = true;
        packet.sackFrom0 = this.dsackFrom; packet.sackTo0 = this.dsackTo;
        packet.sackFrom1 = sackFrom[0]!; packet.sackTo1 = sackTo[0]!;
        packet.sackFrom2 = sackFrom[1]!; packet.sackTo2 = sackTo[1]!;
      } else {
        packet.sackFrom0 = sackFrom[0]!; packet.sackTo0 = sackTo[0]!;
        packet.sackFrom1 = sackFrom[1]!; packet.sackTo1 = sackTo[1]!;
        packet.sackFrom2 = sackFrom[2]!; packet.sackTo2 = sackTo[2]!;
      }
    }
    sacks = 0;
    this.dsackFrom = -1;
    if (this.compressed > 0) {
      this.compressed = 0;
      this.network.events.cancel(this.compressedTimer.actorId);
    }
    if (ack === this.rcvNxt) {
      // tcp_event_ack_sent
      if (this.scheduled && this.quick > 0) {
        this.quick--;
        if (this.quick === 0) this.ato = atoMin;
      }
      this.scheduled = false;
      this.ackNow = false;
      this.timerPending = false;
      this.rcvWup = this.rcvNxt;
    }
    this.network.send(packet);
  }
}
