import assert from 'node:assert/strict';
import { seedNoise } from './seed-permutation.js';

/** Runs on a line: the distance is how far apart they are. */
const onALine = (at: readonly number[]): number[][] => at.map((x) => at.map((y) => Math.abs(x - y)));

describe('distances over seeds', () => {
  it('far apart sides are outside, with the smallest p that so few runs allow', () => {
    const noise = seedNoise(onALine([0, 1, 2, 10, 11, 12]), 3, false);
    assert.equal(noise.verdict, 'outside');
    assert.equal(noise.between, 10);
    assert.deepEqual([noise.within!.pairs, noise.within!.mean], [6, 4 / 3]);
    // 20 ways to choose 3 of 6, of which the one seen and its mirror are as far apart.
    assert.deepEqual(noise.permutation, { p: 0.1, smallestP: 0.1, relabellings: 20, exact: true });
  });

  it('sides that lie among one another are inside', () => {
    const noise = seedNoise(onALine([0, 2, 4, 1, 3, 5]), 3, false);
    assert.equal(noise.verdict, 'inside');
    assert.ok(noise.permutation!.p > 0.5);
  });

  it('paired: pairs of one seed are no evidence, and labels are swapped within pairs only', () => {
    // Each seed is a world of its own; both sides agree within each.
    const same = seedNoise(onALine([0, 10, 20, 0, 10, 20]), 3, true);
    assert.equal(same.verdict, 'inside');
    assert.equal(same.between, same.within!.mean);
    assert.equal(same.permutation!.p, 1);
    const apart = seedNoise(onALine([0, 1, 2, 50, 51, 52]), 3, true);
    assert.deepEqual(apart.permutation, { p: 0.25, smallestP: 0.25, relabellings: 8, exact: true });
  });

  it('one run a side has a distance but no noise and no p', () => {
    for (const paired of [true, false]) assert.deepEqual(seedNoise(onALine([0, 3]), 1, paired), { between: 3, within: null, verdict: 'unknown', permutation: null });
  });

  it('one run against several takes its noise from them', () => {
    const noise = seedNoise(onALine([9, 0, 1, 2]), 1, false);
    assert.equal(noise.verdict, 'outside');
    assert.deepEqual([noise.permutation!.p, noise.permutation!.smallestP], [0.25, 0.25]);
  });

  it('many runs are shuffled at random, the same way each time', () => {
    const many = onALine([...Array.from({ length: 12 }, (_, i) => i), ...Array.from({ length: 12 }, (_, i) => i + 30)]);
    const [first, second] = [seedNoise(many, 12, false), seedNoise(many, 12, false)];
    assert.deepEqual(first, second);
    assert.equal(first.permutation!.exact, false);
    assert.equal(first.permutation!.p, 1 / 5001);
  });
});
