import assert from 'node:assert/strict';
import { context, create, packet, randomSource, refusal, stateOf } from './testing/packets.js';
import { dialled, fill, hold, offer, probabilityOf } from './testing/probe.js';

const prob = (queue: ReturnType<typeof create>, nowNs: number): number => stateOf('blue', queue, nowNs)['prob']!;
const near = (actual: number, expected: number): void => assert.ok(Math.abs(actual - expected) < 1e-9, `${actual}, expected ${expected}`);

describe('BLUE', () => {
  it('raises p by d1 upon a loss, at most once a freeze_time', () => {
    const { ctx } = dialled();
    const queue = create('blue', { limit: 10, d1: 0.02, d2: 0.002, freeze_time: '100ms' }, ctx);
    fill(queue, 10, {}, 1);
    // The link was idle until the first arrival: an update at 0.
    let last = 0, updates = 0;
    const times: number[] = [];
    for (let ms = 1; ms <= 1000; ms++) {
      // Losses every 7 ms.
      if (ms % 7 !== 0) continue;
      assert.equal(offer(queue, ctx, ms * 1e6), 'limit');
      if (ms - last > 100) {
        updates++;
        last = ms;
        times.push(ms);
      }
      near(prob(queue, ms * 1e6), 0.02 * updates);
    }
    assert.deepEqual(times, [105, 210, 315, 420, 525, 630, 735, 840, 945]);
  });

  it('waits longer than freeze_time, not as long', () => {
    const { ctx } = dialled();
    const queue = create('blue', { limit: 1, d1: 0.1, freeze_time: '10ms' }, ctx);
    fill(queue, 1, {}, 1);
    for (const [ms, updates] of [[20, 1], [30, 1], [30.000001, 2], [40.000001, 2], [41, 3]] as const) {
      assert.equal(offer(queue, ctx, ms * 1e6), 'limit');
      near(prob(queue, ms * 1e6), 0.1 * updates);
    }
  });

  it('lowers p by d2 for every freeze_time the link is idle, from the end of the last packet on', () => {
    // 12 Mbit/s: the last packet of 1500 bytes takes 1 ms.
    const { ctx } = dialled({ rateBps: 12e6 });
    const queue = create('blue', { limit: 2, d1: 0.5, d2: 0.01, freeze_time: '10ms' }, ctx);
    fill(queue, 2, {}, 0);
    assert.equal(offer(queue, ctx, 11e6), 'limit');
    near(prob(queue, 11e6), 0.5);
    // While packets wait p stays.
    near(prob(queue, 500e6), 0.5);
    queue.dequeue(500e6);
    queue.dequeue(500e6);
    near(prob(queue, 500.9e6), 0.5);
    // Idle from 501 ms: an update there (the last is long ago) and one every 10 ms.
    for (const [ms, updates] of [[501, 1], [505, 1], [510.9, 1], [511, 2], [551, 6]] as const) near(prob(queue, ms * 1e6), 0.5 - 0.01 * updates);
    assert.equal(offer(queue, ctx, 556e6, {}), 'queued');
    near(prob(queue, 556e6), 0.44);
    near(prob(queue, 5000e6), 0.44);
    queue.dequeue(5000e6);
    near(prob(queue, 5000e6 + 1e6 + 43 * 10e6), 0);
    near(prob(queue, 90_000e6), 0);
  });

  it('waits freeze_time between a loss and the first update of an idle link', () => {
    const { ctx } = dialled({ rateBps: 12e6 });
    const queue = create('blue', { limit: 1, d1: 0.5, d2: 0.1, freeze_time: '100ms' }, ctx);
    queue.enqueue(packet({ size: 1500 }), 1);
    assert.equal(offer(queue, ctx, 101e6), 'limit');
    queue.dequeue(102e6);
    near(prob(queue, 200e6), 0.5);
    near(prob(queue, 201e6), 0.4);
    near(prob(queue, 300e6), 0.4);
    near(prob(queue, 301e6), 0.3);
  });

  it('signals every arrival with p, and its own signals do not raise p', () => {
    const prepare = (): ReturnType<typeof dialled> & { queue: ReturnType<typeof create>; nowNs: number } => {
      const { dial, ctx } = dialled();
      const queue = create('blue', { limit: 5, d1: 0.125, freeze_time: '1ms' }, ctx);
      fill(queue, 5, {}, 0);
      for (const ms of [2, 4, 6]) offer(queue, ctx, ms * 1e6);
      queue.dequeue(7e6);
      return { queue, ctx, dial, nowNs: 7e6 };
    };
    assert.equal(probabilityOf(prepare), 0.375);
    const ctx = context({ randomU32: randomSource(3) });
    const queue = create('blue', { limit: 5, d1: 0.2, freeze_time: '1ms' }, ctx);
    fill(queue, 5, {}, 0);
    offer(queue, ctx, 2e6);
    queue.dequeue(2e6);
    const rate = hold(queue, ctx, 4, 100_000, () => ({}), 3e6).length / 100_000;
    assert.ok(Math.abs(rate - 0.2) < 0.006, `${rate}`);
    near(prob(queue, 4e6), 0.2);
  });

  it('raises p also when more than l packets wait', () => {
    const { ctx } = dialled();
    const queue = create('blue', { limit: 100, l: 10, d1: 0.01, freeze_time: '10ms' }, ctx);
    for (let i = 0; i < 10; i++) queue.enqueue(packet(), 20e6 + i);
    near(prob(queue, 20e6), 0);
    queue.enqueue(packet(), 31e6);
    near(prob(queue, 31e6), 0.01);
    queue.enqueue(packet(), 32e6);
    near(prob(queue, 32e6), 0.01);
    queue.enqueue(packet(), 42e6);
    near(prob(queue, 42e6), 0.02);
  });

  it('marks with ecn, and has the defaults of the paper', () => {
    const { dial, ctx } = dialled();
    const queue = create('blue', { limit: 5, ecn: true }, ctx);
    fill(queue, 5, {}, 1);
    offer(queue, ctx, 101e6);
    near(prob(queue, 101e6), 0.0025);
    queue.dequeue(102e6);
    dial.value = 0;
    assert.equal(offer(queue, ctx, 102e6, { ecn: 0 }), 'aqm');
    assert.equal(offer(queue, ctx, 102e6, { ecn: 1 }), 'marked');
    for (let i = 0; i < 5; i++) queue.dequeue(103e6);
    assert.ok(Math.abs(prob(queue, 110e6) - 0.0025) < 1e-12 && Math.abs(prob(queue, 205e6) - 0.00225) < 1e-12);
  });

  it('refuses a freeze_time of 0 and a step of 0', () => {
    assert.match(refusal('blue', { freeze_time: '0ms' }), /^freeze_time: /);
    assert.match(refusal('blue', { d1: 0 }), /^d1: /);
    assert.match(refusal('blue', { l: 50, limit: 20 }), /^l: expected l below limit \(20p\)/);
  });
});
