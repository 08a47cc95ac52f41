/**
 * TCP flows of a plan: each is made when it starts and given up when it has ended, so that memory follows the flows that
 * live, not those that lived. Rows as the kernel engine's generator writes them (testbed/traffic): `complete` when the
 * peer's FIN arrived, `running` when the end of the run cut it.
 */

import type { PlanFlow } from '../testbed/plan/plan.js';
import type { FlowRow } from '../testbed/records/raw.js';
import { UserError } from '../testbed/errors.js';
import { oughtToBeConnected, unansweredError } from '../testbed/traffic/unanswered.js';
import { Actor } from './events.js';
import type { Network } from './network.js';
import { Random } from './random.js';
import type { Route } from './route.js';
import { congestionControls } from './tcp/controls.js';
import { TcpReceiver } from './tcp/receiver.js';
import { TcpSender, type TcpModel } from './tcp/sender.js';

export class TcpConnection {
  startNs: number;
  bytesAtWarmup: number | null = null;
  bytesAtEnd: number | null = null;
  retransmitsAtWarmup: number | null = null;
  retransmitsAtEnd: number | null = null;
  constructor(readonly plan: PlanFlow, readonly sender: TcpSender, readonly receiver: TcpReceiver, private readonly routes: readonly [Route, Route], now: number) { this.startNs = now; }

  /** Gives its timers back; packets still under way to it end unread. */
  release(): void {
    for (const route of this.routes) route.sink = null;
    this.sender.release();
    this.receiver.release();
  }
}

/** Ends sending at stop times. */
class Stopper extends Actor {
  private next = 0;
  constructor(private readonly network: Network, private readonly flows: TcpFlows, private readonly stops: readonly PlanFlow[]) {
    super();
    network.events.add(this);
    if (stops.length > 0) network.events.schedule(this.actorId, stops[0]!.stopNs!);
  }
  override fire(): void {
    for (; this.next < this.stops.length; this.next++) {
      const { id, stopNs } = this.stops[this.next]!;
      if (stopNs! > this.network.events.now) { this.network.events.schedule(this.actorId, stopNs!); return; }
      this.flows.stop(id);
    }
  }
}

/** Has the applications of flows that pause write their chunks. */
class Chunks extends Actor {
  private next = 0;
  private readonly list: readonly { readonly id: number; readonly atNs: number; readonly bytes: number }[];
  constructor(private readonly network: Network, private readonly flows: TcpFlows, plans: readonly PlanFlow[]) {
    super();
    this.list = plans.flatMap(({ id, chunks }) => (chunks ?? []).map(([atNs, bytes]) => ({ id, atNs, bytes }))).sort((a, b) => a.atNs - b.atNs || a.id - b.id);
    if (this.list.length === 0) return;
    network.events.add(this);
    network.events.schedule(this.actorId, this.list[0]!.atNs);
  }
  override fire(): void {
    for (; this.next < this.list.length; this.next++) {
      const { id, atNs, bytes } = this.list[this.next]!;
      if (atNs > this.network.events.now) { this.network.events.schedule(this.actorId, atNs); return; }
      this.flows.live.get(id)?.sender.offer(bytes);
    }
  }
}

export class TcpFlows extends Actor {
  private readonly waiting: readonly PlanFlow[];
  private next = 0;
  readonly live = new Map<number, TcpConnection>();
  private warm = false;

  /** @param row gets each flow's row when it ends */
  constructor(private readonly network: Network, flows: readonly PlanFlow[], private readonly endNs: number, private readonly model: TcpModel, private readonly row: (row: FlowRow) => void) {
    super();
    network.events.add(this);
    for (const { id, class: name, cc } of flows) {
      if (!congestionControls.has(cc ?? '')) throw new UserError(`flow ${id} (${name}): the simulator has no congestion control "${String(cc)}"; it has ${[...congestionControls.keys()].join(', ')}`);
    }
    this.waiting = [...flows].sort((a, b) => a.startNs - b.startNs || a.id - b.id);
    if (this.waiting.length > 0) network.events.schedule(this.actorId, this.waiting[0]!.startNs);
    new Chunks(network, this, flows);
    new Stopper(network, this, flows.filter(({ stopNs }) => stopNs !== null && stopNs < endNs).sort((a, b) => a.stopNs! - b.stopNs! || a.id - b.id));
  }

