/**
 * A results folder of many runs that never ran: run.json and metrics.json of each with figures made from its number, and record
 * tables where asked for. For tests of the results database, and its benchmark.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { openDatabase, sqlText } from '../records/database.js';
import { runJson, syntheticPlan } from '../records/synthetic-raw.js';
import type { RunJson } from '../records/run-json.js';

export interface SyntheticRuns {
  readonly runs: number;
  /** Runs of each set; 0 = every run of its own. Default 10. */
  readonly perSet?: number;
  /** How many runs (the first) have a packets.parquet, and how many rows each; the files of all are links to one. */
  readonly packets?: { readonly runs: number; readonly rows: number };
  /** Bottlenecks, for the number of figures a run has: about 170 each. Default 1. */
  readonly bottlenecks?: number;
}

export const syntheticQueues = ['pfifo', 'codel', 'fq_codel', 'cake', 'pie'] as const;

/** What run `i` is. */
export const syntheticRun = (i: number): { readonly seed: number; readonly queue: string; readonly p99: number; readonly status: RunJson['status'] } => ({
  seed: (i % 10) + 1, queue: syntheticQueues[Math.floor(i / 10) % syntheticQueues.length]!, p99: 10 + (i % 1000) / 10, status: i % 100 === 99 ? 'invalid' : 'complete',
});

/** Folder of run `i`, below the results folder. */
export const syntheticId = (i: number, perSet = 10): string =>
  perSet === 0 ? `synthetic-20260101-${String(i).padStart(6, '0')}` : `synthetic-20260101-${String(Math.floor(i / perSet)).padStart(5, '0')}/run-${i}`;

export async function writeSyntheticRuns(resultsDir: string, options: SyntheticRuns): Promise<void> {
  const { runs, perSet = 10, bottlenecks = 1 } = options;
  for (let i = 0; i < runs; i++) {
    const dir = path.join(resultsDir, syntheticId(i, perSet));
    fs.mkdirSync(dir, { recursive: true });
    const { seed, queue, p99, status } = syntheticRun(i);
    const started = new Date(Date.UTC(2026, 0, 1) + i * 60_000);
    fs.writeFileSync(path.join(dir, 'run.json'), JSON.stringify(runJson({
      name: 'synthetic', seed, varied: { queue, 'topology.links.BL.rate': `${10 + (i % 3) * 10}mbit` }, status,
      started: started.toISOString(), ended: new Date(started.getTime() + 5000).toISOString(),
      findings: status === 'invalid' ? [{ level: 'invalid', rule: 'netem-dropped', message: 'netem dropped 3 packets' }] : [],
    })));
    fs.writeFileSync(path.join(dir, 'metrics.json'), JSON.stringify(metrics(seed, p99, bottlenecks)));
  }
  if (options.packets !== undefined) await writePackets(resultsDir, options.packets, perSet);
}

const distribution = (p99: number): unknown => ({ mean: p99 / 3, sd: p99 / 5, p5: p99 / 20, p25: p99 / 8, p50: p99 / 4, p75: p99 / 2, p95: p99 * 0.8, p99, max: p99 * 1.5, n: 1000, method: 'per-packet' });

function metrics(seed: number, p99: number, bottlenecks: number): unknown {
  const bottleneck = {
    throughputBps: 2e7 - seed, utilisation: 0.99, lossRatio: 0.01, markRatio: 0, queueDelayMs: distribution(p99), backlogBytes: distribution(p99 * 100), backlogPackets: distribution(p99),
    packets: { arrived: 1000, left: 990, dropped: 10, marked: 0 }, counters: { drops: 10, marks: 0 }, lossSynchronisation: null, lossEvents: 3,
    classes: { bulk: { throughputBps: 1.9e7, lossRatio: 0.01, markRatio: 0, queueDelayMs: distribution(p99) } },
    methods: { queueDelayMs: { how: 'time from arrival at the queue to being handed to the link', n: 1000 }, utilisation: { how: 'bytes that left', n: 990 }, classes: { how: 'the same, of data packets', n: 900 } },
  };
  const flowClass = {
    flows: 4, completed: 0, failed: 0, throughputBps: 1.9e7, goodputBps: 1.8e7, jain: 0.99, jainDropShare: 0.98, lossRatio: 0.01, markRatio: 0, retransmits: 10,
    fctS: distribution(2), fctBySizeS: {}, startupS: distribution(0.1), srttMs: distribution(p99 + 50), cwndPackets: distribution(50), methods: { jain: { how: "Jain's index", n: 4 } },
  };
  return {
    schema: 1, engine: 'kernel', seed, name: 'synthetic', varied: {}, windowS: [1, 5], cut: false, precision: '',
    bottlenecks: Object.fromEntries(Array.from({ length: bottlenecks }, (_, i) => [[`BL${i + 1}`, bottleneck], [`BL${i + 1}.reverse`, bottleneck]]).flat()),
    classes: { bulk: flowClass, web: flowClass }, probes: { ping: { sent: 500, lossRatio: 0, rttMs: distribution(p99 + 50), owdForwardMs: distribution(p99), owdReverseMs: distribution(1), methods: {} } },
  };
}

/** Packets of a queue that is never empty: arrival every 60 µs, in the queue (number mod 1000) × 10 µs; every 100th dropped. */
export const packetsSql = (rows: number): string => `SELECT 'BL1' AS bottleneck, CAST(i AS INTEGER) AS seq, CAST(i % 4 AS INTEGER) AS flow, true AS forward, 1500 AS size, i * 60000 AS t_enqueue,
  CASE WHEN i % 100 < 99 THEN i * 60000 + (i % 1000) * 10000 END AS t_dequeue, i % 100 = 99 AS dropped, i % 50 = 0 AS marked, CAST(2 AS UTINYINT) AS ecn FROM range(${rows}) r(i)`;

async function writePackets(resultsDir: string, { runs, rows }: { readonly runs: number; readonly rows: number }, perSet: number): Promise<void> {
  const first = path.join(resultsDir, syntheticId(0, perSet), 'packets.parquet');
  const database = await openDatabase();
  try {
    await database.run(`COPY (${packetsSql(rows)}) TO ${sqlText(first)} (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 122880)`);
  } finally {
    database.close();
  }
  for (let i = 1; i < runs; i++) fs.linkSync(first, path.join(resultsDir, syntheticId(i, perSet), 'packets.parquet'));
}

/** One run with a plan and so many packet records, whole enough to be exported. @returns its folder */
export async function writeSyntheticPacketRun(runDir: string, rows: number): Promise<string> {
  fs.mkdirSync(path.join(runDir, 'raw'), { recursive: true });
  const plan = syntheticPlan({ packets: rows });
  fs.writeFileSync(path.join(runDir, 'raw', 'plan.json'), JSON.stringify(plan));
  fs.writeFileSync(path.join(runDir, 'run.json'), JSON.stringify(runJson({ counts: { packets: rows } })));
  const database = await openDatabase();
  try {
    await database.run(`COPY (${packetsSql(rows)}) TO ${sqlText(path.join(runDir, 'packets.parquet'))} (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 122880)`);
  } finally {
    database.close();
  }
  return runDir;
}

/** For `node --import`: the process prints `peak=<kilobytes of resident memory> cpu=<µs>` to standard error when it ends. */
export const peakAtExit = "data:text/javascript,process.on('exit',()=>{const{maxRSS,userCPUTime,systemCPUTime}=process.resourceUsage();process.stderr.write('\\npeak='+maxRSS+' cpu='+(userCPUTime+systemCPUTime)+'\\n')})";
