import assert from 'node:assert/strict';
import { random } from '../records/synthetic-raw.js';
import { compareRuns, figuresOf } from './compare.js';
import type { RunFigures } from './compare.js';
import { methodsOf, unitOf } from './figures.js';

const runs = (figure: string, values: readonly (number | null)[], firstSeed = 1): RunFigures[] => values.map((value, index) => ({ seed: firstSeed + index, figures: { [figure]: value } }));
const delay = 'bottlenecks.BL.queueDelayMs.p50';

describe('compareRuns', () => {
  it('walks metrics.json as it is: every number by its path, names with dots whole, new parts included, methods left out', () => {
    const metrics = {
      schema: 1, engine: 'sim', seed: 3, name: 'x', varied: { rate: '5' }, windowS: [1, 2], cut: false, precision: '…',
      bottlenecks: { 'BL1.reverse': { throughputBps: 5, lossRatio: null, queueDelayMs: { p50: 1.5, n: 10, method: 'per-packet' }, methods: { lossRatio: { how: 'of 12 packets', n: 12 } } } },
      energy: { joules: 4 },
    };
    assert.deepEqual(figuresOf(metrics), {
      'bottlenecks.BL1.reverse.throughputBps': 5, 'bottlenecks.BL1.reverse.lossRatio': null, 'bottlenecks.BL1.reverse.queueDelayMs.p50': 1.5, 'bottlenecks.BL1.reverse.queueDelayMs.n': 10, 'energy.joules': 4,
    });
    assert.deepEqual(methodsOf(metrics), { 'bottlenecks.BL1.reverse.queueDelayMs': 'per-packet', 'bottlenecks.BL1.reverse.lossRatio (how)': 'of # packets' });
  });

  it('takes units from the names', () => {
    assert.deepEqual([delay, 'classes.web.fctS.p95', 'classes.web.goodputBps', 'bottlenecks.BL.utilisation', 'classes.web.jainDropShare', 'bottlenecks.BL.backlogBytes.max', 'bottlenecks.BL.packets.left', 'classes.web.fctBySizeS.60kB.p50', 'classes.web.flows', 'bottlenecks.BL.queueDelayMs.n', 'classes.cwndPackets.cwndPackets.sd'].map(unitOf),
      ['ms', 's', 'bit/s', 'ratio', 'index', 'bytes', 'packets', 's', 'count', 'count', 'packets']);
  });

  it('gives differences only, and says that there is no noise, with one seed a side', () => {
    const { figures: [figure], counts, pairedSeeds } = compareRuns(runs(delay, [4]), runs(delay, [5]));
    assert.deepEqual([figure!.difference, figure!.relative, figure!.ci95, figure!.noise, figure!.p, figure!.verdict], [1, 0.25, null, null, null, 'unknown']);
    assert.deepEqual(counts, { inside: 0, outside: 0, unknown: 1, undefined: 0 });
    assert.deepEqual(pairedSeeds, [1]);
  });

  it('pairs runs of the same seed, whatever order they come in', () => {
    const { figures: [figure], pairedSeeds } = compareRuns(runs(delay, [10, 20, 30]), [...runs(delay, [11, 21, 31])].reverse());
    assert.deepEqual([figure!.paired, figure!.pairs, figure!.difference, figure!.ci95], [true, 3, 1, [1, 1]]);
    assert.deepEqual(pairedSeeds, [1, 2, 3]);
    // By pairs the difference is plain; it is still within what other seeds would do.
    assert.equal(figure!.verdict, 'inside');
  });

  it('does not pair other seeds, seeds run twice, or where told not to', () => {
    for (const [a, b, options] of [[runs(delay, [1, 2]), runs(delay, [1, 2], 5), {}], [[...runs(delay, [1, 2]), ...runs(delay, [3])], runs(delay, [1, 2]), {}], [runs(delay, [1, 2]), runs(delay, [1, 2]), { pair: false }]] as const) {
      const { figures: [figure], pairedSeeds } = compareRuns(a, b, options);
      assert.deepEqual([figure!.paired, figure!.pairs, pairedSeeds], [false, null, null]);
    }
  });

  it('pairs the seeds of the smaller side where the larger has them all, and takes the noise from all', () => {
    const { figures: [figure] } = compareRuns(runs(delay, [10, 20, 30, 40]), runs(delay, [12, 22]));
    assert.deepEqual([figure!.pairs, figure!.difference, figure!.reference.n], [2, 2, 4]);
  });

  it('judges against the variation within the sides', () => {
    const reference = runs(delay, [10, 11, 9, 10.5, 9.5]);
    assert.equal(compareRuns(reference, runs(delay, [10.2, 11.1, 9.1, 10.4, 9.7], 11)).figures[0]!.verdict, 'inside');
    const apart = compareRuns(reference, runs(delay, [14, 15, 13, 14.5, 13.5], 11)).figures[0]!;
    assert.equal(apart.verdict, 'outside');
    // Both sd 0.79057, so t(8) = 2.306 times sqrt(2 × 0.625 / 5).
    assert.ok(Math.abs(apart.noise! - 2.306004 * 0.5) < 1e-5, String(apart.noise));
    assert.ok(apart.p! < 0.001);
  });

  it('a figure only one side has is undefined, and null in some runs counts those that have it', () => {
    const { figures } = compareRuns([{ seed: 1, figures: { a: 1, b: null, only: 3 } }, { seed: 2, figures: { a: 3, b: 4, only: 3 } }], [{ seed: 1, figures: { a: 2, b: 6 } }, { seed: 2, figures: { a: 4, b: 8, late: 1 } }]);
    assert.deepEqual(figures.map(({ figure, verdict }) => [figure, verdict]), [['a', 'inside'], ['b', 'inside'], ['late', 'undefined'], ['only', 'undefined']]);
    const b = figures.find(({ figure }) => figure === 'b')!;
    assert.deepEqual([b.reference.n, b.other.n, b.pairs, b.difference], [1, 2, 1, 4]);
  });

  it('tells sample counts but does not judge them', () => {
    const { figures: [figure], counts } = compareRuns(runs('bottlenecks.BL.queueDelayMs.n', [1, 1]), runs('bottlenecks.BL.queueDelayMs.n', [9, 9]));
    assert.equal(figure!.role, 'samples');
    assert.deepEqual(counts, { inside: 0, outside: 0, unknown: 0, undefined: 0 });
  });

  it('has no relative difference from 0, and refuses a side without runs', () => {
    assert.equal(compareRuns(runs(delay, [0]), runs(delay, [5])).figures[0]!.relative, null);
    assert.throws(() => compareRuns([], runs(delay, [1])), RangeError);
  });

  it('of figures that do not differ, about one in twenty is outside', () => {
    const draw = random(2026);
    const normal = (): number => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
    const names = Array.from({ length: 2000 }, (_, index) => `bottlenecks.B${index}.lossEvents`);
    const group = (n: number, firstSeed: number): RunFigures[] => Array.from({ length: n }, (_, index) => ({ seed: firstSeed + index, figures: Object.fromEntries(names.map((name) => [name, 100 + normal()])) }));
    for (const [n, m] of [[3, 3], [5, 4], [1, 6]] as const) {
      const { counts } = compareRuns(group(n, 1), group(m, 100));
      assert.ok(counts.outside >= 40 && counts.outside <= 130, `${n} and ${m} seeds: ${counts.outside} of 2000`); // Welch's with rounded degrees of freedom is a little careful
    }
  });
});
