/** NLRED, MRED and TRED: RED with another p_b. */

import assert from 'node:assert/strict';
import { context, create, packet, randomSource, refusal, stateOf } from './testing/packets.js';
import { ALWAYS, dialled, fill, hold, meanInterval, NEVER, offer, probabilityOf } from './testing/probe.js';

const EXACT = { limit: 1000, min: 20, max: 80, w: 1, probability: 0.1 };

/** p_b with an average of `backlog`: after a signal, so that count is 0. */
function pbAt(kind: string, backlog: number, params: object = {}): number {
  return probabilityOf(() => {
    const { dial, ctx } = dialled();
    const queue = create(kind, { ...EXACT, ...params }, ctx);
    fill(queue, backlog);
    dial.value = ALWAYS;
    offer(queue, ctx, 0);
    dial.value = NEVER;
    return { queue, ctx, dial, nowNs: 0 };
  });
}

function close(actual: number, expected: number, what: string): void {
  assert.ok(Math.abs(actual - expected) < 1e-8, `${what}: ${actual}, expected ${expected}`);
}

describe('NLRED', () => {
  it('has p_b quadratic in the average up to 1.5 max_p, then 1', () => {
    for (let q = 21; q < 80; q += 7) close(pbAt('nlred', q), 0.15 * (q / 60 - 1 / 3) ** 2, `at ${q}`);
    assert.equal(pbAt('nlred', 80), 1);
    // RED's p_b averaged over the range is max_p / 2.
    let sum = 0;
    for (let k = 0; k < 6000; k++) sum += 0.15 * ((k + 0.5) / 6000) ** 2;
    close(sum / 6000, 0.05, 'the mean of the curve');
  });

  it('signals in the long run as its p_b and the correction by count say', () => {
    for (const backlog of [45, 70]) {
      const ctx = context({ randomU32: randomSource(backlog) });
      const rate = hold(create('nlred', EXACT, ctx), ctx, backlog, 400_000).length / 400_000;
      const expected = 1 / meanInterval(0.15 * ((backlog - 20) / 60) ** 2);
      assert.ok(Math.abs(rate / expected - 1) < 0.05, `${backlog}: ${rate}, expected ${expected}`);
    }
  });

  it('refuses min above max', () => assert.match(refusal('nlred', { min: 9, max: 3 }), /^min: /));
});

describe('TRED', () => {
  it('has a cubic, a linear and a mirrored cubic section, which meet', () => {
    const expected = (q: number): number => {
      const x = (q - 20) / 60;
      if (q < 40) return 0.1 * (9 * x ** 3);
      if (q < 60) return 0.1 * x;
      // The first section turned about the middle of the curve.
      return 0.1 - 0.1 * (9 * (1 - x) ** 3);
    };
    for (const q of [21, 30, 39, 40, 41, 50, 59, 60, 61, 70, 79]) close(pbAt('tred', q), expected(q), `at ${q}`);
    assert.equal(pbAt('tred', 80), 1);
    close(pbAt('tred', 40), 0.1 / 3, 'a third');
    close(pbAt('tred', 60), 0.2 / 3, 'two thirds');
  });

  it('refuses thresholds in different units', () => assert.match(refusal('tred', { min: 9, max: '60kB' }), /^max: expected max in packets/));
});

describe('MRED', () => {
  it('is RED below max, and drops everything when average and queue have reached it', () => {
    for (const q of [21, 50, 79]) close(pbAt('mred', q), (0.1 * (q - 20)) / 60, `at ${q}`);
    assert.equal(pbAt('mred', 80), 1);
  });

  it('goes on along the line while the queue is below max and only the average is not', () => {
    const burst = (kind: string, arrivals: number): { rate: number; from: number; to: number } => {
      const ctx = context({ randomU32: randomSource(5) });
      const queue = create(kind, { min: 1, max: 3, w: 0.0001, probability: 0.1 }, ctx);
      // A burst: from an average of 3 on nothing more enters, but the average goes on to rise.
      while (stateOf(kind, queue, 0)['qavg']! < 4) queue.enqueue(packet(), 0);
      while (queue.backlogPackets > 2) queue.dequeue(0);
      const from = stateOf(kind, queue, 0)['qavg']!;
      let dropped = 0;
      for (let i = 0; i < arrivals; i++) {
        if (offer(queue, ctx, 0) !== 'queued') dropped++;
        while (queue.backlogPackets > 2) queue.dequeue(0);
      }
      return { rate: dropped / arrivals, from, to: stateOf(kind, queue, 0)['qavg']! };
    };
    const { rate, from, to } = burst('mred', 2000);
    assert.ok(from < 4.1 && from > to && to > 3, `${from} … ${to}`);
    const high = 1 / meanInterval((0.1 * (from - 1)) / 2), low = 1 / meanInterval((0.1 * (to - 1)) / 2);
    assert.ok(low > 0.1 && high < 0.35 && rate > low * 0.93 && rate < high * 1.07, `${rate}, expected ${low} … ${high}`);
    assert.equal(burst('red-classic', 100).rate, 1, 'RED drops all of them');
  });

  it('refuses a weight above 1', () => assert.match(refusal('mred', { w: 2 }), /^w: /));
});
