/**
 * A TCP receiver as Linux 6.12 is one (net/ipv4/tcp_input.c, tcp_output.c, tcp_timer.c): quick ACKs at the start and while the window
 * grows, delayed ACKs with `ato`, compressed ACKs during reordering, SACK and D-SACK blocks, the receive window with its
 * auto-tuning (DRS, tcp_rcv_space_adjust), ECN echo, DCTCP's exact echo. Data are read as the application reads them (`Reading`).
 * Differences from Linux: sequence numbers count segments; which received segments share a buffer is worked out from their
 * numbers, as if the sender's pages held this flow only.
 * `model: classic`: an ACK a packet, unlimited window.
 */

import { Actor, type Process } from '../events.js';
import type { Network } from '../network.js';
import { kind, type Packet } from '../packet.js';
import type { Endpoint, Route } from '../route.js';
import { atoMin, delackLongest, delackMax, hz, jiffies, rtoMinUs, timeoutInit, timerLevel, timerNs, usToJiffies } from './clock.js';
import type { TcpModel } from './sender.js';

const rmemDefault = 131072;
/** What a received segment's buffer costs beside its payload, bytes (struct sk_buff, head, shared info), on the kernel of kernel/uml.config. */
const segmentOverhead = 832;
/** TCP_DEFAULT_SCALING_RATIO: how much of the buffer is taken to be payload until a segment was measured, in 256ths. */
const firstRatio = 128;
/** TCP_MSS_DEFAULT: what tcp_measure_rcv_mss starts from. */
const firstMss = 536;
/** Buffers merge up to so many fragments (MAX_SKB_FRAGS); a segment has one, or two where the sender's page ended (SKB_FRAG_PAGE_ORDER). */
const maxFragments = 17;
const fragmentPage = 32768;
/** Among held segments: it has a buffer of its own. */
const ownBuffer = 1 << 24;
const maxQuickAcks = 16;
/** TCP_SACK_BLOCKS_EXPECTED: blocks that an acknowledgement is counted on to have room for. */
const expectedSacks = 2;

/** How the application reads, bytes. */
export interface Reading {
  /** It is woken when so much waits (SO_RCVLOWAT): 1 = by each segment. */
  readonly lowWaterBytes: number;
  /** Its receive buffer starts with room for so much at least (tcp_set_rcvlowat), else at tcp_rmem[1]. */
  readonly roomBytes: number;
  /** Most that one call of recv() or read() takes; it reads until nothing is left. */
  readonly readBytes: number;
  /**
   * It reads before the next packet, though that comes in the same instant here: packets that HTB lets go back to back leave 0.8 to 1.5 µs apart in
   * virtual time, each in an interrupt of its own, and what the first wakes runs between them. Otherwise after all packets of the instant.
   */
  readonly atOnce: boolean;
}

class CompressedAckTimer extends Actor {
  constructor(private readonly receiver: TcpReceiver) { super(); }
  override fire(): void { this.receiver.compressedAckDue(); }
}

/** The peer's FIN and SYN-ACK, repeated until answered. */
class CloseTimer extends Actor {
  constructor(private readonly receiver: TcpReceiver) { super(); }
  override fire(): void { this.receiver.repeat(); }
}

export class TcpReceiver extends Actor implements Endpoint, Process {
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

  // Out-of-order segments: a ring over [rcvNxt, rcvNxt + capacity) of payload + 1, 0 for none; and the memory they take.
  private held = new Uint32Array(64);
  private mask = 63;
  private outOfOrder = 0;
  private heldBytes = 0;
  /** End of the highest buffer among them, and its fragments. */
  private heldEnd = 0;
  private heldFragments = 0;
  private sacks = 0;
  private readonly sackFrom = new Int32Array(5);
  private readonly sackTo = new Int32Array(5);
  private dsackFrom = -1;
  private dsackTo = 0;

