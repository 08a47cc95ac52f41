/**
 * A run as a data file of flent (version 4, flent.org; gzipped JSON: metadata, x_values, results, raw_values), made so that
 * flent's own plots of the test `tcp_nup` draw it: `TCP upload::N` a TCP flow (flows of fixed size: a class), their sum and average,
 * and `Ping (ms) ICMP` the first probe; further probes are `Ping (ms) <name>`. Rates are payload acknowledged within a step,
 * from socket samples between which it is taken as even, Mbit/s; pings the mean of the probes sent in the step.
 */

import * as zlib from 'node:zlib';
import { UserError } from '../errors.js';
import type { Plan, PlanFlow } from '../plan/plan.js';
import { closing } from './closing.js';
import type { ExportFormat, ExportRequest } from './format.js';
import type { Output } from './output.js';
import { openRecords } from './table-stream.js';
import type { RecordReader } from './table-stream.js';

/** flent's own step, s. */
const stepS = 0.2;
const pingName = 'Ping (ms) ICMP';

interface Series { readonly name: string; readonly flows: readonly PlanFlow[]; readonly what: string }
interface RawSample { readonly t: number; readonly val: number; readonly [key: string]: number }

export const flent: ExportFormat = {
  summary: 'a data file that flent plots', tables: [], files: 'one',
  async write(request) {
    const { plan } = request;
    const series = seriesOf(plan);
    if (series.length === 0 && plan.probes.length === 0) throw new UserError(`${request.runId} has neither TCP flows nor probes: flent has nothing to plot of it`);
    const records = await openRecords(request.runDir);
    try {
      const steps = Math.max(1, Math.ceil((plan.warmupNs + plan.durationNs) / (stepS * 1e9)));
      // run.json's start is the epoch of the run's clock here: flent wants a date.
      const t0Ms = Date.parse(request.run.started);
      const t0 = Number.isFinite(t0Ms) ? t0Ms / 1000 : 0;
      const { rates, raw } = await flowRates(records, series, steps, t0);
      const pings = await probeSeries(records, plan, steps, t0);
      const results: Record<string, readonly (number | null)[]> = {};
      series.forEach(({ name }, index) => { results[name] = rates[index]!; });
      if (series.length > 0) {
        const sums = Array.from({ length: steps }, (_, step) => {
          const values = rates.flatMap((each) => (each[step] === null ? [] : [each[step]!]));
          return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
        });
        results['TCP upload sum'] = sums;
        results['TCP upload avg'] = sums.map((sum, step) => (sum === null ? null : sum / rates.filter((each) => each[step] !== null).length));
      }
      for (const { name, values } of pings) results[name] = values;
      for (const { name, raw: samples } of pings) raw[name] = samples;
      await closing(await request.output('', '.flent.gz'), (output) => gzipped(output, (write) => writeFile(write, {
        metadata: metadataOf(request, series, Object.keys(results), new Date(t0 * 1000).toISOString()),
        x: Array.from({ length: steps }, (_, step) => Number(((step + 1) * stepS).toFixed(3))), results, raw,
      })));
      const udp = new Set(plan.flows.filter(({ transport }) => transport === 'udp').map((flow) => flow.class));
      return [
        `Plot it with: flent -i FILE -p totals -o plot.png (test tcp_nup, ${series.length} series)`,
        ...(udp.size > 0 ? [`UDP flows are left out (${[...udp].join(', ')}): flent's tcp_nup has none.`] : []),
        ...(plan.probes.length === 0 ? ['The run has no probes: flent will draw no ping.'] : []),
      ];
    } finally {
      records.close();
    }
  },
};

