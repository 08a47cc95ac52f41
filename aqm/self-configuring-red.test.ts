import assert from 'node:assert/strict';
import { create, packet, refusal, stateOf } from './testing/packets.js';
import { dialled, fill } from './testing/probe.js';

describe('self-configuring RED', () => {
  const PARAMS = { limit: 500, min: 10, max: 30, w: 1, probability: 0.1, gentle: true };

  /** Brings the queue, and with w 1 the average, to each backlog in turn. @returns max_p after each */
  function walk(params: object, backlogs: readonly number[]): number[] {
    const { ctx } = dialled();
    const queue = create('self-configuring-red', { ...PARAMS, ...params }, ctx);
    return backlogs.map((backlog) => {
      fill(queue, backlog);
      queue.enqueue(packet(), 0);
      assert.equal(stateOf('self-configuring-red', queue, 0)['qavg'], backlog);
      return Number(stateOf('self-configuring-red', queue, 0)['max_p']!.toFixed(12));
    });
  }

  it('doubles max_p when the average rises above max and divides it by three when it falls below min, once a crossing', () => {
    const third = (value: number): number => Number((value / 3).toFixed(12));
    assert.deepEqual(
      walk({}, [5, 15, 20, 32, 33, 20, 32, 20, 5, 4, 12, 5]),
      //        below: nothing yet; between; above: × 2 once; back; above again; between; below: / 3 once; between; below
      [0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.4, 0.4, third(0.4), third(0.4), third(0.4), Number((0.4 / 9).toFixed(12))],
    );
  });

  it('takes other factors, and goes straight from above to below', () => {
    assert.deepEqual(walk({ alpha: 4, beta: 1.5 }, [35, 3, 35]), [0.15, 0.0375, 0.05625]);
  });

  it('keeps max_p within 10^-6 … 1', () => {
    const swings = Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? 20 : 3));
    assert.equal(walk({}, swings).at(-1), 1e-6);
    const tops = [31, 20, 31, 20, 31, 20, 31];
    assert.equal(walk({}, tops).at(-1), 1);
  });

  it('refuses factors that would not move max_p', () => {
    assert.match(refusal('self-configuring-red', { alpha: 1 }), /^alpha: expected a factor above 1/);
    assert.match(refusal('self-configuring-red', { beta: 0.5 }), /^beta: expected a factor above 1/);
  });
});
