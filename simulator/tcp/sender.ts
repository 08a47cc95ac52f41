/**
 * A TCP sender: connection set-up, the retransmission queue, loss recovery, timers and the sending loop, following
 * Linux 6.12 (net/ipv4/tcp_input.c, tcp_output.c, tcp_recovery.c, tcp_rate.c, tcp_timer.c): SACK scoreboard, RACK-TLP (RFC 8985),
 * PRR (RFC 6937), F-RTO (RFC 5682), undo by time stamps and D-SACK, RTO (RFC 6298) with a floor of 200 ms, cwnd validation,
 * TSO autosizing and deferral, TCP small queues, internal pacing, ECN (RFC 3168).
 *
 * Differences from Linux: sequence numbers count segments of one MSS (what is sent is never re-segmented or merged; only the
 * last segment of what the application writes at once may be short; what is not sent yet lies in buffers as the kernel's, tcp_sendmsg); the application writes whenever the send buffer lets it, whole segments at a time; no reneging, urgent data, MTU probing
 * or fast open; PSH every half window is counted without regard to where writes end; a chunk's short last segment counts as a full one in windows.
 *
 * `model: classic` (see `TcpModel`) turns off RACK, TLP, PRR, F-RTO, undo, limited transmit, TSO, TSQ and the receive window: a segment is lost when three later
 * ones have been SACKed, cwnd drops to ssthresh at once, and what is in flight during recovery is counted as in RFC 6675.
 */

import { Actor, type Process } from '../events.js';
import type { Network } from '../network.js';
import { kind, type Packet, type SmallQueueOwner } from '../packet.js';
import { mix32 } from '../random.js';
import type { Endpoint, Route } from '../route.js';
import { jiffies, jiffiesToUs, jiffyNs, rtoMax, rtoMinUs, timeoutInit, timeoutMinUs, timerAtNs, timerLevel, usToJiffies } from './clock.js';
import { infiniteSsthresh, state, type CongestionControl } from './congestion.js';
import { WindowedFilter } from './minmax.js';
import { Scoreboard, flag as seg } from './scoreboard.js';

/** What the two profiles of the simulator differ in. */
export interface TcpModel {
  /** RACK-TLP, PRR, F-RTO and undo; otherwise three duplicate ACKs and RFC 6675's pipe. */
  readonly rack: boolean;
  /** Bursts of several segments (TSO autosizing), TCP small queues. */
  readonly tso: boolean;
  /** What was SACKed makes room for new data before a loss is known (RFC 3042); otherwise only what was acknowledged. */
  readonly limitedTransmit: boolean;
  /** A timeout draws a new hash for the flow's packets (sk_rethink_txhash). */
  readonly rethinksHash: boolean;
  /** The receiver delays and compresses ACKs as Linux does; otherwise an ACK a packet. */
  readonly delayedAcks: boolean;
  /** Receive window auto-tuning and send buffer limits; otherwise unlimited. */
  readonly bufferLimits: boolean;
  readonly initialWindow: number;
  /** A pause costs window (net.ipv4.tcp_slow_start_after_idle). */
  readonly slowStartAfterIdle: boolean;
  /** Largest send and receive buffer, bytes: tcp_wmem[2], tcp_rmem[2]. */
  readonly wmemMax: number;
  readonly rmemMax: number;
}

/** @param sysctls the plan's host sysctls; Linux's defaults where they say nothing */
export function tcpModel(model: 'linux' | 'classic', sysctls: Readonly<Record<string, string>>): TcpModel {
  const linux = model === 'linux';
  const most = (name: string, otherwise: number): number => Number(sysctls[name]?.trim().split(/\s+/)[2] ?? otherwise);
  return {
    rack: linux, tso: linux, limitedTransmit: linux, rethinksHash: linux, delayedAcks: linux, bufferLimits: linux, initialWindow: 10,
    slowStartAfterIdle: linux && (sysctls['net.ipv4.tcp_slow_start_after_idle'] ?? '1').trim() !== '0',
    wmemMax: most('net.ipv4.tcp_wmem', 4194304), rmemMax: most('net.ipv4.tcp_rmem', 6291456),
  };
}

/** What happened at an acknowledgement (FLAG_* of tcp_input.c). */
const f = {
  winUpdate: 2, dataAcked: 4, retransAcked: 8, dataSacked: 0x20, ece: 0x40, lostRetrans: 0x80, origSackAcked: 0x200,
  unaAdvanced: 0x400, dsacking: 0x800, setTimer: 0x1000, maybeDelayed: 0x10000, dsackTlp: 0x20000,
} as const;
const notDup = f.winUpdate | f.dataAcked;
const caAlert = f.dataSacked | f.ece | f.dsacking;
const forwardProgress = f.dataAcked | f.dataSacked;

/** Meanings of the retransmission timer (ICSK_TIME_*). */
const timer = { none: 0, retransmit: 1, probe0: 3, lossProbe: 5, reorder: 6 } as const;
const rexmitNone = 0;
const rexmitLost = 1;
const rexmitNew = 2;

/** What is sent at most (push_one of tcp_write_xmit): all that may be; one burst, without waiting for more; one burst as a loss probe. */
const push = { all: 0, one: 1, probe: 2 } as const;

/** GSO_LEGACY_MAX_SIZE without MAX_TCP_HEADER + 1 (sk_dst_gso_max_size). */
const gsoMaxBytes = 65536 - 193;
const dupThreshold = 3;
const maxReordering = 300;
/**
 * tcp_limit_output_bytes, and what a buffer of a burst costs beside its data (struct sk_buff, head, shared info; on the kernel
 * of kernel/uml.config, whose MAX_TCP_HEADER is 192).
 */
const limitOutputBytes = 4 * 1024 * 1024;
const bufferOverhead = 832;
/** tcp_sndbuf_expand's per_mss: MSS, headers and shared info rounded up to a power of two, and the sk_buff. */
const bufferPerSegment = 2048 + 256;

class PacingTimer extends Actor {
  constructor(private readonly sender: TcpSender) { super(); }
  override fire(): void { this.sender.unthrottle(); }
}

export class TcpSender extends Actor implements Endpoint, SmallQueueOwner, Process {
  // Identity.
  readonly mss: number;
  private readonly headerBytes: number;
  private readonly pacingTimer: PacingTimer;
  private readonly board = new Scoreboard();
  private readonly hostQueue: boolean;
  /** The host's own queue is fq and paces (SK_PACING_FQ): packets go to it with their departure times, and no timer here holds them back. */
  private readonly pacedByQueue: boolean;

  // What there is to send: `total` data segments, the last of `lastBytes`; then the end (FIN), in a segment of its own or with the last data.
  total: number;
  private lastBytes: number;
  private firstBytes: number;
  /** The application has more to write, but not yet: nothing is closed when all is sent. */
  private awaiting: boolean;
  /** Told when the application has written into the send buffer. */
  onWrite: (() => void) | null = null;
  /** Told when it is connected; and, after `hold`, when it could be written to again. */
  onConnect: (() => void) | null = null;
  onWritable: (() => void) | null = null;
  /** Payload of the short segments of an application that writes in chunks, and how much they lack up to what was acknowledged, bytes. */
  private shortSegments: Map<number, number> | null = null;
  private lackingBytes = 0;
  private finAlone = false;
  private closing = false;
  /** Send buffer: segments the application has written so far, and its size in bytes (sk_sndbuf). */
  private written = 0;
  private sndbuf = 0;
  /** Where the buffers that hold what was not sent end (sk_write_queue), segments; a ring. The first begins at `nxt`. */
  private bufferEnds = new Int32Array(8);
  /** 1: its last segment carries PSH (tcp_mark_push); beside bufferEnds. And up to where data were written at the last such. */
  private bufferPushes = new Uint8Array(8);
  private pushedAt = 0;
  private firstBuffer = 0;
  private buffers = 0;
  /** Buffers in flight: one a burst, until SACKs and retransmissions split and merge them. Each ends at a segment that has `burstEnd`. */
  private buffersOut = 0;
  /** The buffer being SACKed was merged into the one before it. */
  private shifted = false;

  // Connection.
  connected = false;
  finished = false;
  failed: string | null = null;
  connectedNs = NaN;
  endNs = NaN;
  private synTries = 0;
  private stopAtConnect = false;
  private synUs = NaN;
  private firstSynMs = 0;
  private ecnOk = false;
  private peerFin = false;

  // Sequence space, in segments.
  una = 0;
  nxt = 0;
  private rttSeq = 0;
  highSeq = 0;
  private wndEnd = 65535;
  private maxWindow = 65535;

  // Congestion window.
  cwnd: number;
  cwndCount = 0;
  readonly cwndClamp = infiniteSsthresh;
  ssthresh = infiniteSsthresh;
  priorCwnd = 0;
  private priorSsthresh = 0;
  private cwndLimited = false;
  private maxPacketsOut = 0;
  private cwndUsageSeq = 0;
  private prrDelivered = 0;
  private prrOut = 0;
  state: number = state.open;

  // Counts, in segments.
  packetsOut = 0;
  private sackedOut = 0;
  lostOut = 0;
  retransOut = 0;
  private fack = 0;
  private retransmitHint = -1;
  delivered = 1;
  deliveredCe = 0;
  lost = 0;
  retransmits = 0;
  segmentsSent = 0;
  bytesSent = NaN;

  // Round-trip time, µs; srtt × 8 and mdev × 4 as Linux scales them.
  srttUs = 0;
  mdevUs = 0;
  private mdevMaxUs = 0;
  private rttvarUs = 0;
  private readonly rttMin = new WindowedFilter(false);
  /** jiffies */
  private rto = timeoutInit;
  private timeouts = 0;

  // Time of the event being handled.
  now = NaN;
  nowUs = NaN;
  nowJiffies = NaN;
  /** Clock of the time stamp option; it never reads 0, which an echo says when there was none. */
  private nowMs = NaN;
  lastSentJiffies = 0;

  // RACK-TLP, F-RTO, undo.
  private reordering = dupThreshold;
  private reorderingSeen = 0;
  private rackMstamp = NaN;
  private rackEnd = 0;
  private rackRttUs = 0;
  private rackAdvanced = false;
  private rackDsackSeen = false;
  private rackSteps = 1;
  private rackPersist = 0;
  private rackLastDelivered = 0;
  private tlpHigh = 0;
  private tlpRetrans = false;
  private frto = false;
  private undoMarker = -1;
  private undoRetrans = 0;
  private retransStampMs = -1;
  private dsackDups = 0;

