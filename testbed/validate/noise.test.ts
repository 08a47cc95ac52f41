import assert from 'node:assert/strict';
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { mean } from 'simple-statistics';
import { compareFigure } from './compare-figure.js';
import { noiseFloor } from './noise.js';

describe('the noise floor of a validation', () => {
  it('covers 95 in 100 differences of two sets with one distribution, however few the seeds', () => {
    const generator = xoroshiro128plus(7928);
    const normal = (): number => Math.sqrt(-2 * Math.log(1 - uniformFloat64(generator))) * Math.cos(2 * Math.PI * uniformFloat64(generator));
    const draws = 20_000;
    for (const n of [2, 4, 8]) {
      let within = 0;
      for (let i = 0; i < draws; i++) {
        const [sim, kernel] = [Array.from({ length: n }, normal), Array.from({ length: n }, normal)];
        if (Math.abs(mean(sim) - mean(kernel)) <= noiseFloor(sim, kernel)!) within++;
      }
      // Five standard deviations of a count of 20 000 with probability 0.95 are 0.8 %.
      assert.ok(Math.abs(within / draws - 0.95) < 0.008, `${n} seeds: ${within / draws}`);
    }
  });

  it('is Student’s, worked out by hand: variances 2 and 8 of two seeds each, pooled 5, t of 2 degrees of freedom 4.303', () => {
    assert.ok(Math.abs(noiseFloor([10, 12], [20, 24])! - 4.302653 * Math.sqrt(5)) < 1e-5);
    // Three seeds against two: (2 × 1 + 8) / 3 degrees of freedom, t 3.182.
    assert.ok(Math.abs(noiseFloor([1, 2, 3], [20, 24])! - 3.182446 * Math.sqrt((10 / 3) * (1 / 3 + 1 / 2))) < 1e-5);
  });

  it('is not there with one seed, and no smaller than the digits written', () => {
    assert.equal(noiseFloor([1, 2], [1]), null);
    assert.equal(noiseFloor([], [1, 2]), null);
    const least = noiseFloor([5, 5], [5, 5])!;
    assert.ok(least > 0 && least < 1e-5);
  });

  it('two seeds of the kernel that happen to agree do not make a difference of what the simulator’s seeds vary by', () => {
    const tolerance = { relative: 0.1, absolute: null };
    assert.equal(compareFigure([30, 36], [27, 28], tolerance).verdict, 'noise');
    // … and a difference that is one stays one.
    assert.equal(compareFigure([40, 42], [27, 28], tolerance).verdict, 'differs');
  });

  it('one or two losses a run are no difference because the median falls on the one here and on the other there', () => {
    // Losses of six seeds as measured: one Reno flow, PIE, 100 Mbit/s, 50 ms.
    assert.equal(compareFigure([2, 2, 2, 1, 1, 2], [1, 2, 1, 1, 2, 1], { relative: 0.2, absolute: null }).verdict, 'noise');
    assert.equal(compareFigure([3, 4, 3, 3, 4, 3], [1, 2, 1, 1, 2, 1], { relative: 0.2, absolute: null }).verdict, 'differs');
  });
});
