import assert from 'node:assert/strict';
import { context, create, packet, randomSource, refusal, stateOf } from './testing/packets.js';
import { dialled, fill, hold, offer, probabilityOf } from './testing/probe.js';

const prob = (queue: ReturnType<typeof create>): number => stateOf('pi', queue, 0)['prob']!;
/** Puts so many packets into the queue. No arrival comes true while it does. */
const setBacklog = (queue: ReturnType<typeof create>, backlog: number): void => fill(queue, backlog);

describe('PI', () => {
  it('is the difference equation of the paper: summed, a e(k) + (a − b) Σ e(j) + b qref while it stays within 0 … 1', () => {
    const { ctx } = dialled();
    const queue = create('pi', { a: 2e-5, b: 1.9e-5, qref: 100, limit: 800 }, ctx);
    const random = randomSource(5);
    let sum = 0;
    for (let k = 1; k <= 400; k++) {
      // Around qref, never so low that p would fall below 0.
      const q = 100 + (random() % 120) - (k > 200 ? 40 : 0);
      setBacklog(queue, q);
      assert.equal(queue.timerNs, k * 6.25e6);
      queue.tick(queue.timerNs);
      const error = q - 100;
      const expected = 2e-5 * error + 1e-6 * sum + 1.9e-5 * 100;
      assert.ok(expected > 0);
      assert.ok(Math.abs(prob(queue) - expected) < 1e-12, `sample ${k}: ${prob(queue)}, expected ${expected}`);
      sum += error;
    }
  });

  it('keeps p within 0 … 1 and winds up beyond neither', () => {
    const { ctx } = dialled();
    const queue = create('pi', { a: 0.01, b: 0.009, qref: 50, limit: 400 }, ctx);
    let expected = 0, old = 0;
    const reached = new Set<number>();
    for (const q of [10, 20, 300, 300, 300, 300, 300, 300, 300, 60, 20, 20, 20, 0, 0, 200]) {
      // At p = 1 nothing enters.
      setBacklog(queue, prob(queue) === 1 ? Math.min(q, queue.backlogPackets) : q);
      queue.tick(queue.timerNs);
      const now = queue.backlogPackets;
      expected = Math.max(0, Math.min(1, expected + 0.01 * (now - 50) - 0.009 * (old - 50)));
      old = now;
      assert.ok(Math.abs(prob(queue) - expected) < 1e-12);
      reached.add(prob(queue));
    }
    assert.ok(reached.has(0) && reached.has(1));
  });

  it('does not move when the queue stays at qref', () => {
    const { ctx } = dialled();
    const queue = create('pi', { qref: 30, limit: 100 }, ctx);
    setBacklog(queue, 30);
    queue.tick(queue.timerNs);
    const first = prob(queue);
    for (let i = 0; i < 50; i++) queue.tick(queue.timerNs);
    assert.equal(prob(queue), first);
  });

  it('signals every arrival with p; with bytemode in proportion to its size', () => {
    const prepare = (params: object) => (): ReturnType<typeof dialled> & { queue: ReturnType<typeof create>; nowNs: number } => {
      const { dial, ctx } = dialled();
      const queue = create('pi', { a: 0.001, b: 0.0009, qref: 50, limit: 400, avpkt: 1500, ...params }, ctx);
      fill(queue, 250);
      queue.tick(queue.timerNs);
      return { queue, ctx, dial, nowNs: 0 };
    };
    const p = 0.001 * 200 + 0.0009 * 50;
    assert.ok(Math.abs(probabilityOf(prepare({})) - p) < 1e-9);
    assert.ok(Math.abs(probabilityOf(prepare({}), { size: 300 }) - p) < 1e-9);
    assert.ok(Math.abs(probabilityOf(prepare({ bytemode: true }), { size: 300 }) - p / 5) < 1e-9);
    const ctx = context({ randomU32: randomSource(4) });
    const queue = create('pi', { a: 0.001, b: 0.0009, qref: 50, limit: 400 }, ctx);
    fill(queue, 250);
    queue.tick(queue.timerNs);
    const rate = hold(queue, ctx, 250, 100_000).length / 100_000;
    assert.ok(Math.abs(rate - p) < 0.007, `${rate}, expected ${p}`);
  });

  it('counts in units of avpkt bytes when qref is in bytes', () => {
    const { ctx } = dialled();
    const queue = create('pi', { a: 0.001, b: 0.0009, qref: '75kB', limit: '600kB', avpkt: 1500 }, ctx);
    for (let i = 0; i < 200; i++) queue.enqueue(packet({ size: 750 }), 0);
    queue.tick(queue.timerNs);
    assert.ok(Math.abs(prob(queue) - (0.001 * (100 - 50) + 0.0009 * 50)) < 1e-12);
  });

  it('marks with ecn', () => {
    const { dial, ctx } = dialled();
    const queue = create('pi', { ecn: true, qref: 10 }, ctx);
    fill(queue, 100);
    queue.tick(queue.timerNs);
    dial.value = 0;
    assert.deepEqual([0, 1, 2].map((ecn) => offer(queue, ctx, 0, { ecn })), ['aqm', 'marked', 'marked']);
  });

  it('refuses gains that do not bring the queue back to qref, and a qref beyond the limit', () => {
    assert.match(refusal('pi', { a: 1e-5, b: 1e-5 }), /^b: expected b \(0\.00001\) below a/);
    assert.match(refusal('pi', { a: 1e-5 }), /^a: expected b \(0\.00001816\) below a/);
    assert.match(refusal('pi', { qref: 900 }), /^qref: expected qref below limit \(800p by default\)/);
    assert.match(refusal('pi', { tupdate: '0s' }), /^tupdate: /);
  });
});
