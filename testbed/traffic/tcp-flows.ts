/**
 * The built-in generator's TCP flows: real kernel sockets in each host's namespace, all in the agent's process.
 *
 * System calls are what a guest's time is spent on, so bulk receivers are woken by 256 KiB (SO_RCVLOWAT), take
 * data with recv(MSG_TRUNC) (dropped in the kernel, never copied), and senders write up to 1 MiB at once from a
 * buffer of zeros. A flow's completion time runs from connect() to the peer's FIN at the sender: the receiver
 * closes when it has read everything, so that FIN says that the last byte and our FIN were acknowledged.
 */

import * as os from 'node:os';
import { AlreadyTold } from '../agent/context.js';
import type { AgentContext } from '../agent/context.js';
import {
  SystemError, bindSocket, close, listen, setsockoptBytes, setsockoptInt, socket, stable, tryAccept4, tryConnect, tryGetsockopt, tryRecv, trySend, trySetsockopt, tryShutdown,
} from '../linux/libc.js';
import { endpointKey, familyOf, socketAddress } from '../linux/sockaddr.js';
import { TCP_CLOSE_WAIT, bytesReceived, bytesSent, dataSegsOut, rwndLimitedUs, state, tcpInfo, totalRetrans } from '../linux/tcp-info.js';
import type { PlanFlow } from '../plan/plan.js';
import { emptyRow } from './flow-log.js';
import type { FlowDraft, FlowLog } from './flow-log.js';
import { receiveLowWater, receiveRoom } from './receive-buffer.js';
import { oughtToBeConnected, unansweredError } from './unanswered.js';

const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const [SO_REUSEADDR, SO_ERROR, SO_LINGER, SO_RCVLOWAT] = [2, 4, 13, 18] as const;
const IPPROTO_TCP = 6;
const TCP_CONGESTION = 13;
const IPPROTO_IPV6 = 41;
const IPV6_V6ONLY = 26;
const MSG_TRUNC = 0x20;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const SHUT_WR = 1;
const [EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLRDHUP, EPOLLET] = [0x1, 0x4, 0x8, 0x10, 0x2000, 0x80000000] as const;
const { EAGAIN, EINPROGRESS, ENOENT, EPERM, EADDRINUSE, ECONNABORTED, EMFILE } = os.constants.errno;

const chunk = 1 << 20;
const zeros = stable(chunk);
/** Receives nothing: MSG_TRUNC drops the data in the kernel; only its size counts. */
const sink = stable(chunk);

const errorName = (errno: number): string => new SystemError('', errno).code;
const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the receiver refused the connection (ECONNREFUSED)',
  ETIMEDOUT: 'no answer from the receiver, connection timed out (ETIMEDOUT)',
  ECONNRESET: 'the connection was reset (ECONNRESET)',
  EPIPE: 'the receiver closed the connection (EPIPE)',
  EHOSTUNREACH: 'no route to the receiver (EHOSTUNREACH)',
  ENETUNREACH: 'no route to the receiver (ENETUNREACH)',
};
const reasonOf = (errno: number): string => reasons[errorName(errno)] ?? errorName(errno);

/** Congestion controls that accepted sockets must run too; the plan gives their flows listening ports of their own. */
const receiverTakesPart: ReadonlySet<string> = new Set(['dctcp', 'prague']);

/** The listening socket a flow goes to. */
const endpointOf = (plan: PlanFlow): string => `${plan.dst} ${plan.dstAddress} ${plan.dstPort}`;

class TcpFlow {
  readonly row: FlowDraft;
  /** Sending socket, −1 before and after. */
  sender = -1;
  /** Accepted socket, −1 before and after. */
  receiver = -1;
  connected = false;
  /** Payload bytes not yet handed to the kernel. */
  left: number;
  /** Payload bytes the receiver took. */
  received = 0;
  closingWrite = false;
  /** Its stop time is past: nothing more is written. */
  stopped = false;
  rwndLimitedNs = 0;
  done = false;

  constructor(readonly plan: PlanFlow) {
    this.row = emptyRow(plan.id);
    this.left = plan.bytes ?? (plan.chunks === undefined ? Infinity : 0);
  }
}