  // Rate sample (tcp_rate.c).
  deliveredUs = NaN;
  private firstSentUs = NaN;
  appLimited = 0;
  private rateDelivered = 0;
  private rateIntervalUs = 0;
  rs = { priorDelivered: 0, priorDeliveredCe: 0, priorUs: NaN, delivered: 0, intervalUs: NaN, appLimited: false, retrans: false, lastEnd: 0, rttUs: NaN, losses: 0, ackedSacked: 0, priorInFlight: 0, ackDelayed: false };

  // Sending.
  pacingRate = NaN;
  paced = false;
  private sendAtNs = NaN;
  private hostBytes = 0;
  private throttled = false;
  private tsRecent = 0;
  private queueCwr = false;

  // The retransmission timer.
  private pending: number = timer.none;
  private timeoutNs = NaN;
  private timeoutLevel = 0;
  private timeoutOrder = NaN;

  // SACK blocks of the previous acknowledgement: what they cover is known.
  private seen = 0;
  private readonly seenFrom = new Int32Array(3);
  private readonly seenTo = new Int32Array(3);
  private readonly blockFrom = new Int32Array(3);
  private readonly blockTo = new Int32Array(3);
  // One acknowledgement's working values.
  private flag = 0;
  private firstSackUs = -1;
  private lastSackUs = -1;
  private reord = 0;
  private sackDelivered = 0;

  /**
   * @param bytes payload to send; null = until `stop`
   * @param onEnd called once, when everything was acknowledged and the peer's FIN arrived, or when it failed
   * @param leadBytes the application writes so many first, a segment of their own, and the rest after `begin`; 0 = it writes at once
   */
  constructor(
    private readonly network: Network,
    private readonly route: Route,
    readonly model: TcpModel,
    readonly cc: CongestionControl,
    private readonly ecn: boolean,
    v6: boolean,
    bytes: number | null,
    private readonly onEnd: (sender: TcpSender) => void,
    leadBytes = 0,
  ) {
    super();
    this.headerBytes = v6 ? 72 : 52;
    this.mss = route.mtuBytes - this.headerBytes;
    this.awaiting = leadBytes > 0;
    this.total = this.awaiting ? 1 : bytes === null ? infiniteSsthresh : Math.ceil(bytes / this.mss);
    this.lastBytes = this.awaiting ? leadBytes : bytes === null ? this.mss : bytes - (this.total - 1) * this.mss;
    this.firstBytes = this.total > 1 ? this.mss : this.total === 1 ? this.lastBytes : 0;
    if (!model.bufferLimits) {
      this.written = this.total;
      if (bytes !== null) this.closing = this.closeDue = true;
    }
    this.cwnd = model.initialWindow;
    this.bytesSent = 0;
    this.pacingRate = 0;
    this.sendAtNs = 0;
    this.hostQueue = model.tso && route.queuedAtSource;
    const hostLink = this.hostQueue ? route.links[0]!.setting.queue : null;
    this.pacedByQueue = hostLink?.kind === 'fq' && hostLink.params['pacing'] !== false;
    this.paced = this.pacedByQueue;
    if (!model.bufferLimits) this.wndEnd = Number.MAX_SAFE_INTEGER;
    this.pacingTimer = new PacingTimer(this);
    network.events.add(this);
    network.events.add(this.pacingTimer);
  }

  /** Gives its timers back. */
  release(): void {
    this.network.events.remove(this);
    this.network.events.remove(this.pacingTimer);
  }

  get inFlight(): number { return this.packetsOut - this.sackedOut - this.lostOut + this.retransOut; }
  /** What counts against cwnd when new data is to be sent. */
  private get usedWindow(): number { return this.model.limitedTransmit || this.state >= state.recovery ? this.inFlight : this.packetsOut; }
  get minRttUs(): number { return this.rttMin.value; }
  /** Earliest departure of the next burst, ns (tcp_wstamp_ns). */
  get departureNs(): number { return this.sendAtNs; }
  /** Segments the application has handed over, the FIN included when it has one of its own. */
  private get end(): number { return this.finAlone ? this.total + 1 : this.written; }
  /** bits/s; NaN before the first sample. */
  get deliveryRateBps(): number { return this.rateIntervalUs > 0 ? (this.rateDelivered * this.mss * 8e6) / this.rateIntervalUs : NaN; }
  get bytesAcked(): number { return this.bytesOf(Math.min(this.una, this.total)); }
  /** Payload the application has written, bytes. */
  get bytesWritten(): number { return this.bytesOf(this.written); }
  private bytesOf(segments: number): number {
    if (this.shortSegments !== null) return segments * this.mss - this.lackingBytes;
    if (segments === 0) return 0;
    return (segments - 1) * this.mss + this.firstBytes + (segments === this.total && segments > 1 ? this.lastBytes - this.mss : 0);
  }

  private clock(): void {
    this.now = this.network.events.now;
    this.nowUs = Math.floor(this.now / 1000);
    this.nowMs = Math.floor(this.nowUs / 1000) + 1;
    this.nowJiffies = jiffies(this.now);
  }

  // ---- Connection ----

  /** connect(): sends the SYN. */
  connect(): void {
    this.clock();
    this.sendSyn();
  }

  private sendSyn(): void {
    const packet = this.network.pool.take(this.route, kind.syn, this.headerBytes + 8);
    packet.tsVal = this.nowMs;
    packet.tsEcr = 0;
    packet.pureAck = true;
    packet.ece = packet.cwr = this.ecn || this.cc.needsEcn;
    if (this.cc.needsEcn) packet.ecn = 2;
    this.synUs = this.nowUs;
    if (this.synTries++ === 0) this.firstSynMs = this.nowMs;
    else this.retransmits++;
    // tcp_syn_linear_timeouts: the first four retransmissions a second apart, then doubling.
    const delta = this.synTries <= 5 ? timeoutInit : Math.min(rtoMax, timeoutInit * 2 ** (this.synTries - 5));
    this.arm(timer.retransmit, delta);
    this.network.send(packet);
  }

  private onSynAck(packet: Packet): void {
    if (this.connected) {
      this.sendAck();
      return;
    }
    this.connected = true;
    this.connectedNs = this.now;
    this.ecnOk = (this.ecn || this.cc.needsEcn) && packet.ece;
    this.tsRecent = packet.tsVal;
    this.pending = timer.none;
    this.wndEnd = this.model.bufferLimits ? packet.window : Number.MAX_SAFE_INTEGER;
    this.maxWindow = packet.window;
    this.rttMin.reset(this.nowJiffies, 0xffffffff);
    if (this.synTries === 1) {
      const rtt = this.nowUs - this.synUs;
      this.updateRttMin(rtt);
      this.estimateRtt(rtt);
    } else if (packet.tsEcr > 0) {
      const rtt = Math.max(1, this.nowMs - packet.tsEcr) * 1000;
      this.updateRttMin(rtt);
      this.estimateRtt(rtt);
    } else this.rto = timeoutInit;
    // tcp_init_transfer: more than one SYN went unanswered, and not only because the answer was slow (tcp_try_undo_spurious_syn).
    if (this.synTries > 2 && packet.tsEcr !== this.firstSynMs) this.cwnd = 1;
    this.deliveredUs = this.nowUs;
    this.lastSentJiffies = this.nowJiffies;
    this.updatePacingRate();
    this.cc.init(this);
    this.sendAck();
    if (this.stopAtConnect) {
      this.stop();
      return;
    }
    this.expandBuffer();
    this.write();
    this.push();
    if (this.onConnect !== null) this.onConnect();
  }

  /** The application goes on after its lead. @param bytes without it; null = until `hold` or `stop` */
  begin(bytes: number | null): void {
    if (this.finished || !this.awaiting || this.total > 1) return;
    this.clock();
    this.total = bytes === null ? infiniteSsthresh : 1 + Math.ceil(bytes / this.mss);
    this.lastBytes = bytes === null ? this.mss : bytes - (this.total - 2) * this.mss;
    this.write();
    this.push();
  }
  /** The application writes no more, and leaves the connection open. */
  hold(): void {
    if (this.written < this.total) this.lastBytes = this.mss;
    this.total = this.written;
    this.tellWritable();
  }
  /** sk_stream_is_writeable, or the connection is gone */
  private tellWritable(): void {
    if (this.onWritable === null || this.total > this.written) return;
    if (this.inFlight < this.cwnd) this.expandBuffer();
    const queued = this.queued();
    if (!this.finished && this.sndbuf - queued < queued / 2) return;
    this.onWritable();
    this.onWritable = null;
  }
  /** The peer reset the connection: nothing more is sent. */
  private reset(): void {
    this.finished = true;
    this.pending = timer.none;
    this.tellWritable();
  }

  /** tcp_sndbuf_expand */
  private expandBuffer(): void {
    if (!this.model.bufferLimits) return;
    const wanted = (this.cc.controlsRate ? 3 : 2) * Math.max(10, this.cwnd, this.reordering + 1) * bufferPerSegment;
    if (wanted > this.sndbuf) this.sndbuf = Math.min(wanted, this.model.wmemMax);
  }

  /** Bytes of the send buffer in use, its buffers' own size included (sk_wmem_queued). */
  private queued(): number {
    return (this.written - this.una) * this.mss + bufferOverhead * (this.buffersOut + this.buffers);
  }
  /** Segments of a buffer being filled (tcp_xmit_size_goal): at most half the largest window seen. */
  private bufferSegments(): number {
    return Math.max(1, Math.floor(Math.min(gsoMaxBytes, this.maxWindow / 2) / this.mss));
  }
  private bufferEnd(k: number): number { return this.bufferEnds[(this.firstBuffer + k) & (this.bufferEnds.length - 1)]!; }
  private bufferPush(k: number): number { return this.bufferPushes[(this.firstBuffer + k) & (this.bufferEnds.length - 1)]!; }
  private setBufferPush(k: number, push: number): void { this.bufferPushes[(this.firstBuffer + k) & (this.bufferEnds.length - 1)] = push; }
  /** tcp_mark_push: the last buffer. */
  private markPush(): void {
    this.pushedAt = this.written;
    if (this.buffers > 0) this.setBufferPush(this.buffers - 1, 1);
  }
  private setBufferEnd(k: number, end: number): void { this.bufferEnds[(this.firstBuffer + k) & (this.bufferEnds.length - 1)] = end; }

