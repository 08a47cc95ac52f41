/**
 * Benchmark of the results database and the exports: ten thousand runs listed and asked, the packets of 50 of them asked,
 * and five million packet records exported. Each figure is a whole command, as a user starts it.
 */

import * as fs from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import * as path from 'node:path';
import { peakAtExit, syntheticId, writeSyntheticPacketRun, writeSyntheticRuns } from '../testbed/testing/synthetic-runs.js';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';
import { median, projectRoot, timed } from './measure.js';

const cli = path.join(projectRoot, 'bin', 'testbed.cjs');

export type Say = (what: string, figure: string, goal: string, met: boolean | null) => void;

export async function store(say: Say): Promise<void> {
  const root = temporaryFolder('testbed-bench-store-');
  try {
    const results = path.join(root, 'runs');
    await writeSyntheticRuns(results, { runs: 10_000, packets: { runs: 50, rows: 200_000 } });
    const command = async (args: readonly string[], times = 3): Promise<{ wallS: number; cpuS: number }> => {
      const runs: Measured[] = [];
      for (let i = 0; i < times; i++) runs.push(await measured([cli, ...args]));
      return { wallS: median(runs.map(({ wallS }) => wallS)), cpuS: median(runs.map(({ cpuS }) => cpuS)) };
    };
    const onMetrics = "select queue, median(value) from metrics where figure = 'queueDelayMs' and statistic = 'p99' and class is null group by queue";
    say('10 000 runs: the first query, which makes the index, s', (await command(['query', onMetrics, '--out', results], 1)).wallS.toFixed(2), '', null);
    const within = async (what: string, limitS: number, args: readonly string[]): Promise<void> => {
      const { wallS, cpuS } = await command(args);
      say(`${what} (CPU s)`, `${wallS.toFixed(2)} (${cpuS.toFixed(2)})`, `< ${limitS}`, wallS < limitS);
    };
    await within('10 000 runs: list, s', 1, ['list', '--out', results, '--last', '20']);
    await within('10 000 runs: list --where, s', 1, ['list', '--out', results, '--where', "queue = 'codel' and seed = 3", '--last', '20']);
    await within('10 000 runs: a query on metrics, s', 1, ['query', onMetrics, '--out', results]);
    const changed = path.join(results, syntheticId(7), 'metrics.json');
    fs.copyFileSync(changed, `${changed}.new`);
    fs.renameSync(`${changed}.new`, changed);
    await within('10 000 runs: the same after one run changed, s', 1, ['query', onMetrics, '--out', results]);
    await within('10 000 runs: packets of 50 (10 million rows), s', 5, ['query', "select queue, count(*), quantile_cont((t_dequeue - t_enqueue) / 1e6, 0.99) from packets where run_id < 'synthetic-20260101-00005' group by queue", '--out', results]);

    const rows = 5_000_000;
    const run = await writeSyntheticPacketRun(path.join(root, 'large'), rows);
    for (const [format, file] of [['csv', 'x.csv'], ['json', 'x.json'], ['parquet', 'x.parquet'], ['qlog', 'x.sqlog'], ['pcapng', 'x.pcapng'], ['flent', 'x.flent.gz']] as const) {
      const out = path.join(root, file);
      const args = [cli, 'export', run, '--format', format, ...(['csv', 'json', 'parquet'].includes(format) ? ['--table', 'packets'] : []), '--out', out];
      const { wallS, peakMB } = await measured(args);
      say(`5 million packets as ${format} (${(fs.statSync(out).size / 1e6).toFixed(0)} MB): s, peak MB`, `${wallS.toFixed(1)}, ${peakMB.toFixed(0)}`, '< 500 MB', peakMB < 500);
      fs.rmSync(out);
    }
    // Packets are no points: what goes there are the other tables and the figures.
    const sink = http.createServer((request, response) => { request.resume().on('end', () => { response.writeHead(204).end(); }); });
    await new Promise<void>((resolve) => { sink.listen(0, '127.0.0.1', resolve); });
    try {
      const { wallS, peakMB } = await measured([cli, 'export', run, '--format', 'influx'], { INFLUX_URL: `http://127.0.0.1:${(sink.address() as AddressInfo).port}`, INFLUX_TOKEN: 'token', INFLUX_ORG: 'org', INFLUX_BUCKET: 'bench' });
      say('the run of 5 million packets to InfluxDB: s, peak MB', `${wallS.toFixed(1)}, ${peakMB.toFixed(0)}`, '< 500 MB', peakMB < 500);
    } finally {
      sink.closeAllConnections();
      await new Promise((resolve) => { sink.close(resolve); });
    }
  } finally {
    fs.rmSync(root, { recursive: true, force: true });
  }
}

interface Measured { readonly wallS: number; readonly cpuS: number; readonly peakMB: number }

/** A command: its wall time, and its CPU time and peak memory, which it tells itself at its end. */
async function measured(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Measured> {
  const { code, stderr, wallS } = await timed(process.execPath, ['--import', peakAtExit, ...args], null, 900, env);
  const peak = /peak=(\d+) cpu=(\d+)/.exec(stderr);
  if (code !== 0 || peak === null) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
  return { wallS, cpuS: Number(peak[2]) / 1e6, peakMB: Number(peak[1]) / 1024 };
}