  // Acknowledging (icsk_ack).
  private scheduled = false;
  private ackNow = false;
  /** ICSK_ACK_PUSHED: the end of a burst, or a short segment, since the last acknowledgement. */
  private pushed = false;
  private timerPending = false;
  private timeoutJiffies = 0;
  private timeoutNs = NaN;
  private timeoutOrder = NaN;
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
  /** scaling_ratio: payload in 256ths of the memory it takes (tcp_measure_rcv_mss). */
  private ratio = firstRatio;
  private measured = false;
  private readonly lowWater: number;
  private readonly readBytes: number;
  private readonly readsAtOnce: boolean;
  /** The application has been woken and has not read yet. */
  private woken = false;
  /** Told of the payload read so far, bytes, when the application has read. */
  onRead: ((bytes: number) => void) | null = null;
  /** The application has closed it: what still comes is answered by RST. */
  private shut = false;
  /** Where in the sender's pages segment 0 would begin, bytes: a lead's page is free again when the data come, and used from its beginning. */
  private readonly pageOrigin: number;
  // What waits to be read: payload, buffers it is in, fragments of the last, payload of the first.
  private unread = 0;
  private buffers = 0;
  private tailFragments = 0;
  private firstBytes = 0;
  private clamp: number;
  private rcvbuf = rmemDefault;
  private rcvSsthresh = 65535;
  private rcvWnd = 65535;
  private rightEdge = NaN;
  /** Unit of the window field, bytes: its scale follows the largest buffer (tcp_select_initial_window). */
  private readonly windowUnit: number;
  private spaceTarget: number;
  private spaceSeq = NaN;
  private spaceUs = NaN;
  private rttUs8 = 0;
  private rttTsEcr = -1;
  private srttJiffies = 0;
  /** tcp_set_rto after one measurement, the handshake's: its variation is taken to be twice itself, and 200 ms at least. Jiffies. */
  private rto = timeoutInit;
  /** Round trip of the handshake, µs × 8 (srtt_us): the receiver sends nothing that would measure it again. */
  private srttUs8 = 0;
  private synAckUs = NaN;

  private now = NaN;

