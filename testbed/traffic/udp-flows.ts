/**
 * The built-in generator's UDP flows: constant bit rate and on-off. Datagram k of a burst leaves at burst start +
 * k × (IP packet size × 8 / rate), a product and so without drift. Its payload begins with the flow's id and a
 * sequence number (u32 each, big-endian), so that each datagram is known again: one that a path duplicated counts once.
 *
 * Receivers are not woken by datagrams: these wait in the socket's buffer and are taken by the hundred (recvmmsg, of each only
 * the header), at times chosen so that the buffer never fills, and at the window's edges. So receiving costs a system
 * call for hundreds of datagrams, and the counts at the edges are exact.
 */

import * as os from 'node:os';
import { AlreadyTold } from '../agent/context.js';
import type { AgentContext } from '../agent/context.js';
import { UserError } from '../errors.js';
import { SystemError, bindSocket, close, setsockoptInt, socket, stable, tryConnect, tryGetsockopt, trySend } from '../linux/libc.js';
import { ReceiveMany } from '../linux/receive-many.js';
import { AF_INET, familyOf, socketAddress } from '../linux/sockaddr.js';
import type { PlanFlow } from '../plan/plan.js';
import { emptyRow } from './flow-log.js';
import type { FlowDraft, FlowLog } from './flow-log.js';
import { SequenceWindow } from './sequence-window.js';

const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const [SO_REUSEADDR, SO_RCVBUF, SO_RCVBUFFORCE, SO_MEMINFO] = [2, 8, 33, 55] as const;
const SK_MEMINFO_DROPS = 8;
const [IPPROTO_IP, IP_TOS, IPPROTO_IPV6, IPV6_TCLASS] = [0, 1, 41, 67] as const;
const ECT0 = 2;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const { EAGAIN, ENOBUFS } = os.constants.errno;

const udpHeader = 8;
const ipHeader = (address: string): number => (familyOf(address) === AF_INET ? 20 : 40);
/** UDP payload bytes of a flow's datagrams. */
export const payloadBytes = (plan: PlanFlow): number => (plan.packetBytes ?? 0) - ipHeader(plan.srcAddress) - udpHeader;

/** Bytes of the payload that say which datagram it is: flow, number. */
export const headerBytes = 8;
/** Smallest IP packet of a flow, bytes. */
export const smallestPacket = (plan: PlanFlow): number => ipHeader(plan.srcAddress) + udpHeader + headerBytes;

/** Sequence numbers remembered at most: 128 KiB a flow, 12 s of 1 Gbit/s in full-sized packets. */
const mostRemembered = 2 ** 20;
/** Receive buffer asked for; the kernel takes twice that for its own accounting. */
const receiveBuffer = 8 << 20;
/** Between two takings: a flow's datagrams fill at most a quarter of its buffer, and those of all flows this much memory. */
const mostWaiting = 32 << 20;
const [shortestNs, longestNs] = [2e6, 1e9] as const;
/** Memory a waiting datagram is charged for, at most: what the allocator rounds its bytes up to, and struct sk_buff. */
const chargedBytes = (packetBytes: number): number => 2 * packetBytes + 1024;

/** How often each flow's datagrams are taken, ns. */
export function takingIntervals(plans: readonly PlanFlow[]): number[] {
  const perSecond = plans.map(({ rateBps, packetBytes }) => ((rateBps ?? 0) / 8 / (packetBytes ?? 1)) * chargedBytes(packetBytes ?? 0));
  const alone = perSecond.map((rate) => Math.min(longestNs, ((receiveBuffer / 2) * 1e9) / Math.max(1, rate)));
  const together = alone.reduce((sum, interval, i) => sum + (perSecond[i]! * interval) / 1e9, 0);
  const share = Math.min(1, mostWaiting / Math.max(1, together));
  return alone.map((interval) => Math.max(shortestNs, Math.floor(interval * share)));
}

class UdpFlow {
  readonly row: FlowDraft;
  readonly payload: Buffer;
  readonly intervalNs: number;
  readonly bursts: readonly (readonly [number, number])[];
  sender = -1;
  receiver = -1;
  readonly arrived: SequenceWindow;
  burst = 0;
  /** Datagram of the burst that is due next. */
  next = 0;
  sent = 0;
  /** Refused by a full send buffer (the access link is slower than the flow). */
  refused = 0;
  over = false;

