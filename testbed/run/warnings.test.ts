import assert from 'node:assert/strict';
import { warnings } from './run-scenario.js';

const plans = ['pfifo', 'codel'].flatMap((queue) => [1, 2].map(() => ({ varied: { queue } })));
const warned = (...messages: readonly string[]) => ({ findings: messages.map((message) => ({ type: 'finding' as const, level: 'warning' as const, rule: 'r', message })) });

describe('the warnings of a set of runs', () => {
  it('are told once each, with how many runs and which varied values they are of', () => {
    assert.deepEqual(warnings([warned('a', 'b'), warned('a', 'b'), warned('b'), warned('b')], plans), ['r: a (in 2 of 4 runs: queue=pfifo)', 'r: b (in all 4 runs)']);
  });
  it('count a run once, and runs that were never started not at all', () => {
    assert.deepEqual(warnings([warned('a', 'a'), null, warned('a'), null], plans), ['r: a (in 2 of 4 runs: queue=pfifo; queue=codel)']);
  });
  it('of a single run are told as they are', () => {
    assert.deepEqual(warnings([warned('a')], [{ varied: {} }]), ['r: a']);
  });
});
