/**
 * TCP flows of a plan: each is made when it starts and given up when it has ended, so that memory follows the flows that
 * live, not those that lived. Rows as the kernel engine's generator writes them (testbed/traffic): `complete` when the
 * peer's FIN arrived, `running` when the end of the run cut it.
 */

import type { PlanFlow } from '../testbed/plan/plan.js';
import type { FlowRow } from '../testbed/records/raw.js';
import { UserError } from '../testbed/errors.js';
import type { Application, Ending } from './applications/application.js';
import { applicationOf } from './applications/registry.js';
import { Actor } from './events.js';
import type { Network } from './network.js';
import { congestionControls } from './tcp/controls.js';
import type { TcpModel, TcpSender } from './tcp/sender.js';

/** A flow that lives. */
export class LiveFlow {
  bytesAtWarmup: number | null = null;
  retransmitsAtWarmup: number | null = null;
  application!: Application;
  constructor(readonly plan: PlanFlow, readonly startNs: number) {}
  get sender(): TcpSender | null { return this.application.connection?.sender ?? null; }
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

export class TcpFlows extends Actor {
  private readonly waiting: readonly PlanFlow[];
  private next = 0;
  readonly live = new Map<number, LiveFlow>();
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
    const flow = new LiveFlow(plan, network.events.now);
    flow.application = applicationOf(plan, model)({ network, model, plan, ended: (ending) => this.ended(flow, ending) });
    this.live.set(plan.id, flow);
    flow.application.start();
  }

  stop(id: number): void { this.live.get(id)?.application.stop(); }

  private ended(flow: LiveFlow, { failed, endNs }: Ending): void {
    this.live.delete(flow.plan.id);
    this.write(flow, failed === null ? 'complete' : 'failed', failed, endNs);
  }

  /** The measurement window opens. */
  opens(): void {
    this.warm = true;
    for (const flow of this.live.values()) {
      flow.bytesAtWarmup = flow.application.bytes;
      flow.retransmitsAtWarmup = flow.sender?.retransmits ?? 0;
    }
  }

  /** The window closes and the run ends: what is alive is cut. */
  cut(): void {
    for (const flow of this.live.values()) {
      const error = flow.application.cut(this.endNs - flow.startNs);
      this.write(flow, error === null ? 'running' : 'failed', error, null);
      flow.application.release();
    }
    this.live.clear();
    for (const plan of this.waiting.slice(this.next)) this.row(emptyRow(plan.id));
    this.network.events.cancel(this.actorId);
  }

  private write({ plan, startNs, application, sender, bytesAtWarmup, retransmitsAtWarmup }: LiveFlow, status: FlowRow['status'], error: string | null, endNs: number | null): void {
    const { bytes, connectedNs } = application;
    const retransmits = sender?.retransmits ?? 0;
    this.row({
      id: plan.id, t_start: startNs, t_connected: connectedNs, t_end: endNs,
      bytes, bytes_sent: sender?.bytesSent ?? 0, packets_sent: sender?.segmentsSent ?? 0, packets_lost: null, packets_duplicated: null,
      bytes_at_warmup: bytesAtWarmup ?? (this.warm ? 0 : bytes), bytes_at_end: bytes,
      retransmits, retransmits_at_warmup: retransmitsAtWarmup ?? (this.warm ? 0 : retransmits), retransmits_at_end: retransmits,
      status, error,
    });
  }
}

export const emptyRow = (id: number): FlowRow => ({
  id, t_start: null, t_connected: null, t_end: null, bytes: null, bytes_sent: null, packets_sent: null, packets_lost: null, packets_duplicated: null,
  bytes_at_warmup: null, bytes_at_end: null, retransmits: null, retransmits_at_warmup: null, retransmits_at_end: null, status: 'not-started', error: null,
});
