/**
 * The figures of one run (terms of RFC 7928), from its record tables and nothing else: which engine made them does
 * not matter. Everything is over the measurement window [warmup, warmup + duration]:
 *
 * - a packet's delay, loss and mark belong to the window if it arrived at the queue in it (t_enqueue);
 * - throughput and utilisation count packets that left in it (t_dequeue);
 * - flow completion and start-up times are of flows that started in it (t_start);
 * - goodput, fairness and retransmissions are of flows alive in it, from their counts at its edges;
 * - a probe packet belongs to it if it was sent in it.
 *
 * A run cut short is measured up to its last record. Undefined figures are null. `methods` beside the figures says
 * how each was measured and from how many samples.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Plan, PlanDirection, PlanFlow } from '../plan/plan.js';
import { openDatabase, sqlPath, sqlText } from '../records/database.js';
import type { Database } from '../records/database.js';
import { parquetOf, readPlan } from '../records/ingest.js';
import type { Finding } from '../records/raw.js';
import { readRunJson, writeJsonAtomically } from '../records/run-json.js';
import { tables } from '../records/tables.js';
import type { TableName } from '../records/tables.js';
import { capacityBits, rateAtSql, rateSteps } from './capacity.js';
import { distributionOf, distributionSql } from './distribution.js';
import { recordFindings } from './findings.js';
import type { Distribution } from './distribution.js';
import { inWindow } from './flow-window.js';
import { jain } from './jain.js';
import { lossSynchronisation } from './loss-synchronisation.js';
import { rounded, significantDigits } from './round.js';

export interface Method { readonly how: string; readonly n: number }
export type Methods = Readonly<Record<string, Method>>;

export interface BottleneckMetrics {
  /** IP bytes that left, bits/s. */
  readonly throughputBps: number | null;
  /** Bits as the shaper counts them over what its rate allows, 0 … 1. */
  readonly utilisation: number | null;
  /** Dropped / arrived. */
  readonly lossRatio: number | null;
  /** CE-marked here / arrived. */
  readonly markRatio: number | null;
  readonly queueDelayMs: Distribution;
  readonly backlogBytes: Distribution;
  readonly backlogPackets: Distribution;
  readonly packets: {
    readonly arrived: number | null; readonly left: number | null; readonly dropped: number | null; readonly marked: number | null;
    /** Arrived in the window, neither dropped nor gone when the record ended: not in `queueDelayMs`. null without packet records. */
    readonly waiting: number | null;
  };
  /** The queue's own counters over the window. */
  readonly counters: { readonly drops: number | null; readonly marks: number | null };
  readonly lossSynchronisation: number | null;
  readonly lossEvents: number;
  /** The data packets of each flow class at this bottleneck. */
  readonly classes: Readonly<Record<string, { readonly throughputBps: number | null; readonly lossRatio: number | null; readonly markRatio: number | null; readonly queueDelayMs: Distribution }>>;
  readonly methods: Methods;
}

export interface ClassMetrics {
  /** Flows alive in the window, not-started ones included that should have been. */
  readonly flows: number;
  /** Flows of fixed size that started in the window and completed. */
  readonly completed: number;
  readonly failed: number;
  readonly throughputBps: number | null;
  readonly goodputBps: number | null;
  /** Jain's index of the flows' goodput. */
  readonly jain: number | null;
  /** Jain's index of the flows' shares of the class's drops. */
  readonly jainDropShare: number | null;
  readonly lossRatio: number | null;
  readonly markRatio: number | null;
  readonly retransmits: number | null;
  readonly fctS: Distribution;
  /** Completion times by flow size. */
  readonly fctBySizeS: Readonly<Record<string, Distribution>>;
  readonly startupS: Distribution;
  readonly srttMs: Distribution;
  readonly cwndPackets: Distribution;
  readonly methods: Methods;
}

export interface ProbeMetrics {
  readonly sent: number;
  readonly lossRatio: number | null;
  readonly rttMs: Distribution;
  readonly owdForwardMs: Distribution;
  readonly owdReverseMs: Distribution;
  readonly methods: Methods;
}

export interface Metrics {
  readonly schema: 1;
  readonly engine: string;
  readonly seed: number;
  readonly name: string;
  readonly varied: Readonly<Record<string, string>>;
  readonly windowS: readonly [number, number];
  /** The run ended before its window did: figures are of the part it reached. */
  readonly cut: boolean;
  readonly precision: string;
  readonly bottlenecks: Readonly<Record<string, BottleneckMetrics>>;
  readonly classes: Readonly<Record<string, ClassMetrics>>;
  readonly probes: Readonly<Record<string, ProbeMetrics>>;
}

