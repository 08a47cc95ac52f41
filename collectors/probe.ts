/**
 * Our own prober: UDP packets of exactly the size and schedule of the plan from source to destination, echoed there
 * by a socket of this same process. One clock reads all four instants (sent, arrived, echoed, back), so both one-way
 * delays are exact; the round-trip time is their sum and leaves out how long the echo took in this process. In real
 * time arrivals are the kernel's own receive time stamps (SO_TIMESTAMPNS, socket(7)); in virtual time nothing passes
 * between arrival and our wake-up.
 *
 * Six system calls a probe besides the loop's: clock, send, receive, clock, send, receive.
 */

import { UserError } from '../testbed/errors.js';
import type { AgentContext } from '../testbed/agent/context.js';
import { SystemError, bindSocket, close, setsockoptInt, socket, stable, tryConnect, trySend } from '../testbed/linux/libc.js';
import { ReceiveMany } from '../testbed/linux/receive-many.js';
import { familyOf, socketAddress } from '../testbed/linux/sockaddr.js';
import type { PlanProbe } from '../testbed/plan/plan.js';
import { isLost } from './probe-tool.js';
import type { ProbeRecord, ProbeTool } from './probe-tool.js';

const SOCK_DGRAM_NONBLOCK_CLOEXEC = 2 | 0o4000 | 0o2000000;
const SOL_SOCKET = 1;
const SO_TIMESTAMPNS = 35;
const EPOLLIN = 1;
/** IP and UDP headers. */
const headerBytes = (probe: PlanProbe): number => (probe.srcAddress.includes(':') ? 40 : 20) + 8;
/** Payload: sequence number (u32), probe id (u32), sent (f64 ns); the last two where they fit. */
const [sequenceBytes, wholePayload] = [4, 16] as const;

class Probe {
  /** ns of the run by sequence number: sent, arrived at the destination, echoed. NaN until it happened. */
  private sent: Float64Array;
  private arrived: Float64Array;
  private echoed: Float64Array;
  private readonly answered: Uint8Array;
  private next = 0;
  private longestRtt = 0;
  private readonly payload: Buffer;
  private source = -1;
  private echo = -1;
  /** Probes the source could not send (its own queue was full): lost as well, but not by the network. */
  private unsent = 0;

  constructor(private readonly context: AgentContext, private readonly probe: PlanProbe, private readonly record: ProbeRecord, private readonly box: ReceiveMany) {
    const bytes = probe.sizeBytes - headerBytes(probe);
    if (bytes < sequenceBytes) {
      throw new UserError(`probe ${probe.name}: packets of ${probe.sizeBytes} bytes cannot hold a sequence number; use ${headerBytes(probe) + sequenceBytes}B or more`);
    }
    this.payload = stable(bytes);
    const count = Math.floor((probe.stopNs - probe.startNs) / probe.intervalNs) + 1;
    this.sent = new Float64Array(count).fill(NaN);
    this.arrived = new Float64Array(count).fill(NaN);
    this.echoed = new Float64Array(count).fill(NaN);
    this.answered = new Uint8Array(count);
  }

  start(): void {
    const { context, probe } = this;
    this.source = this.open(probe.src, probe.srcAddress, probe.dstAddress);
    this.echo = this.open(probe.dst, probe.dstAddress, probe.srcAddress);
    context.loop.watch(this.echo, EPOLLIN, this.onEcho);
    context.loop.watch(this.source, EPOLLIN, this.onAnswer);
    context.loop.every(probe.startNs, probe.intervalNs, probe.stopNs, this.send);
  }

