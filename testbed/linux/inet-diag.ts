/**
 * TCP sockets' own figures (struct tcp_info) by NETLINK_SOCK_DIAG: include/uapi/linux/{inet_diag,sock_diag,tcp}.h.
 * A descriptor belongs to the network namespace it was opened in and can be kept open. Two ways to ask: `dumpTcp`
 * visits every socket, `TcpLookups` asks for given connections with one system call out and one back for each 128.
 */

import { ReceiveMany } from './receive-many.js';
import { addressBytes } from './sockaddr.js';
import { SystemError, bindSocket, close, setsockoptInt, socket, stable, tryRecv, trySend } from './libc.js';

const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0o2000000;
const NETLINK_SOCK_DIAG = 4;
const SOCK_DIAG_BY_FAMILY = 20;
const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const NLM_F_REQUEST = 1;
const NLM_F_DUMP = 0x300;
const INET_DIAG_INFO = 2;
const SOL_SOCKET = 1;
const SO_RCVBUFFORCE = 33;
const IPPROTO_TCP = 6;
/** nlmsghdr 16 + inet_diag_req_v2 56. */
const requestBytes = 72;
/** States of sockets that have figures: all but LISTEN (10), TIME_WAIT (6) and the request sockets (3, 12). */
const statesWithInfo = (1 << 1) | (1 << 2) | (1 << 4) | (1 << 5) | (1 << 8) | (1 << 9) | (1 << 11);
/** TCP_INFINITE_SSTHRESH (include/net/tcp.h). */
export const infiniteSsthresh = 0x7fffffff;

/**
 * One socket. The same object is handed to every visit: read it then, do not keep it. Fields beyond what the
 * kernel's struct has (older kernels have a shorter one) are NaN.
 */
export class TcpDiag {
  private view: DataView = new DataView(new ArrayBuffer(0));
  private message = 0;
  private info = 0;
  private infoEnd = 0;

  /** @internal `message`: offset of inet_diag_msg; `info`, `infoEnd`: tcp_info's bytes. */
  set(view: DataView, message: number, info: number, infoEnd: number): void {
    this.view = view;
    this.message = message;
    this.info = info;
    this.infoEnd = infoEnd;
  }
  private u8(at: number): number { return this.info + at + 1 <= this.infoEnd ? this.view.getUint8(this.info + at) : NaN; }
  private u32(at: number): number { return this.info + at + 4 <= this.infoEnd ? this.view.getUint32(this.info + at, true) : NaN; }
  private u64(at: number): number {
    return this.info + at + 8 <= this.infoEnd ? this.view.getUint32(this.info + at + 4, true) * 0x1_0000_0000 + this.view.getUint32(this.info + at, true) : NaN;
  }

  /** TCP state: 1 ESTABLISHED, 2 SYN_SENT, 4 FIN_WAIT1, 5 FIN_WAIT2, 8 CLOSE_WAIT, 9 LAST_ACK, 11 CLOSING. */
  get state(): number { return this.view.getUint8(this.message + 1); }
  get sourcePort(): number { return this.view.getUint16(this.message + 4); }
  get destinationPort(): number { return this.view.getUint16(this.message + 6); }
  /** Local address as hex, 8 digits (IPv4, also of a dual-stack socket) or 32: see `addressHex`. */
  get source(): string { return this.address(8); }
  get destination(): string { return this.address(24); }
  private address(at: number): string {
    const from = this.message + at;
    const hex = (offset: number) => this.view.getUint32(offset).toString(16).padStart(8, '0');
    if (this.view.getUint8(this.message) === AF_INET) return hex(from);
    const words = [hex(from), hex(from + 4), hex(from + 8), hex(from + 12)];
    return words[0] === '00000000' && words[1] === '00000000' && words[2] === '0000ffff' ? words[3]! : words.join('');
  }
  /** True for a dual-stack socket that carries IPv4. */
  get mapped(): boolean { return this.view.getUint8(this.message) === AF_INET6 && this.source.length === 8; }