  private addBuffer(end: number): void {
    if (this.packetsOut === 0) this.restartAfterIdle();
    this.growBuffers();
    this.setBufferEnd(this.buffers++, end);
    this.setBufferPush(this.buffers - 1, 0);
  }
  private splitFirstBuffer(end: number): void {
    this.growBuffers();
    this.buffers++;
    this.firstBuffer = (this.firstBuffer - 1) & (this.bufferEnds.length - 1);
    this.setBufferEnd(0, end);
    this.setBufferPush(0, 0);
  }
  private growBuffers(): void {
    const { bufferEnds, buffers } = this;
    if (buffers < bufferEnds.length) return;
    const more = new Int32Array(2 * buffers);
    const pushes = new Uint8Array(2 * buffers);
    for (let k = 0; k < buffers; k++) { more[k] = this.bufferEnd(k); pushes[k] = this.bufferPush(k); }
    this.bufferEnds = more;
    this.bufferPushes = pushes;
    this.firstBuffer = 0;
  }

  /** tcp_fragment: what is in flight to segment `s` and what comes after it are in different buffers. */
  private split(s: number): void {
    const i = s & this.board.mask;
    const flags = this.board.flags[i]!;
    if (s < this.una || s >= this.nxt || (flags & seg.burstEnd) !== 0) return;
    this.board.flags[i] = flags | seg.burstEnd;
    this.buffersOut++;
  }
  private merge(s: number): void {
    const i = s & this.board.mask;
    const flags = this.board.flags[i]!;
    if ((flags & seg.burstEnd) === 0) return;
    this.board.flags[i] = flags & ~seg.burstEnd;
    this.buffersOut--;
  }
  private plainlySacked(s: number): boolean {
    return s >= this.una && s < this.nxt && (this.board.flags[s & this.board.mask]! & (seg.sacked | seg.lost | seg.retransmitted)) === seg.sacked;
  }
  /**
   * tcp_shift_skb_data, tcp_match_skb_to_sack: a segment just SACKed goes into the buffer before it, if that is SACKed too, and that into the next;
   * otherwise it has a buffer of its own, to which what is SACKed after it comes. Data are taken to be in one page, as is nearly always so.
   */
  private moveSacked(s: number): void {
    if (this.plainlySacked(s - 1)) {
      if ((this.board.flags[(s - 1) & this.board.mask]! & seg.burstEnd) !== 0) {
        this.merge(s - 1);
        this.shifted = true;
      }
    } else {
      this.split(s - 1);
      this.shifted = false;
    }
    if (!this.plainlySacked(s + 1)) this.split(s);
    else if (this.shifted) this.merge(s);
  }

  /** What was sent leaves the buffers. */
  private leaveBuffers(): void {
    while (this.buffers > 0 && this.bufferEnd(0) <= this.nxt) {
      this.firstBuffer = (this.firstBuffer + 1) & (this.bufferEnds.length - 1);
      this.buffers--;
    }
  }

  /**
   * The application writes until the send buffer is full, and closes after the last byte (tcp_sendmsg_locked): the last buffer
   * is filled first; the first one full is sent from at once (tcp_push_one).
   */
  private write(): void {
    if (!this.model.bufferLimits) return;
    this.checkApplicationLimited();
    this.fillBuffers();
    if (this.onWrite !== null) this.onWrite();
  }
  private fillBuffers(): void {
    const step = this.bufferSegments();
    const before = this.written;
    while (this.written < this.total) {
      const last = this.buffers - 1;
      const from = last > 0 ? this.bufferEnd(last - 1) : this.nxt;
      const room = last >= 0 ? step - (this.written - from) : 0;
      if (room > 0) {
        this.written = Math.min(this.total, this.written + room);
        this.setBufferEnd(last, this.written);
        this.setBufferPush(last, 0);
      } else {
        if (this.queued() >= this.sndbuf) {
          if (this.written > before) this.markPush();
          return;
        }
        this.written = Math.min(this.total, this.written + step);
        this.addBuffer(this.written);
      }
      // forced_push: half the window since the last.
      if (this.buffers > 0 && (this.written - this.pushedAt) * this.mss > this.maxWindow / 2) this.markPush();
      if (this.buffers === 1 && this.written < this.total && this.written - this.nxt >= step) this.output(push.one);
    }
  }

  /** Sends what may be sent; room in the send buffer wakes the application, which writes on when everything else of this instant has happened. */
  private push(): void {
    this.output(push.all);
    if (this.written >= this.total) this.close();
    else if (!this.woken && this.hasRoom()) {
      this.woken = true;
      this.network.events.wake(this);
    }
  }
  private woken = false;

  /** tcp_check_space */
  private hasRoom(): boolean {
    if (this.inFlight < this.cwnd) this.expandBuffer();
    const queued = this.queued();
    return this.sndbuf - queued >= queued / 2;
  }

  /** The application writes until the buffer is full; what it sends may make room at once. */
  run(): void {
    this.woken = false;
    if (this.finished || this.actorId < 0) return;
    this.clock();
    while (this.written < this.total && this.hasRoom()) {
      this.write();
      this.output(push.all);
    }
    if (this.written >= this.total) this.close();
  }

  /** After the last byte: the FIN goes with the last segment if that still waits, and alone if it was sent (tcp_send_fin). */
  private close(): void {
    if (this.awaiting) {
      this.tellWritable();
      return;
    }
    if (this.closing && !this.closeDue) return;
    this.closing = true;
    this.closeDue = false;
    if (this.nxt < this.total) {
      if (this.shortSegments !== null) this.output(push.all); // a short segment that waited goes with the FIN
      return;
    }
    this.finAlone = true;
    this.output(push.all);
  }
  /** Closed for writing from the start (classic), the FIN not decided on yet. */
  private closeDue = false;

  private sendAck(): void {
    const packet = this.network.pool.take(this.route, kind.ack, this.headerBytes);
    packet.pureAck = true;
    packet.tsVal = Math.floor(this.sendAtNs / 1e6) + 1;
    packet.tsEcr = this.tsRecent;
    packet.seq = this.nxt;
    packet.payload = 0;
    packet.ack = this.peerFin ? 1 : 0;
    if (this.ecnOk && this.cc.needsEcn) packet.ecn = 2;
    this.network.send(packet);
  }

  /** Before `connect`: the application writes nothing but what is offered. */
  awaitChunks(): void {
    this.awaiting = true;
    this.total = this.written = 0;
    this.lastBytes = this.mss;
    this.closing = this.closeDue = false;
    this.shortSegments = new Map();
  }

  /** The application writes a chunk behind what it has written so far. @param bytes 1 or more */
  offer(bytes: number): void {
    if (this.finished || !this.awaiting) return;
    let left = bytes;
    // What the last segment lacks is filled if it was not sent yet.
    const open = this.total > this.nxt ? this.shortSegments!.get(this.total - 1) : undefined;
    if (open !== undefined) {
      const filled = Math.min(this.mss, open + left);
      left -= filled - open;
      if (filled < this.mss) this.shortSegments!.set(this.total - 1, filled); else this.shortSegments!.delete(this.total - 1);
    }
    const segments = Math.ceil(left / this.mss);
    this.total += segments;
    if (segments * this.mss > left) this.shortSegments!.set(this.total - 1, left - (segments - 1) * this.mss);
    if (!this.model.bufferLimits) this.written = this.total;
    if (!this.connected) return;
    this.clock();
    this.write();
    this.push();
  }

  /** Sends no new data any more: what was sent is brought to its end, then the connection closes. */
  stop(): void {
    if (this.finished || this.closing) return;
    this.clock();
    if (!this.connected) { // closes once it is connected, having sent nothing
      this.stopAtConnect = true;
      return;
    }
    // What is in the send buffer still goes out.
    this.total = this.written = this.model.bufferLimits ? this.written : this.nxt;
    this.lastBytes = this.mss;
    this.closing = this.awaiting = false;
    this.close();
  }

  private fail(why: string): void {
    this.failed = why;
    this.finish();
  }
  private finish(): void {
    if (this.finished) return;
    this.finished = true;
    this.endNs = this.now;
    this.pending = timer.none;
    this.onEnd(this);
  }

  // ---- Timers ----

  private arm(what: number, delta: number): void {
    const { events } = this.network;
    const level = timerLevel(delta);
    const timeoutNs = timerAtNs(this.nowJiffies, Math.min(delta, rtoMax));
    this.pending = what;
    // __mod_timer: a timer that stays in its bucket keeps its place there.
    if (timeoutNs !== this.timeoutNs || level !== this.timeoutLevel) {
      this.timeoutNs = timeoutNs;
      this.timeoutLevel = level;
      this.timeoutOrder = events.takeTimerOrder(level);
    }
    const scheduled = events.timeOf(this.actorId);
    // A pending event that comes too early is left: it re-arms when it fires (as timer_pending costs Linux little).
    if (scheduled >= timeoutNs || scheduled <= this.now) events.scheduleOrdered(this.actorId, timeoutNs, this.timeoutOrder);
  }

  /** tcp_reset_xmit_timer: later by the whole jiffies (tcp_pacing_delay) that the next packet waits for its departure time. */
  private armPaced(what: number, delta: number): void {
    this.arm(what, delta + Math.floor(Math.max(0, this.sendAtNs - this.now) / jiffyNs));
  }

  override fire(): void {
    if (this.finished || this.pending === timer.none) return;
    this.clock();
    if (this.now < this.timeoutNs) {
      this.network.events.scheduleOrdered(this.actorId, this.timeoutNs, this.timeoutOrder);
      return;
    }
    // So that `arm` schedules anew.
    this.network.events.cancel(this.actorId);
    if (!this.connected) {
      if (this.synTries > 6) this.fail('connection timed out: no answer to 7 SYNs');
      else { this.rehash(); this.sendSyn(); }
      return;
    }
    switch (this.pending) {
      case timer.reorder: this.reorderTimeout(); break;
      case timer.lossProbe: this.sendLossProbe(); break;
      case timer.probe0: this.pending = timer.none; this.output(push.all); break;
      default: this.pending = timer.none; this.retransmitTimeout(); break;
    }
  }

