/** `testbed compare` as a user runs it: two seeds of a kernel, kernel and simulator, and what it refuses. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { needsUml, Place } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import type { Comparison } from './comparison.js';

describe('testbed compare', function () {
  this.timeout(300_000);
  const place = new Place();
  after(() => place.remove());
  const file = place.write('short.yaml', dumbbellText({ name: 'short', queue: 'codel', pairs: 2, rtt: '20ms', measure: '{ warmup: 1s, duration: 3s }', probes: '{ ping: { from: S[0], to: D[0], interval: 20ms } }', more: 'seeds: [1, 2, 3]' }));
  const simulate = async (out: string, ...more: string[]): Promise<void> => {
    const ended = await place.testbed(['sim', file, '--no-report', '--out', out, ...more]);
    assert.equal(ended.code, 0, ended.stderr);
  };
  const read = (out: string): Comparison => JSON.parse(fs.readFileSync(place.path(out, 'comparison.json'), 'utf8')) as Comparison;

  it('compares the simulator with the kernel, and kernel runs of different seeds with one another', async function () {
    needsUml.call(this);
    await simulate('sim');
    const kernel = await place.testbed(['run', file, '--machine', 'uml', '--no-report', '--out', 'kernel']);
    assert.equal(kernel.code, 0, kernel.stderr);
    const [runs, sim] = [place.run(place.path('kernel')), place.run(place.path('sim'))];

    const both = await place.testbed(['compare', runs, sim, '--out', 'both']);
    assert.equal(both.code, 0, both.stderr);
    assert.match(both.stdout, /simulator against Linux[^]*engine: kernel → sim[^]*Paired by seed: 3 pairs \(seeds 1, 2, 3\)[^]*BL\.queueDelayMs\.p50 .* ms[^]*(inside|OUTSIDE)[^]*BL queueing[^]* KS [^]*W1 .* ms[^]*page: both\/comparison\.html/);
    const { cells: [cell], differs } = read('both');
    assert.deepEqual(differs[0]!.differences.map(({ category }) => category), ['engine', 'machine', 'kernel', 'hosts']); // one plan: nothing else differs
    const [one] = cell!.comparisons;
    const utilisation = one!.figures.find(({ figure }) => figure === 'bottlenecks.BL.utilisation')!;
    assert.ok(Math.abs(utilisation.relative!) < 0.03, String(utilisation.relative));
    assert.ok(one!.distributions.find(({ what }) => what === 'queueing delay')!.ks < 0.5);

    const ids = fs.readdirSync(runs).filter((name) => name.startsWith('seed')).map((name) => path.join(runs, name));
    const seeds = await place.testbed(['compare', ids[0]!, ids.slice(1).join(','), '--out', 'seeds', '--json']);
    assert.equal(seeds.code, 0, seeds.stderr);
    const printed = JSON.parse(seeds.stdout) as Comparison;
    assert.deepEqual(printed, read('seeds'));
    assert.deepEqual(printed.differs[0]!.differences, []);
    assert.equal(printed.cells[0]!.comparisons[0]!.pairedSeeds, null);
    assert.ok(printed.counts.inside > printed.counts.outside && printed.counts.unknown === 0, JSON.stringify(printed.counts));
  });

  it('finds runs by id, writes beside them, refuses another rate with exit code 1 and fails on what is outside the noise when asked', async () => {
    for (const rate of ['20mbit', '10mbit']) await simulate(`results-${rate}`, '--set', `topology.links.BL.rate.forward=${rate}`);
    const [fast, slow] = ['20mbit', '10mbit'].map((rate) => place.run(place.path(`results-${rate}`))) as [string, string];
    const moved = place.path('results', path.basename(fast));
    fs.mkdirSync(place.path('results'), { recursive: true });
    fs.renameSync(fast, moved);

    const byId = await place.testbed(['compare', 'last', path.basename(fast).slice(0, 8), '--runs', 'results', '--figures-only']);
    assert.equal(byId.code, 0, byId.stderr);
    assert.match(byId.stdout, /nothing: the same plans/);
    assert.equal(fs.readdirSync(place.path('results')).filter((name) => name.startsWith('compare-')).length, 1);
    const listed = await place.testbed(['list', '--out', 'results']);
    assert.doesNotMatch(listed.stdout, /compare-/); // a comparison is no run

    const refused = await place.testbed(['compare', moved, slow, '--out', 'refused']);
    assert.equal(refused.code, 1, refused.stdout);
    assert.match(refused.stderr, /rate: links\.BL\.forward\.rateBps: 20mbit in [^]*, 10mbit in [^]*--allow rate/);
    assert.ok(!fs.existsSync(place.path('refused')));

    const allowed = await place.testbed(['compare', moved, slow, '--allow', 'rate', '--out', 'allowed', '--figures-only', '--fail-outside-noise']);
    assert.equal(allowed.code, 3, allowed.stderr);
    assert.match(allowed.stdout, /compared because allowed: rate/);
    assert.match(allowed.stderr, /outside the noise.*BL\.throughputBps/);
    const same = await place.testbed(['compare', moved, moved, '--out', 'same', '--figures-only', '--fail-outside-noise']);
    assert.equal(same.code, 0, same.stderr);
    const lone = await place.testbed(['compare', path.join(moved, 'seed1'), path.join(moved, 'seed2'), '--out', 'lone', '--figures-only', '--fail-outside-noise']);
    assert.equal(lone.code, 3);
    assert.match(lone.stderr, /no noise estimate/);
  });

  it('ends with a message for words it does not know', async () => {
    for (const [args, code, message] of [
      [['compare'], 2, /missing required argument/], [['compare', 'a'], 2, /missing required argument/], [['compare', 'a', 'b'], 1, /no run in results\/runs/],
      [['compare', 'a', 'b', '--at-least', 'much'], 2, /expected a share such as 2%/],
    ] as const) {
      const ended = await place.testbed(args);
      assert.equal(ended.code, code, ended.stderr);
      assert.match(ended.stderr, message);
    }
  });
});
