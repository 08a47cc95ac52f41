/** Whether the processor keeps its speed, as it is told apart. */

import assert from 'node:assert/strict';
import { Pace } from './pace.js';

describe("the processor's pace", () => {
  /** In times of the best there is; far below what any processor takes, so that the best is ours. */
  const bestNs = 100;
  const paceOf = (...times: readonly number[]): Pace => {
    const pace = new Pace();
    times.forEach((time, i) => { pace.add(i, time * bestNs); });
    return pace;
  };

  /** To the width of a bucket. */
  const assertNear = (speed: number, expected: number): void => assert.ok(Math.abs(speed / expected - 1) < 0.1, `${speed}, not ${expected}`);

  it('is the share of times more than twice the best, however late the best comes', () => {
    const even = paceOf(1, 1.3, 1.9, 1).report();
    assert.deepEqual([even.samples, even.slowShare], [4, 0]);
    assertNear(even.slowest, 1 / 1.9);
    const slow = paceOf(12, 3, 1, 1.2, 1.5).report();
    assert.deepEqual([slow.samples, slow.slowShare], [5, 0.4]);
    assertNear(slow.slowest, 1 / 12);
  });

  it('does not take 1 of 1000 times for its speed', () => {
    const pace = paceOf(1, 40);
    for (let i = 0; i < 2000; i++) pace.add(i, bestNs * (i < 50 ? 10 : 1));
    assertNear(pace.report().slowest, 1 / 10);
  });

  it('remembers when it was last slow', () => {
    assert.equal(paceOf(1, 1.2).slowNs, -Infinity);
    assert.equal(paceOf(1, 1.2, 12, 3, 1).slowNs, 3);
  });

  it('starts again without its samples, but knows what full speed is', () => {
    const pace = paceOf(1, 12);
    pace.restart();
    assert.deepEqual(pace.report(), { samples: 0, slowShare: 0, slowest: 1 });
    pace.add(9, 5 * bestNs);
    assert.equal(pace.report().slowShare, 1);
    assertNear(pace.report().slowest, 0.2);
  });

  it('is measured', () => {
    const pace = new Pace();
    for (let i = 0; i < 100; i++) pace.sample(i);
    const { samples, slowShare, slowest } = pace.report();
    assert.equal(samples, 100);
    assert.ok(slowShare >= 0 && slowShare <= 1 && slowest > 0 && slowest <= 1, JSON.stringify({ slowShare, slowest }));
  });
});