  /** tcp_rto_delta_us: how far ahead the RTO of the first segment is. */
  private rtoDeltaUs(): number {
    return this.board.sentUs[this.una & this.board.mask]! + jiffiesToUs(this.rto) - this.nowUs;
  }
  private rearmRto(): void {
    if (this.packetsOut === 0) { this.pending = timer.none; return; }
    let rto = this.rto;
    if (this.pending === timer.reorder || this.pending === timer.lossProbe) rto = usToJiffies(Math.max(this.rtoDeltaUs(), 1));
    this.armPaced(timer.retransmit, rto);
  }
  private setTransmitTimer(): void {
    if (!this.scheduleLossProbe(true)) this.rearmRto();
  }

  /** tcp_schedule_loss_probe */
  private scheduleLossProbe(advancingRto: boolean): boolean {
    if (!this.model.rack || this.packetsOut === 0 || (this.state !== state.open && this.state !== state.cwr)) return false;
    let timeout: number = timeoutInit;
    if (this.srttUs > 0) {
      const us = Math.floor(this.srttUs / 4) + (this.packetsOut === 1 ? rtoMinUs : timeoutMinUs);
      timeout = usToJiffies(us);
    }
    const delta = advancingRto ? jiffiesToUs(this.rto) : this.rtoDeltaUs();
    if (delta > 0) timeout = Math.min(timeout, usToJiffies(delta));
    this.armPaced(timer.lossProbe, timeout);
    return true;
  }

  /** tcp_send_loss_probe */
  private sendLossProbe(): void {
    if (this.tlpHigh === 0) {
      this.tlpRetrans = false;
      let sent = false;
      if (this.nxt < this.end && this.windowAllows(this.nxt)) {
        const before = this.packetsOut;
        this.output(push.probe);
        sent = this.packetsOut > before;
      } else if (this.packetsOut > 0) {
        this.split(this.nxt - 2);
        this.repeat(this.nxt - 1, false);
        this.tlpRetrans = true;
        sent = true;
      }
      if (sent) {
        this.tlpHigh = this.nxt;
        this.pending = timer.none;
      }
    }
    this.rearmRto();
  }

  /** tcp_retransmit_timer */
  private retransmitTimeout(): void {
    if (this.packetsOut === 0) return;
    if (this.timeouts >= 15) { this.fail('connection timed out: 15 retransmission timeouts in a row'); return; }
    this.rehash();
    this.enterLoss();
    this.timeouts++;
    this.split(this.una);
    this.repeat(this.una, true);
    this.rto = Math.min(this.rto * 2, rtoMax);
    this.arm(timer.retransmit, this.rto);
  }

  /**
   * sk_rethink_txhash: after a timeout the flow's packets carry another hash, so that they take another path where there is one;
   * disciplines that sort by skb->hash (FQ-CoDel, CAKE) put them into another queue.
   */
  private rehash(): void {
    if (!this.model.rethinksHash) return;
    this.route.sentHash = mix32((this.route.sentHash + 0x9e3779b9) >>> 0);
  }

  /** tcp_enter_loss */
  private enterLoss(): void {
    const { board } = this;
    const newRecovery = this.state < state.recovery;
    for (let s = this.una; s < this.nxt; s++) {
      if (this.model.rack && s !== this.una && this.rackRttUs - (this.nowUs - board.sentUs[s & board.mask]!) > 0) continue;
      this.markLost(s);
    }
    this.retransmitHint = -1;
    if (this.state <= state.disorder || this.highSeq <= this.una || (this.state === state.loss && this.timeouts === 0)) {
      this.priorSsthresh = this.currentSsthresh();
      this.priorCwnd = this.cwnd;
      this.ssthresh = this.cc.ssthresh(this);
      this.cc.lossEvent(this);
      this.initUndo();
    }
    this.cwnd = this.inFlight + 1;
    this.cwndCount = 0;
    if (this.state <= state.disorder && this.sackedOut >= dupThreshold) this.reordering = Math.min(this.reordering, dupThreshold);
    this.setState(state.loss);
    this.highSeq = this.nxt;
    this.tlpHigh = 0;
    this.queueCwr = this.ecnOk;
    this.frto = this.model.rack && (newRecovery || this.timeouts > 0);
  }

  private setState(next: number): void {
    this.cc.setState(this, next);
    this.state = next;
  }

  /** tcp_current_ssthresh */
  private currentSsthresh(): number {
    return this.state === state.cwr || this.state === state.recovery ? this.ssthresh : Math.max(this.ssthresh, (this.cwnd >> 1) + (this.cwnd >> 2));
  }

  private initUndo(): void {
    this.undoMarker = this.una;
    this.undoRetrans = this.retransOut + (this.tlpHigh !== 0 && this.tlpRetrans ? 1 : 0);
    if (this.undoRetrans === 0) this.undoRetrans = -1;
  }

  // ---- Round-trip time ----

  private updateRttMin(rttUs: number): void {
    if ((this.flag & f.maybeDelayed) !== 0 && rttUs > this.minRttUs) return;
    this.rttMin.update(300 * 100, this.nowJiffies, rttUs > 0 ? rttUs : jiffiesToUs(1));
  }

  /** tcp_rtt_estimator and tcp_set_rto */
  private estimateRtt(rttUs: number): void {
    let m = rttUs;
    let srtt = this.srttUs;
    if (srtt !== 0) {
      m -= Math.floor(srtt / 8);
      srtt += m;
      if (m < 0) {
        m = -m - Math.floor(this.mdevUs / 4);
        if (m > 0) m = Math.floor(m / 8);
      } else m -= Math.floor(this.mdevUs / 4);
      this.mdevUs += m;
      if (this.mdevUs > this.mdevMaxUs) {
        this.mdevMaxUs = this.mdevUs;
        if (this.mdevMaxUs > this.rttvarUs) this.rttvarUs = this.mdevMaxUs;
      }
      if (this.una > this.rttSeq) {
        if (this.mdevMaxUs < this.rttvarUs) this.rttvarUs -= Math.floor((this.rttvarUs - this.mdevMaxUs) / 4);
        this.rttSeq = this.nxt;
        this.mdevMaxUs = rtoMinUs;
      }
    } else {
      srtt = m * 8;
      this.mdevUs = m * 2;
      this.rttvarUs = Math.max(this.mdevUs, rtoMinUs);
      this.mdevMaxUs = this.rttvarUs;
      this.rttSeq = this.nxt;
    }
    this.srttUs = Math.max(1, srtt);
    this.rto = Math.min(usToJiffies(Math.floor(this.srttUs / 8) + this.rttvarUs), rtoMax);
  }

  // ---- Sending ----

  private windowAllows(s: number): boolean {
    return s * this.mss + this.payloadOf(s) <= this.wndEnd;
  }
  private payloadOf(s: number): number {
    if (this.shortSegments !== null) return this.shortSegments.get(s) ?? (s < this.total ? this.mss : 0);
    return s === 0 ? this.firstBytes : s < this.total - 1 ? this.mss : s === this.total - 1 ? this.lastBytes : 0;
  }

  /** tcp_tso_segs */
  private tsoSegments(): number {
    if (!this.model.tso) return 1;
    let bytes = Math.floor(this.pacingRate / 1024);
    const r = Math.floor(this.minRttUs / 512);
    if (r < 32) bytes += gsoMaxBytes >>> r;
    bytes = Math.min(bytes, gsoMaxBytes);
    return Math.max(Math.floor(bytes / this.mss), this.cc.minTsoSegments(this));
  }

  /**
   * tcp_tso_should_defer: waits for more window rather than send a small burst.
   * @param length segments of the buffer to be sent from
   * @param last it is the last one written
   */
  private defer(length: number, last: boolean, maxSegments: number): boolean {
    if (this.state >= state.recovery) return false;
    if (this.now - this.sendAtNs - 1e6 > 0) return false;
    const congestion = (this.cwnd - this.inFlight) * this.mss;
    const receive = this.wndEnd - this.nxt * this.mss;
    const limit = Math.min(receive, congestion);
    if (limit >= maxSegments * this.mss) return false;
    // Nothing will be added to a buffer before the last one.
    if (!last && limit >= length * this.mss) return false;
    const chunk = Math.floor(Math.min(this.wndEnd - this.una * this.mss, this.cwnd * this.mss) / 3);
    if (limit >= chunk) return false;
    if (this.packetsOut === 0) return false;
    // Only when the next acknowledgement is expected within a millisecond or half a round trip, whichever is less.
    const awayNs = this.board.sentUs[this.una & this.board.mask]! * 1000 + 125 * this.srttUs - this.now;
    if (awayNs > Math.min(Math.floor((125 * this.srttUs) / 2), 1e6)) return false;
    if (limit <= length * this.mss) this.deferredByWindow = congestion < receive;
    // With the FIN behind it, it will not grow either.
    else if (this.closing && this.nxt + length >= this.end) return false;
    return true;
  }
  private deferredByWindow = false;

  private pacingBlocks(): boolean {
    if (!this.paced || this.pacedByQueue || this.sendAtNs <= this.now) return false;
    if (!this.network.events.pending(this.pacingTimer.actorId)) this.network.events.schedule(this.pacingTimer.actorId, this.sendAtNs);
    return true;
  }

  /** tcp_small_queue_check. @param factor 1 for retransmissions */
  private smallQueueFull(factor: number, burstBytes: number): boolean {
    if (!this.hostQueue) return false;
    let limit = Math.max(2 * (burstBytes + bufferOverhead), Math.floor(this.pacingRate / 1024));
    if (!this.paced) limit = Math.min(limit, limitOutputBytes);
    // A socket without packets counts 1 (sk_wmem_alloc).
    if (this.hostBytes + 1 <= limit * (1 << factor) || this.buffersOut <= 1) return false;
    this.throttled = true;
    return true;
  }

  /** A packet left this host's queue. */
  released(packet: Packet): void {
    this.hostBytes -= packet.ownedBytes;
    // A flow that was cut has left the events; its packets still leave the queue.
    if (this.throttled && this.pacingTimer.actorId >= 0 && !this.network.events.pending(this.pacingTimer.actorId)) {
      this.throttled = false;
      this.network.events.schedule(this.pacingTimer.actorId, this.network.events.now);
    }
  }

