import assert from 'node:assert/strict';
import { context, create, packet, randomSource, refusal, stateOf } from './testing/packets.js';
import { dialled, fill, hold, offer, probabilityOf } from './testing/probe.js';

/** 5 packets in every 2 ms. */
const LINK = { avpkt: 1500, bandwidth: '30mbit' };

describe('REM', () => {
  it('moves its price by rate and queue mismatch, and signals with 1 − phi^−price, as the equations of the paper', () => {
    const { ctx } = dialled();
    const queue = create('rem', { ...LINK, limit: 200, gamma: 0.05, phi: 1.01 }, ctx);
    const random = randomSource(6);
    let price = 0, seen = 0;
    for (let k = 1; k <= 800; k++) {
      const nowNs = k * 2e6;
      const arrivals = random() % (k % 200 < 100 ? 14 : 9);
      for (let i = 0; i < arrivals; i++) offer(queue, ctx, nowNs - 1);
      for (let i = random() % 11; i > 0; i--) queue.dequeue(nowNs - 1);
      assert.equal(queue.timerNs, nowNs);
      queue.tick(nowNs);
      const mismatch = 0.1 * (queue.backlogPackets - 20) + arrivals - 5;
      price = price + 0.05 * mismatch;
      if (price < 0) price = 0;
      const state = stateOf('rem', queue, nowNs);
      assert.ok(Math.abs(state['price']! - price) < 1e-9, `update ${k}`);
      assert.ok(Math.abs(state['prob']! - (1 - 1.01 ** -price)) < 1e-9);
      if (price > 0) seen++;
    }
    assert.ok(seen > 100 && seen < 800, `${seen}`);
  });

  it('averages the arrival rate with w, and counts what it drops as arrived', () => {
    const { ctx } = dialled();
    const queue = create('rem', { ...LINK, limit: 30, w: 0.5, gamma: 1 }, ctx);
    for (let i = 0; i < 40; i++) offer(queue, ctx, 0);
    assert.equal(queue.backlogPackets, 30);
    queue.tick(2e6);
    // x = 40 / 2; alpha (30 − 20) = 1.
    assert.ok(Math.abs(stateOf('rem', queue, 2e6)['price']! - (1 + 20 - 5)) < 1e-9);
    queue.tick(4e6);
    assert.ok(Math.abs(stateOf('rem', queue, 4e6)['price']! - (16 + 1 + 10 - 5)) < 1e-9);
  });

  it('signals every arrival with that probability', () => {
    const ctx = context({ randomU32: randomSource(2) });
    const queue = create('rem', { ...LINK, gamma: 1, phi: 1.05 }, ctx);
    fill(queue, 30);
    queue.tick(2e6);
    const expected = stateOf('rem', queue, 0)['prob']!;
    assert.ok(Math.abs(expected - (1 - 1.05 ** -(1 + 30 - 5))) < 1e-9);
    const rate = hold(queue, ctx, 30, 100_000).length / 100_000;
    assert.ok(Math.abs(rate - expected) < 0.008, `${rate}, expected ${expected}`);
  });

  it('counts in units of avpkt bytes when b is in bytes', () => {
    const { ctx } = dialled();
    const queue = create('rem', { ...LINK, b: '30kB', limit: '300kB', gamma: 1 }, ctx);
    for (let i = 0; i < 80; i++) queue.enqueue(packet({ size: 750 }), 0);
    queue.tick(2e6);
    assert.ok(Math.abs(stateOf('rem', queue, 0)['price']! - (0.1 * (40 - 20) + 40 - 5)) < 1e-9);
    const p = stateOf('rem', queue, 0)['prob']!;
    const of = (size: number): number => probabilityOf(() => {
      const { dial, ctx: own } = dialled();
      const again = create('rem', { ...LINK, b: '30kB', limit: '300kB', gamma: 1 }, own);
      fill(again, 80, { size: 750 });
      again.tick(2e6);
      return { queue: again, ctx: own, dial, nowNs: 0 };
    }, { size });
    assert.ok(Math.abs(of(1500) - p) < 1e-9 && Math.abs(of(300) - p / 5) < 1e-9, 'a packet is signalled in proportion to its size');
  });

  it('marks with ecn', () => {
    const { dial, ctx } = dialled();
    const queue = create('rem', { ...LINK, gamma: 1, ecn: true }, ctx);
    fill(queue, 50);
    queue.tick(2e6);
    dial.value = 0;
    assert.deepEqual([0, 1, 2].map((ecn) => offer(queue, ctx, 3e6, { ecn })), ['aqm', 'marked', 'marked']);
  });

  it('refuses a base of 1, which could never signal', () => {
    assert.match(refusal('rem', { phi: 1 }), /^phi: expected a base above 1/);
    assert.match(refusal('rem', { tupdate: '0ms' }), /^tupdate: /);
    assert.match(refusal('rem', { b: 2000 }), /^b: expected b below limit \(1000p by default\)/);
  });
});