  constructor(readonly plan: PlanFlow, endNs: number) {
    this.row = emptyRow(plan.id);
    if ((plan.packetBytes ?? 0) < smallestPacket(plan)) {
      throw new UserError(`flow ${plan.id} (${plan.class}): packets of ${plan.packetBytes} bytes are too small: the IP and UDP headers and the number of each datagram take ${smallestPacket(plan)}; set packet to at least ${smallestPacket(plan)}B`);
    }
    this.payload = stable(payloadBytes(plan));
    this.intervalNs = ((plan.packetBytes ?? 0) * 8e9) / (plan.rateBps ?? 1);
    const stopNs = Math.min(plan.stopNs ?? endNs, endNs);
    this.bursts = (plan.bursts ?? [[plan.startNs, stopNs] as const])
      .map(([from, to]) => [Math.max(from, plan.startNs), Math.min(to, stopNs)] as const)
      .filter(([from, to]) => from < to);
    this.payload.writeUInt32BE(plan.id, 0);
    const datagrams = this.bursts.reduce((sum, [from, to]) => sum + Math.ceil((to - from) / this.intervalNs), 0);
    this.arrived = new SequenceWindow(Math.min(datagrams, mostRemembered));
  }
}

export class UdpFlows {
  private readonly flows: readonly UdpFlow[];
  private readonly many = new ReceiveMany(256, headerBytes);
  private readonly memory = stable(9 * 4);
  private readonly memoryLength = stable(4);
  /** How long the last counts stood still once sending was over, for `finished`. */
  private quiet = { total: -1, sinceNs: 0 };

  constructor(private readonly context: AgentContext, plans: readonly PlanFlow[], private readonly log: FlowLog) {
    this.flows = plans.map((plan) => new UdpFlow(plan, context.endNs));
  }

  start(): void {
    const { loop, plan, endNs } = this.context;
    const intervals = takingIntervals(this.flows.map(({ plan: each }) => each));
    this.flows.forEach((flow, i) => {
      this.open(flow);
      const first = flow.bursts[0];
      if (first === undefined) return;
      loop.at(first[0], (now) => this.tick(flow, now));
      loop.every(first[0] + intervals[i]!, intervals[i]!, Infinity, () => this.take(flow));
    });
    loop.at(plan.warmupNs, () => this.readEdge('warmup'));
    loop.at(endNs, () => this.readEdge('end'));
  }

  end(): void {
    for (const flow of this.flows) flow.over = true;
  }

  /** When nothing more arrived for longer than the longest path takes. */
  finished(): boolean {
    if (this.flows.length === 0) return true;
    const now = this.context.now();
    let total = 0;
    let sent = 0;
    for (const flow of this.flows) {
      this.take(flow);
      total += flow.arrived.received;
      sent += flow.sent;
    }
    if (total >= sent) return true;
    if (total !== this.quiet.total) this.quiet = { total, sinceNs: now };
    return now - this.quiet.sinceNs > 500e6 + 2 * Math.max(...this.flows.map(({ plan }) => plan.baseRttNs));
  }

  stop(): void {
    for (const flow of this.flows) {
      const { row } = flow;
      if (row.t_start !== null) {
        this.take(flow);
        const { received, duplicates } = flow.arrived;
        row.bytes = received * flow.payload.length;
        row.bytes_sent = flow.sent * flow.payload.length;
        row.packets_sent = flow.sent;
        row.packets_lost = flow.sent - received;
        row.packets_duplicated = duplicates;
        row.bytes_at_warmup ??= 0;
        row.bytes_at_end ??= row.bytes;
      }
      if (flow.refused > 0) {
        this.context.finding('warning', 'udp-sender-blocked', `flow ${flow.plan.id} (${flow.plan.class}): ${flow.refused} datagrams could not be sent because ${flow.plan.src}'s own link was full; give the host a faster access link or the flow a lower rate`);
      }
      this.sayUncounted(flow);
      this.log.append(row);
      if (flow.sender >= 0) close(flow.sender);
      if (flow.receiver >= 0) close(flow.receiver);
      flow.sender = flow.receiver = -1;
    }
  }

  private open(flow: UdpFlow): void {
    const { plan } = flow;
    const family = familyOf(plan.srcAddress);
    const type = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    const from = socketAddress(plan.srcAddress, plan.srcPort);
    const to = socketAddress(plan.dstAddress, plan.dstPort);
    flow.receiver = this.context.inNode(plan.dst, () => socket(family, type, 0));
    setsockoptInt(flow.receiver, SOL_SOCKET, SO_REUSEADDR, 1);
    this.enlargeBuffer(flow.receiver);
    this.bind(plan, flow.receiver, to, plan.dst);
    this.connect(plan, flow.receiver, from, plan.dst);
    flow.sender = this.context.inNode(plan.src, () => socket(family, type, 0));
    setsockoptInt(flow.sender, SOL_SOCKET, SO_REUSEADDR, 1);
    if (plan.ecn) {
      if (family === AF_INET) setsockoptInt(flow.sender, IPPROTO_IP, IP_TOS, ECT0);
      else setsockoptInt(flow.sender, IPPROTO_IPV6, IPV6_TCLASS, ECT0);
    }
    this.bind(plan, flow.sender, from, plan.src);
    this.connect(plan, flow.sender, to, plan.src);
  }