  /** tcp_tsq_write: pacing or the host's queue let it send again. */
  unthrottle(): void {
    if (this.finished || !this.connected) return;
    this.network.events.cancel(this.pacingTimer.actorId);
    this.clock();
    if (this.lostOut > this.retransOut && this.cwnd > this.inFlight) this.retransmitQueue();
    this.push();
  }

  /** tcp_write_xmit. @param most one of `push` */
  private output(most: number): void {
    const { board } = this;
    const probe = most === push.probe;
    const maxSegments = this.tsoSegments();
    const end = this.end;
    let sent = 0;
    let limited = false;
    while (this.nxt < end) {
      if (this.pacingBlocks()) break;
      const inFlight = this.usedWindow;
      let quota = 0;
      if (inFlight < this.cwnd) quota = this.model.tso ? Math.min(Math.max(this.cwnd >> 1, 1), this.cwnd - inFlight) : this.cwnd - inFlight;
      if (quota <= 0) {
        if (!probe) break;
        quota = 1;
      }
      quota = Math.min(quota, maxSegments);
      const available = end - this.nxt;
      let length = available;
      let last = true;
      if (this.buffers > 0) {
        // tcp_grow_skb: a buffer too short for the burst takes from the next.
        if (this.buffers > 1 && this.bufferEnd(0) < this.nxt + quota) {
          this.setBufferEnd(0, Math.min(this.nxt + quota, this.bufferEnd(1)));
          if (this.bufferEnd(0) === this.bufferEnd(1)) {
            this.setBufferPush(1, this.bufferPush(0) | this.bufferPush(1));
            this.firstBuffer = (this.firstBuffer + 1) & (this.bufferEnds.length - 1);
            this.buffers--;
          }
        }
        length = this.bufferEnd(0) - this.nxt;
        last = this.buffers === 1;
      }
      if (!this.windowAllows(this.nxt)) break;
      if (length > 1 && maxSegments > 1 && most === push.all) {
        this.deferredByWindow = false;
        if (this.defer(length, last, maxSegments)) { limited = this.deferredByWindow; break; }
      }
      let count = Math.min(quota, length);
      // A burst never goes beyond the receive window.
      while (count > 1 && !this.windowAllows(this.nxt + count - 1)) count--;
      if (this.shortSegments !== null && most === push.all && this.mustFill(this.nxt + count - 1) && --count === 0) break;
      if (this.smallQueueFull(0, count * this.mss)) {
        // tso_fragment came before: the burst that must wait has a buffer of its own, and the last one room again.
        if (this.buffers > 0 && count < length) this.splitFirstBuffer(this.nxt + count);
        break;
      }

      const dueNs = this.sendAtNs;
      this.sendAtNs = Math.max(dueNs, this.now);
      const sentUs = Math.floor(this.sendAtNs / 1000);
      board.reserve(this.una, this.nxt, this.nxt + count);
      if (this.packetsOut === 0) {
        this.firstSentUs = sentUs;
        this.deliveredUs = sentUs;
        if (this.inFlight === 0) this.cc.txStart(this);
      }
      const priorPackets = this.packetsOut;
      let bytes = 0;
      const pushes = count > 1 || (count === length && this.buffers > 0 && this.bufferPush(0) === 1);
      for (let k = 0; k < count; k++) {
        const s = this.nxt;
        const i = s & board.mask;
        // The last segment of a burst, or of a buffer that the application left full, asks for an acknowledgement (PSH), also when it is repeated.
        board.flags[i] = (this.appLimited > 0 ? seg.appLimited : 0) | ((pushes && k === count - 1) || s === this.total - 1 ? seg.push : 0) | (k === count - 1 ? seg.burstEnd : 0);
        this.stamp(i, sentUs);
        board.sentLast(s);
        bytes += this.payloadOf(s);
        if (this.shortSegments !== null && this.payloadOf(s) < this.mss) this.shortSentEnd = s + 1;
        this.nxt = s + 1;
        this.packetsOut++;
        this.transmit(s, false, k === 0 ? bufferOverhead + (count - 1) * this.mss + this.payloadOf(s + count - 1) : 0);
      }
      this.buffersOut++;
      this.leaveBuffers();
      // tcp_check_space, after each burst: with window left the send buffer may grow.
      if (this.written < this.total && this.inFlight < this.cwnd) this.expandBuffer();
      this.pace(bytes, dueNs);
      this.lastSentJiffies = this.nowJiffies;
      if (priorPackets === 0 || this.pending === timer.lossProbe) this.rearmRto();
      sent += count;
      if (most !== push.all) break;
    }
    limited ||= this.usedWindow >= this.cwnd;
    if (sent > 0 || limited) this.validateCwnd(limited);
    if (sent > 0) {
      if (this.inReduction()) this.prrOut += sent;
      if (!probe) this.scheduleLossProbe(false);
    } else if (this.packetsOut === 0 && this.nxt < end && this.pending === timer.none) this.armPaced(timer.probe0, this.rto);
  }

  /** tcp_nagle_check, as Minshall has it: a short segment waits for more to fill it while an earlier one is not acknowledged. */
  private mustFill(s: number): boolean {
    return s === this.written - 1 && this.packetsOut > 0 && this.shortSentEnd > this.una && this.payloadOf(s) < this.mss && !this.closing;
  }
  /** End of the last short segment that was sent (snd_sml). */
  private shortSentEnd = 0;

  /** @param sentUs when it departs (skb_mstamp_ns): later than now where a queue paces */
  private stamp(i: number, sentUs: number): void {
    const { board } = this;
    board.sentUs[i] = sentUs;
    board.delivered[i] = this.delivered;
    board.deliveredCe[i] = this.deliveredCe;
    board.deliveredUs[i] = this.deliveredUs;
    board.firstSentUs[i] = this.firstSentUs;
  }

  /** tcp_update_skb_after_send: when the next burst may leave. */
  private pace(bytes: number, dueNs: number): void {
    if (!this.paced || this.pacingRate <= 0 || this.segmentsSent < 10) return;
    const gap = Math.floor((bytes * 1e9) / this.pacingRate);
    // A burst that left late catches up by at most half its gap.
    this.sendAtNs += gap - Math.min(Math.floor(gap / 2), this.sendAtNs - dueNs);
  }

  /** @param ownedBytes what it takes of the host's queue: a burst is one buffer there (struct sk_buff), and leaves it when its first segment does */
  private transmit(s: number, again: boolean, ownedBytes: number): void {
    const payload = this.payloadOf(s);
    const packet = this.network.pool.take(this.route, payload > 0 ? kind.data : kind.fin, this.headerBytes + payload);
    packet.seq = s;
    packet.payload = payload;
    packet.ack = 0;
    packet.tsVal = this.nowMs;
    packet.tsEcr = this.tsRecent;
    packet.fin = this.closing && s === this.end - 1;
    packet.push = (this.board.flags[s & this.board.mask]! & seg.push) !== 0;
    packet.pureAck = payload === 0;
    if (this.ecnOk) {
      if ((!again && payload > 0) || this.cc.needsEcn) packet.ecn = 2;
      if (!again && payload > 0 && this.queueCwr) {
        this.queueCwr = false;
        packet.cwr = true;
      }
    }
    if (this.hostQueue) {
      packet.edtNs = this.sendAtNs;
      if (ownedBytes > 0) {
        packet.owner = this;
        packet.ownedBytes = ownedBytes;
        this.hostBytes += ownedBytes;
      }
    }
    if (payload > 0) {
      this.segmentsSent++;
      this.bytesSent += payload;
    }
    this.network.send(packet);
  }

  /** __tcp_retransmit_skb, one segment of it; `repeat` and the queue of lost ones see to its departure time. */
  private retransmit(s: number): void {
    const { board } = this;
    const i = s & board.mask;
    this.retransmits++;
    if (this.inFlight === 0) this.cc.txStart(this);
    this.lastSentJiffies = this.nowJiffies;
    this.stamp(i, Math.floor(this.sendAtNs / 1000));
    board.sentLast(s);
    board.flags[i] = (board.flags[i]! & ~(seg.delivered | seg.appLimited)) | seg.everRetransmitted | (this.appLimited > 0 ? seg.appLimited : 0);
    this.transmit(s, true, bufferOverhead + this.payloadOf(s));
  }
  /** A single segment, whether or not it is its turn. */
  private repeat(s: number, lost: boolean): void {
    const dueNs = this.sendAtNs;
    this.sendAtNs = Math.max(dueNs, this.now);
    if (lost) this.retransmitLost(s); else this.retransmit(s);
    this.pace(this.payloadOf(s), dueNs);
  }
  /** tcp_retransmit_skb */
  private retransmitLost(s: number): void {
    const i = s & this.board.mask;
    this.retransmit(s);
    this.board.flags[i]! |= seg.retransmitted;
    this.retransOut++;
    if (this.retransStampMs < 0) this.retransStampMs = this.nowMs;
    if (this.undoRetrans < 0) this.undoRetrans = 0;
    this.undoRetrans++;
  }

  /** tcp_xmit_retransmit_queue */
  private retransmitQueue(): void {
    if (this.packetsOut === 0) return;
    const { board } = this;
    const maxSegments = this.tsoSegments();
    let hole = -1;
    let rearm = false;
    // Segments of a buffer repeated so far, in one burst, which is paced as one; its payload; and when it was due.
    let burst = 0;
    let bytes = 0;
    let dueNs = 0;
    for (let s = this.retransmitHint >= this.una ? this.retransmitHint : this.una; s < this.nxt; s++) {
      if (burst === 0 && this.pacingBlocks()) break;
      if (hole < 0) this.retransmitHint = s;
      // The first retransmission of a recovery goes out at once (PRR sees to that; RFC 6675, section 5, step 4.3).
      if (this.cwnd - this.inFlight <= 0 && (this.model.rack || this.state !== state.recovery || this.prrOut > 0)) break;
      if (this.retransOut >= this.lostOut) break;
      const flags = board.flags[s & board.mask]!;
      if ((flags & seg.lost) === 0) {
        if (hole < 0 && (flags & (seg.retransmitted | seg.sacked)) === 0) hole = s;
        continue;
      }
      if ((flags & (seg.sacked | seg.retransmitted)) !== 0) continue;
      if (burst === 0) {
        if (this.smallQueueFull(1, maxSegments * this.mss)) break;
        dueNs = this.sendAtNs;
        this.sendAtNs = Math.max(dueNs, this.now);
        bytes = 0;
      }
      this.retransmitLost(s);
      bytes += this.payloadOf(s);
      if (this.cwnd - this.inFlight <= 0 || ++burst >= maxSegments) this.split(s);
      if ((board.flags[s & board.mask]! & seg.burstEnd) !== 0) {
        burst = 0;
        this.pace(bytes, dueNs);
      }
      if (this.inReduction()) this.prrOut++;
      if (s === this.una && this.pending !== timer.reorder) rearm = true;
    }
    if (burst > 0) this.pace(bytes, dueNs);
    if (rearm) this.armPaced(timer.retransmit, this.rto);
  }