export class TcpFlows {
  private readonly flows: readonly TcpFlow[];
  private readonly listeners = new Map<string, number>();
  /** Flows that connected and were not accepted yet, by the sender's endpoint. */
  private readonly expected = new Map<string, TcpFlow>();
  private readonly peer = stable(28);
  private readonly peerLength = stable(4);
  private readonly int = stable(4);
  private readonly intLength = stable(4);
  private open = 0;
  private ended = false;
  private windowOpened = false;

  constructor(private readonly context: AgentContext, plans: readonly PlanFlow[], private readonly log: FlowLog) {
    this.flows = plans.map((plan) => new TcpFlow(plan));
  }

  start(): void {
    for (const flow of this.flows) this.listenFor(flow.plan);
    const { loop, plan, endNs } = this.context;
    for (const flow of this.flows) {
      loop.at(flow.plan.startNs, (now) => this.connect(flow, now));
      const { stopNs, chunks } = flow.plan;
      if (chunks !== undefined) this.offerAt(flow, chunks, 0);
      if (stopNs !== null && stopNs < endNs) loop.at(stopNs, () => this.stopSending(flow));
    }
    loop.at(plan.warmupNs, () => this.readEdge('warmup'));
    loop.at(endNs, () => this.readEdge('end'));
  }

  /** Closes everything; what still ran is `running`. */
  end(): void {
    this.ended = true;
    for (const flow of this.flows) if (!flow.done && flow.sender >= 0) this.cut(flow);
    for (const fd of this.listeners.values()) {
      this.context.loop.unwatch(fd, true);
      close(fd);
    }
    this.listeners.clear();
  }

  finished(): boolean {
    return this.open === 0;
  }

  /** Rows of the flows that never started; what the receive window cost. */
  stop(): void {
    if (!this.ended) this.end();
    const limited = this.flows.filter(({ rwndLimitedNs, plan }) => rwndLimitedNs > 0.05 * (this.context.endNs - plan.startNs));
    if (limited.length > 0) {
      const [{ plan }] = limited as [TcpFlow];
      this.context.finding('warning', 'receive-window', `the receive window, not congestion control, held ${limited.length} flow${limited.length === 1 ? '' : 's'} back for more than 5 % of the time (the first: flow ${plan.id}, ${plan.class}); set a larger net.ipv4.tcp_rmem in the hosts' sysctls`);
    }
    this.context.facts({ receiveWindow: { limitedNs: this.flows.reduce((sum, { rwndLimitedNs }) => sum + rwndLimitedNs, 0) } });
    for (const flow of this.flows) if (!flow.done) this.log.append(flow.row); // never started
  }