  override fire(): void {
    const now = this.network.events.now;
    for (; this.next < this.waiting.length; this.next++) {
      const plan = this.waiting[this.next]!;
      if (plan.startNs > now) { this.network.events.schedule(this.actorId, plan.startNs); return; }
      if (plan.startNs < this.endNs) this.start(plan);
    }
  }

  private start(plan: PlanFlow): void {
    const { network, model } = this;
    const key = (a: string, p: number, b: string, q: number): string => `${a} ${p} ${b} ${q} tcp`;
    const out = network.route(plan.src, plan.srcAddress, plan.dstAddress, plan.id, true, key(plan.srcAddress, plan.srcPort, plan.dstAddress, plan.dstPort));
    const back = network.route(plan.dst, plan.dstAddress, plan.srcAddress, plan.id, false, key(plan.dstAddress, plan.dstPort, plan.srcAddress, plan.srcPort));
    const v6 = plan.srcAddress.includes(':');
    const cc = congestionControls.get(plan.cc!)!(new Random(network.plan.seed, `flow ${plan.id} cc`));
    const sender = new TcpSender(network, out, model, cc, plan.ecn, v6, plan.bytes, () => this.ended(connection));
    const receiver = new TcpReceiver(network, back, sender.mss, model, plan.ecn, cc.needsEcn, v6, plan.tool === 'builtin');
    out.sink = receiver;
    back.sink = sender;
    if (plan.chunks !== undefined) sender.awaitChunks();
    const connection = new TcpConnection(plan, sender, receiver, [out, back], network.events.now);
    this.live.set(plan.id, connection);
    sender.connect();
  }

  stop(id: number): void { this.live.get(id)?.sender.stop(); }

  private ended(connection: TcpConnection): void {
    const { plan, sender, receiver } = connection;
    this.live.delete(plan.id);
    const { failed } = sender;
    const complete = failed === null && (plan.bytes === null || receiver.bytes === plan.bytes);
    this.write(connection, complete ? 'complete' : 'failed', failed ?? (complete ? null : `${receiver.bytes} of ${plan.bytes} bytes arrived`), failed === null ? sender.endNs : null);
    connection.release();
  }

  /** The measurement window opens. */
  opens(): void {
    this.warm = true;
    for (const connection of this.live.values()) {
      connection.bytesAtWarmup = connection.receiver.bytes;
      connection.retransmitsAtWarmup = connection.sender.retransmits;
    }
  }

  /** The window closes and the run ends: what is alive is cut. */
  cut(): void {
    for (const connection of this.live.values()) {
      const { sender } = connection;
      const waitedNs = this.endNs - connection.startNs;
      const failed = !sender.connected && oughtToBeConnected(waitedNs, connection.plan.baseRttNs);
      this.write(connection, failed ? 'failed' : 'running', failed ? unansweredError(waitedNs) : null, null);
      sender.finished = true;
      connection.release();
    }
    this.live.clear();
    for (const plan of this.waiting.slice(this.next)) this.row(emptyRow(plan.id));
    this.network.events.cancel(this.actorId);
  }

  private write(connection: TcpConnection, status: FlowRow['status'], error: string | null, endNs: number | null): void {
    const { plan, sender, receiver } = connection;
    const atWarmup = this.warm ? 0 : receiver.bytes;
    this.row({
      id: plan.id, t_start: connection.startNs, t_connected: sender.connected ? sender.connectedNs : null, t_end: endNs,
      bytes: receiver.bytes, bytes_sent: sender.bytesSent, packets_sent: sender.segmentsSent, packets_lost: null, packets_duplicated: null,
      bytes_at_warmup: connection.bytesAtWarmup ?? atWarmup, bytes_at_end: receiver.bytes,
      retransmits: sender.retransmits, retransmits_at_warmup: connection.retransmitsAtWarmup ?? (this.warm ? 0 : sender.retransmits), retransmits_at_end: sender.retransmits,
      status, error,
    });
  }
}

export const emptyRow = (id: number): FlowRow => ({
  id, t_start: null, t_connected: null, t_end: null, bytes: null, bytes_sent: null, packets_sent: null, packets_lost: null, packets_duplicated: null,
  bytes_at_warmup: null, bytes_at_end: null, retransmits: null, retransmits_at_warmup: null, retransmits_at_end: null, status: 'not-started', error: null,
});
