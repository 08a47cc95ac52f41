import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import type { Metrics } from '../analysis/metrics.js';
import { ScenarioError } from '../errors.js';
import { expand } from '../scenario/expand.js';
import { loadText } from '../scenario/load.js';
import { Place } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import { judge, type Evidence, type JudgedLine } from './judge.js';
import { parseExpectations } from './parse.js';
import { readPublished, readSources, type PublishedFigure } from './published.js';

/** Metrics with what these tests look at. */
const metrics = (utilisation: number | null, p99: number | null = 10): Metrics =>
  ({ bottlenecks: { BL: { utilisation, queueDelayMs: { p50: 5, p99 } } }, classes: { bulk: { goodputBps: 18e6 } }, probes: {} }) as unknown as Metrics;
const evidence = (...list: readonly Metrics[]): Evidence => ({ metrics: list, missing: null });
function judged(expect: string, given: Parameters<typeof judge>[0]['evidence'], sources: ReadonlyMap<string, readonly PublishedFigure[]> = new Map(), varied = {}): readonly JudgedLine[] {
  const [variant] = loadText(dumbbellText({ more: `expect:\n${expect}` }), 'x.yaml').variants;
  return judge({ expectations: parseExpectations(variant!.expect!, expand(variant!).expanded).expectations, evidence: given, sources, varied });
}
const statuses = (lines: readonly JudgedLine[]): string[] => lines.map(({ status }) => status);

describe('judging expectations', () => {
  it('takes the median over seeds', () => {
    const [line] = judged('  - BL.utilisation >= 0.95', { kernel: evidence(metrics(0.5), metrics(0.96), metrics(0.97)) });
    assert.deepEqual([line!.status, line!.measured, line!.n], ['pass', 0.96, 3]);
    assert.match(line!.message, /96 %, median of 3 seeds/);
    assert.deepEqual(statuses(judged('  - BL.utilisation >= 0.95', { kernel: evidence(metrics(0.5), metrics(0.94), metrics(0.97)) })), ['fail']);
  });

  it('knows every relation, at its edge too', () => {
    const lines = ['>= 0.5', '<= 0.5', '= 0.5', '> 0.5', '< 0.5', '!= 0.5'].map((end) => `  - BL.utilisation ${end}`).join('\n');
    assert.deepEqual(statuses(judged(lines, { sim: evidence(metrics(0.5)) })), ['pass', 'pass', 'pass', 'fail', 'fail', 'fail']);
  });

  it('never passes over what cannot be judged: an undefined figure, no run, a run that is not complete', () => {
    const line = '  - BL.utilisation >= 0.1';
    for (const [given, words] of [[evidence(metrics(null)), /undefined/], [evidence(), /no run of the kernel/], [{ metrics: [metrics(1)], missing: 'seed 2 is invalid: netem dropped' }, /netem dropped/]] as const) {
      const [only] = judged(line, { kernel: given });
      assert.equal(only!.status, 'unjudged');
      assert.match(only!.message, words);
    }
  });

  it('judges a comparison on both engines where there are both, and says which', () => {
    const lines = judged('  - BL.utilisation >= 0.9', { kernel: evidence(metrics(0.95)), sim: evidence(metrics(0.85)) });
    assert.deepEqual(lines.map(({ text, status }) => [text, status]), [['kernel: BL.utilisation >= 0.9', 'pass'], ['sim: BL.utilisation >= 0.9', 'fail']]);
  });

  it('leaves what needs both engines to testbed validate', () => {
    const lines = judged('  - sim ~ kernel\n  - sim ~ kernel: { BL.utilisation: 2% }', { kernel: evidence(metrics(1)) });
    assert.deepEqual(statuses(lines), ['elsewhere', 'elsewhere']);
  });

  it('holds the simulator against the kernel within a tolerance, and beyond it only outside the spread over seeds', () => {
    const line = '  - sim ~ kernel: { BL.queueDelayMs.p99: 10% or 1ms }';
    const at = (...values: readonly number[]): Evidence => evidence(...values.map((value) => metrics(1, value)));
    assert.deepEqual(statuses(judged(line, { kernel: at(20), sim: at(22) })), ['pass']); // 10 % of the kernel's
    assert.deepEqual(statuses(judged(line, { kernel: at(20), sim: at(22.1) })), ['fail']);
    assert.deepEqual(statuses(judged(line, { kernel: at(2), sim: at(3) })), ['pass']); // 1 ms
    assert.deepEqual(statuses(judged(line, { kernel: at(15, 20, 25), sim: at(24, 24, 24) })), ['pass']); // seeds differ by more
    assert.deepEqual(statuses(judged(line, { kernel: at(19.9, 20, 20.1), sim: at(24, 24, 24) })), ['fail']);
    const [oneSided] = judged(line, { kernel: at(20), sim: evidence(metrics(1, null)) });
    assert.deepEqual([oneSided!.status, /one side/.test(oneSided!.message)], ['fail', true]);
  });

  it('holds an engine against published figures, in their units, with their own tolerance, choosing by what varies', () => {
    const place = new Place();
    const file = place.write('a.json', JSON.stringify({ source: 'a paper', figures: [
      { figure: 'use', unit: '%', published: 99, tolerance: { absolute: 1.5 }, queue: 'codel' },
      { figure: 'use', unit: '%', published: 50, queue: 'red' },
      { figure: 'tail', unit: 's', published: 0.02, relation: 'below', queue: 'codel' },
      { figure: 'tail', unit: 's', published: 0.001, tolerance: { relative: 0.1 }, queue: 'codel', missed: 'its timer is coarser' },
    ] }));
    const figures = readPublished(file);
    place.remove();
    assert.ok(typeof figures !== 'string', String(figures));
    const line = '  - published ~ kernel: { source: a.json, names: { CoDel: codel }, figures: { use: BL.utilisation, tail: BL.queueDelayMs.p99 } }';
    const lines = judged(line, { kernel: evidence(metrics(0.98)) }, new Map([['a.json', figures]]), { queue: 'CoDel' });
    assert.deepEqual(lines.map(({ status, wanted }) => [status, wanted]), [['pass', 0.99], ['pass', 20], ['known', 1]]);
    assert.match(lines[2]!.message, /known: its timer is coarser/);
    assert.deepEqual(statuses(judged(line.replace('figures', 'tolerance: 0.5%, figures'), { kernel: evidence(metrics(0.98)) }, new Map([['a.json', figures]]), { queue: 'CoDel' }))[0], 'fail');
    assert.deepEqual(statuses(judged(line, { sim: evidence(metrics(0.98)) }, new Map([['a.json', figures]]), { queue: 'CoDel' })), ['elsewhere', 'elsewhere', 'elsewhere']);
  });
});