export const metricsName = 'metrics.json';

/** Computes the figures of an ingested run and writes `metrics.json`. Same tables, same bytes. */
export const computeMetrics = async (runDir: string): Promise<Metrics> => (await measureRun(runDir)).metrics;

/** The same, and what the records say about the figures' worth. */
export async function measureRun(runDir: string): Promise<{ readonly metrics: Metrics; readonly findings: readonly Finding[] }> {
  const plan = readPlan(runDir);
  const run = readRunJson(runDir);
  const database = await openDatabase();
  try {
    await openTables(database, runDir);
    const window = await measurementWindow(database, runDir, plan, run?.status === 'complete');
    const flows = await readFlows(database, plan);
    const atBottleneck = await flowsAtBottlenecks(database, window);
    const bottlenecks: Record<string, BottleneckMetrics> = {};
    for (const direction of bottleneckDirections(plan)) bottlenecks[direction.name] = await bottleneckMetrics(database, plan, direction, window, flows, atBottleneck);
    const classes: Record<string, ClassMetrics> = {};
    for (const name of new Set(plan.flows.map((flow) => flow.class))) classes[name] = await classMetrics(database, plan, name, window, flows, atBottleneck);
    const probes: Record<string, ProbeMetrics> = {};
    for (const name of new Set(plan.probes.map((probe) => probe.name))) probes[name] = await probeMetrics(database, name, window);
    const metrics: Metrics = rounded({
      schema: 1, engine: run?.engine ?? 'unknown', seed: plan.seed, name: plan.name, varied: plan.varied,
      windowS: [window.open / 1e9, window.close / 1e9] as const, cut: window.cut,
      precision: `whole numbers exact, others rounded to ${significantDigits} significant digits`,
      bottlenecks, classes, probes,
    } as const);
    writeJsonAtomically(path.join(runDir, metricsName), metrics);
    const findings = await recordFindings(database, runDir, plan, run?.clock ?? 'virtual', window, flows, metrics);
    return { metrics, findings };
  } finally {
    database.close();
  }
}

/** Directions of bottleneck links that can queue, in the plan's order. */
export const bottleneckDirections = (plan: Plan): PlanDirection[] =>
  plan.links.filter((link) => link.role === 'bottleneck').flatMap((link) => [link.forward, link.reverse]).filter((direction) => direction.queue !== null || direction.rateBps !== null);

/** A view a table over the run's Parquet; a table that is not there has no rows. Done once where a database stays with a run. */
export async function openTables(database: Database, runDir: string): Promise<void> {
  if (database.views.of === runDir) return;
  database.views.of = null;
  for (const [name, table] of Object.entries(tables)) {
    const file = parquetOf(runDir, name as TableName);
    const source = fs.existsSync(file) ? `SELECT * FROM read_parquet(${sqlPath(file)})`
      : `SELECT ${table.columns.map((column) => `CAST(NULL AS ${column.type}) AS "${column.name}"`).join(', ')} WHERE false`;
    await database.run(`CREATE OR REPLACE VIEW ${name} AS ${source}`);
  }
  const names = Object.keys(tables);
  // Of the files' own count of rows.
  const [counts] = await database.rows<Record<string, number>>(`SELECT ${names.map((name) => `(SELECT count(*) FROM ${name}) AS ${name}`).join(', ')}`);
  database.views.withoutRows = new Set(names.filter((name) => counts![name] === 0));
  database.views.of = runDir;
}

export interface Window { readonly open: number; readonly close: number; /** close − open, s. */ readonly seconds: number; readonly cut: boolean; readonly end: number }

export async function measurementWindow(database: Database, runDir: string, plan: Plan, complete: boolean): Promise<Window> {
  const open = plan.warmupNs;
  const planned = plan.warmupNs + plan.durationNs;
  let close = planned;
  if (!complete && !reachedTeardown(runDir)) {
    const [last] = await database.rows<{ t: number | null }>(
      'SELECT max(t) AS t FROM (SELECT max(t) AS t FROM queue UNION ALL SELECT max(coalesce(t_dequeue, t_enqueue)) FROM packets UNION ALL SELECT max(t) FROM probes UNION ALL SELECT max(t) FROM sockets UNION ALL SELECT max(t_end) FROM flows)');
    close = Math.min(planned, Math.max(open, last?.t ?? 0));
  }
  return { open, close, seconds: (close - open) / 1e9, cut: close < planned, end: close };
}

