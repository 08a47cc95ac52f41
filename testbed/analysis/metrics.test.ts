import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Plan } from '../plan/plan.js';
import { ingest } from '../records/ingest.js';
import { captureFields, packetFields, probeFields, queueFields, socketFields } from '../records/raw.js';
import type { FlowRow } from '../records/raw.js';
import { RecordWriter } from '../records/record-file.js';
import { random, syntheticPlan, writeSyntheticRaw } from '../records/synthetic-raw.js';
import { computeMetrics, measureRun } from './metrics.js';
import type { Metrics } from './metrics.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

/** Order statistics done the long way: Hyndman & Fan type 7. */
function quantile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * p;
  const low = Math.floor(at);
  return sorted[low]! + (at - low) * ((sorted[low + 1] ?? sorted[low]!) - sorted[low]!);
}
function near(actual: number | null | undefined, expected: number, relative = 1e-6): void {
  assert.ok(typeof actual === 'number' && Math.abs(actual - expected) <= Math.max(Math.abs(expected) * relative, 1e-12), `${actual} is not ${expected}`);
}

describe('metrics', function metricsTests() {
  this.timeout(60_000);
  let runDir: string;
  beforeEach(() => {
    runDir = temporaryFolder('testbed-metrics-');
    fs.mkdirSync(path.join(runDir, 'raw'));
  });
  afterEach(() => { fs.rmSync(runDir, { recursive: true, force: true }); });

  const raw = (name: string): string => path.join(runDir, 'raw', name);
  const writePlan = (plan: Plan): void => { fs.writeFileSync(raw('plan.json'), JSON.stringify(plan)); };
  const done = (): void => { fs.writeFileSync(raw('agent.jsonl'), '{"type":"progress","phase":"done","tNs":1}\n'); };
  const flowRow = (over: Partial<FlowRow> & { id: number }): string => `${JSON.stringify({
    t_start: 0, t_connected: null, t_end: null, bytes: 0, bytes_sent: null, packets_sent: null, packets_lost: null, packets_duplicated: null, bytes_at_warmup: 0, bytes_at_end: 0,
    retransmits: 0, retransmits_at_warmup: 0, retransmits_at_end: 0, status: 'running', error: null, ...over,
  } satisfies FlowRow)}\n`;
  /** A dumbbell of 10 Mbit/s, window 1 s … 3 s. */
  const small = (over: Partial<Plan> = {}, flows = 2, shortFlows = 0): Plan => ({ ...syntheticPlan({ packets: 10, flows, shortFlows, rateBps: 10e6 }), warmupNs: 1e9, durationNs: 2e9, ...over });
  async function measure(): Promise<Metrics> {
    await ingest(runDir);
    return computeMetrics(runDir);
  }

  it('agrees with M/D/1: waiting by Lindley’s recursion, and its mean by Pollaczek and Khinchine', async () => {
    // Arrivals and service of the test's own making; only the captures go through the code under test.
    const serviceNs = 1514 * 8e9 / 100e6;
    const load = 0.8;
    const draw = random(42);
    const plan = { ...syntheticPlan({ packets: 10, rateBps: 100e6 }), warmupNs: 1e9, durationNs: 20e9 };
    writePlan(plan);
    done();
    const captures = new RecordWriter(raw('captures-R1.rec'), 'captures', {}, captureFields);
    fs.writeFileSync(raw('captures-R1.json'), JSON.stringify({ directions: ['BL1', 'BL1.reverse'], lost: 0 }));
    const delays: number[] = [];
    let leftInWindow = 0;
    const events: { t: number; row: number[] }[] = [];
    for (let t = 0, wait = 0, i = 0; t < 22e9; i++) {
      const gap = Math.round(-Math.log(1 - draw()) * serviceNs / load);
      wait = Math.max(0, wait + (i === 0 ? 0 : serviceNs) - gap); // Lindley 1952
      t += gap;
      const out = Math.round(t + wait);
      events.push({ t, row: [t, i, 5, 1500, 0, 0, 0, 0, 1] }, { t: out, row: [out, i, 5, 1500, 0, 0, 1, 0, 1] });
      if (t >= 1e9 && t < 21e9) delays.push((out - t) / 1e6);
      if (out >= 1e9 && out < 21e9) leftInWindow++;
    }
    events.sort((a, b) => a.t - b.t || a.row[6]! - b.row[6]!);
    for (const { row } of events) captures.row(...row);
    captures.close();
    const { BL1 } = (await measure()).bottlenecks;
    const { queueDelayMs } = BL1!;
    const mean = delays.reduce((sum, delay) => sum + delay, 0) / delays.length;
    assert.equal(queueDelayMs.n, delays.length);
    assert.equal(queueDelayMs.method, 'per-packet');
    near(queueDelayMs.mean, mean);
    near(queueDelayMs.sd, Math.sqrt(delays.reduce((sum, delay) => sum + (delay - mean) ** 2, 0) / (delays.length - 1)));
    for (const [key, p] of [['p5', 0.05], ['p25', 0.25], ['p50', 0.5], ['p75', 0.75], ['p95', 0.95], ['p99', 0.99]] as const) near(queueDelayMs[key], quantile(delays, p));
    near(queueDelayMs.max, delays.reduce((most, delay) => Math.max(most, delay), 0));
    near(BL1!.throughputBps, (leftInWindow * 1500 * 8) / 20);
    near(BL1!.utilisation, (leftInWindow * 1514 * 8) / (20 * 100e6));
    near(BL1!.utilisation, load, 0.02);
    near(queueDelayMs.mean, (load * serviceNs) / (2 * (1 - load)) / 1e6, 0.05); // Pollaczek–Khinchine, deterministic service
  });

  it('counts a packet’s delay, loss and mark where it arrived, and its bytes where it left', async () => {
    writePlan(small());
    done();
    const packets = new RecordWriter(raw('packets-BL1.rec'), 'packets', { bottleneck: 'BL1' }, packetFields);
    packets.row(0.9e9, 1.1e9, 1000, 0, 1, 0, 1, 2); // arrived before the window, left in it
    packets.row(1.0e9, 1.004e9, 1000, 0, 1, 0, 0, 2); // the window is closed on the left …
    packets.row(1.5e9, NaN, 1000, 1, 1, 1, 0, 2);
    packets.row(2.0e9, 2.002e9, 1000, 1, 1, 0, 1, 2);
    packets.row(2.9e9, 3.1e9, 1000, 0, 1, 0, 0, 2); // arrived in it, left after it
    packets.row(3.0e9, 3.2e9, 1000, 0, 1, 0, 0, 2); // … and open on the right
    packets.close();
    fs.writeFileSync(raw('flows.jsonl'), flowRow({ id: 0 }) + flowRow({ id: 1 }));
    const { bottlenecks, classes } = await measure();
    const bl1 = bottlenecks['BL1']!;
    assert.deepEqual(bl1.packets, { arrived: 4, left: 3, dropped: 1, marked: 1, waiting: 0 });
    near(bl1.lossRatio, 0.25);
    near(bl1.markRatio, 0.25);
    near(bl1.throughputBps, 3 * 8000 / 2);
    near(bl1.utilisation, (3 * 1014 * 8) / 20e6);
    assert.equal(bl1.queueDelayMs.n, 3);
    near(bl1.queueDelayMs.p50, 4);
    near(classes['long']!.lossRatio, 0.25);
    near(classes['long']!.jainDropShare, 0.5);
    assert.deepEqual(bottlenecks['BL1.reverse']!.packets, { arrived: 0, left: 0, dropped: 0, marked: 0, waiting: 0 });
    assert.equal(bottlenecks['BL1.reverse']!.lossRatio, null);
  });

  it('follows rate changes in utilisation and in delay from the backlog', async () => {
    writePlan(small({ events: [{ atNs: 2e9, direction: 'BL1', set: { rateBps: 5e6 } }, { atNs: 1.5e9, direction: 'BL1.reverse', set: { rateBps: 1 } }], collect: { queueIntervalNs: 1e9, socketIntervalNs: null, packets: false } }));
    done();
    const queue = new RecordWriter(raw('queue-BL1.rec'), 'queue', { bottleneck: 'BL1' }, queueFields);
    // 1 s at 10 Mbit/s and 1 s at 5 Mbit/s: 1 875 000 bytes can pass. 1014 bytes a packet as the shaper counts, 1000 at the IP layer.
    queue.row(0.5e9, 0, 0, 0, 0, 3, 0);
    queue.row(1.5e9, 10000, 10, 1014 * 1000, 1000, 5, 2);
    queue.row(2.5e9, 10000, 10, 1014 * 1800, 1800, 15, 4);
    queue.row(3.5e9, 0, 0, 1014 * 2200, 2200, 15, NaN);
    queue.close();
    const bl1 = (await measure()).bottlenecks['BL1']!;
    // Straight lines between samples: 500 packets by 1 s, 2000 by 3 s.
    near(bl1.utilisation, (1500 * 1014) / 1_875_000);
    near(bl1.throughputBps, (1500 * 1000 * 8) / 2);
    near(bl1.lossRatio, 11 / 1511);
    assert.equal(bl1.markRatio, null);
    assert.equal(bl1.queueDelayMs.method, 'sampled-backlog');
    assert.equal(bl1.queueDelayMs.n, 2);
    near(bl1.queueDelayMs.mean, (8 + 16) / 2);
    near(bl1.backlogPackets.p50, 10);
  });

  it('takes goodput, fairness and retransmissions from counts at the edges of the window', async () => {
    writePlan(small({}, 3));
    done();
    fs.writeFileSync(raw('flows.jsonl'), [
      flowRow({ id: 0, bytes: 9e6, bytes_at_warmup: 1e6, bytes_at_end: 4e6, retransmits: 9, retransmits_at_warmup: 2, retransmits_at_end: 7 }),
      flowRow({ id: 1, t_start: 1.5e9, bytes: 1e6, bytes_at_warmup: null, bytes_at_end: null, retransmits: 3, retransmits_at_warmup: null, retransmits_at_end: null }),
      flowRow({ id: 2, t_start: 0, t_end: 0.5e9, bytes: 8e6, bytes_at_warmup: 8e6, bytes_at_end: 8e6, status: 'complete' }),
    ].join(''));
    const long = (await measure()).classes['long']!;
    assert.equal(long.flows, 2);
    near(long.goodputBps, (3e6 + 1e6) * 8 / 2);
    near(long.jain, (3 + 1) ** 2 / (2 * (9 + 1)));
    assert.equal(long.retransmits, 5 + 3);
  });

  it('counts what a flow without a packet at a bottleneck delivered, and leaves it out of loss and drop shares', async () => {
    const plan = small({}, 4);
    writePlan({ ...plan, flows: plan.flows.map((flow) => (flow.id === 3 ? { ...flow, class: 'voice', transport: 'udp', kind: 'cbr', cc: null, rateBps: 64e3, packetBytes: 200 } : flow)) });
    done();
    const packets = new RecordWriter(raw('packets-BL1.rec'), 'packets', { bottleneck: 'BL1' }, packetFields);
    for (let i = 0; i < 10; i++) packets.row(1.1e9 + i * 1e6, i < 2 ? NaN : 1.2e9 + i * 1e6, 1500, 0, 1, i < 2 ? 1 : 0, 0, 0);
    packets.row(0.5e9, 0.6e9, 1500, 2, 1, 0, 0, 0); // of a flow that ended before the window
    packets.close();
    fs.writeFileSync(raw('flows.jsonl'), [
      flowRow({ id: 0, bytes: 11584, bytes_at_end: 11584 }), flowRow({ id: 1, bytes: 1.448e6, bytes_at_end: 1.448e6 }),
      flowRow({ id: 2, t_end: 0.7e9, bytes: 1448, bytes_at_warmup: 1448, bytes_at_end: 1448, status: 'complete' }),
      flowRow({ id: 3, bytes: 172 * 80, bytes_at_end: 172 * 80, packets_sent: 100, packets_lost: 20, packets_duplicated: 3 }),
    ].join(''));
    const { long, voice } = (await measure()).classes;
    // Flow 0: the 8 packets that left; flow 1 never met the bottleneck: 1000 full segments.
    near(long!.throughputBps, (8 * 1500 + 1000 * 1500) * 8 / 2);
    near(long!.goodputBps, (11584 + 1.448e6) * 8 / 2);
    near(long!.lossRatio, 0.2);
    near(long!.jainDropShare, 1); // flow 0 alone: flow 1 cannot lose anything there, flow 2 had ended
    assert.deepEqual([long!.flows, long!.methods['jainDropShare']!.n, long!.methods['lossRatio']!.n], [2, 1, 10]);
    assert.match(long!.methods['throughputBps']!.how, /packet records; 1 of the 2 flows had no packet at a bottleneck, theirs is goodput with the headers of full-sized packets added/);
    assert.match(long!.methods['lossRatio']!.how, /1 of the 2 flows had no packet at a bottleneck and are left out/);
    near(voice!.throughputBps, 80 * 200 * 8 / 2);
    near(voice!.lossRatio, 0.2);
    assert.equal(voice!.jainDropShare, null);
    assert.match(voice!.methods['lossRatio']!.how, /datagrams sent of which no copy was received/);
  });

  it('has no figures of a class without a flow in the window, and says what to change', async () => {
    const plan = small({}, 2);
    writePlan({ ...plan, flows: plan.flows.map((flow) => (flow.id === 1 ? { ...flow, class: 'early' } : flow)) });
    done();
    const packets = new RecordWriter(raw('packets-BL1.rec'), 'packets', { bottleneck: 'BL1' }, packetFields);
    for (const flow of [0, 1]) packets.row(0.5e9, 0.6e9, 1500, flow, 1, 0, 0, 0);
    packets.close();
    fs.writeFileSync(raw('flows.jsonl'), flowRow({ id: 0 }) + flowRow({ id: 1, t_end: 0.75e9, bytes: 1448, bytes_at_warmup: 1448, bytes_at_end: 1448, status: 'complete' }));
    await ingest(runDir);
    const { metrics, findings } = await measureRun(runDir);
    const { early, long } = metrics.classes;
    const figures = (of: typeof early): (number | null)[] => [of!.throughputBps, of!.goodputBps, of!.jain, of!.lossRatio, of!.retransmits];
    assert.deepEqual(figures(early), [null, null, null, null, null]);
    assert.deepEqual(figures(long), [0, 0, null, null, 0]);
    assert.equal(early!.flows, 0);
    assert.deepEqual(findings.map(({ level, rule, message }) => [level, rule, message]), [['warning', 'class-not-in-window',
      'class early has no figures: its flow had ended before the measurement window (1 s to 3 s). To see it, start it later, give it more bytes, or shorten the warm-up.']]);
  });

  it('says how many packets were still queued at the end, and leaves them out of the delays', async () => {
    writePlan(small());
    done();
    const packets = new RecordWriter(raw('packets-BL1.rec'), 'packets', { bottleneck: 'BL1' }, packetFields);
    for (let i = 0; i < 1000; i++) packets.row(1e9 + i * 1e6, i < 600 ? 1e9 + i * 2e6 : NaN, 1500, 0, 1, i % 100 === 99 ? 1 : 0, 0, 0);
    packets.close();
    fs.writeFileSync(raw('flows.jsonl'), flowRow({ id: 0 }) + flowRow({ id: 1 }));
    await ingest(runDir);
    const { metrics, findings } = await measureRun(runDir);
    const { packets: counts, queueDelayMs, methods } = metrics.bottlenecks['BL1']!;
    assert.deepEqual([counts.arrived, counts.waiting, queueDelayMs.n], [1000, 396, 594]);
    assert.match(methods['queueDelayMs']!.how, /396 that were still queued when the record ended are left out/);
    assert.match(findings.find(({ rule }) => rule === 'delay-censored')?.message ?? '', /^link BL1: 396 of the 1000 packets that arrived in the window \(39\.6 %\) were still queued/);
  });

  it('finds a flow that asked for ECN and sent data without it, however short, and one that used it unasked', async () => {
    const plan = small({}, 5);
    writePlan({ ...plan, flows: plan.flows.map((flow) => ({ ...flow, ecn: flow.id < 3 })) });
    done();
    const packets = new RecordWriter(raw('packets-BL1.rec'), 'packets', { bottleneck: 'BL1' }, packetFields);
    const send = (t: number, flow: number, size: number, ecn: number): void => packets.row(1e9 + t * 1e6, 1e9 + t * 1e6, size, flow, 1, 0, 0, ecn);
    send(1, 0, 60, 0); send(2, 0, 1500, 2); send(3, 0, 1500, 0); // SYN, data, a retransmission: as it should be
    send(4, 1, 60, 0); send(5, 1, 1500, 0); // one segment, without
    send(6, 2, 1500, 0); // only a retransmission was seen here: nothing to say
    send(7, 3, 1500, 0); send(8, 4, 1500, 1);
    packets.close();
    fs.writeFileSync(raw('flows.jsonl'), [0, 1, 2, 3, 4].map((id) => flowRow({ id, retransmits: id === 2 ? 1 : 0 })).join(''));
    await ingest(runDir);
    const { findings } = await measureRun(runDir);
    assert.deepEqual(findings.map(({ level, rule, message }) => `${level} ${rule} ${message.slice(0, 70)}`), [
      'invalid ecn 1 flow (the first: flow 1, long) asked for ECN and did not get it: non',
      'invalid ecn 1 flow (the first: flow 4, long) used ECN though the scenario does not',
    ]);
  });

  it('finds a bottleneck that sends at another rate than it is set to, after a change too, and not one that is idle', async () => {
    const gap = 1514 * 8e9 / 10e6;
    const rateFound = async (factor: (i: number) => number, events: Plan['events'] = []): Promise<string[]> => {
      writePlan(small({ events }));
      done();
      const packets = new RecordWriter(raw('packets-BL1.rec'), 'packets', { bottleneck: 'BL1' }, packetFields);
      let t = 0;
      for (let i = 0; t < 3e9; i++) {
        packets.row(Math.max(0, t - 5e6), t, 1500, 0, 1, 0, 0, 0);
        t += gap * factor(i);
      }
      packets.close();
      fs.writeFileSync(raw('flows.jsonl'), flowRow({ id: 0 }) + flowRow({ id: 1 }));
      await ingest(runDir);
      return (await measureRun(runDir)).findings.filter(({ rule }) => rule === 'rate-not-achieved').map(({ level, message }) => `${level} ${message}`);
    };
    assert.deepEqual(await rateFound(() => 1), []);
    assert.deepEqual(await rateFound((i) => (i % 3 === 0 ? 20 : 1)), [], 'mostly idle');
    const [fast] = await rateFound(() => 0.9);
    assert.match(fast!, /^invalid link BL1: \d+ packets that others waited behind left it at 11\.1mbit instead of 10mbit/);
    const [slow] = await rateFound((i) => (i > 1500 ? 1.05 : 1));
    assert.match(slow!, /left it at 9\.5\dmbit/i);
    const change = [{ atNs: 1.5e9, direction: 'BL1', set: { rateBps: 5e6 } }];
    assert.deepEqual(await rateFound((i) => (i * gap < 1.5e9 ? 1 : 2), change), []);
    assert.match((await rateFound(() => 1, change))[0]!, /instead of 5mbit/i);
  });

  it('times the flows that started in the window, by size', async () => {
    const plan = small({}, 1, 6);
    writePlan({ ...plan, flows: plan.flows.map((flow) => (flow.id > 4 ? { ...flow, bytes: 1e6 } : flow)) });
    done();
    const short = (id: number, tStart: number, ms: number, over: Partial<FlowRow> = {}): string =>
      flowRow({ id, t_start: tStart, t_connected: tStart + 10e6, t_end: tStart + ms * 1e6, bytes: 60000, status: 'complete', ...over });
    fs.writeFileSync(raw('flows.jsonl'), [
      short(1, 0.9e9, 999), short(2, 1e9, 100), short(3, 1.2e9, 300), short(4, 2e9, 200, { status: 'failed', t_end: null, error: 'reset' }),
      short(5, 2.9e9, 400), short(6, 3e9, 999),
    ].join(''));
    const web = (await measure()).classes['web']!;
    assert.equal(web.completed, 3);
    assert.equal(web.failed, 1);
    near(web.fctS.p50, 0.3);
    near(web.fctS.max, 0.4);
    near(web.startupS.mean, 0.01);
    assert.deepEqual(Object.entries(web.fctBySizeS).map(([size, fct]) => [size, fct.n, fct.p50]), [['60kB', 2, 0.2], ['1MB', 1, 0.4]]);
  });

  it('gives probes’ delays and losses of the packets sent in the window', async () => {
    writePlan(small());
    done();
    const probes = new RecordWriter(raw('probes.rec'), 'probes', {}, probeFields);
    probes.row(0, 0, 0.5e9, 900e6, 1, 1);
    for (let seq = 1; seq <= 4; seq++) probes.row(0, seq, 1e9 + seq * 1e8, seq * 10e6, seq * 4e6, seq * 6e6);
    probes.row(0, 5, 2e9, NaN, NaN, NaN);
    probes.close();
    const sockets = new RecordWriter(raw('sockets.rec'), 'sockets', {}, socketFields);
    sockets.row(0.5e9, 0, 99, 0xffffffff, 1, 1, 1, 1, NaN, 1, 0, 1, 0);
    sockets.row(1.5e9, 0, 20, 0xffffffff, 60e6, 1, 1, 1, NaN, 1, 0, 1, 0);
    sockets.row(2.5e9, 1, 30, 0xffffffff, 80e6, 1, 1, 1, NaN, 1, 0, 1, 0);
    sockets.close();
    const { probes: { ping }, classes } = await measure();
    assert.equal(ping!.sent, 5);
    near(ping!.lossRatio, 0.2);
    near(ping!.rttMs.p50, 25);
    near(ping!.owdForwardMs.mean, 10);
    near(ping!.owdReverseMs.mean, 15);
    near(classes['long']!.srttMs.mean, 70);
    near(classes['long']!.cwndPackets.max, 30);
  });

  it('keeps the shape of metrics.json, and writes null where a figure is undefined', async () => {
    writePlan(small({ flows: [], probes: [] }));
    const metrics = await measure();
    assert.deepEqual(metrics, JSON.parse(fs.readFileSync(path.join(runDir, 'metrics.json'), 'utf8')));
    assert.deepEqual(metrics.classes, {});
    assert.deepEqual(metrics.probes, {});
    assert.deepEqual(Object.keys(metrics.bottlenecks), ['BL1', 'BL1.reverse']);
    const { queueDelayMs, utilisation, lossRatio } = metrics.bottlenecks['BL1']!;
    assert.deepEqual(Object.keys(queueDelayMs), ['mean', 'sd', 'p5', 'p25', 'p50', 'p75', 'p95', 'p99', 'max', 'n', 'method']);
    assert.deepEqual([queueDelayMs.mean, queueDelayMs.p99, queueDelayMs.n, utilisation, lossRatio], [null, null, 0, null, null]);
    assert.ok(!fs.readFileSync(path.join(runDir, 'metrics.json'), 'utf8').includes(runDir));
  });

  it('measures a run that was cut short up to its last record', async () => {
    const plan = small({ collect: { queueIntervalNs: null, socketIntervalNs: null, packets: true } });
    writePlan(plan);
    fs.writeFileSync(raw('agent.jsonl'), '{"type":"progress","phase":"traffic","tNs":0}\n{"type":"pro');
    const packets = new RecordWriter(raw('packets-BL1.rec'), 'packets', { bottleneck: 'BL1' }, packetFields);
    for (let i = 0; i < 1000; i++) packets.row(1e9 + i * 1e6, 1e9 + i * 1e6 + 1e6, 1236, 0, 1, 0, 0, 0);
    packets.close();
    const metrics = await measure();
    assert.equal(metrics.cut, true);
    assert.deepEqual(metrics.windowS, [1, 2]);
    near(metrics.bottlenecks['BL1']!.utilisation, 0.999);
    done();
    const whole = await computeMetrics(runDir);
    assert.equal(whole.cut, false);
    assert.deepEqual(whole.windowS, [1, 3]);
  });

  it('writes the same bytes twice, and not the time, the machine or the path', async () => {
    writeSyntheticRaw(runDir, { packets: 4000, load: 1.1, limitPackets: 40, shortFlows: 20, batchRows: 100 });
    await measure();
    const first = fs.readFileSync(path.join(runDir, 'metrics.json'), 'utf8');
    await measure();
    assert.equal(fs.readFileSync(path.join(runDir, 'metrics.json'), 'utf8'), first);
  });

  it('says of each figure how it was measured and from how many samples', async () => {
    writeSyntheticRaw(runDir, { packets: 2000, shortFlows: 5 });
    const metrics = await measure();
    for (const entry of [...Object.values(metrics.bottlenecks), ...Object.values(metrics.classes), ...Object.values(metrics.probes)]) {
      const { methods, ...figures } = entry as unknown as { methods: Record<string, { how: string; n: number }> } & Record<string, unknown>;
      for (const method of Object.values(methods)) {
        assert.ok(method.how.length > 10);
        assert.ok(Number.isInteger(method.n) && method.n >= 0);
      }
      for (const [name, figure] of Object.entries(figures)) {
        const derived = ['packets', 'lossEvents', 'failed', 'sent', 'fctBySizeS'].includes(name);
        assert.ok(derived || methods[name] !== undefined, name);
        if (typeof figure === 'object' && figure !== null && 'p50' in figure) assert.equal((figure as unknown as { n: number }).n, methods[name]!.n, name);
      }
    }
  });
});
