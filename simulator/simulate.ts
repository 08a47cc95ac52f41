/**
 * The simulator: a Plan in, the raw record files of a run out (testbed/records/raw.ts), the same as the kernel engine
 * leaves, so that analysis cannot tell which engine ran. Deterministic: the plan, with its seed, decides every byte.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { aqms } from '../aqm/registry.js';
import type { AqmKind } from '../aqm/aqm.js';
import { UserError } from '../testbed/errors.js';
import type { Plan, PlanEvent, PlanFlow } from '../testbed/plan/plan.js';
import { probeFields, type AgentLine, type FlowRow } from '../testbed/records/raw.js';
import { RecordWriter } from '../testbed/records/record-file.js';
import { Iperf3Udp } from './applications/iperf3-udp.js';
import { Actor, before } from './events.js';
import { memoryProblem } from './memory.js';
import { Network } from './network.js';
import { Probe } from './probe.js';
import { PacketRecords } from './records.js';
import { QueueSampler, SocketSampler } from './samplers.js';
import { TcpFlows } from './tcp-flows.js';
import { checkTests } from './tests.js';
import { tcpModel } from './tcp/sender.js';
import { UdpFlow, type UdpSource } from './udp.js';

export interface SimulateOptions {
  /** Write queue, packet, probe and socket records; flows and the agent's lines are written in any case. */
  readonly records: boolean;
  readonly onProgress?: (tNs: number) => void;
  /** Checked each simulated 100 ms. @throws its reason */
  readonly signal?: AbortSignal;
  /** The disciplines to choose from; default: all of aqm/. */
  readonly aqms?: ReadonlyMap<string, AqmKind>;
}

export interface SimulationSummary {
  /** Simulated time at the end, ns: after the window, when queues and wires had emptied themselves. */
  readonly endNs: number;
  readonly events: number;
  readonly packets: { readonly made: number; readonly delivered: number; readonly dropped: number; readonly inFlight: number; /** Largest number at once. */ readonly peak: number };
  readonly links: readonly { readonly name: string; readonly role: 'bottleneck' | 'access'; readonly sentPackets: number; readonly sentBytes: number; readonly drops: number; readonly marks: number }[];
}

/** How long after the window queues and wires may take to empty themselves, ns: as the kernel engine's agent waits. What is still queued then has no departure in the records. */
const graceNs = 30e9;
const stepNs = 100e6;
/** How long queues go on after the window beside two round trips (testbed/agent/run.ts), ns. */
const settleNs = 200e6;

class PlanEvents extends Actor {
  private next = 0;
  private readonly list: readonly PlanEvent[];
  constructor(private readonly network: Network, events: readonly PlanEvent[]) {
    super();
    network.events.add(this);
    this.list = [...events].sort((a, b) => a.atNs - b.atNs);
    if (this.list.length > 0) network.events.scheduleOrdered(this.actorId, this.list[0]!.atNs, before.planEvent);
  }
  override fire(): void {
    for (; this.next < this.list.length; this.next++) {
      const { atNs, direction, set } = this.list[this.next]!;
      if (atNs > this.network.events.now) { this.network.events.scheduleOrdered(this.actorId, atNs, before.planEvent); return; }
      const link = this.network.byName.get(direction)!;
      if (set.rateBps !== undefined) link.setRate(set.rateBps);
      if (set.wire !== undefined) this.network.setWire(link, set.wire);
      if (set.queue !== undefined) link.setQueue(set.queue);
    }
  }
}

/** The measurement window opens or closes: what is read is what stood before anything else of that instant. */
class WindowEdge extends Actor {
  constructor(network: Network, atNs: number, private readonly reached: () => void) {
    super();
    network.events.add(this);
    network.events.scheduleOrdered(this.actorId, atNs, before.windowEdge);
  }
  override fire(): void { this.reached(); }
}

