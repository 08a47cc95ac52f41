import assert from 'node:assert/strict';
import { UserError } from '../testbed/errors.js';
import { context, create, packet, refusal, runTimers, stateOf } from './testing/packets.js';
import { dialled, fill, offer } from './testing/probe.js';

/** 1666.67 packets a second. */
const LINK = { avpkt: 1500, bandwidth: '20mbit' };
const maxP = (queue: ReturnType<typeof create>): number => stateOf('ared', queue, 0)['max_p']!;

/** A queue with w 1 whose average is `backlog`, and one adaptation. @returns max_p then */
function adaptedAt(backlog: number, params: object): number {
  const { ctx } = dialled();
  const queue = create('ared', { ...LINK, w: 1, ...params }, ctx);
  // The average is what the last arrival found.
  fill(queue, backlog);
  queue.enqueue(packet(), 0);
  assert.equal(stateOf('ared', queue, 0)['qavg'], backlog);
  queue.tick(queue.timerNs);
  return maxP(queue);
}

describe('Adaptive RED', () => {
  it('sets w from the rate of the link: 1 − exp(−1/C)', () => {
    const { ctx } = dialled();
    const queue = create('ared', LINK, ctx);
    queue.enqueue(packet(), 0);
    queue.enqueue(packet(), 0);
    const w = stateOf('ared', queue, 0)['qavg']!;
    // The first terms of 1 − e^−x.
    const x = 1500 / 2.5e6;
    assert.ok(Math.abs(w - (x - x ** 2 / 2 + x ** 3 / 6)) < 1e-12, `${w}`);
  });

  it('sets min to half of target × C, at least 5, and max to three times that', () => {
    // 20 ms: min 16.67, max 50. The target range is 30 … 36.67.
    const results = [29, 31, 36, 37].map((backlog) => Math.round(adaptedAt(backlog, { target: '20ms' }) * 1e6) / 1e6);
    assert.deepEqual(results, [0.09, 0.1, 0.1, 0.11]);
    // 5 ms would be 4.17: min is 5, max 15, the range 9 … 11.
    assert.deepEqual([8, 10, 12].map((backlog) => Math.round(adaptedAt(backlog, {}) * 1e6) / 1e6), [0.09, 0.1, 0.11]);
  });

  it('adapts every half second: up by min(0.01, max_p / 4) up to 0.5, down to nine tenths down to 0.01', () => {
    const { ctx } = dialled();
    const queue = create('ared', { ...LINK, w: 1, min: 20, max: 60, probability: 0.02 }, ctx);
    assert.equal(queue.timerNs, 500e6);
    for (let i = 0; i < 52; i++) queue.enqueue(packet(), 0);
    const trace: number[] = [];
    for (let k = 1; k <= 6; k++) {
      queue.tick(500e6 * k);
      assert.equal(queue.timerNs, 500e6 * (k + 1));
      trace.push(Number(maxP(queue).toFixed(9)));
    }
    // By hand: quarters until a quarter exceeds 0.01.
    assert.deepEqual(trace, [0.025, 0.03125, 0.0390625, 0.048828125, 0.058828125, 0.068828125]);
    runTimers(queue, 60e9);
    assert.ok(maxP(queue) > 0.5 && maxP(queue) <= 0.51);
    while (queue.backlogPackets > 5) queue.dequeue(60e9);
    queue.enqueue(packet(), 60e9);
    runTimers(queue, 60.5e9);
    const high = maxP(queue);
    runTimers(queue, 61.5e9);
    assert.ok(Math.abs(maxP(queue) - high * 0.81) < 1e-12);
    runTimers(queue, 300e9);
    assert.ok(maxP(queue) < 0.01 && maxP(queue) >= 0.009);
  });

  it('sees the average of an idle link decay', () => {
    const { ctx } = dialled();
    const queue = create('ared', { ...LINK, min: 20, max: 60, w: 0.01 }, ctx);
    for (let i = 0; i < 150; i++) queue.enqueue(packet({ size: 1500 }), 0);
    assert.ok(stateOf('ared', queue, 0)['qavg']! > 44, 'in the upper part');
    queue.tick(500e6);
    assert.ok(maxP(queue) > 0.1);
    while (queue.backlogPackets > 0) queue.dequeue(500e6);
    const before = maxP(queue);
    queue.tick(1000e6);
    assert.equal(maxP(queue), before * 0.9, 'though nothing has arrived since');
  });

  it('is gentle beyond max', () => {
    const { ctx } = dialled();
    const queue = create('ared', { ...LINK, w: 1, min: 5, max: 15, limit: 200 }, ctx);
    // No chance comes true: only count and the certain drop stop it.
    while (offer(queue, ctx, 0) === 'queued' || queue.backlogPackets < 16);
    assert.ok(queue.backlogPackets > 15);
    const hard = create('ared', { ...LINK, w: 1, min: 5, max: 15, limit: 200, gentle: false }, ctx);
    for (let i = 0; i < 400; i++) offer(hard, ctx, 0);
    assert.equal(hard.backlogPackets, 15);
  });

  it('refuses a limit its own thresholds reach, and a target of 0', () => {
    assert.throws(() => create('ared', { ...LINK, target: '1s' }, context()), (error: unknown) => error instanceof UserError && /max would be 2500p .* below limit \(1000p\)/.test(error.message));
    assert.match(refusal('ared', { target: '0ms' }), /^target: /);
    assert.match(refusal('ared', { beta: 1 }), /^beta: /);
    assert.match(refusal('ared', { min: 30, max: 10 }), /^min: expected min below max/);
  });
});