/** Whether the engine says that it went through the whole window. */
function reachedTeardown(runDir: string): boolean {
  let text: string;
  try {
    text = fs.readFileSync(path.join(runDir, 'raw', 'agent.jsonl'), 'utf8');
  } catch {
    return false;
  }
  return text.split('\n').some((line) => {
    if (!line.includes('"progress"')) return false;
    try {
      const { type, phase } = JSON.parse(line) as { type?: string; phase?: string };
      return type === 'progress' && (phase === 'teardown' || phase === 'done');
    } catch {
      return false;
    }
  });
}

// ---- Bottlenecks ---------------------------------------------------------------------------------------------

/** A flow's data packets at a bottleneck, over the window. */
interface FlowAtBottleneck {
  readonly bottleneck: string; readonly flow: number;
  readonly arrived: number; readonly dropped: number; readonly marked: number; readonly leftBytes: number;
}

const inWin = (column: string, window: Window): string => `${column} >= ${window.open} AND ${column} < ${window.close}`;

/** Queueing delay, ms, of a packet that arrived in the window and was not dropped; null otherwise. */
const delayInWindow = (window: Window): string => `CASE WHEN NOT dropped AND ${inWin('t_enqueue', window)} THEN (t_dequeue - t_enqueue) / 1e6 END`;

const flowsAtBottlenecks = (database: Database, window: Window): Promise<FlowAtBottleneck[]> => database.rowsOf('packets', `
  SELECT bottleneck, flow, count(*) FILTER (${inWin('t_enqueue', window)}) AS arrived, count(*) FILTER (dropped AND ${inWin('t_enqueue', window)}) AS dropped,
    count(*) FILTER (marked AND ${inWin('t_enqueue', window)}) AS marked, CAST(coalesce(sum(size) FILTER (${inWin('t_dequeue', window)}), 0) AS DOUBLE) AS "leftBytes"
  FROM packets WHERE "forward" AND flow >= 0 GROUP BY bottleneck, flow ORDER BY bottleneck, flow`);

interface PacketTotals { arrived: number; dropped: number; marked: number; left: number; leftBytes: number; waiting: number }

