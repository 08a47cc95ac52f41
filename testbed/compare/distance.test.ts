import assert from 'node:assert/strict';
import fc from 'fast-check';
import { distances, pooled } from './distance.js';

const sorted = (values: readonly number[]): Float64Array => Float64Array.from(values).sort();
const near = (a: number, b: number, tolerance = 1e-9): void => assert.ok(Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(a), Math.abs(b)), `${a} is not ${b}`);

describe('distances of samples', () => {
  it('are those worked out by hand', () => {
    // F steps 1/2 at 0 and 1; G steps 1/2 at 1 and 3: |F − G| is 1/2 on [0, 1) and on [1, 3).
    assert.deepEqual(distances([0, 1], [1, 3]), { ks: 0.5, wasserstein: 1.5 });
    const apart = distances([1, 2, 3], [4, 5, 6]);
    assert.equal(apart.ks, 1);
    near(apart.wasserstein, 3);
    // Sizes may differ, and ties count once a value: F(0) = 2/3, G(0) = 1/4.
    const { ks, wasserstein } = distances([0, 0, 1], [0, 1, 1, 1]);
    near(ks, 2 / 3 - 1 / 4);
    near(wasserstein, 2 / 3 - 1 / 4);
  });

  it('are those scipy 1.17 gives (ks_2samp, wasserstein_distance)', () => {
    const a = Array.from({ length: 50 }, (_, i) => ((i * 37) % 101) / 10);
    const b = Array.from({ length: 71 }, (_, i) => ((i * 53) % 89) ** 1.2 / 20);
    const { ks, wasserstein } = distances(sorted(a), sorted(b));
    near(ks, 0.09267605633802817);
    near(wasserstein, 0.28405437156929464);
  });

  const value = fc.oneof(fc.double({ min: -1e6, max: 1e6, noNaN: true }), fc.integer({ min: -3, max: 3 })); // ties too
  const sample = fc.array(value, { minLength: 1, maxLength: 30 }).map(sorted);

  it('are 0 from a sample to itself, however often each value is in it', () => {
    fc.assert(fc.property(sample, fc.integer({ min: 1, max: 4 }), (a, times) => {
      const { ks, wasserstein } = distances(a, pooled(Array.from({ length: times }, () => a)));
      near(ks, 0);
      near(wasserstein / 1e6, 0);
    }));
  });

  it('are symmetric', () => {
    fc.assert(fc.property(sample, sample, (a, b) => {
      const [there, back] = [distances(a, b), distances(b, a)];
      assert.equal(there.ks, back.ks);
      near(there.wasserstein, back.wasserstein);
    }));
  });

  it('obey the triangle inequality', () => {
    fc.assert(fc.property(sample, sample, sample, (a, b, c) => {
      const [ab, bc, ac] = [distances(a, b), distances(b, c), distances(a, c)];
      assert.ok(ac.ks <= ab.ks + bc.ks + 1e-9);
      assert.ok(ac.wasserstein <= (ab.wasserstein + bc.wasserstein) * (1 + 1e-9) + 1e-6);
    }));
  });

  it('tell how far a sample was shifted and how much it was stretched', () => {
    fc.assert(fc.property(sample, fc.double({ min: 0.001, max: 1000, noNaN: true }), (a, by) => {
      near(distances(a, a.map((x) => x + by)).wasserstein, by, 1e-6);
    }));
    fc.assert(fc.property(sample, sample, fc.double({ min: 0.5, max: 8, noNaN: true }), (a, b, factor) => {
      const [one, many] = [distances(a, b), distances(a.map((x) => x * factor), b.map((x) => x * factor))];
      near(many.ks, one.ks);
      near(many.wasserstein, one.wasserstein * factor, 1e-6);
    }));
  });

  it('of samples of one size: Wasserstein is the mean gap of values in order (quantile form)', () => {
    fc.assert(fc.property(fc.array(fc.tuple(value, value), { minLength: 1, maxLength: 30 }), (pairs) => {
      const [a, b] = [sorted(pairs.map(([x]) => x)), sorted(pairs.map(([, y]) => y))];
      near(distances(a, b).wasserstein, a.reduce((sum, x, i) => sum + Math.abs(x - b[i]!), 0) / a.length, 1e-6);
    }));
  });

  it('to an empty sample there is none', () => assert.throws(() => distances([], [1]), RangeError));
});