  /**
   * @param dctcp echo CE exactly (the flow's congestion control needs it)
   * @param leadBytes what the sender sends first, in a segment of its own (TcpSender)
   */
  constructor(private readonly network: Network, private readonly route: Route, private readonly mss: number, private readonly model: TcpModel, private readonly ecn: boolean, private readonly dctcp: boolean, v6: boolean, reading: Reading, leadBytes: number) {
    super();
    this.headerBytes = v6 ? 72 : 52;
    this.spaceTarget = 10 * mss;
    this.bytes = 0;
    this.spaceSeq = 0;
    this.spaceUs = 0;
    this.lowWater = model.bufferLimits ? reading.lowWaterBytes : 1;
    this.readBytes = reading.readBytes;
    this.readsAtOnce = reading.atOnce;
    this.pageOrigin = leadBytes > 0 ? -mss : 0;
    this.rcvbuf = Math.max(this.rcvbuf, 2 * Math.min(reading.roomBytes, Math.floor(model.rmemMax / 2)));
    this.windowUnit = 2 ** Math.min(14, Math.max(0, Math.floor(Math.log2(model.rmemMax)) - 15));
    // tcp_select_initial_window: half the buffer in whole segments; tcp_init_buffer_space keeps a segment of it back.
    const full = this.windowFrom(this.rcvbuf);
    this.rcvWnd = Math.floor(full / mss) * mss;
    // Places in the sequence are counted in whole segments, a lead too.
    this.rightEdge = this.rcvWnd + (leadBytes > 0 ? mss - leadBytes : 0);
    this.clamp = full - mss;
    this.rcvSsthresh = Math.min(this.rcvWnd, this.clamp);
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
      const rttUs = this.nowUs - this.synAckUs;
      this.srttUs8 = rttUs * 8;
      this.srttJiffies = usToJiffies(rttUs);
      this.rto = usToJiffies(rttUs + Math.max(2 * rttUs, rtoMinUs));
      this.spaceUs = this.nowUs;
    }
    if (packet.kind === kind.ack) {
      if (packet.ack > 0) this.network.events.cancel(this.closeTimer.actorId);
      return;
    }
    if (this.shut) {
      this.sendReset();
      return;
    }
    if (packet.cwr && !this.dctcp) this.demandCwr = false;
    this.onData(packet);
  }

  /** The application closes the connection, all that came having been read. */
  close(): void {
    if (this.shut || this.finSent) return;
    this.now = this.network.events.now;
    this.shut = true;
    if (this.established) this.sendFin();
  }

  /** tcp_v4_send_reset: without options. */
  private sendReset(): void {
    const packet = this.network.pool.take(this.route, kind.reset, this.headerBytes - 12);
    packet.pureAck = true;
    packet.seq = packet.payload = packet.ack = 0;
    this.network.events.cancel(this.closeTimer.actorId);
    this.network.send(packet);
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
    this.armClose(hz);
    this.network.send(packet);
  }

  /** The SYN-ACK or FIN was not answered. */
  repeat(): void {
    this.now = this.network.events.now;
    this.repeats++;
    if (this.finSent) { if (this.repeats < 8) this.sendFin(); return; }
    if (!this.established && this.repeats <= 5) this.sendSynAck();
  }

  private armClose(timeout: number): void {
    const { events } = this.network;
    const delta = timeout * 2 ** Math.min(6, this.repeats);
    events.scheduleOrdered(this.closeTimer.actorId, timerNs(this.now, delta), events.takeTimerOrder(timerLevel(delta)));
  }

  private sendFin(): void {
    this.finSent = true;
    this.armClose(this.rto);
    this.sendAck(kind.fin, this.rcvNxt);
  }

  // ---- Data ----

  private reserve(segment: number): void {
    if (segment - this.rcvNxt < this.held.length) return;
    let capacity = this.held.length;
    while (segment - this.rcvNxt >= capacity) capacity *= 2;
    const held = new Uint32Array(capacity);
    for (let k = 0; k < this.held.length; k++) held[(this.rcvNxt + k) & (capacity - 1)] = this.held[(this.rcvNxt + k) & this.mask]!;
    this.held = held;
    this.mask = capacity - 1;
  }

  private onData(packet: Packet): void {
    const s = packet.seq;
    if (packet.fin) this.finSeq = s;
    if (s < this.rcvNxt) {
      // Seen before: at once, with a D-SACK; what ends before the last acknowledgement is not looked at further (tcp_sequence).
      if (s + 1 >= this.rcvWup && s <= this.rcvWup && packet.tsVal > this.tsRecent) this.tsRecent = packet.tsVal;
      if (this.model.delayedAcks) this.enterQuickAck(maxQuickAcks);
      this.dsackFrom = s;
      this.dsackTo = s + 1;
      if (this.finSent && this.rcvNxt > this.finSeq) this.sendAck(kind.fin, this.rcvNxt);
      else this.sendAck(kind.ack, this.rcvNxt);
      return;
    }
    if (s <= this.rcvWup && packet.tsVal > this.tsRecent) this.tsRecent = packet.tsVal;
    this.scheduled = true;
    if (this.model.bufferLimits) this.measureRtt(packet);
    if (s === this.rcvNxt) {
      const hadHoles = this.outOfOrder > 0;
      if (packet.payload > 0) this.queueBuffer(this.fragments(s, packet.payload));
      this.queueRead(packet.payload);
      this.eventDataReceived(packet);
      if (hadHoles) {
        this.drainHeld();
        this.removeSacks();
        if (this.outOfOrder === 0) this.ackNow = true;
      }
      if (this.finSeq >= 0 && this.rcvNxt > this.finSeq) {
        this.sendFin();
        return;
      }
    } else {
      this.checkCe(packet);
      this.measureSegment(packet);
      this.reserve(s);
      const i = s & this.mask;
      if (this.held[i] !== 0) {
        this.dsackFrom = s;
        this.dsackTo = s + 1;
      } else this.hold(s, packet.payload);
      this.addSack(s);
    }
    this.checkAck();
    if (this.model.bufferLimits) this.wakeReader();
  }

  /** Fragments of a segment. */
  private fragments(s: number, payload: number): number {
    const from = s * this.mss + this.pageOrigin;
    return payload === 0 ? 0 : Math.floor((from + payload - 1) / fragmentPage) - Math.floor(from / fragmentPage) + 1;
  }

  /** tcp_data_queue_ofo. A segment right behind the highest joins its buffer, if that has room left; others are taken to stay alone. */
  private hold(s: number, payload: number): void {
    const fragments = this.fragments(s, payload);
    const own = s !== this.heldEnd || this.outOfOrder === 0 || this.heldFragments + fragments > maxFragments;
    if (s >= this.heldEnd || this.outOfOrder === 0) {
      this.heldEnd = s + 1;
      this.heldFragments = own ? fragments : this.heldFragments + fragments;
    }
    this.held[s & this.mask] = (payload + 1) | (own ? ownBuffer : 0);
    this.outOfOrder++;
    if (!own) this.heldBytes += payload;
    if (this.model.bufferLimits) this.growWindow();
    if (own) this.heldBytes += payload + segmentOverhead;
  }

  /** tcp_queue_rcv: the next buffer in order joins what waits to be read, and the last buffer there if that has room. */
  private queueBuffer(fragments: number): void {
    if (this.buffers === 0 || this.tailFragments + fragments > maxFragments) {
      this.buffers++;
      this.tailFragments = 0;
    }
    this.tailFragments += fragments;
  }
  private queueRead(payload: number): void {
    this.rcvNxt++;
    this.bytes += payload;
    this.unread += payload;
    if (this.buffers === 1) this.firstBytes += payload;
  }

  /** tcp_ofo_queue: what follows the segment just received may have come before, in buffers that stay as they are. */
  private drainHeld(): void {
    const { held, mask } = this;
    while (this.outOfOrder > 0 && held[this.rcvNxt & mask] !== 0) {
      let n = 0;
      let fragments = 0;
      do {
        fragments += this.fragments(this.rcvNxt + n, (held[(this.rcvNxt + n) & mask]! & (ownBuffer - 1)) - 1);
        n++;
      } while (n < this.outOfOrder && held[(this.rcvNxt + n) & mask]! !== 0 && held[(this.rcvNxt + n) & mask]! < ownBuffer);
      this.queueBuffer(fragments);
      for (; n > 0; n--) {
        const i = this.rcvNxt & mask;
        const payload = (held[i]! & (ownBuffer - 1)) - 1;
        this.heldBytes -= payload + (held[i]! >= ownBuffer ? segmentOverhead : 0);
        held[i] = 0;
        this.outOfOrder--;
        this.queueRead(payload);
      }
    }
  }

  /**
   * tcp_sack_new_ofo_skb: the block that holds the newest segment comes first; at most four are kept. Before a block would move out of the reach of
   * acknowledgements, what is compressed is sent, which acknowledges the newest segment too, but does not show it.
   */
  private addSack(s: number): void {
    const { sackFrom, sackTo } = this;
    let touched = 0;
    while (touched < this.sacks && (sackFrom[touched]! > s + 1 || sackTo[touched]! < s)) touched++;
    if (this.compressed > 0 && touched >= expectedSacks) this.sendAck(kind.ack, this.rcvNxt);
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

  /** tcp_measure_rcv_mss: the first full segment tells how much of the memory is payload. */
  private measureSegment({ payload, push }: Packet): void {
    if (push || (this.measured && payload < this.mss)) this.pushed = true;
    if (this.measured || payload < firstMss) return;
    this.measured = true;
    this.ratio = Math.max(1, Math.floor((payload * 256) / (payload + segmentOverhead)));
    this.clamp = this.windowFrom(this.rcvbuf);
    this.spaceTarget = Math.min(this.spaceTarget, this.clamp);
  }

  /** tcp_event_data_recv */
  private eventDataReceived(packet: Packet): void {
    if (packet.payload > 0) this.measureSegment(packet);
    const now = jiffies(this.now);
    if (this.model.delayedAcks) {
      if (this.ato === 0) {
        this.incrementQuick(maxQuickAcks);
        this.ato = atoMin;
      } else {
        const m = now - this.lastReceived;
        const { rto } = this;
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
  /** sk_rmem_alloc: what waits to be read or is out of order, with the buffers it is in. */
  private get memory(): number { return this.unread + this.buffers * segmentOverhead + this.heldBytes; }
  /** tcp_space */
  private get space(): number { return this.windowFrom(this.rcvbuf - this.memory); }
  /** tcp_receive_window */
  private get windowLeft(): number { return Math.max(0, this.rightEdge - this.rcvNxt * this.mss); }

  /** tcp_grow_window */
  private growWindow(): void {
    const room = Math.min(this.clamp, this.space) - this.rcvSsthresh;
    if (room <= 0) return;
    this.rcvSsthresh += Math.min(room, 2 * this.mss);
    this.quick |= 1;
  }

  /** tcp_rcv_rtt_measure_ts */
  private measureRtt(packet: Packet): void {
    if (packet.tsEcr === this.rttTsEcr) return;
    this.rttTsEcr = packet.tsEcr;
    if (packet.payload !== this.mss) return;
    const delta = (this.nowMs - packet.tsEcr) * 1000;
    if (delta <= 0) return;
    const m = delta * 8;
    this.rttUs8 = this.rttUs8 === 0 || m < this.rttUs8 ? m : this.rttUs8 - Math.floor(this.rttUs8 / 8) + delta;
  }

  /** tcp_data_ready: the application reads all there is, after the segment was acknowledged or not. */
  private wakeReader(): void {
    if (this.unread === 0) return;
    if (this.unread < this.lowWater && this.memory <= this.rcvbuf - (this.rcvbuf >> 3) && this.windowLeft > this.mss) return;
    if (this.woken) return;
    this.woken = true;
    if (this.readsAtOnce) this.run();
    else this.network.events.wake(this);
  }

  /** The application reads. */
  run(): void {
    this.woken = false;
    if (this.actorId < 0 || this.shut) return;
    this.now = this.network.events.now;
    this.adjustSpace();
    while (this.unread > this.readBytes) {
      // The buffers are taken to be of one size.
      this.buffers -= Math.floor((this.buffers * this.readBytes) / this.unread);
      this.unread -= this.readBytes;
      this.cleanUp();
    }
    this.unread = this.buffers = this.tailFragments = this.firstBytes = 0;
    this.cleanUp();
    if (this.onRead !== null) this.onRead(this.bytes);
  }
  /** tcp_cleanup_rbuf, after each read: two segments or the end of a burst were read and nothing is left, or the window offered would double. */
  private cleanUp(): void {
    if (this.scheduled && (this.rcvNxt - this.rcvWup > 1 || (this.pushed && this.memory === 0))) { this.sendAck(kind.ack, this.rcvNxt); return; }
    const left = this.windowLeft;
    if (2 * left > this.clamp) return;
    const window = this.offer();
    if (window > 0 && window >= 2 * left) this.sendAck(kind.ack, this.rcvNxt);
  }

  /** tcp_rcv_space_adjust, called as each buffer is copied: the first one that comes an eighth of a round trip after the last measure counts. */
  private adjustSpace(): void {
    const us = this.nowUs;
    if (this.rttUs8 === 0 || us - this.spaceUs < Math.floor(this.rttUs8 / 8)) return;
    const read = this.bytes - this.unread + this.firstBytes;
    const copied = read - this.spaceSeq - (this.bytes - read);
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
    this.spaceSeq = read;
    this.spaceUs = us;
  }

  /** __tcp_select_window */
  private offer(): number {
    const full = this.windowFrom(this.rcvbuf);
    let free = this.space;
    if (free < Math.min(this.clamp, full) >> 1) {
      this.quick = 0;
      free = Math.floor(free / this.windowUnit) * this.windowUnit;
      if (free < full >> 4 || free < this.mss) return 0;
    }
    if (free > this.rcvSsthresh) free = this.rcvSsthresh;
    return Math.ceil(free / this.windowUnit) * this.windowUnit;
  }
  /** tcp_select_window: never moves the right edge back. */
  private selectWindow(): number {
    const acked = this.rcvNxt * this.mss;
    const left = Math.max(0, this.rightEdge - acked);
    const offer = this.offer();
    this.rcvWnd = offer < left ? Math.ceil(left / this.windowUnit) * this.windowUnit : offer;
    this.rightEdge = acked + this.rcvWnd;
    return this.rcvWnd;
  }

  // ---- Acknowledging ----

  /** __tcp_ack_snd_check */
  private checkAck(): void {
    if (!this.scheduled) return;
    // Every second segment; but where what waits will be read at once and the window would grow by that, the read acknowledges.
    if (
      !this.model.delayedAcks || (this.rcvNxt - this.rcvWup > 1 && (this.unread < this.lowWater || this.offer() >= this.rcvWnd)) ||
      this.quick > 0 || this.ackNow
    ) {
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
      const longest = this.pushed ? delackMax : hz / 2;
      const maxAto = Math.min(longest, this.srttJiffies > 0 ? Math.max(this.srttJiffies, atoMin) : longest);
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
    const { events } = this.network;
    const timeoutNs = timerNs(this.now, timeout - now);
    // As `arm` of the sender: __mod_timer.
    if (timeoutNs !== this.timeoutNs) {
      this.timeoutNs = timeoutNs;
      this.timeoutOrder = events.takeTimerOrder(0);
    }
    const at = events.timeOf(this.actorId);
    if (at >= timeoutNs || at <= this.now) events.scheduleOrdered(this.actorId, timeoutNs, this.timeoutOrder);
  }

  /** tcp_delack_timer_handler. An acknowledgement does not stop the timer: it still fires, and sends what is compressed then. */
  override fire(): void {
    this.now = this.network.events.now;
    if (this.now < this.timeoutNs) {
      this.network.events.scheduleOrdered(this.actorId, this.timeoutNs, this.timeoutOrder);
      return;
    }
    this.network.events.cancel(this.actorId);
    if (this.compressed > 0) { this.sendAck(kind.ack, this.rcvNxt); return; }
    if (!this.timerPending) return;
    this.timerPending = false;
    if (!this.scheduled) return;
    this.ato = Math.min(this.ato * 2, this.rto, delackMax);
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
      this.ackNow = this.pushed = false;
      this.timerPending = false;
      this.rcvWup = this.rcvNxt;
    }
    this.network.send(packet);
  }
}