  /** Congestion-avoidance state: 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss. */
  get caState(): number { return this.u8(1); }
  /** Whether both ends agreed on ECN: TCPI_OPT_ECN of tcpi_options. */
  get ecn(): boolean { return (this.u8(5) & 8) !== 0; }
  /** Retransmission time-out, ns. */
  get rtoNs(): number { return this.u32(8) * 1000; }
  /** Bytes. */
  get sendMss(): number { return this.u32(16); }
  /** Packets sent and not yet cumulatively acknowledged. */
  get unacked(): number { return this.u32(24); }
  get sacked(): number { return this.u32(28); }
  get lost(): number { return this.u32(32); }
  /** Retransmitted and not yet acknowledged, packets. */
  get retransmitsInFlight(): number { return this.u32(36); }
  /** Packets in flight as the kernel counts them: tcp_packets_in_flight(), include/net/tcp.h. */
  get inFlight(): number { return this.unacked - this.sacked - this.lost + this.retransmitsInFlight; }
  get srttNs(): number { return this.u32(68) * 1000; }
  get rttvarNs(): number { return this.u32(72) * 1000; }
  /** Packets; `infiniteSsthresh` until the first reduction. */
  get ssthresh(): number { return this.u32(76); }
  /** Packets. */
  get cwnd(): number { return this.u32(80); }
  /** Segments retransmitted since the connection began. */
  get retransmits(): number { return this.u32(100); }
  /** bits/s; NaN while unlimited (~0). */
  get pacingRateBps(): number {
    const bytes = this.u64(104);
    return bytes >= 2 ** 63 ? NaN : bytes * 8;
  }
  get bytesAcked(): number { return this.u64(120); }
  /** Payload bytes received in order. */
  get bytesReceived(): number { return this.u64(128); }
  get segmentsOut(): number { return this.u32(136); }
  get segmentsIn(): number { return this.u32(140); }
  get notSentBytes(): number { return this.u32(144); }
  /** ns; NaN before the first sample (~0). */
  get minRttNs(): number {
    const us = this.u32(148);
    return us === 0xffffffff ? NaN : us * 1000;
  }
  get dataSegmentsIn(): number { return this.u32(152); }
  get dataSegmentsOut(): number { return this.u32(156); }
  /** bits/s; 0 before the first sample. */
  get deliveryRateBps(): number { return this.u64(160) * 8; }
  /** Segments delivered, and those of them acknowledged with ECE. */
  get delivered(): number { return this.u32(192); }
  get deliveredCe(): number { return this.u32(196); }
  /** Payload bytes sent, retransmissions included. */
  get bytesSent(): number { return this.u64(200); }
  get bytesRetransmitted(): number { return this.u64(208); }
}

const answer = stable(256 * 1024);
const answerView = new DataView(answer.buffer);
const request = stable(requestBytes);
/** Answers to look-ups: one datagram each, about half a KiB. */
const batch = new ReceiveMany(128, 1024);
const found = new TcpDiag();

/** A socket-diagnosis descriptor of the namespace this thread is in now. Close it with libc's close. @throws SystemError */
export function openDiag(): number {
  const fd = socket(AF_NETLINK, SOCK_RAW_CLOEXEC, NETLINK_SOCK_DIAG);
  try {
    const address = stable(12);
    address.writeUInt16LE(AF_NETLINK, 0);
    bindSocket(fd, address, 12);
    // Room for the answers of one batch of look-ups (about 1.3 KiB of kernel memory each).
    setsockoptInt(fd, SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20);
  } catch (error) {
    close(fd);
    throw error;
  }
  return fd;
}

/** A textual address as the hex that TcpDiag.source and .destination give: `10.0.0.1` → `0a000001`, `fd00::1` → 32 digits. @throws TypeError */
export const addressHex = (text: string): string => addressBytes(text).toString('hex');

function writeRequest(out: Buffer, at: number, family: number, flags: number, sequence: number): void {
  out.fill(0, at, at + requestBytes);
  out.writeUInt32LE(requestBytes, at);
  out.writeUInt16LE(SOCK_DIAG_BY_FAMILY, at + 4);
  out.writeUInt16LE(flags, at + 6);
  out.writeUInt32LE(sequence, at + 8);
  out[at + 16] = family;
  out[at + 17] = IPPROTO_TCP;
  out[at + 18] = 1 << (INET_DIAG_INFO - 1);
  out.writeUInt32LE(statesWithInfo, at + 20);
  out.writeUInt32LE(0xffffffff, at + 64); // INET_DIAG_NOCOOKIE
  out.writeUInt32LE(0xffffffff, at + 68);
}

/** One inet_diag_msg at [from, to): sets `found` when it has tcp_info. */
function parseSocket(view: DataView, from: number, to: number): boolean {
  for (let at = from + 72; at + 4 <= to;) {
    const length = view.getUint16(at, true);
    if (length < 4 || at + length > to) return false;
    if (view.getUint16(at + 2, true) === INET_DIAG_INFO) {
      found.set(view, from, at + 4, at + length);
      return true;
    }
    at += (length + 3) & ~3;
  }
  return false;
}

/** Messages of one received datagram. `each` gets (type, flags, sequence, payload from, payload to). Malformed lengths end it. */
function messages(view: DataView, start: number, end: number, each: (type: number, flags: number, sequence: number, from: number, to: number) => void): void {
  for (let at = start; at + 16 <= end;) {
    const length = view.getUint32(at, true);
    if (length < 16 || at + length > end) return;
    each(view.getUint16(at + 4, true), view.getUint16(at + 6, true), view.getUint32(at + 8, true), at + 16, at + length);
    at += (length + 3) & ~3;
  }
}

let sequence = 0;

