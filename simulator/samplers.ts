/**
 * Samples of the bottlenecks' queues and of the senders' sockets, on the kernel engine's schedule: at 0, interval, … to the
 * end of the window and exactly when it opens and closes, before anything else happens at that instant.
 */

import type { Plan } from '../testbed/plan/plan.js';
import { queueFields, socketFields } from '../testbed/records/raw.js';
import { RecordWriter, none } from '../testbed/records/record-file.js';
import { Actor, before } from './events.js';
import type { Link } from './link.js';
import type { Network } from './network.js';
import { infiniteSsthresh } from './tcp/congestion.js';
import type { TcpFlows } from './tcp-flows.js';

/** Calls `sample` at 0, interval, … and at both edges of the window, once each. */
class Schedule extends Actor {
  private k = 0;
  constructor(private readonly network: Network, private readonly plan: Plan, private readonly intervalNs: number | null, private readonly sample: (now: number) => void) {
    super();
    network.events.add(this);
    this.arm(-1);
  }
  private arm(now: number): void {
    const { warmupNs, durationNs } = this.plan;
    const endNs = warmupNs + durationNs;
    let at = now < warmupNs ? warmupNs : now < endNs ? endNs : Infinity;
    if (this.intervalNs !== null) {
      while (this.k * this.intervalNs <= now) this.k++;
      at = Math.min(at, this.k * this.intervalNs);
    }
    if (at <= endNs) this.network.events.scheduleOrdered(this.actorId, at, before.sampler);
  }
  override fire(): void {
    const now = this.network.events.now;
    this.sample(now);
    this.arm(now);
  }
}

export class QueueSampler {
  private readonly writer: RecordWriter;
  private readonly state: Float64Array;
  private readonly view: readonly string[];

  constructor(network: Network, plan: Plan, private readonly link: Link, path: string) {
    this.view = link.stateColumns;
    this.state = new Float64Array(this.view.length);
    this.writer = new RecordWriter(path, 'queue', { bottleneck: link.setting.name }, [...queueFields, ...this.view.map((name) => ({ name, type: 'f64' as const }))], 32 * 1024);
    new Schedule(network, plan, plan.collect.queueIntervalNs, (now) => this.sample(now));
  }

  private sample(now: number): void {
    const { link, state } = this;
    const queue = link.queue!;
    state.fill(NaN);
    queue.readState(state, now);
    const at = this.writer.claim();
    const { data } = this.writer;
    data.setFloat64(at, now, true);
    data.setFloat64(at + 8, queue.backlogBytes, true);
    data.setFloat64(at + 16, queue.backlogPackets, true);
    data.setFloat64(at + 24, link.sentBytes, true);
    data.setFloat64(at + 32, link.sentPackets, true);
    data.setFloat64(at + 40, link.drops, true);
    data.setFloat64(at + 48, link.marks, true);
    for (let i = 0; i < state.length; i++) data.setFloat64(at + 56 + 8 * i, state[i]!, true);
  }
  close(): void { this.writer.close(); }
}

export class SocketSampler {
  private readonly writer: RecordWriter;
  constructor(network: Network, plan: Plan, private readonly flows: TcpFlows, path: string) {
    this.writer = new RecordWriter(path, 'sockets', {}, socketFields, 64 * 1024);
    new Schedule(network, plan, plan.collect.socketIntervalNs, (now) => this.sample(now));
  }

  private sample(now: number): void {
    for (const { plan, sender } of this.flows.live.values()) {
      if (sender === null || !sender.connected) continue;
      this.writer.row(
        now, plan.id, sender.cwnd, sender.ssthresh >= infiniteSsthresh ? none.u32 : sender.ssthresh,
        Math.floor(sender.srttUs / 8) * 1000, Math.floor(sender.mdevUs / 4) * 1000, sender.minRttUs === 0xffffffff ? NaN : sender.minRttUs * 1000,
        sender.deliveryRateBps, sender.paced ? sender.pacingRate * 8 : NaN, sender.bytesAcked, sender.retransmits, sender.inFlight, sender.state,
      );
    }
  }
  close(): void { this.writer.close(); }
}