  // ---- Congestion window ----

  private inReduction(): boolean { return this.state === state.cwr || this.state === state.recovery; }

  /** tcp_is_cwnd_limited */
  isCwndLimited(): boolean {
    if (this.cwndLimited) return true;
    return this.cwnd < this.ssthresh && this.cwnd < 2 * this.maxPacketsOut;
  }

  private validateCwnd(limited: boolean): void {
    if (this.una >= this.cwndUsageSeq || limited || (!this.cwndLimited && this.packetsOut > this.maxPacketsOut)) {
      this.cwndLimited = limited;
      this.maxPacketsOut = this.packetsOut;
      this.cwndUsageSeq = this.nxt;
    }
  }

  /** tcp_slow_start_after_idle_check, tcp_cwnd_restart (RFC 2861): nothing in flight and nothing sent for longer than a retransmission timeout: the window is halved for each that passed, down to the initial one. */
  private restartAfterIdle(): void {
    if (!this.model.slowStartAfterIdle || this.cc.controlsRate) return;
    let idle = this.nowJiffies - this.lastSentJiffies;
    if (idle <= this.rto) return;
    this.ssthresh = this.currentSsthresh();
    const restart = Math.min(this.model.initialWindow, this.cwnd);
    let cwnd = this.cwnd;
    while ((idle -= this.rto) > 0 && cwnd > restart) cwnd >>= 1;
    this.cwnd = Math.max(cwnd, restart);
  }

  /** tcp_rate_check_app_limited: the application writes where nothing waited to be sent and the window had room. */
  private checkApplicationLimited(): void {
    if (this.written === this.nxt && this.hostBytes === 0 && this.inFlight < this.cwnd && this.lostOut <= this.retransOut) this.appLimited = Math.max(1, this.delivered + this.inFlight);
  }

  private initReduction(): void {
    this.highSeq = this.nxt;
    this.tlpHigh = 0;
    this.cwndCount = 0;
    this.priorCwnd = this.cwnd;
    this.prrDelivered = 0;
    this.prrOut = 0;
    this.ssthresh = this.cc.ssthresh(this);
    this.queueCwr = this.ecnOk;
    if (!this.model.rack && !this.cc.controlsRate) this.cwnd = this.ssthresh;
  }

  /** tcp_cwnd_reduction: proportional rate reduction. */
  private reduce(acked: number, lost: number): void {
    if (acked <= 0 || this.priorCwnd === 0) return;
    if (!this.model.rack) { this.cwnd = this.ssthresh; return; }
    const inFlight = this.inFlight;
    const delta = this.ssthresh - inFlight;
    this.prrDelivered += acked;
    let count: number;
    if (delta < 0) count = Math.floor((this.ssthresh * this.prrDelivered + this.priorCwnd - 1) / this.priorCwnd) - this.prrOut;
    else {
      count = Math.max(this.prrDelivered - this.prrOut, acked);
      if ((this.flag & f.unaAdvanced) !== 0 && lost === 0) count++;
      count = Math.min(delta, count);
    }
    count = Math.max(count, this.prrOut > 0 ? 0 : 1);
    this.cwnd = inFlight + count;
  }

  private endReduction(): void {
    if (this.cc.controlsRate) return;
    if (this.ssthresh < infiniteSsthresh && (this.state === state.cwr || this.undoMarker >= 0)) this.cwnd = this.ssthresh;
  }

  private enterCwr(): void {
    this.priorSsthresh = 0;
    if (this.state < state.cwr) {
      this.undoMarker = -1;
      this.initReduction();
      this.setState(state.cwr);
    }
  }

  private enterRecovery(ece: boolean): void {
    if (this.retransOut === 0 && !this.anyRetransmitted()) this.retransStampMs = -1;
    this.priorSsthresh = 0;
    this.initUndo();
    if (!this.inReduction()) {
      if (!ece) this.priorSsthresh = this.currentSsthresh();
      this.initReduction();
    }
    this.setState(state.recovery);
  }

  private anyRetransmitted(): boolean {
    return this.retransOut > 0 || (this.packetsOut > 0 && (this.board.flags[this.una & this.board.mask]! & seg.everRetransmitted) !== 0);
  }

  private keepOpen(): void {
    const next = this.sackedOut + this.lostOut > 0 || this.anyRetransmitted() ? state.disorder : state.open;
    if (this.state !== next) {
      this.setState(next);
      this.highSeq = this.nxt;
    }
  }

  private tryToOpen(): void {
    if (!this.anyRetransmitted()) this.retransStampMs = -1;
    if ((this.flag & f.ece) !== 0) this.enterCwr();
    if (this.state !== state.cwr) this.keepOpen();
  }

  private packetDelayed(): boolean {
    return this.retransStampMs >= 0 ? this.ackEcr !== 0 && this.ackEcr < this.retransStampMs : true;
  }
  private ackEcr = 0;
  private mayUndo(): boolean {
    return this.model.rack && this.undoMarker >= 0 && (this.undoRetrans === 0 || this.packetDelayed());
  }

  private undo(unmarkLoss: boolean): void {
    if (unmarkLoss) {
      const { board } = this;
      for (let s = this.una; s < this.nxt; s++) board.flags[s & board.mask]! &= ~seg.lost;
      this.lostOut = 0;
      this.retransmitHint = -1;
    }
    if (this.priorSsthresh > 0) {
      this.cwnd = this.cc.undoCwnd(this);
      if (this.priorSsthresh > this.ssthresh) {
        this.ssthresh = this.priorSsthresh;
        this.queueCwr = false;
      }
    }
    this.undoMarker = -1;
    this.rackAdvanced = true;
  }

  private tryUndoRecovery(): void {
    if (this.mayUndo()) this.undo(false);
    else if (this.rackPersist > 0) this.rackPersist--;
    this.setState(state.open);
  }
  private tryUndoLoss(byFrto: boolean): boolean {
    if (!byFrto && !this.mayUndo()) return false;
    this.undo(true);
    this.timeouts = 0;
    this.setState(state.open);
    return true;
  }
  private tryUndoDsack(): boolean {
    if (!this.model.rack || this.undoMarker < 0 || this.undoRetrans !== 0) return false;
    this.rackPersist = Math.min(16, this.rackPersist + 1);
    this.undo(false);
    return true;
  }
  private tryUndoPartial(priorUna: number): boolean {
    if (this.model.rack && this.undoMarker >= 0 && this.packetDelayed()) {
      this.checkReordering(priorUna);
      if (this.retransOut > 0) return true;
      if (!this.anyRetransmitted()) this.retransStampMs = -1;
      this.undo(true);
      this.keepOpen();
    }
    return false;
  }

  // ---- Losses ----

  /** tcp_mark_skb_lost */
  private markLost(s: number): void {
    const { board } = this;
    const i = s & board.mask;
    const flags = board.flags[i]!;
    if ((flags & seg.sacked) !== 0) return;
    if ((this.retransmitHint < 0 && this.retransOut >= this.lostOut) || (this.retransmitHint >= 0 && s < this.retransmitHint)) this.retransmitHint = s;
    if ((flags & seg.lost) !== 0) {
      if ((flags & seg.retransmitted) !== 0) {
        board.flags[i] = flags & ~seg.retransmitted;
        this.retransOut--;
        this.lost++;
      }
    } else {
      this.lostOut++;
      board.flags[i] = flags | seg.lost;
      this.lost++;
    }
  }

  /** tcp_rack_advance */
  private rackAdvance(flags: number, end: number, sentUs: number): void {
    const rtt = this.nowUs - sentUs;
    if (rtt < this.minRttUs && (flags & (seg.retransmitted | seg.everRetransmitted)) !== 0) return;
    this.rackAdvanced = true;
    this.rackRttUs = rtt;
    if (!(this.rackMstamp >= sentUs) || (sentUs === this.rackMstamp && end > this.rackEnd)) {
      this.rackMstamp = sentUs;
      this.rackEnd = end;
    }
  }

  /** tcp_rack_detect_loss. @returns the longest time still to wait, µs; 0 when none waits */
  private rackDetect(): number {
    const { board } = this;
    let window = 0;
    if (!(this.reorderingSeen === 0 && (this.state >= state.recovery || this.sackedOut >= this.reordering))) {
      window = Math.min(Math.floor(this.minRttUs / 4) * this.rackSteps, Math.floor(this.srttUs / 8));
    }
    let timeout = 0;
    for (let s = board.first; s >= 0;) {
      const next = board.after(s);
      const i = s & board.mask;
      const flags = board.flags[i]!;
      if ((flags & seg.lost) !== 0 && (flags & seg.retransmitted) === 0) { s = next; continue; }
      const sentUs = board.sentUs[i]!;
      if (!(this.rackMstamp > sentUs || (this.rackMstamp === sentUs && this.rackEnd > s + 1))) break;
      const remaining = this.rackRttUs + window - (this.nowUs - sentUs);
      if (remaining <= 0) {
        this.markLost(s);
        board.unlink(s);
      } else timeout = Math.max(timeout, remaining);
      s = next;
    }
    return timeout;
  }

  private reorderTimeout(): void {
    const prior = this.inFlight;
    const lost = this.lost;
    this.flag = 0;
    this.rackDetect();
    if (prior !== this.inFlight) {
      if (this.state !== state.recovery) {
        this.enterRecovery(false);
        if (!this.cc.controlsRate) this.reduce(1, this.lost - lost);
      }
      this.retransmitQueue();
    }
    if (this.pending !== timer.retransmit) this.rearmRto();
  }