function dumpFamily(fd: number, family: number, visit: (socket: TcpDiag) => void): void {
  const mine = ++sequence >>> 0;
  writeRequest(request, 0, family, NLM_F_REQUEST | NLM_F_DUMP, mine);
  const sent = trySend(fd, request, requestBytes, 0);
  if (sent < 0) throw new SystemError('send', -sent, 'inet_diag dump');
  for (let done = false; !done;) {
    const bytes = tryRecv(fd, answer, answer.length, 0);
    if (bytes === -4 /* EINTR */) continue;
    if (bytes < 0) throw new SystemError('recv', -bytes, 'inet_diag dump');
    messages(answerView, 0, bytes, (type, _flags, answered, from, to) => {
      if (answered !== mine) return; // left over from an earlier, abandoned question
      if (type === NLMSG_DONE) done = true;
      else if (type === NLMSG_ERROR) throw new SystemError('inet_diag', -answerView.getInt32(from, true));
      else if (type === SOCK_DIAG_BY_FAMILY && to - from >= 72 && parseSocket(answerView, from, to)) visit(found);
    });
  }
}

/**
 * Every TCP socket of the descriptor's namespace that carries `family` and has figures (not LISTEN, not TIME_WAIT).
 * For 4 also the dual-stack sockets that carry IPv4, as iperf3's server has. `visit` must not call dumpTcp.
 * @throws SystemError (ENOENT: the kernel has no INET_TCP_DIAG)
 */
export function dumpTcp(fd: number, family: 4 | 6, visit: (socket: TcpDiag) => void): void {
  if (family === 4) {
    dumpFamily(fd, AF_INET, visit);
    dumpFamily(fd, AF_INET6, (socket) => { if (socket.mapped) visit(socket); });
  } else {
    dumpFamily(fd, AF_INET6, (socket) => { if (!socket.mapped) visit(socket); });
  }
}

/** Addresses as `addressHex` gives them; ports in host order; `source` is the local end. */
export interface TcpTuple { readonly source: string; readonly sourcePort: number; readonly destination: string; readonly destinationPort: number }

/** Questions for given connections of one namespace, sent together: one send and as few receives as the kernel allows. */
export class TcpLookups {
  private requests = stable(requestBytes * 16);
  private count = 0;
  private readonly keys: number[] = [];

  constructor(private readonly fd: number) {}

  clear(): void {
    this.count = 0;
    this.keys.length = 0;
  }

  /** Adds a question; `key` comes back with its answer. */
  add(key: number, tuple: TcpTuple): void {
    const at = this.count * requestBytes;
    if (at === this.requests.length) {
      const larger = stable(this.requests.length * 2);
      this.requests.copy(larger);
      this.requests = larger;
    }
    const ipv4 = tuple.source.length === 8;
    writeRequest(this.requests, at, ipv4 ? AF_INET : AF_INET6, NLM_F_REQUEST, 0);
    this.requests.writeUInt16BE(tuple.sourcePort, at + 24);
    this.requests.writeUInt16BE(tuple.destinationPort, at + 26);
    this.requests.write(tuple.source, at + 28, 'hex');
    this.requests.write(tuple.destination, at + 44, 'hex');
    this.keys.push(key);
    this.count++;
  }

  /**
   * Asks all questions. `visit` is called for each connection that exists, `absent` for each that does not (never
   * opened, already gone, or in TIME_WAIT). @throws SystemError
   */
  ask(visit: (key: number, socket: TcpDiag) => void, absent: (key: number) => void): void {
    // Batches: their answers must fit the receive buffer.
    for (let first = 0; first < this.count; first += 512) this.askSome(first, Math.min(this.count, first + 512), visit, absent);
  }

  private askSome(first: number, end: number, visit: (key: number, socket: TcpDiag) => void, absent: (key: number) => void): void {
    const base = (sequence + 1) >>> 0;
    sequence = (sequence + end - first) >>> 0;
    for (let i = first; i < end; i++) this.requests.writeUInt32LE((base + i - first) >>> 0, i * requestBytes + 8);
    const sent = trySend(this.fd, this.requests.subarray(first * requestBytes, end * requestBytes), (end - first) * requestBytes, 0);
    if (sent < 0) throw new SystemError('send', -sent, 'inet_diag look-up');
    for (let left = end - first; left > 0;) {
      // The kernel answered before send returned: nothing to wait for.
      const received = batch.receive(this.fd);
      if (received === -4 /* EINTR */) continue;
      if (received < 0) throw new SystemError('recvmmsg', -received, 'inet_diag look-up');
      for (let i = 0; i < received; i++) {
        messages(batch.view, batch.offset(i), batch.offset(i) + batch.length(i), (type, _flags, answered, from, to) => {
          const index = (answered - base) >>> 0;
          if (index >= end - first) return;
          const key = this.keys[first + index]!;
          if (type === SOCK_DIAG_BY_FAMILY) {
            left--;
            if (to - from >= 72 && parseSocket(batch.view, from, to)) visit(key, found);
            else absent(key);
          } else if (type === NLMSG_ERROR) {
            left--;
            const error = batch.view.getInt32(from, true);
            if (error === -2 /* ENOENT */) absent(key);
            else throw new SystemError('inet_diag look-up', -error);
          }
        });
      }
    }
  }
}
