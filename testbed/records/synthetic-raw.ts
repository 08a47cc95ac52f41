/**
 * A raw/ folder as the kernel engine would leave it, made from a toy drop-tail queue: Poisson arrivals of fixed-size
 * packets at one bottleneck (M/D/1, finite). For tests and the benchmark; `onPacket` tells what truly became of each
 * packet, so that what is measured can be checked against it.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Plan, PlanDirection, PlanFlow, PlanInterface } from '../plan/plan.js';
import { captureFields, probeFields, queueFields, socketFields } from './raw.js';
import type { AgentLine, FlowRow } from './raw.js';
import { RecordWriter } from './record-file.js';
import type { RunJson } from './run-json.js';

export interface SyntheticOptions {
  /** Packets arriving at BL1. */
  readonly packets: number;
  /** Default 1. */
  readonly seed?: number;
  /** Long TCP flows. Default 4. */
  readonly flows?: number;
  /** Short flows of 60 kB, evenly over the window; each is only rows of flows.jsonl. Default 0. */
  readonly shortFlows?: number;
  /** Default 20 Mbit/s. */
  readonly rateBps?: number;
  /** Offered load, 0 … Default 0.9. */
  readonly load?: number;
  /** Packets the queue holds. Default 1000. */
  readonly limitPackets?: number;
  /** Every n-th packet that leaves is CE-marked; 0 = none. Default 0. */
  readonly markEvery?: number;
  /** Rows of one ring written before the other's: > 1 makes the file unordered in time, as rings drained on a timer do. Default 1. */
  readonly batchRows?: number;
  /** Default 10 ms; null = no queue records. */
  readonly queueIntervalNs?: number | null;
  /** Default true. */
  readonly captures?: boolean;
  /** Share of the arrivals' time before the window opens. Default 0.1. */
  readonly warmupShare?: number;
  readonly name?: string;
  readonly queueKind?: string;
  readonly varied?: Readonly<Record<string, string>>;
  readonly onPacket?: (packet: SyntheticPacket) => void;
}
export interface SyntheticPacket { readonly tEnqueue: number; /** null = dropped */ readonly tDequeue: number | null; readonly flow: number; readonly size: number; readonly marked: boolean }

const size = 1500;
const overheadBytes = 14;