  /** tcp_identify_packet_loss; for the classic model RFC 6675's rule: three segments SACKed above. */
  private identifyLoss(): void {
    if (this.packetsOut === 0) return;
    if (!this.model.rack) {
      const { board } = this;
      for (let s = Math.max(this.una, this.classicMarked); s < this.fack - dupThreshold; s++) {
        if ((board.flags[s & board.mask]! & (seg.sacked | seg.lost)) === 0) this.markLost(s);
      }
      this.classicMarked = Math.max(this.classicMarked, this.fack - dupThreshold);
      return;
    }
    const prior = this.retransOut;
    if (this.rackAdvanced) {
      this.rackAdvanced = false;
      const timeout = this.rackDetect();
      if (timeout > 0) {
        this.arm(timer.reorder, Math.min(usToJiffies(timeout + timeoutMinUs), this.rto));
        this.flag &= ~f.setTimer;
      }
    }
    if (prior > this.retransOut) this.flag |= f.lostRetrans;
  }
  private classicMarked = 0;

  private checkReordering(low: number): void {
    const fack = this.sackedOut > 0 ? this.fack : this.una;
    if (low >= fack) return;
    const metric = fack - low;
    if (metric > this.reordering) this.reordering = Math.min(metric, maxReordering);
    this.reorderingSeen++;
  }

  private updateReorderWindow(): void {
    if (this.rs.priorDelivered === 0) return;
    if (this.rs.priorDelivered < this.rackLastDelivered) this.rackDsackSeen = false;
    if (this.rackDsackSeen) {
      this.rackSteps = Math.min(255, this.rackSteps + 1);
      this.rackDsackSeen = false;
      this.rackLastDelivered = this.delivered;
      this.rackPersist = 16;
    } else if (this.rackPersist === 0) this.rackSteps = 1;
  }

  // ---- Acknowledgements ----

  receive(packet: Packet): void {
    if (this.finished) return;
    this.clock();
    if (packet.kind === kind.synAck) { this.onSynAck(packet); return; }
    if (!this.connected) return;
    if (packet.kind === kind.reset) { this.reset(); return; }
    if (packet.tsVal > this.tsRecent) this.tsRecent = packet.tsVal;
    const sent = this.segmentsSent;
    if (packet.kind === kind.fin) this.peerFin = true;
    this.onAck(packet);
    if (this.finished) return;
    if (this.peerFin && this.closing && this.una >= this.end) {
      if (packet.kind === kind.fin) this.sendAck();
      this.finish();
      return;
    }
    this.push();
    // Data that the FIN's acknowledgement let go acknowledge it.
    if (packet.kind === kind.fin && sent === this.segmentsSent) this.sendAck();
  }

  /** tcp_rate_skb_delivered */
  private rateDeliveredSegment(s: number, i: number): void {
    const { board, rs } = this;
    const flags = board.flags[i]!;
    if ((flags & seg.delivered) !== 0) return;
    const sentUs = board.sentUs[i]!;
    if (rs.priorDelivered === 0 || sentUs > this.firstSentUs || (sentUs === this.firstSentUs && s + 1 > rs.lastEnd)) {
      rs.priorDeliveredCe = board.deliveredCe[i]!;
      rs.priorDelivered = board.delivered[i]!;
      rs.priorUs = board.deliveredUs[i]!;
      rs.appLimited = (flags & seg.appLimited) !== 0;
      rs.retrans = (flags & (seg.retransmitted | seg.everRetransmitted)) !== 0;
      rs.lastEnd = s + 1;
      this.firstSentUs = sentUs;
      rs.intervalUs = sentUs - board.firstSentUs[i]!;
    }
    if ((flags & seg.sacked) !== 0) board.flags[i] = flags | seg.delivered;
  }

  private rateGenerate(delivered: number, lost: number): void {
    const { rs } = this;
    if (this.appLimited > 0 && this.delivered > this.appLimited) this.appLimited = 0;
    if (delivered > 0) this.deliveredUs = this.nowUs;
    rs.ackedSacked = delivered;
    rs.losses = lost;
    if (rs.priorDelivered === 0) { rs.delivered = -1; rs.intervalUs = -1; return; }
    rs.delivered = this.delivered - rs.priorDelivered;
    rs.intervalUs = Math.max(rs.intervalUs, this.nowUs - rs.priorUs);
    if (rs.intervalUs < this.minRttUs) { rs.intervalUs = -1; return; }
    if (!rs.appLimited || rs.delivered * this.rateIntervalUs >= this.rateDelivered * rs.intervalUs) {
      this.rateDelivered = rs.delivered;
      this.rateIntervalUs = rs.intervalUs;
    }
  }

  private countDelivered(n: number): void {
    this.delivered += n;
    if ((this.flag & f.ece) !== 0) this.deliveredCe += n;
  }

  /** tcp_sacktag_one */
  private sackSegment(s: number, isDup: boolean): void {
    const { board } = this;
    const i = s & board.mask;
    let flags = board.flags[i]!;
    if (isDup && (flags & (seg.retransmitted | seg.everRetransmitted)) !== 0) {
      if (this.undoMarker >= 0 && this.undoRetrans > 0 && s + 1 > this.undoMarker) this.undoRetrans--;
      if ((flags & seg.sacked) !== 0 && s < this.reord) this.reord = s;
    }
    if ((flags & seg.sacked) === 0) {
      const sentUs = board.sentUs[i]!;
      this.rackAdvance(flags, s + 1, sentUs);
      if ((flags & seg.retransmitted) !== 0) {
        if ((flags & seg.lost) !== 0) {
          flags &= ~(seg.lost | seg.retransmitted);
          this.lostOut--;
          this.retransOut--;
        }
      } else {
        if ((flags & seg.everRetransmitted) === 0) {
          if (s < (this.sackedOut > 0 ? this.fack : this.una) && s < this.reord) this.reord = s;
          if (s + 1 <= this.highSeq) this.flag |= f.origSackAcked;
          if (this.firstSackUs < 0) this.firstSackUs = sentUs;
          this.lastSackUs = sentUs;
        }
        if ((flags & seg.lost) !== 0) {
          flags &= ~seg.lost;
          this.lostOut--;
        }
      }
      flags |= seg.sacked;
      board.flags[i] = flags;
      this.flag |= f.dataSacked;
      if (this.sackedOut === 0 || s + 1 > this.fack) this.fack = s + 1;
      this.sackedOut++;
      this.sackDelivered++;
      this.rateDeliveredSegment(s, i);
      board.unlink(s);
      this.moveSacked(s);
      return;
    }
    if (isDup && (flags & seg.retransmitted) !== 0) {
      board.flags[i] = flags & ~seg.retransmitted;
      this.retransOut--;
    }
  }

  private sackRange(from: number, to: number, isDup: boolean): void {
    const first = Math.max(from, this.una);
    const last = Math.min(to, this.nxt);
    for (let s = first; s < last; s++) this.sackSegment(s, isDup);
  }

  /** tcp_sacktag_write_queue */
  private sackTag(packet: Packet, priorUna: number): void {
    const { blockFrom, blockTo, seenFrom, seenTo } = this;
    let n = packet.sacks;
    this.reord = this.nxt;
    blockFrom[0] = packet.sackFrom0; blockTo[0] = packet.sackTo0;
    if (n > 1) { blockFrom[1] = packet.sackFrom1; blockTo[1] = packet.sackTo1; }
    if (n > 2) { blockFrom[2] = packet.sackFrom2; blockTo[2] = packet.sackTo2; }
    if (packet.dsack) {
      const from = blockFrom[0]!;
      const to = blockTo[0]!;
      this.dsackSeen(from, to, priorUna);
      if (to > this.una) this.sackRange(from, to, true);
      for (let k = 1; k < n; k++) { blockFrom[k - 1] = blockFrom[k]!; blockTo[k - 1] = blockTo[k]!; }
      n--;
    }
    // Ascending, as Linux tags them.
    for (let k = 1; k < n; k++) {
      for (let j = k; j > 0 && blockFrom[j]! < blockFrom[j - 1]!; j--) {
        const from = blockFrom[j]!; blockFrom[j] = blockFrom[j - 1]!; blockFrom[j - 1] = from;
        const to = blockTo[j]!; blockTo[j] = blockTo[j - 1]!; blockTo[j - 1] = to;
      }
    }
    for (let k = 0; k < n; k++) {
      let from = blockFrom[k]!;
      const to = blockTo[k]!;
      // What the previous acknowledgement's blocks covered is SACKed already.
      for (let j = 0; j < this.seen; j++) {
        if (seenFrom[j]! < from || seenTo[j]! > to || seenTo[j]! <= from) continue;
        this.sackRange(from, seenFrom[j]!, false);
        from = seenTo[j]!;
      }
      this.sackRange(from, to, false);
    }
    for (let k = 0; k < n; k++) { seenFrom[k] = blockFrom[k]!; seenTo[k] = blockTo[k]!; }
    this.seen = n;
    if (this.state !== state.loss || this.undoMarker >= 0) this.checkReordering(this.reord);
  }

  /** tcp_check_dsack, tcp_dsack_seen */
  private dsackSeen(from: number, to: number, priorUna: number): void {
    const dup = to - from;
    if (dup <= 0 || dup * this.mss > this.maxWindow + this.mss) return;
    if (dup === 1 && this.tlpHigh !== 0 && this.tlpHigh === to) this.flag |= f.dsackTlp;
    this.dsackDups += dup;
    if (this.dsackDups > this.retransmits) return;
    if (this.reorderingSeen > 0 && (this.flag & f.dsackTlp) === 0) this.rackDsackSeen = true;
    this.flag |= f.dsacking;
    this.sackDelivered += dup;
    if (this.undoMarker >= 0 && this.undoRetrans > 0 && to <= priorUna && to > this.undoMarker) this.undoRetrans = Math.max(0, this.undoRetrans - dup);
  }