async function bottleneckMetrics(
  database: Database, plan: Plan, direction: PlanDirection, window: Window, flows: readonly FlowRecord[], atBottleneck: readonly FlowAtBottleneck[],
): Promise<BottleneckMetrics> {
  const name = sqlText(direction.name);
  const steps = rateSteps(direction, plan.events);
  const capacity = capacityBits(steps, window.open, window.close);
  const samples = await queueCounters(database, name, window);
  const perPacket = !database.views.withoutRows.has('packets') || (plan.collect.packets && samples === null);
  const perSecond = (bits: number | null): number | null => (bits === null || window.seconds <= 0 ? null : bits / window.seconds);
  const ratio = (part: number | null, whole: number | null): number | null => (part === null || whole === null || whole <= 0 ? null : part / whole);

  const [backlog] = await database.rowsOf<Record<string, unknown>>('queue', `
    SELECT ${distributionSql('CAST(backlog_bytes AS DOUBLE)', 'b_')}, ${distributionSql('CAST(backlog_packets AS DOUBLE)', 'p_')}
    FROM queue WHERE bottleneck = ${name} AND t BETWEEN ${window.open} AND ${window.close}`);

  let totals: { arrived: number | null; dropped: number | null; marked: number | null; left: number | null; waiting: number | null };
  let leftBytes: number | null;
  let shaperBytes: number | null;
  let queueDelayMs: Distribution;
  let source: string;
  let n: number;
  if (perPacket) {
    const [row] = await database.rows<PacketTotals & Record<string, unknown>>(`
      SELECT count(*) FILTER (${inWin('t_enqueue', window)}) AS arrived, count(*) FILTER (dropped AND ${inWin('t_enqueue', window)}) AS dropped,
        count(*) FILTER (marked AND ${inWin('t_enqueue', window)}) AS marked, count(*) FILTER (${inWin('t_dequeue', window)}) AS "left",
        count(*) FILTER (NOT dropped AND t_dequeue IS NULL AND ${inWin('t_enqueue', window)}) AS waiting,
        CAST(coalesce(sum(size) FILTER (${inWin('t_dequeue', window)}), 0) AS DOUBLE) AS "leftBytes", ${distributionSql('delay')}
      FROM (SELECT *, ${delayInWindow(window)} AS delay FROM packets WHERE bottleneck = ${name})`);
    totals = row!;
    leftBytes = row!.leftBytes;
    shaperBytes = row!.leftBytes + direction.overheadBytes * row!.left;
    queueDelayMs = distributionOf(row, 'per-packet');
    source = 'packet records';
    n = row!.left;
  } else {
    const sent = samples?.sentPackets ?? null;
    totals = { left: sent, dropped: samples?.drops ?? null, marked: samples?.marks ?? null, arrived: sent === null || samples === null ? null : sent + samples.drops, waiting: null };
    shaperBytes = samples?.sentBytes ?? null;
    leftBytes = samples === null || sent === null ? null : samples.sentBytes - direction.overheadBytes * sent;
    const [delay] = steps.length === 0 ? [] : await database.rowsOf<Record<string, unknown>>('queue', `
      SELECT ${distributionSql('delay')} FROM (SELECT backlog_bytes * 8e3 / (${rateAtSql(steps, 't')}) AS delay FROM queue WHERE bottleneck = ${name} AND t BETWEEN ${window.open} AND ${window.close})`);
    queueDelayMs = distributionOf(delay, 'sampled-backlog');
    source = "the queue's counters, interpolated at the edges of the window";
    n = samples?.n ?? 0;
  }

  const classRows = perPacket ? await database.rows<Record<string, unknown> & { class: string }>(`
    SELECT class, count(*) FILTER (${inWin('t_enqueue', window)}) AS arrived, count(*) FILTER (dropped AND ${inWin('t_enqueue', window)}) AS dropped,
      count(*) FILTER (marked AND ${inWin('t_enqueue', window)}) AS marked, CAST(coalesce(sum(size) FILTER (${inWin('t_dequeue', window)}), 0) AS DOUBLE) AS "leftBytes", ${distributionSql('delay')}
    FROM (SELECT flow, size, t_enqueue, t_dequeue, dropped, marked, ${delayInWindow(window)} AS delay
      FROM packets WHERE bottleneck = ${name} AND "forward" AND flow >= 0) AS p JOIN flows AS f ON p.flow = f.id GROUP BY class`) : [];
  const classOrder = [...new Set(plan.flows.map((flow) => flow.class))];
  const classes = Object.fromEntries(classOrder.flatMap((className) => {
    const row = classRows.find((candidate) => candidate.class === className);
    if (row === undefined) return [];
    return [[className, {
      throughputBps: perSecond((row['leftBytes'] as number) * 8), lossRatio: ratio(row['dropped'] as number, row['arrived'] as number),
      markRatio: ratio(row['marked'] as number, row['arrived'] as number), queueDelayMs: distributionOf(row, 'per-packet'),
    }]];
  }));

  const sync = perPacket ? await synchronisation(database, name, window, flows, atBottleneck.filter((row) => row.bottleneck === direction.name), queueDelayMs.p50) : { ratio: null, events: 0, rttMs: 0 };
  const count = (value: number | null | undefined): number | null => (value === null || value === undefined ? null : Math.round(value)); // interpolated at the edges
  const backlogHow = `the queue's backlog, as the shaper counts bytes, at each sample in the window`;
  return {
    throughputBps: perSecond(leftBytes === null ? null : leftBytes * 8),
    utilisation: shaperBytes === null || capacity === null || capacity <= 0 ? null : (shaperBytes * 8) / capacity,
    lossRatio: ratio(totals.dropped, totals.arrived),
    markRatio: ratio(totals.marked, totals.arrived),
    queueDelayMs,
    backlogBytes: distributionOf(backlog, 'samples', 'b_'),
    backlogPackets: distributionOf(backlog, 'samples', 'p_'),
    packets: { arrived: totals.arrived, left: totals.left, dropped: totals.dropped, marked: totals.marked, waiting: totals.waiting },
    counters: { drops: count(samples?.drops), marks: count(samples?.marks) },
    lossSynchronisation: sync.ratio,
    lossEvents: sync.events,
    classes,
    methods: {
      throughputBps: { how: `IP bytes that left in the window, from ${source}`, n },
      utilisation: { how: `bytes that left in the window with ${direction.overheadBytes} bytes of overhead a packet, as the shaper counts, over its rate × window (rate changes followed), from ${source}`, n },
      lossRatio: { how: `dropped / arrived, packets that arrived in the window, from ${source}`, n: totals.arrived ?? 0 },
      markRatio: { how: `CE set by this queue / arrived, packets that arrived in the window, from ${source}`, n: totals.arrived ?? 0 },
      queueDelayMs: {
        how: perPacket ? `time from arrival at the queue to being handed to the link, of each packet that arrived in the window and was not dropped${totals.waiting === 0 ? '' : `; ${totals.waiting} that were still queued when the record ended are left out, so long delays are missing`}` : 'backlog × 8 / rate at each sample in the window: the time the backlog needs to drain, not what packets saw',
        n: queueDelayMs.n,
      },
      backlogBytes: { how: backlogHow, n: (backlog?.['b_n'] as number) ?? 0 },
      backlogPackets: { how: backlogHow, n: (backlog?.['p_n'] as number) ?? 0 },
      counters: { how: "the queue's own counters, difference over the window (interpolated at its edges)", n: samples?.n ?? 0 },
      lossSynchronisation: {
        how: `global synchronisation ratio (RFC 7928 section 2.4): mean over loss events of long TCP flows that lost packets / those active; an event takes in the drops within one RTT (${sync.rttMs} ms: largest base RTT + median queueing delay) of its first; drops are placed by arrival of the packet`,
        n: sync.events,
      },
      classes: { how: 'the same, of data packets (not ACKs) of each class', n },
    },
  };
}