/** A series a flow that goes on to the end; flows of fixed size together, by class. */
function seriesOf(plan: Plan): Series[] {
  const groups = new Map<string, PlanFlow[]>();
  for (const flow of plan.flows) {
    if (flow.transport !== 'tcp') continue;
    const key = flow.bytes === null ? `flow ${flow.id}` : `class ${flow.class}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [flow]);
    else group.push(flow);
  }
  return [...groups.values()].map((flows, index) => ({
    name: `TCP upload::${index + 1}`, flows, what: flows[0]!.bytes === null ? `flow ${flows[0]!.id} of ${flows[0]!.class}, ${flows[0]!.src} to ${flows[0]!.dst}` : `${flows[0]!.class}: ${flows.length} flows of fixed size together`,
  }));
}

async function flowRates(records: RecordReader, series: readonly Series[], steps: number, t0: number): Promise<{ readonly rates: (number | null)[][]; readonly raw: Record<string, RawSample[]> }> {
  const seriesAt = new Map(series.flatMap(({ flows }, index) => flows.map((flow) => [flow.id, index] as const)));
  const bits = series.map(() => new Float64Array(steps));
  const seen = series.map(() => ({ from: Infinity, to: -Infinity }));
  const raw: Record<string, RawSample[]> = Object.fromEntries(series.map(({ name }) => [name, []]));
  const last = new Map<number, { t: number; bytes: number }>();
  const stepNs = stepS * 1e9;
  /** Bytes acknowledged between two samples, over the steps they lie in. */
  const spreadOver = (index: number, from: number, to: number, bytes: number): void => {
    seen[index] = { from: Math.min(seen[index]!.from, from), to: Math.max(seen[index]!.to, to) };
    if (!(to > from)) return;
    for (let step = Math.max(0, Math.floor(from / stepNs)); step < steps && step * stepNs < to; step++) {
      const within = Math.min(to, (step + 1) * stepNs) - Math.max(from, step * stepNs);
      bits[index]![step]! += (8 * bytes * within) / (to - from);
    }
  };
  interface FlowRow { id: number; t_start: number | null; t_end: number | null; bytes: number | null }
  const flows = (await records.columns('flows')) === null ? [] : await records.query<FlowRow>(`SELECT id, t_start, t_end, bytes FROM ${records.source('flows')} WHERE transport = 'tcp' AND t_start IS NOT NULL`);
  for (const { id, t_start } of flows) last.set(id, { t: t_start!, bytes: 0 });
  if ((await records.columns('sockets')) !== null) {
    const columns = ['t', 'flow', 'bytes_acked', 'srtt', 'cwnd', 'delivery_rate'].map((name) => `CAST(${name} AS DOUBLE)`);
    for await (const piece of records.rows('sockets', columns, 'bytes_acked IS NOT NULL')) {
      for (const [t, flow, bytes, srtt, cwnd, rate] of piece as readonly (readonly [number, number, number, number | null, number | null, number | null])[]) {
        const index = seriesAt.get(flow);
        const before = last.get(flow);
        if (index === undefined || before === undefined || t <= before.t) continue;
        spreadOver(index, before.t, t, Math.max(0, bytes - before.bytes));
        raw[series[index]!.name]!.push({
          t: t0 + t / 1e9, val: (8 * Math.max(0, bytes - before.bytes)) / ((t - before.t) / 1e9) / 1e6,
          ...(srtt === null ? {} : { tcp_rtt: srtt / 1e6 }), ...(cwnd === null ? {} : { tcp_cwnd: cwnd }), ...(rate === null ? {} : { tcp_delivery_rate: rate / 1e6 }),
        });
        last.set(flow, { t, bytes });
      }
    }
  }
  // What came after the last sample, or all of a flow that ended before its first.
  for (const { id, t_end, bytes } of flows) {
    const before = last.get(id)!;
    const index = seriesAt.get(id);
    if (index !== undefined && t_end !== null && bytes !== null && t_end > before.t) spreadOver(index, before.t, t_end, Math.max(0, bytes - before.bytes));
  }
  return {
    raw,
    // Null before its first and after its last record: flent then draws nothing.
    rates: bits.map((each, index) => Array.from(each, (value, step) => ((step + 1) * stepNs <= seen[index]!.from || step * stepNs >= seen[index]!.to ? null : Number((value / stepS / 1e6).toPrecision(9))))),
  };
}

async function probeSeries(records: RecordReader, plan: Plan, steps: number, t0: number): Promise<{ readonly name: string; readonly values: (number | null)[]; readonly raw: RawSample[] }[]> {
  const series = plan.probes.map((probe, index) => ({ name: index === 0 ? pingName : `Ping (ms) ${probe.name}`, sum: new Float64Array(steps), count: new Float64Array(steps), raw: [] as RawSample[] }));
  if (series.length > 0 && (await records.columns('probes')) !== null) {
    for await (const piece of records.rows('probes', ['CAST(probe_id AS DOUBLE)', 'CAST(t AS DOUBLE)', 'CAST(rtt AS DOUBLE)', 'CAST(seq AS DOUBLE)'], 'rtt IS NOT NULL')) {
      for (const [id, t, rtt, seq] of piece as readonly (readonly [number, number, number, number])[]) {
        const each = series[id];
        if (each === undefined) continue;
        const step = Math.floor(t / (stepS * 1e9));
        if (step < steps) {
          each.sum[step]! += rtt / 1e6;
          each.count[step]! += 1;
        }
        each.raw.push({ t: t0 + t / 1e9, val: rtt / 1e6, seq });
      }
    }
  }
  return series.map(({ name, sum, count, raw }) => ({ name, raw, values: Array.from(sum, (value, step) => (count[step] === 0 ? null : Number((value / count[step]!).toPrecision(9)))) }));
}

function metadataOf({ runId, plan, run }: ExportRequest, series: readonly Series[], names: readonly string[], time: string): unknown {
  const totalS = (plan.warmupNs + plan.durationNs) / 1e9;
  const first = plan.flows.find(({ transport }) => transport === 'tcp');
  const varied = Object.entries(plan.varied).map(([key, value]) => `${key.split('.').at(-1)} ${value}`);
  const utc = time.replace(/(?:\.(\d+))?Z$/, (_all, digits: string | undefined) => `.${(digits ?? '').padEnd(6, '0')}Z`);
  return {
    NAME: 'tcp_nup', TITLE: [plan.name, ...varied, `seed ${plan.seed}`].join(' '), TIME: utc, T0: utc,
    HOST: first?.dst ?? plan.probes[0]?.dst ?? '', HOSTS: [first?.dst ?? plan.probes[0]?.dst ?? ''], LOCAL_HOST: first?.src ?? plan.probes[0]?.src ?? '',
    LENGTH: totalS, TOTAL_LENGTH: totalS, STEP_SIZE: stepS, TEST_PARAMETERS: { upload_streams: String(Math.max(1, series.length)) },
    FLENT_VERSION: '2.1.1', IP_VERSION: first?.srcAddress.includes(':') ? 6 : 4, NOTE: `Exported by testbed from ${runId}: ${run.engine} on ${run.machine}, status ${run.status}`,
    DATA_FILENAME: `tcp_nup-${runId.replaceAll('/', '-')}.flent.gz`, KERNEL_RELEASE: run.kernel?.release ?? null,
    SERIES_META: Object.fromEntries(names.map((name) => {
      const own = series.find((each) => each.name === name);
      return [name, own === undefined ? { UNITS: name.startsWith('Ping') ? 'ms' : 'Mbits/s' } : { UNITS: 'Mbits/s', TESTBED: own.what, CONG_CONTROL: own.flows[0]!.cc }];
    })),
  };
}

type Write = (text: string) => Promise<void>;

async function writeFile(write: Write, { metadata, x, results, raw }: { readonly metadata: unknown; readonly x: readonly number[]; readonly results: Readonly<Record<string, readonly unknown[]>>; readonly raw: Readonly<Record<string, readonly RawSample[]>> }): Promise<void> {
  await write(`{"version":4,"metadata":${JSON.stringify(metadata)},"x_values":${JSON.stringify(x)},"results":${JSON.stringify(results)},"raw_values":{`);
  let first = true;
  for (const [name, samples] of Object.entries(raw)) {
    await write(`${first ? '' : ','}${JSON.stringify(name)}:[`);
    first = false;
    for (let at = 0; at < samples.length; at += 4096) await write(`${at === 0 ? '' : ','}${samples.slice(at, at + 4096).map((sample) => JSON.stringify(sample)).join(',')}`);
    await write(']');
  }
  await write('}}\n');
}

async function gzipped(output: Output, write: (write: Write) => Promise<void>): Promise<void> {
  // Whichever of compressor and output fails ends the other.
  const gzip = zlib.createGzip();
  const drained = (async () => { for await (const block of gzip) await output.write(block as Buffer); })();
  drained.catch((error: unknown) => gzip.destroy(error instanceof Error ? error : new Error(String(error))));
  let wake = (): void => {};
  for (const event of ['drain', 'close', 'error']) gzip.on(event, () => { wake(); });
  await write(async (text) => {
    if (!gzip.write(text) && !gzip.destroyed && gzip.writableNeedDrain) await new Promise<void>((resolve) => { wake = resolve; });
    if (gzip.destroyed) await drained;
  });
  gzip.end();
  await drained;
}
