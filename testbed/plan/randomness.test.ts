import * as assert from 'node:assert/strict';
import type { Distribution } from '../scenario/quantity.js';
import { stream } from './randomness.js';

const n = 20_000;
function sample(distribution: Distribution): number[] {
  const random = stream(1, 'test', distribution.kind);
  return Array.from({ length: n }, () => random.draw(distribution));
}
const mean = (values: readonly number[]): number => values.reduce((sum, v) => sum + v, 0) / values.length;

describe('random streams', () => {
  it('are the same for the same seed and purpose, and others otherwise', () => {
    const first = (seed: number, ...purpose: string[]): number => stream(seed, ...purpose).uniform();
    assert.equal(first(1, 'a'), first(1, 'a'));
    assert.equal(new Set([first(1, 'a'), first(2, 'a'), first(1, 'b'), first(1, 'a', 'b'), first(1, 'ab')]).size, 5);
  });
  it('fill [0, 1) evenly', () => {
    const random = stream(3, 'u');
    const bins = new Array<number>(10).fill(0);
    for (let i = 0; i < n; i++) bins[Math.floor(random.uniform() * 10)]!++;
    for (const bin of bins) assert.ok(Math.abs(bin - n / 10) < 5 * Math.sqrt(n * 0.09), String(bin));
  });
  it('draw each distribution with its mean and within its bounds', () => {
    assert.deepEqual(new Set(sample({ kind: 'fixed', value: 7 })), new Set([7]));
    const uniform = sample({ kind: 'uniform', min: 10, max: 20 });
    assert.ok(Math.min(...uniform) >= 10 && Math.max(...uniform) <= 20 && Math.abs(mean(uniform) - 15) < 0.15);
    const exponential = sample({ kind: 'exponential', mean: 5 });
    assert.ok(Math.min(...exponential) >= 0 && Math.abs(mean(exponential) - 5) < 0.2);
    // Pareto's mean is shape × min / (shape − 1).
    assert.ok(Math.abs(mean(sample({ kind: 'pareto', shape: 3, min: 2, max: null })) - 3) < 0.1);
    const bounded = sample({ kind: 'pareto', shape: 1.2, min: 10, max: 1000 });
    assert.ok(Math.min(...bounded) >= 10 && Math.max(...bounded) <= 1000 && Math.max(...bounded) > 500);
  });
});