/** iperf3's datagrams leave as iperf3's do; it cannot send on and off. */
const udpFlow = (network: Network, flow: PlanFlow, endNs: number): UdpSource => (
  flow.tool === 'iperf3' && flow.bursts === null && network.plan.tcp.model === 'linux' ? new Iperf3Udp(network, flow) : new UdpFlow(network, flow, endNs));

function check(plan: Plan): void {
  checkTests(plan);
  const names = new Set(plan.links.flatMap((link) => [link.forward.name, link.reverse.name]));
  for (const { direction } of plan.events) if (!names.has(direction)) throw new UserError(`plan: an event changes ${direction}, which is no link's direction; there are ${[...names].join(', ')}`);
  const tooLarge = memoryProblem(plan);
  if (tooLarge !== null) throw new UserError(tooLarge);
}

/**
 * @param rawDir an existing folder; gets flows.jsonl, agent.jsonl and, with records, queue-*.rec, packets-*.rec, probes.rec, sockets.rec
 * @throws UserError when the plan asks for what the simulator has not, or more memory than there is
 */
export function simulate(plan: Plan, rawDir: string, options: SimulateOptions): SimulationSummary {
  const steps = simulateInSteps(plan, rawDir, options);
  for (;;) {
    if (options.signal?.aborted) {
      steps.return(undefined as never); // closes the files
      throw options.signal.reason;
    }
    const step = steps.next();
    if (step.done === true) return step.value;
    options.onProgress?.(step.value);
  }
}

/**
 * The same, a step of simulated time at a `next()`, for a thread that has other things to do meanwhile: gives the time reached, ns, and in the end the
 * summary. Whoever stops before that calls `return()`, which closes the files.
 */