interface QueueCounters { readonly sentBytes: number; readonly sentPackets: number; readonly drops: number; readonly marks: number | null; readonly n: number }

/** The queue's cumulative counters over the window, straight lines between samples; null without two samples around it. */
async function queueCounters(database: Database, name: string, window: Window): Promise<QueueCounters | null> {
  const rows = await database.rowsOf<{ t: number; sent_bytes: number; sent_packets: number; drops: number; marks: number | null }>('queue', `
    SELECT t, sent_bytes, sent_packets, drops, marks FROM queue WHERE bottleneck = ${name}
      AND t >= (SELECT coalesce(max(t), -1) FROM queue WHERE bottleneck = ${name} AND t <= ${window.open})
      AND t <= (SELECT coalesce(min(t), ${Number.MAX_SAFE_INTEGER}) FROM queue WHERE bottleneck = ${name} AND t >= ${window.close}) ORDER BY t`);
  if (rows.length < 2) return null;
  const at = (column: 'sent_bytes' | 'sent_packets' | 'drops' | 'marks', t: number): number | null => {
    let before = rows[0]!;
    let after = rows[rows.length - 1]!;
    for (const row of rows) {
      if (row.t <= t) before = row;
      if (row.t >= t) { after = row; break; }
    }
    const [a, b] = [before[column], after[column]];
    if (a === null || b === null) return null;
    return after.t <= before.t ? b : a + ((b - a) * Math.min(1, Math.max(0, (t - before.t) / (after.t - before.t))));
  };
  const over = (column: 'sent_bytes' | 'sent_packets' | 'drops' | 'marks'): number | null => {
    const [open, close] = [at(column, window.open), at(column, window.close)];
    return open === null || close === null ? null : close - open;
  };
  const [sentBytes, sentPackets, drops] = [over('sent_bytes'), over('sent_packets'), over('drops')];
  if (sentBytes === null || sentPackets === null || drops === null) return null;
  return { sentBytes, sentPackets, drops, marks: over('marks'), n: rows.filter((row) => row.t >= window.open && row.t <= window.close).length };
}

async function synchronisation(
  database: Database, name: string, window: Window, flows: readonly FlowRecord[], here: readonly FlowAtBottleneck[], medianDelayMs: number | null,
): Promise<{ ratio: number | null; events: number; rttMs: number }> {
  const crossing = new Set(here.map((row) => row.flow));
  const long = flows.filter((flow) => flow.plan.kind === 'bulk' && flow.plan.transport === 'tcp' && flow.tStart !== null && crossing.has(flow.plan.id));
  const rttNs = Math.round(long.reduce((largest, flow) => Math.max(largest, flow.plan.baseRttNs), 0) + (medianDelayMs ?? 0) * 1e6);
  if (long.length < 2) return { ratio: null, events: 0, rttMs: rttNs / 1e6 };
  const drops = await database.rows<{ t: number; flow: number }>(`
    SELECT t_enqueue AS t, flow FROM packets WHERE bottleneck = ${name} AND dropped AND "forward" AND flow >= 0 AND ${inWin('t_enqueue', window)} ORDER BY t_enqueue, seq`);
  return { ...lossSynchronisation(drops, long.map((flow) => ({ id: flow.plan.id, tStart: flow.tStart!, tEnd: flow.tEnd })), rttNs), rttMs: rttNs / 1e6 };
}

// ---- Flow classes --------------------------------------------------------------------------------------------

