import assert from 'node:assert/strict';
import { bootstrapDifference, holm, sideOf, welchNoise } from './noise.js';
import { studentT } from './student-t.js';

const near = (a: number, b: number, tolerance = 1e-9): void => assert.ok(Math.abs(a - b) <= tolerance, `${a} is not ${b}`);

describe('noise over seeds', () => {
  it('Student’s t has the quantiles of the printed tables (Abramowitz & Stegun 1964, table 26.10)', () => {
    for (const [degrees, t] of [[1, 12.706], [2, 4.303], [3, 3.182], [4, 2.776], [5, 2.571], [8, 2.306], [10, 2.228], [30, 2.042], [120, 1.98]] as const) near(studentT.quantile(0.975, degrees), t, 5e-4);
    near(studentT.quantile(0.995, 7), 3.499, 5e-4);
    for (const degrees of [1, 2, 3, 9, 24]) near(studentT.twoSided(studentT.quantile(0.975, degrees), degrees), 0.05);
  });

  it('is Welch’s: half width and p worked out by hand, degrees of freedom rounded down', () => {
    const [a, b] = [[1, 2, 4, 5], [3, 6, 7.5]];
    // Variances 10/3 and 5.25, so (10/3)/4 + 5.25/3 = 2.58333; Satterthwaite's degrees of freedom 3.79, taken as 3.
    const noise = welchNoise(a, b, 4, 3, 2.5)!;
    assert.equal(noise.degreesOfFreedom, 3);
    near(noise.halfWidth, 3.182446 * Math.sqrt(10 / 12 + 1.75), 1e-5);
    near(noise.p, studentT.twoSided(2.5 / Math.sqrt(10 / 12 + 1.75), 3));
  });

  it('comes from the side that has it when the other has one seed, and from nowhere when none has', () => {
    const noise = welchNoise([1, 2, 3], [2], 3, 1, 0)!;
    assert.equal(noise.degreesOfFreedom, 2);
    near(noise.halfWidth, 4.302653 * Math.sqrt(1 / 3 + 1), 1e-5);
    assert.equal(welchNoise([1], [2], 1, 1, 1), null);
  });

  it('is what rounding can do when nothing varies', () => {
    const noise = welchNoise([5, 5], [5, 5], 2, 2, 0)!;
    assert.ok(noise.halfWidth > 0 && noise.halfWidth < 1e-5);
    assert.equal(noise.p, 1);
    // 5, 5, 5 and 6, 6, 6: two of the twenty ways to share six seeds out.
    near(welchNoise([5, 5, 5], [6, 6, 6], 3, 3, 1)!.p, 0.1);
    near(welchNoise([5, 5, 5, 5], [6], 4, 1, 1)!.p, 0.2);
  });

  it('the interval of two pairs is known: means of resamples are 1, 2 or 3 with 1/4, 1/2, 1/4', () => {
    const { difference, ci95 } = bootstrapDifference([10, 20], [11, 23], true);
    assert.equal(difference, 2);
    assert.deepEqual(ci95, [1, 3]);
  });

  it('a constant difference has no width when paired, and the spread of both sides when not', () => {
    const [a, b] = [[10, 20, 30, 40], [11, 21, 31, 41]];
    assert.deepEqual(bootstrapDifference(a, b, true), { difference: 1, ci95: [1, 1] });
    const [low, high] = bootstrapDifference(a, b, false).ci95!;
    assert.ok(low < -10 && high > 12, `${low} ${high}`);
  });

  it('needs two seeds a side for an interval', () => {
    assert.equal(bootstrapDifference([1], [2], false).ci95, null);
    assert.equal(bootstrapDifference([1, 2], [2], false).ci95, null);
  });

  it('Holm’s correction as worked out by hand: 0.01, 0.04, 0.03 of three', () => {
    holm([0.01, 0.04, 0.03]).forEach((p, i) => near(p, [0.03, 0.06, 0.06][i]!));
    assert.deepEqual(holm([]), []);
  });

  it('a side is described by its values', () => {
    assert.deepEqual(sideOf([1, 2, 3]), { n: 3, mean: 2, sd: 1, min: 1, max: 3 });
    assert.deepEqual(sideOf([7]), { n: 1, mean: 7, sd: null, min: 7, max: 7 });
    assert.deepEqual(sideOf([]), { n: 0, mean: null, sd: null, min: null, max: null });
  });
});