  private open(node: string, from: string, to: string): number {
    return this.context.inNode(node, () => {
      const fd = socket(familyOf(from), SOCK_DGRAM_NONBLOCK_CLOEXEC, 0);
      try {
        const local = socketAddress(from, this.probe.port);
        bindSocket(fd, local, local.length);
        const remote = socketAddress(to, this.probe.port);
        const connected = tryConnect(fd, remote, remote.length);
        if (connected < 0) throw new SystemError('connect', -connected);
        if (this.context.clock === 'real') setsockoptInt(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
        return fd;
      } catch (error) {
        close(fd);
        if (error instanceof SystemError && error.code === 'EADDRINUSE') {
          throw new UserError(`probe ${this.probe.name}: UDP port ${this.probe.port} of ${from} (${node}) is in use; give the probe another port`, 1, { cause: error });
        }
        throw error;
      }
    });
  }

  private readonly send = (): void => {
    const seq = this.next++;
    // Not when the loop woke: other timers of this instant, or a garbage collection, may have come in between.
    const sentNs = this.context.now();
    this.payload.writeUInt32LE(seq, 0);
    if (this.payload.length >= wholePayload) {
      this.payload.writeUInt32LE(this.probe.id, 4);
      this.payload.writeDoubleLE(sentNs, 8);
    }
    this.sent[seq] = sentNs;
    const result = trySend(this.source, this.payload, this.payload.length, 0);
    // An ICMP error for an earlier probe is reported by the next call: that one was not sent yet.
    if (result < 0 && trySend(this.source, this.payload, this.payload.length, 0) < 0) this.unsent++;
  };

  /** ns of the run at which datagram `i` of the box arrived. */
  private arrival(i: number, nowNs: number): number {
    if (this.context.clock === 'virtual') return nowNs;
    const at = this.box.controlAt(i, SOL_SOCKET, SO_TIMESTAMPNS);
    if (at < 0) return this.context.now();
    const seconds = this.box.control.getUint32(at, true) + this.box.control.getUint32(at + 4, true) * 0x1_0000_0000;
    const start = this.context.realtimeAtStart;
    return (seconds - Number(start / 1_000_000_000n)) * 1e9 + this.box.control.getUint32(at + 8, true) - Number(start % 1_000_000_000n);
  }

  private readonly onEcho = (): void => {
    const nowNs = this.context.loop.wokeNs;
    const received = this.box.receive(this.echo);
    for (let i = 0; i < received; i++) {
      if (this.box.length(i) < sequenceBytes) continue;
      const seq = this.box.view.getUint32(this.box.offset(i), true);
      if (!(seq < this.next)) continue;
      if (Number.isNaN(this.arrived[seq])) {
        this.arrived[seq] = this.arrival(i, nowNs);
        this.echoed[seq] = this.context.now();
      }
      this.payload.writeUInt32LE(seq, 0);
      if (this.payload.length >= wholePayload) {
        this.payload.writeUInt32LE(this.probe.id, 4);
        this.payload.writeDoubleLE(this.sent[seq]!, 8);
      }
      trySend(this.echo, this.payload, this.payload.length, 0);
    }
  };

  private readonly onAnswer = (): void => {
    const nowNs = this.context.loop.wokeNs;
    const received = this.box.receive(this.source);
    for (let i = 0; i < received; i++) {
      if (this.box.length(i) < sequenceBytes) continue;
      const seq = this.box.view.getUint32(this.box.offset(i), true);
      if (!(seq < this.next) || this.answered[seq] === 1 || Number.isNaN(this.arrived[seq])) continue;
      this.answered[seq] = 1;
      const forward = this.arrived[seq]! - this.sent[seq]!;
      const reverse = this.arrival(i, nowNs) - this.echoed[seq]!;
      if (forward + reverse > this.longestRtt) this.longestRtt = forward + reverse;
      this.record(this.probe.id, seq, this.sent[seq]!, forward + reverse, forward, reverse);
    }
  };

  stop(): void {
    const endedNs = this.context.now();
    for (const fd of [this.source, this.echo]) {
      if (fd < 0) continue;
      this.context.loop.unwatch(fd);
      close(fd);
    }
    for (let seq = 0; seq < this.next; seq++) {
      if (this.answered[seq] === 1 || !isLost(this.sent[seq]!, endedNs, this.longestRtt)) continue;
      // When the way back lost it, the way there was still measured.
      this.record(this.probe.id, seq, this.sent[seq]!, NaN, this.arrived[seq]! - this.sent[seq]!, NaN);
    }
    if (this.unsent > 0) this.context.finding('warning', 'probe-not-sent', `probe ${this.probe.name}: ${this.unsent} of ${this.next} packets could not be sent by ${this.probe.src}; they count as lost.`);
  }
}

export const prober = (context: AgentContext, plan: readonly PlanProbe[], record: ProbeRecord): ProbeTool => {
  // Only the beginning of each packet is looked at.
  const box = new ReceiveMany(16, wholePayload, 0, context.clock === 'real' ? 64 : 0);
  const probes = plan.map((probe) => new Probe(context, probe, record, box));
  return {
    start() { for (const probe of probes) probe.start(); },
    stop() { for (const probe of probes) probe.stop(); },
  };
};