export interface FlowRecord {
  readonly plan: PlanFlow;
  readonly tStart: number | null; readonly tEnd: number | null; readonly status: string;
  readonly bytes: number | null; readonly bytesAtOpen: number | null; readonly bytesAtClose: number | null;
  readonly retransmits: number | null; readonly retransmitsAtOpen: number | null; readonly retransmitsAtClose: number | null;
  readonly packetsSent: number | null; readonly packetsLost: number | null;
}

export async function readFlows(database: Database, plan: Plan): Promise<FlowRecord[]> {
  const rows = await database.rows<Omit<FlowRecord, 'plan'> & { id: number }>(`
    SELECT id, t_start AS "tStart", t_end AS "tEnd", status, bytes, bytes_at_warmup AS "bytesAtOpen", bytes_at_end AS "bytesAtClose", retransmits,
      retransmits_at_warmup AS "retransmitsAtOpen", retransmits_at_end AS "retransmitsAtClose", packets_sent AS "packetsSent", packets_lost AS "packetsLost" FROM flows ORDER BY id`);
  return rows.flatMap(({ id, ...row }) => (plan.flows[id] === undefined ? [] : [{ plan: plan.flows[id], ...row }]));
}

/** Headers of a full-sized TCP segment with time stamps, bytes: IP + TCP + options. */
const tcpHeaders = (flow: PlanFlow): number => (flow.dstAddress.includes(':') ? 40 : 20) + 20 + 12;
const udpHeaders = (flow: PlanFlow): number => (flow.dstAddress.includes(':') ? 40 : 20) + 8;