export function* simulateInSteps(plan: Plan, rawDir: string, options: Omit<SimulateOptions, 'onProgress' | 'signal'>): Generator<number, SimulationSummary, void> {
  check(plan);
  const raw = (name: string): string => path.join(rawDir, name);
  const agent = fs.openSync(raw('agent.jsonl'), 'w');
  const flowsFile = fs.openSync(raw('flows.jsonl'), 'w');
  const closers: (() => void)[] = [() => fs.closeSync(agent), () => fs.closeSync(flowsFile)];
  const say = (line: AgentLine): void => { fs.writeSync(agent, `${JSON.stringify(line)}\n`); };
  let pendingRows = '';
  const flushRows = (): void => {
    if (pendingRows !== '') fs.writeSync(flowsFile, pendingRows);
    pendingRows = '';
  };
  const row = (value: FlowRow): void => {
    pendingRows += `${JSON.stringify(value)}\n`;
    if (pendingRows.length > 65536) flushRows();
  };

  try {
    say({ type: 'progress', phase: 'setup', tNs: 0 });
    const endNs = plan.warmupNs + plan.durationNs;
    const network = new Network(plan, options.aqms ?? aqms);
    const { events, pool } = network;
    new PlanEvents(network, plan.events);

    const packetRecords: PacketRecords[] = [];
    let probeRows: RecordWriter | null = null;
    if (options.records) {
      for (const link of network.links) {
        if (!link.bottleneck || link.queue === null) continue;
        const sampler = new QueueSampler(network, plan, link, raw(`queue-${link.setting.name}.rec`));
        closers.unshift(() => sampler.close());
        if (!plan.collect.packets) continue;
        const records = new PacketRecords(raw(`packets-${link.setting.name}.rec`), link.setting.name);
        closers.unshift(() => records.close());
        packetRecords.push(records);
        link.records = records;
      }
      const writer = probeRows = new RecordWriter(raw('probes.rec'), 'probes', {}, probeFields, 32 * 1024);
      closers.unshift(() => writer.close());
    }
    const model = tcpModel(plan.tcp.model, plan.tcp.hostSysctls);
    const tcp = new TcpFlows(network, plan.flows.filter(({ transport }) => transport === 'tcp'), endNs, model, row);
    if (options.records) {
      const sampler = new SocketSampler(network, plan, tcp, raw('sockets.rec'));
      closers.unshift(() => sampler.close());
    }
    const udp = plan.flows.filter(({ transport }) => transport === 'udp').map((flow) => udpFlow(network, flow, endNs));
    const udpAtWarmup = new Map<number, number>();
    const udpAtEnd = new Map<number, number>();
    const probes = plan.probes.map((probe) => new Probe(network, probe, (...values) => probeRows?.row(...values)));

    say({ type: 'facts', engine: 'sim', tcp_model: plan.tcp.model, queue_disciplines: Object.fromEntries(network.links.filter(({ queue }) => queue !== null).map((link) => [link.setting.name, link.setting.queue!.kind])) });
    say({ type: 'progress', phase: 'traffic', tNs: 0 });

    new WindowEdge(network, plan.warmupNs, () => {
      tcp.opens();
      for (const flow of udp) udpAtWarmup.set(flow.plan.id, flow.received * flow.payload);
    });
    new WindowEdge(network, endNs, () => {
      tcp.cut();
      for (const flow of udp) udpAtEnd.set(flow.plan.id, flow.received * flow.payload);
    });
    events.run(0);
    while (events.now < endNs) {
      events.run(Math.min(endNs, events.now + stepNs));
      if (Math.floor(events.now / 1e9) > Math.floor((events.now - stepNs) / 1e9)) {
        flushRows();
        say({ type: 'progress', phase: 'traffic', tNs: events.now });
      }
      yield events.now;
    }
    say({ type: 'progress', phase: 'teardown', tNs: events.now });
    // Queues and wires empty themselves as long as the kernel engine lets them; datagrams and probes under way are waited for.
    events.run(endNs + settleNs + 2 * plan.flows.reduce((most, { baseRttNs }) => Math.max(most, baseRttNs), 0));
    while (events.now < endNs + graceNs && network.inFlight > 0 && udp.length + probes.length > 0) events.run(events.now + stepNs);

    for (const probe of probes) probe.settle(Infinity);
    for (const flow of udp) {
      const { plan: { id }, sent, received, duplicates, payload, failed } = flow;
      // As the kernel engine says of it: one that would have gone on was cut by the end of the run.
      const ended = flow.over && flow.endNs < endNs;
      row(!(flow.startNs >= 0) ? { ...none, id } : {
        ...none, id, t_start: flow.startNs, t_end: ended ? flow.endNs : null, bytes: received * payload, bytes_sent: sent * payload, packets_sent: sent, packets_lost: sent - received, packets_duplicated: duplicates,
        bytes_at_warmup: udpAtWarmup.get(id) ?? 0, bytes_at_end: udpAtEnd.get(id) ?? 0, status: failed !== null ? 'failed' : ended ? 'complete' : 'running', error: failed,
      });
    }
    flushRows();
    for (const { link, packets } of network.overflows()) {
      say({ type: 'finding', level: 'invalid', rule: 'netem-dropped', message: `the wire of ${link} had no room for ${packets} packets: its limit is too small for rate × delay; give a larger limit` });
    }
    network.checkConservation();
    const inFlight = network.inFlight;
    for (const link of network.links) link.recordWaiting();
    say({ type: 'progress', phase: 'done', tNs: events.now });
    return {
      endNs: events.now,
      events: events.fired,
      packets: { made: pool.made, delivered: pool.delivered, dropped: pool.dropped, inFlight, peak: pool.objects },
      links: network.links.map((link) => ({ name: link.setting.name, role: link.bottleneck ? 'bottleneck' as const : 'access' as const, sentPackets: link.sentPackets, sentBytes: link.sentBytes, drops: link.drops, marks: link.marks })),
    };
  } finally {
    for (const close of closers) close();
  }
}

const none: FlowRow = {
  id: -1, t_start: null, t_connected: null, t_end: null, bytes: null, bytes_sent: null, packets_sent: null, packets_lost: null, packets_duplicated: null,
  bytes_at_warmup: null, bytes_at_end: null, retransmits: null, retransmits_at_warmup: null, retransmits_at_end: null, status: 'not-started', error: null,
};
