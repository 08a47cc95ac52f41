import assert from 'node:assert/strict';
import { create, refusal, stateOf } from './testing/packets.js';
import { dialled, fill, offer } from './testing/probe.js';

describe('threshold policy', () => {
  it('drops an arrival that finds qth packets waiting, and none that finds fewer', () => {
    const { ctx } = dialled();
    const queue = create('threshold', { qth: 20 }, ctx);
    for (let i = 0; i < 20; i++) assert.equal(offer(queue, ctx, 0), 'queued');
    for (let i = 0; i < 5; i++) assert.equal(offer(queue, ctx, 0), 'aqm');
    queue.dequeue(0);
    assert.equal(offer(queue, ctx, 0), 'queued');
    assert.deepEqual(stateOf('threshold', queue, 0), { early: 5, pdrop: 0 });
  });

  it('counts bytes when qth is in bytes', () => {
    const { ctx } = dialled();
    const queue = create('threshold', { qth: '4500B' }, ctx);
    const outcomes = [1500, 1500, 1499, 100, 100].map((size) => offer(queue, ctx, 0, { size }));
    // 4499 bytes are below the threshold, 4599 are not.
    assert.deepEqual(outcomes, ['queued', 'queued', 'queued', 'queued', 'aqm']);
  });

  it('marks ECN-capable arrivals instead, up to the limit', () => {
    const { ctx } = dialled();
    const queue = create('threshold', { qth: 10, limit: 15, ecn: true }, ctx);
    fill(queue, 10);
    assert.equal(offer(queue, ctx, 0, { ecn: 0 }), 'aqm');
    for (let i = 0; i < 5; i++) assert.equal(offer(queue, ctx, 0, { ecn: 1 + (i % 2) }), 'marked');
    assert.equal(offer(queue, ctx, 0, { ecn: 2 }), 'limit');
    assert.equal(queue.marks, 5);
  });

  it('refuses a threshold at or above the limit', () => {
    assert.match(refusal('threshold', { qth: 100, limit: 100 }), /^qth: expected qth below limit \(100p\)/);
    assert.match(refusal('threshold', { limit: 40 }), /^limit: expected limit above qth \(50p by default\)/);
    assert.match(refusal('threshold', { qth: 0 }), /^qth: /);
  });
});