async function classMetrics(
  database: Database, plan: Plan, name: string, window: Window, all: readonly FlowRecord[], atBottleneck: readonly FlowAtBottleneck[],
): Promise<ClassMetrics> {
  const members = all.filter((flow) => flow.plan.class === name);
  const alive = members.filter((flow) => {
    const start = flow.tStart ?? flow.plan.startNs;
    return start < window.close && (flow.tEnd === null || flow.tEnd > window.open);
  });
  const failed = alive.filter((flow) => flow.status === 'failed' || flow.status === 'not-started').length;

  let interpolated = 0;
  const goodputs = alive.map((flow) => {
    const bytes = inWindow({ tStart: flow.tStart, tEnd: flow.tEnd, total: flow.bytes, atOpen: flow.bytesAtOpen, atClose: flow.bytesAtClose }, window.open, window.close, window.end);
    if (bytes.interpolated) interpolated++;
    return bytes.value;
  });
  const rate = (bytes: number): number | null => (window.seconds > 0 ? (bytes * 8) / window.seconds : null);
  const known = goodputs.filter((bytes) => bytes !== null);
  const goodputBytes = known.length === 0 && alive.length > 0 ? null : known.reduce((sum, bytes) => sum + bytes, 0);
  const transport = members[0]?.plan.transport ?? 'tcp';
  const retransmits = transport === 'udp' ? [] : alive.map((flow) => inWindow(
    { tStart: flow.tStart, tEnd: flow.tEnd, total: flow.retransmits, atOpen: flow.retransmitsAtOpen, atClose: flow.retransmitsAtClose }, window.open, window.close, window.end).value).filter((value) => value !== null);

  // A flow's packets thin out along its path: it has sent what arrived at its first bottleneck and delivered what left its last.
  const perFlow = new Map<number, { sent: number; dropped: number; marked: number; delivered: number }>();
  const ids = new Set(members.map((flow) => flow.plan.id));
  for (const row of atBottleneck) {
    if (!ids.has(row.flow)) continue;
    const sum = perFlow.get(row.flow) ?? { sent: 0, dropped: 0, marked: 0, delivered: Infinity };
    perFlow.set(row.flow, { sent: Math.max(sum.sent, row.arrived), dropped: sum.dropped + row.dropped, marked: sum.marked + row.marked, delivered: Math.min(sum.delivered, row.leftBytes) });
  }
  const seen = [...perFlow.values()];
  const recorded = atBottleneck.length > 0 || plan.collect.packets;
  // Flows whose path has no bottleneck are in no packet record: what is known of them is what arrived.
  const unseen = alive.filter((flow) => !perFlow.has(flow.plan.id));
  const absent = alive.length === 0;
  const elsewhere = unseen.length === 0 || !recorded ? '' : `; ${unseen.length} of the ${alive.length} flows had no packet at a bottleneck`;
  const leftOut = elsewhere === '' ? '' : `${elsewhere} and are left out`;
  const total = (key: 'sent' | 'dropped' | 'marked' | 'delivered'): number => seen.reduce((sum, flow) => sum + flow[key], 0);

  const mtu = plan.links.reduce((least, link) => Math.min(least, link.mtuBytes), 65535);
  /** A flow's IP bytes from its payload. */
  const withHeaders = (flow: PlanFlow, payload: number): number => {
    if (flow.transport === 'tcp') return (payload * mtu) / (mtu - tcpHeaders(flow));
    const size = flow.packetBytes ?? mtu;
    return size > udpHeaders(flow) ? (payload * size) / (size - udpHeaders(flow)) : payload;
  };
  const goodputOf = new Map(alive.map((flow, index) => [flow.plan.id, goodputs[index] ?? null]));
  const estimated = unseen.flatMap((flow) => { const payload = goodputOf.get(flow.plan.id) ?? null; return payload === null ? [] : [withHeaders(flow.plan, payload)]; });
  const throughputBps = absent || seen.length + estimated.length === 0 ? null : rate(total('delivered') + estimated.reduce((sum, bytes) => sum + bytes, 0));
  const headersAdded = transport === 'udp' ? 'payload received in the window with its headers' : 'goodput with the headers of full-sized packets added';
  const throughputHow = !recorded ? `${headersAdded} (no packet records)`
    : unseen.length === 0 ? 'IP bytes of data packets that left the last bottleneck on their way in the window, from packet records'
    : `IP bytes of data packets that left the last bottleneck on their way in the window, from packet records${elsewhere}, theirs is ${headersAdded}`;
  let lossRatio: number | null = null;
  let lossN = total('sent');
  let lossHow = recorded ? `data packets dropped at all bottlenecks / arrived at the first one on their way, arrivals in the window${leftOut}` : 'no packet records';
  if (total('sent') > 0) lossRatio = total('dropped') / total('sent');
  else if (transport === 'udp' && seen.length === 0 && !absent) {
    lossN = alive.reduce((sum, flow) => sum + (flow.packetsSent ?? 0), 0);
    lossRatio = lossN > 0 ? alive.reduce((sum, flow) => sum + (flow.packetsLost ?? 0), 0) / lossN : null;
    lossHow = 'datagrams sent of which no copy was received / sent, whole run';
  }
  if (absent) lossRatio = null;
  const markRatio = !absent && total('sent') > 0 ? total('marked') / total('sent') : null;
  // Of the flows that lived in the window: one that had ended before it cannot have lost anything.
  const sharing = alive.flatMap((flow) => { const here = perFlow.get(flow.plan.id); return here === undefined ? [] : [here.dropped]; });

  const started = `class = ${sqlText(name)} AND ${inWin('t_start', window)}`;
  const [times] = await database.rows<Record<string, unknown>>(`SELECT ${distributionSql('fct / 1e9', 'f_')}, ${distributionSql('(t_connected - t_start) / 1e9', 's_')} FROM flows WHERE ${started}`);
  const sizes = sizeClasses(members.map((flow) => flow.plan));
  const bySize = sizes.length === 0 ? [] : await database.rows<Record<string, unknown> & { bucket: string }>(`
    SELECT bucket, ${distributionSql('fct / 1e9')} FROM (SELECT id, fct FROM flows WHERE ${started} AND fct IS NOT NULL) AS f
    JOIN (SELECT * FROM (VALUES ${sizes.map(([id, bucket]) => `(${id}, ${sqlText(bucket)})`).join(', ')}) AS v(id, bucket)) AS b USING (id)
    GROUP BY bucket`);
  const sizeOrder = [...new Set(sizeClasses([...members.map((flow) => flow.plan)].sort((a, b) => (a.bytes ?? 0) - (b.bytes ?? 0))).map(([, bucket]) => bucket))];
  const [sockets] = await database.rowsOf<Record<string, unknown>>('sockets', `
    SELECT ${distributionSql('s.srtt / 1e6', 'r_')}, ${distributionSql('CAST(s.cwnd AS DOUBLE)', 'c_')}
    FROM sockets AS s JOIN flows AS f ON s.flow = f.id WHERE f.class = ${sqlText(name)} AND s.t BETWEEN ${window.open} AND ${window.close}`);

  const fctS = distributionOf(times, 'per-flow', 'f_');
  const startupS = distributionOf(times, 'per-flow', 's_');
  const srttMs = distributionOf(sockets, 'socket-samples', 'r_');
  const cwndPackets = distributionOf(sockets, 'socket-samples', 'c_');
  const note = interpolated > 0 ? `; ${interpolated} of them without a reading at an edge, taken to have grown evenly` : '';
  return {
    flows: alive.length,
    completed: fctS.n,
    failed,
    throughputBps,
    goodputBps: absent || goodputBytes === null ? null : rate(goodputBytes),
    jain: jain(known),
    jainDropShare: jain(sharing),
    lossRatio,
    markRatio,
    retransmits: transport === 'udp' || retransmits.length === 0 ? null : retransmits.reduce((sum, value) => sum + value, 0),
    fctS,
    fctBySizeS: Object.fromEntries(sizeOrder.flatMap((bucket) => {
      const row = bySize.find((candidate) => candidate.bucket === bucket);
      return row === undefined ? [] : [[bucket, distributionOf(row, 'per-flow')]];
    })),
    startupS,
    srttMs,
    cwndPackets,
    methods: {
      flows: { how: 'flows alive at some time of the window', n: alive.length },
      completed: { how: 'flows of fixed size that started in the window and ended', n: members.length },
      throughputBps: { how: throughputHow, n: alive.length },
      goodputBps: { how: `payload bytes delivered in order to the receiver within the window, flows alive in it${note}`, n: known.length },
      jain: { how: "Jain's index of the flows' goodput in the window", n: known.length },
      jainDropShare: { how: `Jain's index of the flows' drops at all bottlenecks in the window, of flows alive in it${leftOut}`, n: sharing.length },
      lossRatio: { how: lossHow, n: lossN },
      markRatio: { how: `data packets CE-marked at bottlenecks / arrived at the first one on their way${leftOut}`, n: total('sent') },
      retransmits: { how: 'TCP segments retransmitted within the window, from counts at its edges', n: retransmits.length },
      fctS: { how: 'connect() to the last byte acknowledged and the FIN answered, flows of fixed size that started in the window and completed', n: fctS.n },
      startupS: { how: 'connect() to handshake complete at the sender, flows that started in the window', n: startupS.n },
      srttMs: { how: "the kernel's smoothed RTT of the sending socket, at each sample in the window", n: srttMs.n },
      cwndPackets: { how: 'congestion window of the sending socket, at each sample in the window', n: cwndPackets.n },
    },
  };
}