  private enlargeBuffer(fd: number): void {
    try {
      setsockoptInt(fd, SOL_SOCKET, SO_RCVBUFFORCE, receiveBuffer);
    } catch (error) {
      if (!(error instanceof SystemError) || error.code !== 'EPERM') throw error;
      setsockoptInt(fd, SOL_SOCKET, SO_RCVBUF, receiveBuffer); // as much as net.core.rmem_max allows; an overflow is seen at the end
    }
  }

  private bind(plan: PlanFlow, fd: number, address: Buffer, host: string): void {
    try {
      bindSocket(fd, address, address.length);
    } catch (error) {
      const port = address.readUInt16BE(2);
      this.context.finding('failed', error instanceof SystemError && error.code === 'EADDRINUSE' ? 'port-taken' : 'bind-failed',
        `flow ${plan.id} (${plan.class}): UDP port ${port} of ${host}: ${(error as Error).message}. Another program in that host uses the port, or the address is not configured there.`);
      throw new AlreadyTold();
    }
  }

  private connect(plan: PlanFlow, fd: number, address: Buffer, host: string): void {
    const result = tryConnect(fd, address, address.length);
    if (result < 0) throw new SystemError('connect', -result, `UDP flow ${plan.id} (${plan.class}) in ${host}`);
  }

  /** Sends what is due and sets the next time. */
  private tick(flow: UdpFlow, nowNs: number): void {
    if (flow.over) return;
    const { row, bursts } = flow;
    row.t_start ??= nowNs;
    row.status = 'running';
    for (;;) {
      const [from, to] = bursts[flow.burst]!;
      const due = from + flow.next * flow.intervalNs;
      if (due >= to) {
        flow.burst++;
        flow.next = 0;
        if (flow.burst === bursts.length) {
          this.endOfSending(flow, to);
          return;
        }
        continue;
      }
      if (due > nowNs) {
        this.context.loop.at(due, (now) => this.tick(flow, now));
        return;
      }
      flow.next++;
      this.send(flow);
    }
  }

  private send(flow: UdpFlow): void {
    const { payload } = flow;
    payload.writeUInt32BE(flow.sent, 4); // 2^32 datagrams are 14 hours of 1 Gbit/s in the smallest packets
    const result = trySend(flow.sender, payload, payload.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result >= 0 || result === -ENOBUFS) { // ENOBUFS: dropped by a queue of the sender's own
      flow.sent++;
    } else if (result === -EAGAIN) {
      flow.refused++;
    } else {
      flow.over = true;
      flow.row.status = 'failed';
      flow.row.error = new SystemError('send', -result).message;
    }
  }

  private endOfSending(flow: UdpFlow, atNs: number): void {
    const { row } = flow;
    flow.over = true;
    if (row.status === 'failed') return;
    row.t_end = atNs;
    row.status = atNs >= this.context.endNs ? 'running' : 'complete';
    if (row.status === 'running') row.t_end = null;
    row.bytes_sent = flow.sent * flow.payload.length;
    row.packets_sent = flow.sent;
    this.log.append(row); // what is known so far; the last line, with what was received, follows when the run ends
  }

  private readEdge(edge: 'warmup' | 'end'): void {
    for (const flow of this.flows) {
      if (flow.row.t_start === null) continue;
      this.take(flow);
      flow.row[`bytes_at_${edge}`] = flow.arrived.received * flow.payload.length;
    }
  }

  /** Counts the datagrams that wait in the receiver's buffer. */
  private take(flow: UdpFlow): void {
    if (flow.receiver < 0) return;
    const { many } = this;
    for (;;) {
      const count = many.receive(flow.receiver);
      if (count < 0 && count !== -EAGAIN) throw new SystemError('recvmmsg', -count, `UDP flow ${flow.plan.id} (${flow.plan.class}) in ${flow.plan.dst}`);
      for (let i = 0; i < count; i++) flow.arrived.add(many.view.getUint32(many.offset(i) + 4));
      if (count < many.slots) return;
    }
  }

  /** What the counts may miss. */
  private sayUncounted(flow: UdpFlow): void {
    const { plan, arrived, receiver } = flow;
    if (arrived.tooLate > 0) {
      this.context.finding('warning', 'udp-too-late', `flow ${plan.id} (${plan.class}): ${arrived.tooLate} datagrams arrived more than ${arrived.size} datagrams late, too late to know whether they were copies; they count as lost`);
    }
    if (receiver < 0) return;
    this.memoryLength.writeUInt32LE(this.memory.length);
    const result = tryGetsockopt(receiver, SOL_SOCKET, SO_MEMINFO, this.memory, this.memoryLength);
    if (result < 0) throw new SystemError('getsockopt SO_MEMINFO', -result);
    const overflowed = this.memory.readUInt32LE(SK_MEMINFO_DROPS * 4);
    if (overflowed > 0) {
      this.context.finding('invalid', 'udp-receive-overflow', `flow ${plan.id} (${plan.class}): ${overflowed} datagrams reached ${plan.dst} and did not fit into its receive buffer, so they would count as lost on the way. Lower the rate, run in virtual time, or raise net.core.rmem_max on this machine.`);
    }
  }
}