  private listenFor(plan: PlanFlow): void {
    const endpoint = endpointOf(plan);
    if (this.listeners.has(endpoint)) return;
    const family = familyOf(plan.dstAddress);
    const fd = this.context.inNode(plan.dst, () => socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    setsockoptInt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    setsockoptInt(fd, SOL_SOCKET, SO_RCVLOWAT, receiveRoom);
    setsockoptInt(fd, SOL_SOCKET, SO_RCVLOWAT, receiveLowWater); // both inherited by accepted sockets
    // DCTCP's receiver takes part: without it the listener refuses the ECN its peer asks for, and echoes CE as RFC 3168 does.
    if (plan.cc !== null && receiverTakesPart.has(plan.cc)) this.setCongestion(fd, plan.cc);
    if (family !== 2) setsockoptInt(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    const address = socketAddress(plan.dstAddress, plan.dstPort);
    try {
      bindSocket(fd, address, address.length);
      listen(fd, 4096);
    } catch (error) {
      close(fd);
      const code = error instanceof SystemError ? error.code : '';
      this.context.finding('failed', code === errorName(EADDRINUSE) ? 'port-taken' : 'listen-failed',
        `flow ${plan.id} (${plan.class}): cannot listen on port ${plan.dstPort} of ${plan.dst} (${plan.dstAddress}): ${String((error as Error).message)}. `
        + 'Another program in that host uses the port, or the address is not configured there.');
      throw new AlreadyTold();
    }
    this.listeners.set(endpoint, fd);
    this.context.loop.watch(fd, EPOLLIN, () => this.accept(fd, endpoint));
  }

  private connect(flow: TcpFlow, nowNs: number): void {
    const { plan, row } = flow;
    row.status = 'running';
    row.t_start = this.context.clock === 'real' ? this.context.now() : nowNs;
    const family = familyOf(plan.srcAddress);
    let fd = -1;
    try {
      fd = this.context.inNode(plan.src, () => socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      setsockoptInt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
      if (plan.cc !== null) this.setCongestion(fd, plan.cc);
      const from = socketAddress(plan.srcAddress, plan.srcPort);
      bindSocket(fd, from, from.length);
      this.expected.set(`${endpointOf(plan)} ${endpointKey(from)}`, flow);
    } catch (error) {
      if (fd >= 0) close(fd);
      this.fail(flow, (error as Error).message);
      return;
    }
    flow.sender = fd;
    this.open++;
    const to = socketAddress(plan.dstAddress, plan.dstPort);
    const result = tryConnect(fd, to, to.length);
    if (result < 0 && result !== -EINPROGRESS) {
      this.fail(flow, reasonOf(-result));
      return;
    }
    // Edge-triggered: no change of what is watched when the last byte is written, hence a system call less.
    this.context.loop.watch(fd, EPOLLOUT | EPOLLRDHUP | EPOLLET, (events) => this.sending(flow, events));
  }

  private setCongestion(fd: number, cc: string): void {
    const name = Buffer.from(cc);
    const result = trySetsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, name.length);
    if (result === -ENOENT) throw new Error(`this kernel has no congestion control "${cc}" (see /proc/sys/net/ipv4/tcp_available_congestion_control)`);
    if (result === -EPERM) throw new Error(`congestion control "${cc}" is not allowed for this user`);
    if (result < 0) throw new SystemError('setsockopt TCP_CONGESTION', -result, cc);
  }

  private accept(listener: number, endpoint: string): void {
    this.peerLength.writeUInt32LE(28);
    const fd = tryAccept4(listener, this.peer, this.peerLength, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd === -EAGAIN || fd === -ECONNABORTED) return;
    if (fd < 0) throw new SystemError('accept', -fd, fd === -EMFILE ? '(too many open files: raise the limit with ulimit -n)' : '');
    const key = `${endpoint} ${endpointKey(this.peer)}`;
    const flow = this.expected.get(key);
    this.expected.delete(key);
    if (flow === undefined || flow.done) { // not one of ours, or its sender has given up
      close(fd);
      return;
    }
    flow.receiver = fd;
    this.open++;
    this.context.loop.watch(fd, EPOLLIN, (events) => this.receiving(flow, events));
  }

  private sending(flow: TcpFlow, events: number): void {
    if (events & EPOLLERR) {
      this.fail(flow, reasonOf(this.socketError(flow.sender)));
      return;
    }
    if (!flow.connected && events & EPOLLOUT) {
      flow.connected = true;
      flow.row.t_connected = this.context.loop.wokeNs;
    }
    if (events & (EPOLLRDHUP | EPOLLHUP) && flow.closingWrite) {
      this.complete(flow, this.context.loop.wokeNs);
      return;
    }
    if (events & EPOLLOUT && !flow.closingWrite) this.write(flow);
  }

  /** The application of a flow that pauses has its next chunk to write. */
  private offerAt(flow: TcpFlow, chunks: readonly (readonly [number, number])[], next: number): void {
    const chunk = chunks[next];
    if (chunk === undefined) return;
    this.context.loop.at(chunk[0], () => {
      if (flow.done || flow.stopped) return;
      flow.left += chunk[1];
      this.offerAt(flow, chunks, next + 1);
      if (flow.connected) this.write(flow);
    });
  }

  /** Fills the send buffer; closes for writing after the last byte. */
  private write(flow: TcpFlow): void {
    while (flow.left > 0) {
      const ask = Math.min(flow.left, chunk);
      const sent = trySend(flow.sender, zeros, ask, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) {
        if (sent !== -EAGAIN) this.fail(flow, reasonOf(-sent));
        return;
      }
      flow.left -= sent;
      if (sent < ask) return; // full: the kernel says when there is room (edge)
    }
    if (flow.plan.chunks !== undefined && !flow.stopped) return; // more comes, until its stop time
    flow.closingWrite = true;
    tryShutdown(flow.sender, SHUT_WR);
  }

  /** At the flow's stop time: what is in the send buffer still goes out. */
  private stopSending(flow: TcpFlow): void {
    if (flow.done || flow.closingWrite || flow.sender < 0) return;
    flow.left = 0;
    flow.stopped = true;
    if (!flow.connected) return; // closes once it is connected, having sent nothing
    flow.closingWrite = true;
    tryShutdown(flow.sender, SHUT_WR);
  }

  private receiving(flow: TcpFlow, events: number): void {
    for (;;) {
      const got = tryRecv(flow.receiver, sink, chunk, MSG_TRUNC | MSG_DONTWAIT);
      if (got > 0) flow.received += got;
      if (got === chunk) continue;
      if (got > 0 && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) return;
      if (got === -EAGAIN) return;
      // End of the stream (all data was in order before the FIN), or a reset, which the sender sees too.
      this.closeReceiver(flow);
      return;
    }
  }

  private closeReceiver(flow: TcpFlow): void {
    if (flow.receiver < 0) return;
    this.context.loop.unwatch(flow.receiver, true);
    close(flow.receiver);
    flow.receiver = -1;
    this.open--;
  }

  private closeSender(flow: TcpFlow): void {
    if (flow.sender < 0) return;
    this.context.loop.unwatch(flow.sender, true);
    close(flow.sender);
    flow.sender = -1;
    this.open--;
  }

  private complete(flow: TcpFlow, nowNs: number): void {
    const { row } = flow;
    this.readSender(flow);
    this.closeSender(flow);
    row.t_end = nowNs;
    row.bytes = flow.received;
    row.status = 'complete';
    if (flow.plan.bytes !== null && flow.received !== flow.plan.bytes) {
      row.status = 'failed';
      row.error = `${flow.received} of ${flow.plan.bytes} bytes arrived`;
    }
    this.over(flow);
  }

  private fail(flow: TcpFlow, reason: string): void {
    if (flow.done) return;
    const { row } = flow;
    if (flow.sender >= 0) this.readSender(flow);
    row.bytes = this.delivered(flow);
    row.status = 'failed';
    row.error = reason;
    this.closeSender(flow);
    this.closeReceiver(flow);
    this.over(flow);
  }

  /** The run is over: both ends are closed with a reset, what is under way is lost. */
  private cut(flow: TcpFlow): void {
    const { row } = flow;
    this.readSender(flow);
    row.bytes = this.delivered(flow);
    const waitedNs = this.context.endNs - (row.t_start ?? flow.plan.startNs);
    if (!flow.connected && oughtToBeConnected(waitedNs, flow.plan.baseRttNs)) {
      row.status = 'failed';
      row.error = unansweredError(waitedNs);
    }
    const linger = stable(8);
    linger.writeInt32LE(1, 0); // on, 0 s: close() resets the connection
    setsockoptBytes(flow.sender, SOL_SOCKET, SO_LINGER, linger, 8);
    this.closeSender(flow);
    this.closeReceiver(flow);
    this.over(flow);
  }

  private over(flow: TcpFlow): void {
    flow.done = true;
    const { row } = flow;
    // At an edge of the window that came after its end it stands as it ended, at one before its start at 0.
    row.bytes_at_warmup ??= this.windowOpened ? 0 : row.bytes;
    row.retransmits_at_warmup ??= this.windowOpened ? 0 : row.retransmits;
    row.bytes_at_end ??= row.bytes;
    row.retransmits_at_end ??= row.retransmits;
    this.log.append(row);
  }

  /** Every open flow's figures at an edge of the window. */
  private readEdge(edge: 'warmup' | 'end'): void {
    if (edge === 'warmup') this.windowOpened = true;
    for (const flow of this.flows) {
      if (flow.done || flow.row.t_start === null) continue;
      const { row } = flow;
      row[`bytes_at_${edge}`] = this.delivered(flow);
      row[`retransmits_at_${edge}`] = flow.sender < 0 ? 0 : totalRetrans(tcpInfo(flow.sender));
    }
  }

  private readSender(flow: TcpFlow): void {
    const info = tcpInfo(flow.sender);
    flow.row.retransmits = totalRetrans(info);
    flow.row.bytes_sent = bytesSent(info);
    flow.row.packets_sent = dataSegsOut(info);
    flow.rwndLimitedNs = rwndLimitedUs(info) * 1000;
  }

  private delivered(flow: TcpFlow): number {
    if (flow.receiver < 0) return flow.received;
    const info = tcpInfo(flow.receiver);
    return bytesReceived(info) - (state(info) === TCP_CLOSE_WAIT ? 1 : 0);
  }

  private socketError(fd: number): number {
    this.intLength.writeUInt32LE(4);
    tryGetsockopt(fd, SOL_SOCKET, SO_ERROR, this.int, this.intLength);
    return this.int.readInt32LE();
  }
}