describe('sources of published figures', () => {
  const place = new Place();
  after(() => place.remove());
  const load = (expect: string): void => {
    const file = place.write('x.yaml', dumbbellText({ more: `expect:\n  - ${expect}` }));
    readSources(loadText(fs.readFileSync(file, 'utf8'), file));
  };
  it('are found before the run, beside the scenario or in results/', () => {
    place.write('own.json', JSON.stringify({ source: 'me', runs: [{ cc: 'reno', goodputMbps: 15.85 }] }));
    load('published ~ kernel: { source: own.json, where: { cc: reno }, figures: { goodputMbps: bulk.goodputBps } }');
    load('published ~ kernel: { source: results/linux-6.12-codel-dumbbell.json, where: { cc: reno, flows: 1 }, figures: { goodputMbps: bulk.goodputBps } }');
  });
  it('that are missing, no JSON, of another form, of another quantity or about something else are named with their line', () => {
    place.write('no.json', '{');
    place.write('form.json', '{ "figures": 3 }');
    for (const [expect, words] of [
      ['published ~ sim: { source: none.json, figures: { x: BL.utilisation } }', /there is no file "none.json"/],
      ['published ~ sim: { source: no.json, figures: { x: BL.utilisation } }', /cannot be read as JSON/],
      ['published ~ sim: { source: form.json, figures: { x: BL.utilisation } }', /not a file of published figures/],
      ['published ~ sim: { source: own.json, figures: { goodputMbps: BL.queueDelayMs.p50 } }', /goodputMbps is in Mbit\/s there, BL.queueDelayMs.p50 in ms/],
      ['published ~ sim: { source: own.json, where: { cc: bbr }, figures: { goodputMbps: bulk.goodputBps } }', /has no figure for this scenario/],
    ] as const) assert.throws(() => load(expect), (error) => error instanceof ScenarioError && /x\.yaml:9/.test(error.message) && words.test(error.message), expect);
  });
});
