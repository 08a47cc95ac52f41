/**
 * Benchmark: five million packet records (ten million capture rows) through matching, Parquet, metrics and report.
 * Goal: 10 s and 1 GB. `node dist/bench/analysis.js [packets]` prints a table; peak memory is of a process that only analyses.
 */

import { fork } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeSyntheticRaw } from '../testbed/records/synthetic-raw.js';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';

interface Timing { readonly step: string; readonly seconds: number; readonly cpuSeconds: number; readonly peakMB: number }

async function analyse(runDir: string): Promise<Timing[]> {
  const timings: Timing[] = [];
  const timed = async (step: string, run: () => Promise<unknown>): Promise<void> => {
    const start = performance.now();
    const cpu = process.cpuUsage();
    await run();
    const { user, system } = process.cpuUsage(cpu);
    timings.push({ step, seconds: (performance.now() - start) / 1e3, cpuSeconds: (user + system) / 1e6, peakMB: process.resourceUsage().maxRSS / 1024 });
  };
  await timed('match and Parquet', async () => (await import('../testbed/records/ingest.js')).ingest(runDir));
  await timed('metrics', async () => (await import('../testbed/analysis/metrics.js')).computeMetrics(runDir));
  await timed('report', async () => (await import('../testbed/report/report.js')).writeReport(runDir));
  return timings;
}

const print = (line: string): void => { process.stdout.write(`${line}\n`); };
const self = fileURLToPath(import.meta.url);
if (process.argv[2] === '--analyse') {
  process.send!(await analyse(process.argv[3]!));
} else {
  const packets = Number(process.argv[2] ?? 5e6);
  const root = temporaryFolder('testbed-bench-');
  try {
    for (const [label, count] of [['small', 20_000], ['large', packets]] as const) {
      const runDir = path.join(root, label);
      writeSyntheticRaw(runDir, { packets: count, rateBps: 100e6, load: 1.02, flows: 8, batchRows: 512 });
      const timings = await new Promise<Timing[]>((resolve, reject) => {
        const child = fork(self, ['--analyse', runDir]);
        child.on('message', (message) => resolve(message as Timing[]));
        child.on('exit', (code) => { if (code !== 0) reject(new Error(`analysis ended with ${code}`)); });
      });
      print(`${count.toLocaleString('en')} packets, ${(2 * count).toLocaleString('en')} capture rows`);
      for (const { step, seconds, cpuSeconds, peakMB } of timings) print(`  ${step.padEnd(20)} ${seconds.toFixed(2).padStart(6)} s  (CPU ${cpuSeconds.toFixed(2).padStart(5)} s)  peak ${peakMB.toFixed(0).padStart(5)} MB`);
      print(`  ${'all'.padEnd(20)} ${timings.reduce((sum, timing) => sum + timing.seconds, 0).toFixed(2).padStart(6)} s`);
    }
  } finally {
    fs.rmSync(root, { recursive: true, force: true });
  }
}
