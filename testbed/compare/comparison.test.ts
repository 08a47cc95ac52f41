import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { computeMetrics } from '../analysis/metrics.js';
import { UserError } from '../errors.js';
import { planHash } from '../plan/hash.js';
import { ingest } from '../records/ingest.js';
import { writeRunJson } from '../records/run-json.js';
import type { RunJson } from '../records/run-json.js';
import { runJson, writeSyntheticRaw } from '../records/synthetic-raw.js';
import type { SyntheticOptions } from '../records/synthetic-raw.js';
import { comparisonName, compareFromDisk } from './comparison.js';
import type { CompareOptions, Comparison } from './comparison.js';
import { comparisonText } from './text.js';
import { comparisonPageName, writeComparison } from './write.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

describe('comparing runs on disk', function comparing() {
  this.timeout(120_000);
  let folder: string;
  beforeEach(() => { folder = temporaryFolder('testbed-compare-'); });
  afterEach(() => { fs.rmSync(folder, { recursive: true, force: true }); });

  const base: SyntheticOptions = { packets: 1500, load: 0.95, limitPackets: 60, shortFlows: 8 };
  async function run(name: string, options: Partial<SyntheticOptions> = {}, over: Partial<RunJson> = {}): Promise<string> {
    const dir = path.join(folder, name);
    const plan = writeSyntheticRaw(dir, { ...base, ...options });
    await ingest(dir);
    writeRunJson(dir, runJson({ name: plan.name, seed: plan.seed, varied: plan.varied, planHash: planHash(plan), ...over }));
    await computeMetrics(dir);
    return dir;
  }
  async function set(name: string, seeds: readonly number[], options: Partial<SyntheticOptions> = {}, over: Partial<RunJson> = {}): Promise<string> {
    for (const seed of seeds) await run(path.join(name, `${Object.values(options.varied ?? {}).join('-')}seed${seed}`), { ...options, seed }, over);
    return path.join(folder, name);
  }
  const compare = async (given: readonly string[], options: Partial<CompareOptions> = {}): Promise<Comparison> => (await compareFromDisk(given, { resultsDir: folder, allow: [], ...options })).comparison;
  const refused = (given: readonly string[], message: RegExp, options: Partial<CompareOptions> = {}): Promise<void> =>
    assert.rejects(compare(given, options), (error: unknown) => { assert.ok(error instanceof UserError, String(error)); assert.equal(error.exitCode, 1); assert.match(error.message, message); return true; });

  it('takes the same packets, flows and probes as metrics.json, and the same bytes come of it each time', async () => {
    const [a, b] = [await run('a', { seed: 1 }), await run('b', { seed: 2 })];
    const { cells: [cell] } = await compare([a, b]);
    const [one] = cell!.comparisons;
    const of = (name: string): number => one!.figures.find(({ figure }) => figure === name)!.reference.mean!;
    const samples = (what: string, where: string, ofClass: string | null = null): number => one!.distributions.find((d) => d.what === what && d.where === where && d.class === ofClass)!.samples.reference;
    assert.equal(samples('queueing delay', 'BL1'), of('bottlenecks.BL1.queueDelayMs.n'));
    assert.equal(samples('queueing delay', 'BL1', 'long'), of('bottlenecks.BL1.classes.long.queueDelayMs.n'));
    assert.equal(samples('flow completion time', 'web'), of('classes.web.fctS.n'));
    assert.equal(samples('probe round trip', 'ping'), of('probes.ping.rttMs.n'));
    const means = one!.distributions.find(({ what }) => what === 'queueing delay')!.means;
    assert.ok(Math.abs(means.reference - of('bottlenecks.BL1.queueDelayMs.mean')) < 1e-6);
    const files: string[] = [];
    for (const out of ['x', 'y']) {
      const written = await writeComparison(await compareFromDisk([a, b], { resultsDir: folder, allow: [] }), folder, path.join(folder, out), true);
      files.push(fs.readFileSync(written.json, 'utf8') + fs.readFileSync(written.page, 'utf8'));
    }
    assert.equal(files[0], files[1]);
  });

  it('every key of comparison.json is in docs/compare.md', async () => {
    const a = await run('a', { seed: 1 });
    const rate = await run('rate', { seed: 2, rateBps: 10e6 });
    const comparison = await compare([`${a},${await run('c', { seed: 3 })}`, rate], { allow: ['*'] });
    const keys = new Set<string>();
    const walk = (value: unknown): void => {
      if (Array.isArray(value)) value.forEach(walk);
      else if (value !== null && typeof value === 'object') for (const [key, inner] of Object.entries(value)) { keys.add(key); if (key !== 'varied') walk(inner); }
    };
    walk(comparison);
    const doc = fs.readFileSync(path.join('docs', 'compare.md'), 'utf8');
    assert.ok(keys.size > 50);
    assert.deepEqual([...keys].filter((key) => !doc.includes(`\`${key}\``)), []);
  });

  it('two seeds of one kernel differ in nothing but the seeds; one run a side gives no noise, and says so', async () => {
    const comparison = await compare([await run('a', { seed: 1 }), await run('b', { seed: 2 })]);
    assert.deepEqual(comparison.differs[0]!.differences, []);
    assert.deepEqual([comparison.counts.inside, comparison.counts.outside, comparison.familyWise.judged], [0, 0, 0]);
    const text = comparisonText(comparison, { all: false, columns: Infinity, atLeast: 0 });
    assert.match(text, /No noise estimate/);
    assert.match(text, /nothing but the seeds/);
    assert.doesNotMatch(text, /NaN|undefined|Infinity|Noise ±/);
  });

  it('a run and itself differ by 0 in every figure and distribution', async () => {
    const a = await run('a');
    const { cells } = await compare([a, a]);
    const [one] = cells[0]!.comparisons;
    for (const figure of one!.figures) assert.ok(figure.difference === 0 || figure.difference === null, figure.figure);
    for (const { ks, wasserstein } of one!.distributions) assert.deepEqual([ks, wasserstein], [0, 0]);
  });

  it('seeds of one system are inside the noise, another load is outside it, in figures and distributions', async () => {
    const [a, b, c] = [await set('a', [1, 2, 3, 4], { load: 1.2 }), await set('b', [21, 22, 23, 24], { load: 1.2 }), await set('c', [1, 2, 3, 4], { load: 1.2, limitPackets: 12 }, { engine: 'sim', machine: 'sim', kernel: null })];
    const same = await compare([a, b]);
    assert.ok(same.counts.outside <= (same.counts.inside + same.counts.outside) * 0.2, JSON.stringify(same.counts));
    assert.deepEqual(same.familyWise.outside, []);
    assert.equal(same.cells[0]!.comparisons[0]!.pairedSeeds, null);
    const apart = await compare([a, c]);
    const [one] = apart.cells[0]!.comparisons;
    assert.deepEqual(one!.pairedSeeds, [1, 2, 3, 4]);
    assert.equal(one!.figures.find(({ figure }) => figure === 'bottlenecks.BL1.queueDelayMs.p99')!.verdict, 'outside');
    const delay = one!.distributions.find(({ what }) => what === 'queueing delay')!;
    assert.deepEqual([delay.ksOverSeeds.permutation!.smallestP, delay.ksOverSeeds.permutation!.exact], [0.125, true]);
    const categories = apart.differs[0]!.differences.map(({ category }) => category);
    for (const category of ['engine', 'kernel', 'queue']) assert.ok(categories.includes(category), category);
  });

  it('cells are matched by what varied; what has no match is listed; SET:key=value chooses', async () => {
    const varied = (limit: string): Partial<SyntheticOptions> => ({ limitPackets: Number(limit), varied: { 'topology.links.BL1.queue.limit': limit } });
    const [a, b] = [path.join(folder, 'a'), path.join(folder, 'b')];
    for (const limit of ['20', '60']) await set('a', [1], varied(limit));
    for (const limit of ['60', '90']) await set('b', [1], varied(limit), { machine: 'uml:7.3', kernel: { release: '7.3.4' } });
    const comparison = await compare([a, b]);
    assert.deepEqual(comparison.cells.map((cell) => [cell.varied, cell.runs]), [[{ 'topology.links.BL1.queue.limit': '60' }, [['a/60seed1'], ['b/60seed1']]]]);
    assert.deepEqual(comparison.unmatched.map(({ side, varied: how }) => [side, ...Object.values(how)]), [[0, '20'], [1, '90']]);
    assert.match(comparisonText(comparison, { all: false, columns: 80, atLeast: 0 }), /Not matched[^]*limit=20[^]*limit=90/);
    const chosen = await compare([`${a}:limit=20`, `${a}:limit=60`]);
    assert.deepEqual(chosen.sides.map(({ label, runs }) => [label, runs.length]), [['limit=20', 1], ['limit=60', 1]]);
    await refused([`${a}:limit=33`, b], /no run varied so; expected among .*limit=20, .*limit=60/);
    await refused([`${a}:limit=20`, `${b}`], /no run of .* varied as[^]*limit=20[^]*limit=60; limit=90/);
  });

  it('more than two sides are each compared with the first', async () => {
    const [a, b, c] = [await set('a', [1]), await set('b', [1], {}, { kernel: { release: '7.3.4' } }), await set('c', [1], {}, { engine: 'sim', machine: 'sim', kernel: null })];
    const result = await compareFromDisk([a, b, c], { resultsDir: folder, allow: [] });
    assert.deepEqual(result.comparison.sides.map(({ label }) => label), ['Linux 6.12.117', 'Linux 7.3.4', 'simulator']);
    assert.deepEqual(result.comparison.cells[0]!.comparisons.map(({ side }) => side), [1, 2]);
    const { page } = await writeComparison(result, folder, undefined, true);
    assert.match(path.basename(path.dirname(page)), /^compare-\d{8}-\d{6}-[0-9a-f]{6}$/);
    const html = fs.readFileSync(page, 'utf8');
    for (const label of ['Linux 7.3.4 against Linux 6.12.117', 'simulator against Linux 6.12.117']) assert.ok(html.includes(label), label);
  });

  it('several folders joined with commas are one side; a virtual run repeated adds no sample', async () => {
    const dirs = [await run('a1', { seed: 1 }), await run('a2', { seed: 2 }), await run('again', { seed: 1 })];
    const { sides } = await compare([dirs.join(','), dirs.slice(0, 2).join(',')]);
    assert.deepEqual(sides.map(({ runs }) => runs.length), [2, 2]);
    assert.match(sides[0]!.notCompared[0]!.reason, /repeats/);
  });

  it('refuses what is not comparable, naming each difference, and compares it when told', async () => {
    const a = await run('a');
    const rate = await run('rate', { rateBps: 10e6 });
    await refused([a, rate], /rate: links\.\*?.*rateBps: 20mbit in .*, 10mbit in [^]*--allow/);
    const comparison = await compare([a, rate], { allow: ['*'] });
    assert.ok(comparison.allowed.some(({ category }) => category === 'rate'));
    await refused([a, rate], /--allow speed: expected one of rate, window/, { allow: ['speed'] });
    await refused([a, await run('flows', { flows: 2 })], /traffic: flows of long: 4 flows in .*, 2 flows in/);
    await refused([[a, rate].join(','), a], /mixed: A is not repeats of one run: a, rate/);
  });

  it('refuses runs that do not count, with their own reasons, and takes them when told', async () => {
    const a = await run('a');
    const invalid = await run('invalid', { seed: 2 }, { status: 'invalid', findings: [{ level: 'invalid', rule: 'superpacket', message: 'a packet of 9000 bytes' }] });
    const incomplete = await run('incomplete', { seed: 3 }, { status: 'incomplete' });
    const running = await run('running', { seed: 4 }, { status: 'running', ended: null });
    await refused([a, invalid], /invalid: it is invalid \(superpacket: a packet of 9000 bytes\); .*--allow invalid/);
    await refused([a, incomplete], /interrupted; .*--allow incomplete/);
    await refused([a, running], /has not ended/);
    assert.equal((await compare([a, invalid], { allow: ['invalid'] })).allowed[0]!.category, 'invalid');
    const failed = await run('failed', { seed: 5 }, { status: 'failed', error: 'no kernel' });
    await refused([a, failed], /it failed: no kernel/, { allow: ['*'] });
    // In a set, the rest is compared and what was left out is said.
    fs.cpSync(a, path.join(folder, 'set', 'seed1'), { recursive: true });
    fs.cpSync(invalid, path.join(folder, 'set', 'seed2'), { recursive: true });
    const { sides } = await compare([path.join(folder, 'set'), a]);
    assert.deepEqual([sides[0]!.runs.length, sides[0]!.notCompared.map(({ id }) => id)], [1, ['set/seed2']]);
  });

  it('malformed folders end with a message, never a stack', async () => {
    const a = await run('a');
    const broken = await run('broken', { seed: 2 });
    const change = (file: string, text: string): void => fs.writeFileSync(path.join(broken, file), text);
    const metrics = fs.readFileSync(path.join(broken, 'metrics.json'), 'utf8');
    const plan = fs.readFileSync(path.join(broken, 'raw', 'plan.json'), 'utf8');
    const json = fs.readFileSync(path.join(broken, 'run.json'), 'utf8');
    for (const text of ['', '{', '[]', 'null', '{"bottlenecks": 3}']) { change('metrics.json', text); await refused([a, broken], /no metrics\.json that can be read/); }
    change('metrics.json', metrics.replace('"schema": 1', '"schema": 9'));
    await refused([a, broken], /of version 9; expected 1/);
    change('metrics.json', metrics);
    for (const text of ['', '{}', '[]', '{"nodes": [], "links": 1}']) { change('raw/plan.json', text); await refused([a, broken], /plan/); }
    change('raw/plan.json', plan);
    for (const text of ['', '{', '{"schema": 2}']) { change('run.json', text); await refused([a, broken], /run\.json is missing, cannot be read, or is of another version/); }
    change('run.json', json);
    fs.writeFileSync(path.join(broken, 'packets.parquet'), 'PAR1 not really');
    await refused([a, broken], /broken: its records cannot be read.*packets\.parquet/);
    fs.rmSync(path.join(broken, 'packets.parquet'));
    const { cells } = await compare([a, broken]);
    assert.ok(cells[0]!.comparisons[0]!.distributions.every(({ what }) => what !== 'queueing delay'));
    await refused([a, path.join(folder, 'nowhere')], /no run/);
    await refused([a, ''], /expected a run or set/);
    await refused([a], /at least two/);
    await refused([a, broken], /expected 2 different names/, { labels: ['same', 'same'] });
  });

  it('says where the two sides measured in different ways', async () => {
    const a = await run('a', { seed: 1 });
    const b = await run('b', { seed: 2, captures: false });
    const comparison = await compare([a, b]);
    const [one] = comparison.cells[0]!.comparisons;
    assert.ok(one!.measuredDifferently.some(({ figure, reference, other }) => figure === 'bottlenecks.BL1.queueDelayMs' && reference === 'per-packet' && other === 'sampled-backlog'));
    assert.match(comparisonText(comparison, { all: false, columns: Infinity, atLeast: 0 }), /Measured in different ways[^]*sampled-backlog/);
  });

  it('the page is whole, needs no network, and carries what was said', async () => {
    const [a, b] = [await set('a', [1, 2]), await set('<b>', [1, 2], { queueKind: 'codel' })];
    const result = await compareFromDisk([a, b], { resultsDir: folder, allow: [], labels: ['<ref>', 'other'] });
    const { page } = await writeComparison(result, folder, path.join(folder, 'out'), true);
    assert.deepEqual(fs.readdirSync(path.join(folder, 'out')).sort(), [comparisonPageName, comparisonName]);
    const html = fs.readFileSync(page, 'utf8');
    assert.doesNotMatch(html, /\b(?:src|xlink:href)\s*=|@import|url\(|<script|<link|https?:\/\/|NaN|undefined<|Infinity|<ref>/i);
    const titles = [...html.matchAll(/<h3>([^<]*)<\/h3>/g)].map((match) => match[1]);
    for (const title of ['BL1 queueing delay over time', 'BL1 queueing delay, cumulative', 'long throughput over time', 'web flow completion time, cumulative']) assert.ok(titles.includes(title), `${title} in ${titles.join('; ')}`);
    for (const text of ['&lt;ref&gt;', 'links.BL1.forward.queue.kind', 'Paired by seed: 2 pairs', 'Welch', 'Kolmogorov–Smirnov', 'n 2']) assert.ok(html.includes(text), text);
    await assert.rejects(writeComparison(result, folder, a + '/seed1', true), /this is a run's folder/);
  });
});
