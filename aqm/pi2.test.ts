import assert from 'node:assert/strict';
import { context, create, packet, randomSource, refusal, stateOf } from './testing/packets.js';
import { dialled, fill, offer } from './testing/probe.js';

const prob = (queue: ReturnType<typeof create>, nowNs = 0): number => stateOf('pi2', queue, nowNs)['prob']!;

describe('PI2', () => {
  it('integrates the delay at the head: alpha Σ (delay − target) + beta delay, while it stays within its bounds', () => {
    const { ctx } = dialled();
    const queue = create('pi2', {}, ctx);
    // One old packet: its delay is 32 ms, 64 ms, … and p' rises without touching a bound.
    queue.enqueue(packet(), 0);
    let errors = 0;
    for (let k = 1; k <= 5; k++) {
      assert.equal(queue.timerNs, k * 32e6);
      queue.tick(queue.timerNs);
      const delay = k * 0.032;
      errors += delay - 0.02;
      const expected = (5 / 16) * errors + (50 / 16) * delay;
      assert.ok(expected < 0.5 || k === 5, `${expected}`);
      assert.ok(Math.abs(prob(queue) - Math.min(0.5, expected)) < 1e-9, `${k}: ${prob(queue)}, expected ${expected}`);
    }
    // The packet leaves: no delay, and p' falls by alpha × target and beta × the fall.
    queue.dequeue(160e6);
    const before = prob(queue);
    queue.tick(192e6);
    assert.ok(Math.abs(prob(queue) - Math.max(0, before - (5 / 16) * 0.02 - (50 / 16) * 0.16)) < 1e-9);
    for (let k = 7; k < 60; k++) queue.tick(k * 32e6);
    assert.equal(prob(queue), 0);
  });

  it('stops at 1/k: every scalable packet marked, a quarter of Classic ones', () => {
    const { ctx } = dialled();
    const queue = create('pi2', {}, ctx);
    queue.enqueue(packet(), 0);
    for (let k = 1; k < 100; k++) queue.tick(k * 32e6);
    assert.equal(prob(queue), 0.5);
    const four = create('pi2', { coupling_factor: 4 }, ctx);
    four.enqueue(packet(), 0);
    for (let k = 1; k < 100; k++) four.tick(k * 32e6);
    assert.equal(prob(four), 0.25);
  });

  it("drops Classic and marks ECT(0) with the square of p', and marks ECT(1) and CE with twice p'", () => {
    const ctx = context({ randomU32: randomSource(7) });
    const queue = create('pi2', { limit: 500 }, ctx);
    fill(queue, 10, {}, 0);
    queue.tick(32e6);
    queue.tick(64e6);
    const p = prob(queue);
    assert.ok(p > 0.15 && p < 0.3, `${p}`);
    const counts = [0, 0, 0, 0];
    const each = 60_000;
    for (let i = 0; i < each; i++) {
      for (const ecn of [0, 1, 2]) {
        const outcome = offer(queue, ctx, 65e6, { ecn });
        if (outcome === (ecn === 0 ? 'aqm' : 'marked')) counts[ecn]!++;
        else assert.equal(outcome, 'queued');
        ctx.drops.length = 0;
        while (queue.backlogPackets > 10) queue.dequeue(65e6);
      }
      const marks = queue.marks;
      assert.equal(offer(queue, ctx, 65e6, { ecn: 3 }), 'queued');
      counts[3]! += queue.marks - marks;
      queue.dequeue(65e6);
    }
    const rates = counts.map((n) => n / each);
    for (const classic of [0, 2]) assert.ok(Math.abs(rates[classic]! - p * p) < 0.005, `${rates}, p' ${p}`);
    for (const scalable of [1, 3]) assert.ok(Math.abs(rates[scalable]! - 2 * p) < 0.009, `${rates}, p' ${p}`);
  });

  it('signals nothing below two full packets, and with ecn: false drops every kind alike', () => {
    const { dial, ctx } = dialled();
    const queue = create('pi2', { ecn: false }, ctx);
    queue.enqueue(packet(), 0);
    queue.tick(32e6);
    queue.tick(64e6);
    assert.ok(prob(queue) > 0);
    dial.value = 0;
    assert.equal(offer(queue, ctx, 65e6, { size: 1514, ecn: 1 }), 'queued');
    assert.deepEqual([0, 1, 2, 3].map((ecn) => offer(queue, ctx, 65e6, { ecn })), ['aqm', 'aqm', 'aqm', 'aqm']);
    assert.equal(queue.marks, 0);
  });

  it('refuses a target of 0, a gain of 0 and a coupling below 1', () => {
    assert.match(refusal('pi2', { target: '0ms' }), /^target: /);
    assert.match(refusal('pi2', { alpha: 0 }), /^alpha: expected a gain in Hz/);
    assert.match(refusal('pi2', { coupling_factor: 0.5 }), /^coupling_factor: expected a coupling factor from 1/);
  });
});