/** A small generator of its own (mulberry32), so that the data do not depend on a library's version. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

export function syntheticPlan(options: SyntheticOptions): Plan {
  const { flows = 4, shortFlows = 0, rateBps = 20e6, load = 0.9, warmupShare = 0.1, seed = 1 } = options;
  const totalNs = Math.ceil((options.packets * (size + overheadBytes) * 8e9) / (rateBps * load));
  const warmupNs = Math.round(totalNs * warmupShare);
  const queue = { kind: options.queueKind ?? 'pfifo', in: 'kernel' as const, params: { limit: options.limitPackets ?? 1000 } };
  const shaped = (name: string): PlanDirection => ({ name, rateBps, shaper: 'htb', overheadBytes, queue, wire: [] });
  const open = (name: string, delayNs: number): PlanDirection => ({
    name, rateBps: null, shaper: null, overheadBytes, queue: null,
    wire: delayNs === 0 ? [] : [{ delayNs, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 10000 }],
  });
  const host = (kind: string, i: number): string => `${kind}[${i}]`;
  const port = (node: string, device: string, address: string): PlanInterface => ({ node, device, addresses: [address] });
  const flowOf = (id: number, over: Partial<PlanFlow>): PlanFlow => ({
    id, class: 'long', kind: 'bulk', transport: 'tcp', tool: 'builtin', src: host('S', id % flows), dst: host('D', id % flows),
    srcAddress: `10.0.1.${(id % flows) + 10}`, dstAddress: `10.0.2.${(id % flows) + 10}`, srcPort: 10000 + id, dstPort: 5000,
    startNs: 0, stopNs: totalNs, bytes: null, cc: 'cubic', ecn: false, rateBps: null, packetBytes: null, bursts: null, toolArgs: [], baseRttNs: 50e6, ...over,
  });
  const windowNs = totalNs - warmupNs;
  return {
    schema: 1, name: options.name ?? 'synthetic', seed, varied: options.varied ?? {}, warmupNs, durationNs: windowNs,
    nodes: [
      ...Array.from({ length: flows }, (_, i) => ['S', 'D'].map((kind) => ({ name: host(kind, i), role: 'host' as const, netns: `${kind}.${i}`, routes: [] }))).flat(),
      ...['R1', 'R2'].map((name) => ({ name, role: 'router' as const, netns: name, routes: [] })),
    ],
    links: [
      { name: 'BL1', role: 'bottleneck', a: port('R1', 'bl1', '10.0.0.1/24'), b: port('R2', 'bl1', '10.0.0.2/24'), mtuBytes: 1500, forward: shaped('BL1'), reverse: shaped('BL1.reverse') },
      ...Array.from({ length: flows }, (_, i) => (['S', 'D'] as const).map((kind) => ({
        name: host(kind, i), role: 'access' as const, a: port(host(kind, i), 'eth0', `10.0.${kind === 'S' ? 1 : 2}.${i + 10}/24`),
        b: port(kind === 'S' ? 'R1' : 'R2', `${kind.toLowerCase()}${i}`, `10.0.${kind === 'S' ? 1 : 2}.1/24`), mtuBytes: 1500,
        forward: open(host(kind, i), kind === 'D' ? 50e6 : 0), reverse: open(`${host(kind, i)}.reverse`, 0),
      }))).flat(),
    ],
    flows: [
      ...Array.from({ length: flows }, (_, id) => flowOf(id, {})),
      ...Array.from({ length: shortFlows }, (_, i) => flowOf(flows + i, { class: 'web', kind: 'short', bytes: 60000, stopNs: null, startNs: warmupNs + Math.floor((windowNs * i) / shortFlows) })),
    ],
    probes: [{ id: 0, name: 'ping', tool: 'builtin', src: host('S', 0), dst: host('D', 0), srcAddress: '10.0.1.10', dstAddress: '10.0.2.10', port: 7000, startNs: 0, stopNs: totalNs, intervalNs: 10e6, sizeBytes: 100 }],
    events: [], collect: { queueIntervalNs: options.queueIntervalNs === undefined ? 10e6 : options.queueIntervalNs, socketIntervalNs: 10e6, packets: options.captures ?? true },
    tcp: { hostSysctls: {}, routerSysctls: {}, model: 'linux' },
  };
}

/** Writes `<runDir>/raw`. @returns the plan in it */
export function writeSyntheticRaw(runDir: string, options: SyntheticOptions): Plan {
  const plan = syntheticPlan(options);
  const { flows = 4, rateBps = 20e6, load = 0.9, limitPackets = 1000, markEvery = 0, batchRows = 1, captures = true, seed = 1 } = options;
  const raw = path.join(runDir, 'raw');
  fs.mkdirSync(raw, { recursive: true });
  fs.writeFileSync(path.join(raw, 'plan.json'), JSON.stringify(plan));
  const endNs = plan.warmupNs + plan.durationNs;
  const draw = random(seed);
  const serviceNs = ((size + overheadBytes) * 8e9) / rateBps;

  const interval = plan.collect.queueIntervalNs;
  const queue = interval === null ? null : new RecordWriter(path.join(raw, 'queue-BL1.rec'), 'queue', { bottleneck: 'BL1' }, queueFields);
  const rings = captures ? new RecordWriter(path.join(raw, 'captures-R1.rec'), 'captures', {}, captureFields) : null;
  if (captures) fs.writeFileSync(path.join(raw, 'captures-R1.json'), JSON.stringify({ directions: ['BL1', 'BL1.reverse'], lost: 0 }));
  let entering: number[][] = [];
  let leaving: number[][] = [];
  const drain = (): void => {
    for (const row of leaving) rings?.row(...row);
    for (const row of entering) rings?.row(...row);
    leaving = [];
    entering = [];
  };
  const write = (row: number[]): void => {
    if (batchRows === 1) { rings?.row(...row); return; }
    (row[6] === 1 ? leaving : entering).push(row);
    if (entering.length + leaving.length >= batchRows) drain();
  };

  // A ring of what is in the queue: arrival, departure, packet number, flow.
  const capacity = limitPackets + 1;
  const inQueue = { tIn: new Float64Array(capacity), tOut: new Float64Array(capacity), id: new Float64Array(capacity), flow: new Int32Array(capacity), head: 0, n: 0 };
  let t = 0;
  let busyUntil = 0;
  let departed = 0;
  let drops = 0;
  let marks = 0;
  let nextSample = 0;
  const depart = (until: number): void => {
    while (inQueue.n > 0 && inQueue.tOut[inQueue.head]! <= until) {
      const h = inQueue.head;
      const out = inQueue.tOut[h]!;
      sampleUntil(out);
      departed++;
      const marked = markEvery > 0 && departed % markEvery === 0;
      if (marked) marks++;
      const id = inQueue.id[h]!;
      write([out, id >>> 0, Math.floor(id / 4294967296), size, inQueue.flow[h]!, 0, 1, marked ? 3 : 2, 1]);
      options.onPacket?.({ tEnqueue: inQueue.tIn[h]!, tDequeue: out, flow: inQueue.flow[h]!, size, marked });
      inQueue.head = (h + 1) % capacity;
      inQueue.n--;
    }
  };
  const sampleUntil = (until: number): void => {
    if (queue === null || interval === null) return;
    for (; nextSample < until && nextSample <= endNs; nextSample += interval) {
      queue.row(nextSample, inQueue.n * (size + overheadBytes), inQueue.n, departed * (size + overheadBytes), departed, drops, marks);
    }
  };
  for (let i = 0; i < options.packets; i++) {
    t += Math.max(1, Math.round((-Math.log(1 - draw()) * serviceNs) / load));
    depart(t);
    sampleUntil(t);
    const flow = Math.floor(draw() * flows);
    write([t, i >>> 0, 0, size, flow, 0, 0, 2, 1]);
    if (inQueue.n >= limitPackets) {
      drops++;
      options.onPacket?.({ tEnqueue: t, tDequeue: null, flow, size, marked: false });
      continue;
    }
    const start = Math.max(t, busyUntil);
    busyUntil = start + serviceNs;
    const slot = (inQueue.head + inQueue.n++) % capacity;
    inQueue.tIn[slot] = t;
    inQueue.tOut[slot] = Math.round(start); // handed to the link when the link is free
    inQueue.id[slot] = i;
    inQueue.flow[slot] = flow;
  }
  depart(Infinity);
  sampleUntil(Infinity);
  drain();
  rings?.close();
  queue?.close();

  const rows: FlowRow[] = plan.flows.map((flow) => {
    const short = flow.bytes !== null;
    const share = short ? flow.bytes! : (plan.durationNs * rateBps * Math.min(1, load)) / 8e9 / flows;
    return {
      id: flow.id, t_start: flow.startNs, t_connected: flow.startNs + 51e6, t_end: short ? flow.startNs + 200e6 + (flow.id % 10) * 10e6 : null, bytes: Math.round(short ? share : share * 1.1),
      bytes_sent: null, packets_sent: null, packets_lost: null, packets_duplicated: null, bytes_at_warmup: short ? null : Math.round(share * 0.1), bytes_at_end: short ? null : Math.round(share * 1.1),
      retransmits: short ? 0 : 12 + flow.id, retransmits_at_warmup: short ? null : 2, retransmits_at_end: short ? null : 12 + flow.id,
      status: short && flow.startNs + 300e6 < endNs ? 'complete' : 'running', error: null,
    };
  });
  fs.writeFileSync(path.join(raw, 'flows.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));

  const probes = new RecordWriter(path.join(raw, 'probes.rec'), 'probes', {}, probeFields);
  const sockets = new RecordWriter(path.join(raw, 'sockets.rec'), 'sockets', {}, socketFields);
  const step = Math.max(10e6, Math.ceil(endNs / 2000));
  for (let at = 0, seq = 0; at < endNs; at += step, seq++) {
    const lost = seq % 50 === 49;
    const delay = 50e6 + Math.round(draw() * 20e6);
    probes.row(0, seq, at, lost ? NaN : delay, lost ? NaN : delay - 50e6, lost ? NaN : 50e6);
    for (let flow = 0; flow < flows; flow++) {
      const cwnd = 20 + ((seq + flow * 13) % 60);
      sockets.row(at, flow, cwnd, 40, delay, 2e6, 50e6, rateBps / flows, NaN, (at * rateBps) / 8e9 / flows, Math.floor(seq / 100), cwnd, 0);
    }
  }
  probes.close();
  sockets.close();
  const lines: AgentLine[] = [{ type: 'progress', phase: 'traffic', tNs: 0 }, { type: 'progress', phase: 'done', tNs: endNs }];
  fs.writeFileSync(path.join(raw, 'agent.jsonl'), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  return plan;
}

/** A run.json to go with it. */
export const runJson = (over: Partial<RunJson> = {}): RunJson => ({
  schema: 1, name: 'synthetic', planHash: '0123456789abcdef', engine: 'kernel', machine: 'uml:6.12', clock: 'virtual', hosts: 'netns', kernel: { release: '6.12.117' },
  toolVersions: { iperf3: '3.12' }, seed: 1, varied: {}, gitCommit: null, started: '2026-01-01T00:00:00.000Z', ended: '2026-01-01T00:00:02.000Z', status: 'complete', findings: [], facts: {}, counts: {}, ...over,
});