/** Flow id → size class: the size itself while there are few sizes, else a decade. */
export function sizeClasses(flows: readonly PlanFlow[]): (readonly [number, string])[] {
  const sized = flows.filter((flow) => flow.bytes !== null);
  const few = new Set(sized.map((flow) => flow.bytes)).size <= 8;
  return sized.map((flow) => [flow.id, few ? sizeText(flow.bytes!) : decade(flow.bytes!)] as const);
}

function sizeText(bytes: number): string {
  for (const [unit, factor] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]] as const) if (bytes >= factor) return `${Number((bytes / factor).toPrecision(6))}${unit}`;
  return `${bytes}B`;
}

function decade(bytes: number): string {
  const power = Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) + 1e-12));
  return `${sizeText(10 ** power)}-${sizeText(10 ** (power + 1))}`;
}

// ---- Probes --------------------------------------------------------------------------------------------------

async function probeMetrics(database: Database, name: string, window: Window): Promise<ProbeMetrics> {
  const [row] = await database.rowsOf<Record<string, unknown>>('probes', `
    SELECT count(*) AS sent, count(*) FILTER (lost) AS lost, ${distributionSql('rtt / 1e6', 'r_')}, ${distributionSql('owd_forward / 1e6', 'f_')}, ${distributionSql('owd_reverse / 1e6', 'b_')}
    FROM probes WHERE probe = ${sqlText(name)} AND ${inWin('t', window)}`);
  const sent = (row?.['sent'] ?? 0) as number;
  const [rttMs, owdForwardMs, owdReverseMs] = [distributionOf(row, 'per-probe', 'r_'), distributionOf(row, 'per-probe', 'f_'), distributionOf(row, 'per-probe', 'b_')];
  return {
    sent, lossRatio: sent > 0 ? (row?.['lost'] as number) / sent : null, rttMs, owdForwardMs, owdReverseMs,
    methods: {
      lossRatio: { how: 'probe packets sent in the window without an answer by the end of the run / sent', n: sent },
      rttMs: { how: 'sent to answered, probe packets sent in the window', n: rttMs.n },
      owdForwardMs: { how: 'sent by src to received by dst on one clock', n: owdForwardMs.n },
      owdReverseMs: { how: 'answered by dst to received by src on one clock', n: owdReverseMs.n },
    },
  };
}
