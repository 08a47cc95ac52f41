/**
 * The sending socket of each TCP flow by INET_DIAG: cwnd, ssthresh, RTT, rates, retransmissions, every
 * `collect.socketIntervalNs` and exactly when the measurement window opens and closes. Any tool's socket: it is found
 * by the flow's addresses and ports, from outside. Two system calls a sample and sending host, for as many flows as
 * are open there (up to 128). Writes raw/sockets.rec, and checks that ECN was negotiated where, and only where, it was asked for.
 */

import type { AgentContext, Collector } from '../testbed/agent/context.js';
import { close } from '../testbed/linux/libc.js';
import { TcpLookups, addressHex, infiniteSsthresh, openDiag } from '../testbed/linux/inet-diag.js';
import type { TcpDiag, TcpTuple } from '../testbed/linux/inet-diag.js';
import type { PlanFlow } from '../testbed/plan/plan.js';
import { socketFields } from '../testbed/records/raw.js';
import { RecordWriter, none } from '../testbed/records/record-file.js';
import { sampleAt } from './sampling.js';

const SYN_SENT = 2;
/** A flow of a fixed size whose socket was not there for this long after its start came and went between samples. */
const unseenNs = 3e9;

interface Watched { readonly flow: PlanFlow; readonly tuple: TcpTuple; seen: boolean; gone: boolean; established: boolean }

const orNone = (value: number): number => (Number.isNaN(value) ? none.u32 : value);

class SendingHost {
  private readonly fd: number;
  private readonly lookups: TcpLookups;
  /** By start time; those before `next` have begun. */
  private readonly waiting: readonly Watched[];
  private next = 0;
  private active: Watched[] = [];
  private changed = true;
  private nowNs = 0;
  /** Connections whose use of ECN is not as planned. */
  private readonly otherEcn: PlanFlow[] = [];

  constructor(private readonly context: AgentContext, node: string, flows: readonly PlanFlow[], private readonly writer: RecordWriter) {
    this.fd = context.inNode(node, openDiag);
    this.lookups = new TcpLookups(this.fd);
    this.waiting = [...flows].sort((a, b) => a.startNs - b.startNs || a.id - b.id).map((flow) => ({
      flow, seen: false, gone: false, established: false,
      tuple: { source: addressHex(flow.srcAddress), sourcePort: flow.srcPort, destination: addressHex(flow.dstAddress), destinationPort: flow.dstPort },
    }));
  }

  sample(nowNs: number): void {
    this.nowNs = nowNs;
    for (let watched; (watched = this.waiting[this.next]) !== undefined && watched.flow.startNs <= nowNs; this.next++) {
      this.active.push(watched);
      this.changed = true;
    }
    if (this.active.length === 0) return;
    if (this.changed) {
      this.changed = false;
      this.active = this.active.filter(({ gone }) => !gone);
      this.lookups.clear();
      this.active.forEach(({ tuple }, i) => this.lookups.add(i, tuple));
    }
    this.lookups.ask(this.found, this.absent);
  }

  private readonly found = (index: number, socket: TcpDiag): void => {
    const watched = this.active[index]!;
    watched.seen = true;
    if (socket.state === SYN_SENT) return;
    if (!watched.established) {
      watched.established = true;
      if (socket.ecn !== watched.flow.ecn) this.otherEcn.push(watched.flow);
    }
    const ssthresh = socket.ssthresh;
    this.writer.row(
      this.nowNs, watched.flow.id, orNone(socket.cwnd), ssthresh >= infiniteSsthresh ? none.u32 : orNone(ssthresh),
      socket.srttNs, socket.rttvarNs, socket.minRttNs, socket.deliveryRateBps, socket.pacingRateBps, socket.bytesAcked,
      orNone(socket.retransmits), orNone(socket.inFlight), socket.caState,
    );
  };
  private readonly absent = (index: number): void => {
    const watched = this.active[index]!;
    if (watched.seen || (watched.flow.bytes !== null && this.nowNs - watched.flow.startNs > unseenNs)) {
      watched.gone = true;
      this.changed = true;
    }
  };

  stop(): void {
    close(this.fd);
    for (const asked of [true, false]) {
      const flows = this.otherEcn.filter(({ ecn }) => ecn === asked);
      const [first] = flows;
      if (first === undefined) continue;
      const which = `${flows.length} ${flows.length === 1 ? 'flow' : 'flows'} of ${first.src} (the first: flow ${first.id}, ${first.class})`;
      this.context.finding('invalid', 'ecn', asked
        ? `${which} asked for ECN and did not get it: the other end did not agree. Look at net.ipv4.tcp_ecn of both hosts.`
        : `${which} used ECN though the scenario does not say so. Look at net.ipv4.tcp_ecn of both hosts, or set ecn: true.`);
    }
  }
}

export const sockets = (context: AgentContext): Collector | null => {
  const bySource = new Map<string, PlanFlow[]>();
  for (const flow of context.plan.flows) {
    if (flow.transport !== 'tcp') continue;
    const list = bySource.get(flow.src);
    if (list) list.push(flow);
    else bySource.set(flow.src, [flow]);
  }
  if (bySource.size === 0) return null;
  let writer: RecordWriter | null = null;
  let hosts: readonly SendingHost[] = [];
  return {
    name: 'sockets',
    start() {
      const file = writer = new RecordWriter(context.raw('sockets.rec'), 'sockets', {}, socketFields, 64 * 1024);
      hosts = [...bySource].map(([node, flows]) => new SendingHost(context, node, flows, file));
      const sample = (nowNs: number): void => { for (const host of hosts) host.sample(nowNs); };
      sampleAt(context, context.plan.collect.socketIntervalNs, sample);
    },
    flush() {
      writer?.flush();
    },
    stop() {
      for (const host of hosts) host.stop();
      writer?.close();
    },
  };
};