  /** tcp_ack */
  private onAck(packet: Packet): void {
    const { rs, board } = this;
    const ack = packet.ack;
    const priorUna = this.una;
    const priorPackets = this.packetsOut;
    const priorDelivered = this.delivered;
    const priorLost = this.lost;
    this.ackEcr = packet.tsEcr;
    this.flag = 0;
    this.firstSackUs = this.lastSackUs = -1;
    this.sackDelivered = 0;
    rs.priorDelivered = 0;
    let rexmit = rexmitNone;
    if (ack > this.nxt) return;
    if (ack < priorUna) {
      if (packet.sacks > 0) {
        this.sackTag(packet, priorUna);
        rexmit = this.fastRetransmitAlert(priorUna, rexmit);
        this.transmitRecovery(rexmit);
      }
      return;
    }
    if (ack > priorUna) {
      this.flag |= f.unaAdvanced | f.winUpdate;
      this.timeouts = 0;
    }
    const priorFack = this.sackedOut > 0 ? this.fack : priorUna;
    rs.priorInFlight = this.inFlight;
    const wndEnd = ack * this.mss + packet.window;
    if (this.model.bufferLimits && wndEnd > this.wndEnd) {
      this.wndEnd = wndEnd;
      if (packet.window > this.maxWindow) this.maxWindow = packet.window;
      this.flag |= f.winUpdate;
    }
    this.una = ack;
    if (packet.sacks > 0) this.sackTag(packet, priorUna);
    else this.seen = 0;
    if (packet.ece && this.ecnOk) this.flag |= f.ece;
    if (this.sackDelivered > 0) this.countDelivered(this.sackDelivered);
    if (priorPackets === 0) {
      this.cc.inAckEvent(this);
      if ((this.flag & f.dsacking) !== 0) this.fastRetransmitAlert(priorUna, rexmit);
      if (this.tlpHigh !== 0) this.processTlpAck(ack);
      return;
    }

    // tcp_clean_rtx_queue
    const priorSacked = this.sackedOut;
    let reord = this.nxt;
    let firstUs = -1;
    let lastUs = -1;
    let acked = 0;
    for (let s = priorUna; s < ack; s++) {
      const i = s & board.mask;
      const flags = board.flags[i]!;
      const sentUs = board.sentUs[i]!;
      if ((flags & (seg.retransmitted | seg.everRetransmitted)) !== 0) {
        if ((flags & seg.retransmitted) !== 0) this.retransOut--;
        this.flag |= f.retransAcked;
      } else if ((flags & seg.sacked) === 0) {
        lastUs = sentUs;
        if (firstUs < 0) firstUs = sentUs;
        if (s < reord) reord = s;
        if (s + 1 <= this.highSeq) this.flag |= f.origSackAcked;
      }
      if ((flags & seg.sacked) !== 0) this.sackedOut--;
      else {
        this.countDelivered(1);
        if (!((flags & (seg.retransmitted | seg.everRetransmitted)) !== 0 && this.ackEcr !== 0 && this.ackEcr < Math.floor(sentUs / 1000) + 1)) this.rackAdvance(flags, s + 1, sentUs);
      }
      if ((flags & seg.lost) !== 0) this.lostOut--;
      if ((flags & seg.burstEnd) !== 0) this.buffersOut--;
      this.packetsOut--;
      acked++;
      this.rateDeliveredSegment(s, i);
      board.unlink(s);
    }
    if (acked > 0) {
      this.flag |= f.dataAcked;
      if (this.shortSegments !== null && this.shortSegments.size > 0) this.forgetShort(priorUna, ack);
      if (this.retransmitHint >= 0 && this.retransmitHint < ack) this.retransmitHint = -1;
    }
    let seqRtt = -1;
    let sackRtt = -1;
    let caRtt = -1;
    if (firstUs >= 0 && (this.flag & f.retransAcked) === 0) {
      seqRtt = this.nowUs - firstUs;
      caRtt = this.nowUs - lastUs;
      if (acked === 1 && priorSacked === 0 && this.payloadOf(priorUna) < this.mss && rs.priorDelivered + 1 === this.delivered && (this.flag & caAlert) === 0) this.flag |= f.maybeDelayed;
    }
    if (this.firstSackUs >= 0) {
      sackRtt = this.nowUs - this.firstSackUs;
      caRtt = this.nowUs - this.lastSackUs;
    }
    // tcp_ack_update_rtt
    if (seqRtt < 0) seqRtt = sackRtt;
    if (seqRtt < 0 && this.ackEcr !== 0 && (this.flag & f.dataAcked) !== 0) seqRtt = caRtt = Math.max(1, this.nowMs - this.ackEcr) * 1000;
    rs.rttUs = caRtt;
    const rttUpdated = seqRtt >= 0;
    if (rttUpdated) {
      this.updateRttMin(caRtt);
      this.estimateRtt(seqRtt);
    }
    if (acked > 0) {
      this.flag |= f.setTimer;
      if (reord < priorFack) this.checkReordering(reord);
    } else if (rttUpdated && sackRtt >= 0 && this.packetsOut > 0 && sackRtt > this.nowUs - board.sentUs[this.una & board.mask]!) this.flag |= f.setTimer;
    this.cc.pktsAcked(this, acked, rs.rttUs);

    if (this.model.rack) this.updateReorderWindow();
    this.cc.inAckEvent(this);
    if (this.tlpHigh !== 0) this.processTlpAck(ack);
    if ((this.flag & notDup) === 0 || (this.flag & caAlert) !== 0 || this.state !== state.open) rexmit = this.fastRetransmitAlert(priorUna, rexmit);
    if ((this.flag & f.setTimer) !== 0) this.setTransmitTimer();
    const delivered = this.delivered - priorDelivered;
    const lost = this.lost - priorLost;
    rs.ackDelayed = (this.flag & f.maybeDelayed) !== 0;
    this.rateGenerate(delivered, lost);

    // tcp_cong_control
    if (this.cc.controlsRate) this.cc.control(this);
    else {
      if (this.inReduction()) this.reduce(delivered, lost);
      else if ((this.flag & (this.reordering > dupThreshold ? forwardProgress : f.dataAcked)) !== 0) this.cc.congAvoid(this, delivered);
      this.updatePacingRate();
    }
    this.transmitRecovery(rexmit);
  }

  private forgetShort(from: number, to: number): void {
    for (let s = from; s < to; s++) {
      const payload = this.shortSegments!.get(s);
      if (payload === undefined) continue;
      this.lackingBytes += this.mss - payload;
      this.shortSegments!.delete(s);
    }
  }

  /** tcp_update_pacing_rate, bytes/s: twice the current rate in slow start, 1.2 times after. */
  private updatePacingRate(): void {
    if (this.srttUs === 0) return;
    const ratio = this.cwnd < this.ssthresh / 2 ? 200 : 120;
    this.pacingRate = Math.floor((this.mss * 80000 * ratio * Math.max(this.cwnd, this.packetsOut)) / this.srttUs);
  }

  private transmitRecovery(rexmit: number): void {
    if (rexmit === rexmitNone) return;
    if (rexmit === rexmitNew) {
      this.output(push.all);
      if (this.nxt > this.highSeq) return;
      this.frto = false;
    }
    this.retransmitQueue();
  }

  private processTlpAck(ack: number): void {
    if (ack < this.tlpHigh) return;
    if (!this.tlpRetrans || (this.flag & f.dsackTlp) !== 0) this.tlpHigh = 0;
    else if (ack > this.tlpHigh) {
      this.initReduction();
      this.setState(state.cwr);
      this.endReduction();
      this.keepOpen();
    } else if ((this.flag & (f.unaAdvanced | notDup | f.dataSacked)) === 0) this.tlpHigh = 0;
  }

  /** tcp_process_loss */
  private processLoss(rexmit: number, dupAck: boolean): number {
    const recovered = this.una >= this.highSeq;
    if ((this.flag & f.unaAdvanced) !== 0 && this.tryUndoLoss(false)) return rexmit;
    if (this.frto) {
      if ((this.flag & f.origSackAcked) !== 0 && this.tryUndoLoss(true)) return rexmit;
      if (this.nxt > this.highSeq) {
        if ((this.flag & f.dataSacked) !== 0 || dupAck) this.frto = false;
      } else if ((this.flag & f.unaAdvanced) !== 0 && !recovered) {
        this.highSeq = this.nxt;
        if (this.nxt < this.end && this.windowAllows(this.nxt)) return rexmitNew;
        this.frto = false;
      }
    }
    if (recovered) {
      this.tryUndoRecovery();
      return rexmit;
    }
    return rexmitLost;
  }

  /** tcp_fastretrans_alert */
  private fastRetransmitAlert(priorUna: number, rexmitIn: number): number {
    const ece = (this.flag & f.ece) !== 0;
    const dupAck = (this.flag & (f.unaAdvanced | notDup | f.dsacking)) === 0;
    let rexmit = rexmitIn;
    if (this.packetsOut === 0) this.sackedOut = 0;
    if (ece) this.priorSsthresh = 0;

    if (this.state === state.open) this.retransStampMs = -1;
    else if (this.una >= this.highSeq) {
      if (this.state === state.cwr) {
        if (this.una !== this.highSeq) {
          this.endReduction();
          this.setState(state.open);
        }
      } else if (this.state === state.recovery) {
        this.tryUndoRecovery();
        this.endReduction();
      }
    }

    switch (this.state) {
      case state.recovery:
        if ((this.flag & f.unaAdvanced) !== 0 && this.tryUndoPartial(priorUna)) return rexmit;
        if (this.tryUndoDsack()) this.tryToOpen();
        this.identifyLoss();
        if (this.state !== state.recovery) {
          if (this.lostOut === 0) return rexmit;
          this.enterRecovery(ece);
        }
        break;
      case state.loss:
        rexmit = this.processLoss(rexmit, dupAck);
        this.identifyLoss();
        if (!(this.hasState(state.open) || (this.flag & f.lostRetrans) !== 0)) return rexmit;
        return this.maybeRecover(rexmit, ece);
      default:
        return this.maybeRecover(rexmit, ece);
    }
    return rexmitLost;
  }

  private hasState(which: number): boolean { return this.state === which; }

  private maybeRecover(rexmit: number, ece: boolean): number {
    if (this.state <= state.disorder) this.tryUndoDsack();
    this.identifyLoss();
    if (this.lostOut === 0) {
      this.tryToOpen();
      return rexmit;
    }
    this.enterRecovery(ece);
    return rexmitLost;
  }
}
