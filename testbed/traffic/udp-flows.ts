/**
 * The built-in generator's UDP flows: constant bit rate and on-off. Datagram k of a burst leaves at burst start +
 * k × (IP packet size × 8 / rate), a product and so without drift. Its payload begins with the flow's id and a
 * sequence number (u32 each, big-endian), so that a capture can tell datagrams apart.
 *
 * Receivers are sockets connected to the sender with a socket filter that accepts nothing: the kernel counts each
 * datagram in the socket's drop counter (udp_queue_rcv_one_skb, sk_drops), which SO_MEMINFO reads at any instant,
 * so receiving costs no wake-up and no read, and the count at the window's edges is exact.
 */

import * as os from 'node:os';
import type { AgentContext } from '../agent/context.js';
import { SystemError, addressOf, bindSocket, close, setsockoptBytes, setsockoptInt, socket, stable, tryConnect, tryGetsockopt, trySend } from '../linux/libc.js';
import { AF_INET, familyOf, socketAddress } from '../linux/sockaddr.js';
import type { PlanFlow } from '../plan/plan.js';
import { emptyRow } from './flow-log.js';
import type { FlowDraft, FlowLog } from './flow-log.js';

const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const [SO_REUSEADDR, SO_ATTACH_FILTER, SO_MEMINFO] = [2, 26, 55] as const;
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

/** One instruction of classic BPF: return 0 (accept nothing); struct sock_fprog that points to it. */
const rejectAll = stable(8);
rejectAll.writeUInt16LE(0x06 /* BPF_RET | BPF_K */, 0);
const rejectProgram = stable(16);
rejectProgram.writeUInt16LE(1, 0);
rejectProgram.writeBigUInt64LE(addressOf(rejectAll), 8);

class UdpFlow {
  readonly row: FlowDraft;
  readonly payload: Buffer;
  readonly intervalNs: number;
  readonly bursts: readonly (readonly [number, number])[];
  sender = -1;
  receiver = -1;
  burst = 0;
  /** Datagram of the burst that is due next. */
  next = 0;
  sent = 0;
  /** Refused by a full send buffer (the access link is slower than the flow). */
  refused = 0;
  over = false;

  constructor(readonly plan: PlanFlow, endNs: number) {
    this.row = emptyRow(plan.id);
    this.payload = stable(Math.max(1, payloadBytes(plan)));
    this.intervalNs = ((plan.packetBytes ?? 0) * 8e9) / (plan.rateBps ?? 1);
    const stopNs = Math.min(plan.stopNs ?? endNs, endNs);
    this.bursts = (plan.bursts ?? [[plan.startNs, stopNs] as const])
      .map(([from, to]) => [Math.max(from, plan.startNs), Math.min(to, stopNs)] as const)
      .filter(([from, to]) => from < to);
    if (this.payload.length >= 4) this.payload.writeUInt32BE(plan.id, 0);
  }
}

export class UdpFlows {
  private readonly flows: readonly UdpFlow[];
  private readonly memory = stable(9 * 4);
  private readonly memoryLength = stable(4);
  /** How long the last counts stood still once sending was over, for `finished`. */
  private quiet = { total: -1, sinceNs: 0 };

  constructor(private readonly context: AgentContext, plans: readonly PlanFlow[], private readonly log: FlowLog) {
    this.flows = plans.map((plan) => new UdpFlow(plan, context.endNs));
  }

  start(): void {
    const { loop, plan, endNs } = this.context;
    for (const flow of this.flows) {
      this.open(flow);
      const first = flow.bursts[0];
      if (first !== undefined) loop.at(first[0], (now) => this.tick(flow, now));
    }
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
      total += this.received(flow);
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
        const received = this.received(flow);
        row.t_end ??= null;
        row.bytes = received * flow.payload.length;
        row.bytes_sent = flow.sent * flow.payload.length;
        row.packets_sent = flow.sent;
        row.packets_lost = Math.max(0, flow.sent - received);
        row.bytes_at_warmup ??= 0;
        row.bytes_at_end ??= row.bytes;
      }
      if (flow.refused > 0) {
        this.context.finding('warning', 'udp-sender-blocked', `flow ${flow.plan.id} (${flow.plan.class}): ${flow.refused} datagrams could not be sent because ${flow.plan.src}'s own link was full; give the host a faster access link or the flow a lower rate`);
      }
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
    setsockoptBytes(flow.receiver, SOL_SOCKET, SO_ATTACH_FILTER, rejectProgram, rejectProgram.length);
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

  private bind(plan: PlanFlow, fd: number, address: Buffer, host: string): void {
    try {
      bindSocket(fd, address, address.length);
    } catch (error) {
      const port = address.readUInt16BE(2);
      this.context.finding('failed', error instanceof SystemError && error.code === 'EADDRINUSE' ? 'port-taken' : 'bind-failed',
        `flow ${plan.id} (${plan.class}): UDP port ${port} of ${host}: ${(error as Error).message}. Another program in that host uses the port, or the address is not configured there.`);
      throw error;
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
    if (payload.length >= 8) payload.writeUInt32BE(flow.sent >>> 0, 4);
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
      if (flow.row.t_start !== null) flow.row[`bytes_at_${edge}`] = this.received(flow) * flow.payload.length;
    }
  }

  /** Datagrams that arrived so far (32 bits: enough for a flow of one run). */
  private received(flow: UdpFlow): number {
    if (flow.receiver < 0) return 0;
    this.memoryLength.writeUInt32LE(this.memory.length);
    const result = tryGetsockopt(flow.receiver, SOL_SOCKET, SO_MEMINFO, this.memory, this.memoryLength);
    if (result < 0) throw new SystemError('getsockopt SO_MEMINFO', -result);
    return this.memory.readUInt32LE(SK_MEMINFO_DROPS * 4);
  }
}
