import assert from 'node:assert/strict';
import { dumbbell, queue } from '../testbed/testing/plans.js';
import { memoryProblem } from './memory.js';

describe('the memory a simulation may take', () => {
  it('is told with the estimate, and how to allow more, before the simulation starts', () => {
    assert.equal(memoryProblem(dumbbell()), null);
    assert.match(memoryProblem(dumbbell({ queue: queue('codel', { limit: 1_000_000_000 }) }))!, /may take 38\d{4} MiB \(every queue full.*Node may use \d+ MiB; .*--max-old-space-size/);
  });
});
