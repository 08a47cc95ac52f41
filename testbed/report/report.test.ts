import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { computeMetrics } from '../analysis/metrics.js';
import { summarise } from '../analysis/summary.js';
import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';
import { ingest } from '../records/ingest.js';
import { writeRunJson } from '../records/run-json.js';
import type { RunJson } from '../records/run-json.js';
import { runJson, writeSyntheticRaw } from '../records/synthetic-raw.js';
import type { SyntheticOptions } from '../records/synthetic-raw.js';
import { columnsText } from './columns.js';
import { formatBps, formatCount, formatMs, formatPercent, formatSeconds } from './format.js';
import { writeReport } from './report.js';
import { niceBin } from './series.js';
import { farApart, linePlot, logTicks, ticks } from './svg.js';
import { runTable, summaryTable, textTable } from './terminal.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

/** Tags that are opened are closed, in order: enough to know that no text broke the markup. */
function assertWellFormed(html: string): void {
  const open: string[] = [];
  const voids = new Set(['meta', '!doctype']);
  for (const [, close, name, selfClosed] of html.replace(/<style>[^]*?<\/style>/, '').matchAll(/<(\/?)([a-z0-9!]+)[^>]*?(\/?)>/gi)) {
    if (close) assert.equal(open.pop(), name);
    else if (!selfClosed && !voids.has(name!.toLowerCase())) open.push(name!);
  }
  assert.deepEqual(open, []);
}
function assertSelfContained(html: string): void {
  assert.doesNotMatch(html, /\b(?:src|xlink:href)\s*=|@import|url\(|<script|<link|https?:\/\//i);
}

describe('report', function reportTests() {
  this.timeout(60_000);
  let folder: string;
  beforeEach(() => { folder = temporaryFolder('testbed-report-'); });
  afterEach(() => { fs.rmSync(folder, { recursive: true, force: true }); });

  async function makeRun(dir: string, options: SyntheticOptions, over: Partial<RunJson> | null = {}, alter: (plan: Plan) => Plan = (plan) => plan): Promise<string> {
    const plan = alter(writeSyntheticRaw(dir, options));
    fs.writeFileSync(path.join(dir, 'raw', 'plan.json'), JSON.stringify(plan));
    await ingest(dir);
    if (over !== null) writeRunJson(dir, runJson({ name: plan.name, seed: plan.seed, varied: plan.varied, ...over }));
    await computeMetrics(dir);
    return fs.readFileSync(await writeReport(dir), 'utf8');
  }
  const titles = (html: string): string[] => [...html.matchAll(/<h3>([^<]*)<\/h3>/g)].map((match) => match[1]!);

  it('shows every plot and figure of a run on one page without the network', async () => {
    const html = await makeRun(folder, { packets: 5000, load: 1.1, limitPackets: 40, shortFlows: 20 });
    assertWellFormed(html);
    assertSelfContained(html);
    assert.deepEqual(titles(html), ['Queueing delay over time', 'Queueing delay, cumulative', 'Backlog over time', 'Drops over time', 'Throughput per flow', 'Congestion window', 'Flow completion time', 'Probe round trip']);
    assert.doesNotMatch(html, /NaN|undefined|Infinity/);
    for (const text of ['synthetic', 'uml:6.12', '6.12.117', 'seed 1', '0123456789abcdef', 'S × 4', 'pfifo']) assert.ok(html.includes(text), text);
    assert.ok(html.length < 400_000);
  });

  it('stays light however many flows and packets there are', async () => {
    const html = await makeRun(folder, { packets: 60_000, flows: 120, rateBps: 100e6, load: 1.05 });
    assert.ok(html.length < 2e6, String(html.length));
    assert.match(html, /first 40 of 120 long flows/);
  });

  it('draws the page of an empty run, saying what there is nothing to show for', async () => {
    const html = await makeRun(folder, { packets: 0 }, { status: 'failed', error: 'the guest <did> not boot', ended: null });
    assertWellFormed(html);
    assert.match(html, /Failed<\/strong>the guest &lt;did&gt; not boot/);
    assert.match(html, /Nothing to show for: queueing delay, its distribution/);
    assert.doesNotMatch(html, /NaN|undefined|Infinity/);
  });

  it('puts what makes a run unusable before its figures', async () => {
    const html = await makeRun(folder, { packets: 500 }, { status: 'invalid', findings: [{ level: 'invalid', rule: 'superpacket', message: 'a packet of 9000 bytes' }, { level: 'warning', rule: 'late', message: '14 ms' }] });
    assert.ok(html.indexOf('Invalid: do not use these figures') > 0 && html.indexOf('superpacket') < html.indexOf('class="tiles"'));
    assert.ok(html.includes('Warnings'));
    fs.rmSync(path.join(folder, 'run.json'));
    assert.match(fs.readFileSync(await writeReport(folder), 'utf8'), /run\.json is missing/);
    writeRunJson(folder, runJson({ status: 'incomplete' }));
    assert.match(fs.readFileSync(await writeReport(folder), 'utf8'), /not counted/);
  });

  it('shows delay from the sampled backlog where there are no packet records', async () => {
    const html = await makeRun(folder, { packets: 2000, captures: false, load: 1.05 });
    assert.match(html, /From the sampled backlog/);
    assert.ok(titles(html).includes('Queueing delay over time') && titles(html).includes('Throughput per flow'));
  });

  it('marks what changes while a run goes with a line and a word in each plot over time, and lists it', async () => {
    const events: Plan['events'] = [
      { atNs: 0.5e9, direction: 'BL1', set: { rateBps: 5e6 } }, { atNs: 0.5e9, direction: 'BL1.reverse', set: { rateBps: 5e6 } },
      { atNs: 1e9, direction: 'BL1', set: { wire: { delayNs: 20e6, jitterNs: 0, loss: 0.01, duplicate: 0, reorder: 0, limitPackets: 9 } } },
      { atNs: 1.2e9, direction: 'BL1', set: { queue: { kind: 'pfifo', in: 'kernel', params: { limit: 7 } } } },
    ];
    const html = await makeRun(folder, { packets: 3000, load: 1.1, limitPackets: 40 }, {}, (plan) => ({ ...plan, events, links: plan.links.map((link) => (link.name === 'BL1' ? { ...link, reverse: { ...link.reverse, rateBps: 1e6 } } : link)) }));
    assertWellFormed(html);
    for (const title of ['Queueing delay over time', 'Backlog over time', 'Drops over time', 'Throughput per flow', 'Congestion window', 'Probe round trip']) {
      const figure = html.slice(html.indexOf(`<h3>${title}</h3>`), html.indexOf('</figure>', html.indexOf(`<h3>${title}</h3>`)));
      assert.equal(figure.match(/class="mark"/g)?.length, 3, title);
      for (const word of ['BL1 5 Mbit/s', 'BL1 delay 20 ms, loss 1 %', 'BL1 pfifo changed']) assert.ok(figure.includes(`>${word}</text>`), `${title}: ${word}`);
    }
    for (const [at, event] of [['0.5 s', 'BL1: rate 5 Mbit/s'], ['1 s', 'BL1: delay 20 ms, loss 1 %'], ['1.2 s', 'BL1: pfifo limit 7']]) assert.ok(html.includes(`<th scope="row">${at}</th><td>${event}</td>`), event);
    assert.ok(html.includes('→ 20 Mbit/s') && html.includes('← 1 Mbit/s'), 'both rates of an asymmetric link');
    assert.match(html, /drops in \d+ ms/);
  });

  it('shows delays far apart on a logarithmic axis, in the order of the scenario’s vary, and what machine and kernel they are of', async () => {
    const scenario = { variants: [{ varied: { queue: 'pfifo' } }, { varied: { queue: 'codel' } }] };
    await makeRun(path.join(folder, 'a'), { packets: 4000, limitPackets: 3, load: 1.2, varied: { queue: 'codel' } }, { scenario });
    await makeRun(path.join(folder, 'b'), { packets: 4000, limitPackets: 200, load: 1.2, varied: { queue: 'pfifo' } }, { scenario });
    const summary = await summarise(folder);
    assert.deepEqual(summary.combinations.map(({ varied }) => varied['queue']), ['pfifo', 'codel']);
    const html = fs.readFileSync(await writeReport(folder), 'utf8');
    assertWellFormed(html);
    assert.match(html, /BL1 queueing delay, cumulative<\/h3><p>Packets of one seed, to the 99th percentile\. Logarithmic\./);
    assert.ok(titles(html).includes('BL1 queueing delay over time'));
    assert.match(html, /<li>uml:6\.12 · Linux 6\.12\.117 · virtual time<\/li>/);
    assert.doesNotMatch(html, /NaN|undefined|Infinity|engine kernel/);
  });

  it('says a message once, on the page and in the terminal', async () => {
    const over = { status: 'failed', error: 'iperf3 is missing', findings: [{ level: 'failed', rule: 'tool-missing', message: 'iperf3 is missing' }] } as const;
    const html = await makeRun(folder, { packets: 300 }, over);
    for (const text of [html, runTable(null, runJson(over))]) assert.equal(text.match(/iperf3 is missing/g)?.length, 1, text.slice(0, 2000));
    assert.doesNotMatch(runTable(null, runJson(over), false), /iperf3 is missing/);
  });

  it('lets no name of the user’s into the markup', async () => {
    const html = await makeRun(folder, { packets: 300, name: '<script>alert(1)</script>', varied: { 'queue"><b>': "'x'<i>" } });
    assertWellFormed(html);
    assert.doesNotMatch(html, /<script|<b>'|<i>/);
  });

  it('compares the runs of a set, links to each, and lists those not counted', async () => {
    let run = 0;
    for (const [queue, limitPackets] of [['pfifo', 100], ['codel', 10]] as const) {
      for (const seed of [1, 2]) {
        await makeRun(path.join(folder, `r${++run}`), { packets: 1500, seed, limitPackets, load: 1.1, varied: { queue } }, run === 3 ? { status: 'invalid', findings: [{ level: 'invalid', rule: 'superpacket', message: 'big' }] } : {});
      }
    }
    const summary = await summarise(folder);
    const html = fs.readFileSync(await writeReport(folder), 'utf8');
    assertWellFormed(html);
    assertSelfContained(html);
    assert.match(html, /1 run is not counted[^]*r3[^]*superpacket: big/);
    for (const name of ['r1', 'r2', 'r4']) assert.ok(html.includes(`href="${name}/report.html"`));
    assert.ok(titles(html).includes('BL1 queueing delay, cumulative') && titles(html).includes('BL1 queueing, p95'));
    assert.doesNotMatch(html, /NaN|undefined|Infinity/);
    const text = summaryTable(summary);
    assert.match(text, /pfifo +codel/);
    assert.match(text, /1 not counted:\n {2}r3: invalid\. superpacket: big/);
  });

  it('of a set of which no run counts says why, and has no headings without anything below', async () => {
    await makeRun(path.join(folder, 'r1'), { packets: 300 }, { status: 'incomplete', error: 'it was interrupted' });
    await summarise(folder);
    const html = fs.readFileSync(await writeReport(folder), 'utf8');
    assert.match(html, /0 runs counted<\/li><\/ul>[^]*1 run is not counted[^]*<b>incomplete<\/b>: it was interrupted/);
    assert.doesNotMatch(html, /<h2>|seeds/);
  });

  it('tells flows of one class and sender apart by their number', async () => {
    const html = await makeRun(folder, { packets: 2000, flows: 3 }, {}, (plan) => ({ ...plan, flows: plan.flows.map((flow) => ({ ...flow, src: plan.flows[0]!.src })) }));
    for (const number of [1, 2, 3]) assert.ok(new RegExp(`long \\S+ #${number}<`).test(html), `#${number}`);
  });

  it('refuses a folder that is neither a run nor a set', async () => {
    await assert.rejects(writeReport(folder), UserError);
  });

  it('fits the terminal’s tables into 80 columns, whatever the names', async () => {
    await makeRun(folder, { packets: 3000, load: 1.1, limitPackets: 30, shortFlows: 10 });
    const metrics = JSON.parse(fs.readFileSync(path.join(folder, 'metrics.json'), 'utf8')) as Parameters<typeof runTable>[0] & object;
    const long = { ...metrics, bottlenecks: { ['a-very-long-name-'.repeat(8)]: metrics.bottlenecks['BL1']! } };
    const text = runTable(long, runJson({ findings: [{ level: 'warning', rule: 'late', message: 'a long message '.repeat(20) }] }));
    // Colour codes take no columns.
    for (const line of text.replaceAll(/\u001b\[\d+m/g, '').split('\n').slice(1)) assert.ok(line.length <= 80, line);
    assert.match(text, /Bottleneck|Bottle/);
    assert.match(text, /a-very-long/);
    assert.equal(textTable(['a'], []), '');
  });
});

describe('plots', () => {
  it('put ticks on round numbers inside the range', () => {
    assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
    assert.deepEqual(ticks(0, 0.03, 3), [0, 0.01, 0.02, 0.03]);
    assert.deepEqual(ticks(5, 5), [5]);
  });
  it('put them on 1, 2 and 5 times powers of ten where the axis is logarithmic, which it is for values more than ten times apart', () => {
    assert.deepEqual(logTicks(1, 100), [1, 2, 5, 10, 20, 50, 100]);
    assert.deepEqual(logTicks(0.01, 900), [0.01, 0.1, 1, 10, 100]);
    assert.deepEqual([farApart([1, 11]), farApart([1, 10]), farApart([0, 100]), farApart([5])], [true, false, false, false]);
  });
  it('count drops in intervals a reader has a word for', () => {
    assert.deepEqual([0.3e6, 11e6, 667e6, 4.1e9, 12e9, 31e9, 5e12].map((ns) => niceBin(ns) / 1e9), [0.001, 0.02, 1, 5, 15, 60, 7200]);
  });
  it('draw equal values and gaps without breaking, and nothing where there is no line', () => {
    const plot = (points: [number, number | null][]): string => linePlot({ title: 't', x: { label: 'x' }, y: { label: 'y' }, series: [{ name: 's', colour: 0, points }] });
    assert.equal(plot([[1, 5]]), '');
    assert.doesNotMatch(plot([[1, 5], [2, 5]]), /NaN|Infinity/);
    assert.doesNotMatch(plot([[1, 5], [2, null], [3, NaN], [4, 5]]), /NaN|Infinity/);
    assert.equal(plot([[1, null]]), '');
  });
});

describe('columns of a terminal', () => {
  it('give way at the dots of paths before a figure is parted from its unit', () => {
    const { head, rows } = columnsText(['Figure', 'fq_codel', 'Relative'], [['BL1.classes.long.queueDelayMs.p50', '18.1 Mbit/s', '+5.79 %'], ['web.fctS.p95', '1 200 B', '0 %']], 48);
    assert.deepEqual([head, ...rows].map((row) => row.split('\n')), [
      ['Figure                 fq_codel  Relative'],
      ['BL1.classes.long.   18.1 Mbit/s   +5.79 %', '  queueDelayMs.p50'],
      ['web.fctS.p95            1 200 B       0 %'],
    ]);
  });
});

describe('figures for people', () => {
  it('have three digits and a unit', () => {
    assert.deepEqual([formatMs(0.000597), formatSeconds(512e-9), formatMs(0.00102)], ['597 ns', '512 ns', '0.00102 ms']);
    assert.deepEqual([formatMs(5.1234), formatMs(0), formatMs(21100), formatMs(null), formatSeconds(0.25), formatSeconds(2.5), formatPercent(0.8349), formatBps(19.87e6), formatBps(12), formatCount(1234567)],
      ['5.12 ms', '0 ms', '21.1 s', '–', '250 ms', '2.5 s', '83.5 %', '19.9 Mbit/s', '12 bit/s', '1\u202f234\u202f567']);
  });
});
