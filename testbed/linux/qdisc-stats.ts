/**
 * Statistics of chosen queue disciplines by rtnetlink, without a dump: one send asks for all of a network namespace,
 * one recvmmsg takes the answers, of several askings at once. RTM_GETQDISC by handle (tc_get_qdisc, net/sched/sch_api.c) is answered to whom it
 * was asked only with NLM_F_ECHO set (qdisc_get_notify), and before send returns. No dump means no walk over every
 * device, and system calls do not grow with the number of queues.
 */

import { ReceiveMany } from './receive-many.js';
import { SystemError, bindSocket, close, socket, stable, trySend } from './libc.js';

const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0o2000000;
const NETLINK_ROUTE = 0;
const RTM_NEWQDISC = 36;
const RTM_GETQDISC = 38;
const NLMSG_ERROR = 2;
const NLM_F_REQUEST = 1;
const NLM_F_ECHO = 8;
const [TCA_KIND, TCA_OPTIONS, TCA_STATS2] = [1, 2, 7] as const;
const [TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP, TCA_STATS_PKT64] = [1, 3, 4, 8] as const;
/** nlmsghdr 16 + tcmsg 20. */
const requestBytes = 36;
/** The longest answer known is CAKE's with eight tins, about 2 KiB; the kernel allocates a page for each (NLMSG_GOODSIZE). */
const answerBytes = 8192;

/** One answer; the same object at every visit. Bytes and packets are as qdisc_pkt_len counts: with the Ethernet header or the size table. */
export class QdiscStats {
  kind = '';
  /** Left the queue so far: bytes, packets (segments of a superpacket counted each). */
  sentBytes = NaN;
  sentPackets = NaN;
  drops = NaN;
  backlogBytes = NaN;
  backlogPackets = NaN;
  /** TCA_STATS_APP: the discipline's own, valid during the visit; absent where it has none. */
  own: Buffer | undefined;
  /** TCA_OPTIONS: some disciplines keep statistics there. As above. */
  options: Buffer | undefined;
}

/** Answers that may wait in the socket: each takes a page and more of its receive buffer (212992 bytes by default). */
const mostWaiting = 32;

export interface QdiscPlace { readonly ifindex: number; /** tc handle, `10:` = 0x00100000. */ readonly handle: number }

export class QdiscStatsReader {
  private readonly fd: number;
  private readonly requests: Buffer;
  private readonly answers: ReceiveMany;
  private readonly stats = new QdiscStats();
  /** Sequence number of the first request since the last collection. */
  private base = 1;

  /** Opens its socket in the network namespace this thread is in. @throws SystemError */
  constructor(places: readonly QdiscPlace[]) {
    this.requests = stable(Math.max(1, places.length) * requestBytes);
    places.forEach(({ ifindex, handle }, i) => {
      const at = i * requestBytes;
      this.requests.writeUInt32LE(requestBytes, at);
      this.requests.writeUInt16LE(RTM_GETQDISC, at + 4);
      this.requests.writeUInt16LE(NLM_F_REQUEST | NLM_F_ECHO, at + 6);
      this.requests.writeInt32LE(ifindex, at + 20);
      this.requests.writeUInt32LE(handle, at + 24);
    });
    this.count = places.length;
    this.depth = Math.max(1, Math.floor(mostWaiting / Math.max(1, places.length)));
    this.answers = new ReceiveMany(Math.max(1, places.length) * this.depth, answerBytes);
    this.fd = socket(AF_NETLINK, SOCK_RAW_CLOEXEC, NETLINK_ROUTE);
    try {
      const address = stable(12);
      address.writeUInt16LE(AF_NETLINK, 0);
      bindSocket(this.fd, address, 12);
    } catch (error) {
      close(this.fd);
      throw error;
    }
  }
  private readonly count: number;

  /** How many askings may wait to be collected. */
  readonly depth: number;
  private asked = 0;

  /**
   * Asks for all places. The kernel answers before this returns, with the figures of this very moment; the answers wait
   * in the socket until `collect`. @returns true when `collect` must be called before the next asking
   * @throws SystemError
   */
  ask(): boolean {
    if (this.count === 0) return false;
    const first = this.base + this.asked * this.count;
    for (let i = 0; i < this.count; i++) this.requests.writeUInt32LE(first + i, i * requestBytes + 8);
    const sent = trySend(this.fd, this.requests, this.requests.length, 0);
    if (sent < 0) throw new SystemError('send', -sent, 'queue statistics');
    return ++this.asked === this.depth;
  }

  /**
   * Takes all answers that wait, in order of asking (`asking` 0 … since the last collection). `visit` gets each with the
   * place's index; `absent` those that have no such queue discipline any more, with errno (2 ENOENT, 19 ENODEV), or 0
   * when the kernel gave no answer. @throws SystemError
   */
  collect(visit: (asking: number, index: number, stats: QdiscStats) => void, absent: (asking: number, index: number, errno: number) => void): void {
    const expected = this.asked * this.count;
    const seen = new Uint8Array(expected);
    let answered = 0;
    while (answered < expected) {
      const received = this.answers.receive(this.fd);
      if (received === -4 /* EINTR */) continue;
      if (received === -11 /* EAGAIN */) break;
      if (received < 0) throw new SystemError('recvmmsg', -received, 'queue statistics');
      for (let i = 0; i < received; i++) {
        const from = this.answers.offset(i);
        const to = from + this.answers.length(i);
        for (let at = from; at + 16 <= to;) {
          const length = this.answers.view.getUint32(at, true);
          if (length < 16 || at + length > to) break;
          const which = this.answers.view.getUint32(at + 8, true) - this.base;
          const type = this.answers.view.getUint16(at + 4, true);
          if (which >= 0 && which < expected && (type === RTM_NEWQDISC || type === NLMSG_ERROR)) {
            answered++;
            seen[which] = 1;
            const asking = Math.floor(which / this.count);
            const index = which % this.count;
            if (type === NLMSG_ERROR) absent(asking, index, -this.answers.view.getInt32(at + 16, true));
            else if (this.decode(at + requestBytes, at + length)) visit(asking, index, this.stats);
            else absent(asking, index, 0);
          }
          at += (length + 3) & ~3;
        }
      }
    }
    if (answered < expected) seen.forEach((value, which) => { if (value === 0) absent(Math.floor(which / this.count), which % this.count, 0); });
    this.asked = 0;
    this.base = this.base + expected > 0x7fff0000 ? 1 : this.base + expected;
  }

  private decode(from: number, to: number): boolean {
    const { stats } = this;
    const { view, data } = this.answers;
    stats.own = stats.options = undefined;
    stats.sentBytes = stats.sentPackets = stats.drops = stats.backlogBytes = stats.backlogPackets = NaN;
    let found = false;
    attributes(view, from, to, (type, at, end) => {
      if (type === TCA_KIND) {
        // The same text as before needs no new string.
        if (!sameText(data, at, end, stats.kind)) stats.kind = data.toString('latin1', at, Math.max(at, end - 1));
      } else if (type === TCA_OPTIONS) {
        stats.options = data.subarray(at, end);
      } else if (type === TCA_STATS2) {
        found = true;
        attributes(view, at, end, (inner, innerAt, innerEnd) => {
          const bytes = innerEnd - innerAt;
          if (inner === TCA_STATS_BASIC && bytes >= 12) {
            stats.sentBytes = u64(view, innerAt);
            if (Number.isNaN(stats.sentPackets)) stats.sentPackets = view.getUint32(innerAt + 8, true);
          } else if (inner === TCA_STATS_PKT64 && bytes >= 8) {
            stats.sentPackets = u64(view, innerAt);
          } else if (inner === TCA_STATS_QUEUE && bytes >= 12) {
            stats.backlogPackets = view.getUint32(innerAt, true);
            stats.backlogBytes = view.getUint32(innerAt + 4, true);
            stats.drops = view.getUint32(innerAt + 8, true);
          } else if (inner === TCA_STATS_APP) {
            stats.own = data.subarray(innerAt, innerEnd);
          }
        });
      }
    });
    return found;
  }

  close(): void {
    close(this.fd);
  }
}

const u64 = (view: DataView, at: number): number => view.getUint32(at + 4, true) * 0x1_0000_0000 + view.getUint32(at, true);

function sameText(data: Buffer, at: number, end: number, text: string): boolean {
  if (end - at !== text.length + 1) return false;
  for (let i = 0; i < text.length; i++) if (data[at + i] !== text.charCodeAt(i)) return false;
  return true;
}

/** Netlink attributes in [from, to); malformed lengths end it. */
function attributes(view: DataView, from: number, to: number, each: (type: number, from: number, to: number) => void): void {
  for (let at = from; at + 4 <= to;) {
    const length = view.getUint16(at, true);
    if (length < 4 || at + length > to) return;
    each(view.getUint16(at + 2, true) & 0x3fff, at + 4, at + length);
    at += (length + 3) & ~3;
  }
}
