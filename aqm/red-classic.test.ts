import assert from 'node:assert/strict';
import { context, create, packet, randomSource, refusal, stateOf } from './testing/packets.js';
import { ALWAYS, chiSquareUniform, dialled, fill, hold, intervals, meanInterval, NEVER, offer, probabilityOf } from './testing/probe.js';

/** w 1: the average is the queue itself. */
const EXACT = { limit: 1000, min: 20, max: 60, w: 1, probability: 0.1, avpkt: 1500 };

const qavg = (queue: ReturnType<typeof create>, nowNs: number): number => stateOf('red-classic', queue, nowNs)['qavg']!;

describe('RED of Floyd and Jacobson', () => {
  it('spaces its signals uniformly on 1 … 1/p_b (section 7)', () => {
    const ctx = context({ randomU32: randomSource(11) });
    const gaps = intervals(hold(create('red-classic', EXACT, ctx), ctx, 40, 400_000));
    assert.ok(gaps.length > 30_000);
    const chi2 = chiSquareUniform(gaps, 1, 20);
    assert.ok(chi2 < 43.8, `chi-square ${chi2}`);
    assert.equal(Math.max(...gaps), 20);
  });

  it('with wait spaces them uniformly on 1/p_b + 1 … 2/p_b', () => {
    const ctx = context({ randomU32: randomSource(12) });
    const gaps = intervals(hold(create('red-classic', { ...EXACT, wait: true }, ctx), ctx, 40, 400_000));
    assert.ok(gaps.length > 10_000);
    const chi2 = chiSquareUniform(gaps, 21, 40);
    assert.ok(chi2 < 43.8, `chi-square ${chi2}`);
  });

  it('signals in the long run once in Σ (1 − n p_b) arrivals, at every average', () => {
    for (const backlog of [22, 30, 45, 59]) {
      const ctx = context({ randomU32: randomSource(backlog) });
      const arrivals = 200_000;
      const rate = hold(create('red-classic', EXACT, ctx), ctx, backlog, arrivals).length / arrivals;
      const expected = 1 / meanInterval((0.1 * (backlog - 20)) / 40);
      assert.ok(Math.abs(rate / expected - 1) < 0.05, `${backlog}: ${rate}, expected ${expected}`);
    }
  });

  it('has p_b on the line from 0 at min to max_p at max, then 1; with gentle from max_p to 1 at twice max', () => {
    const at = (backlog: number, gentle: boolean): number => probabilityOf(() => {
      const { dial, ctx } = dialled();
      const queue = create('red-classic', { ...EXACT, gentle }, ctx);
      fill(queue, backlog);
      // Where something can be signalled, one signal sets count to 0.
      dial.value = ALWAYS;
      if (backlog > 20) assert.equal(offer(queue, ctx, 1000), 'aqm');
      return { queue, ctx, dial, nowNs: 1000 };
    });
    const close = (actual: number, expected: number): void => assert.ok(Math.abs(actual - expected) < 1e-8, `${actual}, expected ${expected}`);
    assert.equal(at(19, false), 0);
    for (const backlog of [21, 33, 59]) close(at(backlog, false), (0.1 * (backlog - 20)) / 40);
    assert.equal(at(60, false), 1);
    for (const backlog of [60, 75, 119]) close(at(backlog, true), 0.1 + (0.9 * (backlog - 60)) / 60);
    assert.equal(at(120, true), 1);
  });

  it('lets a packet pass that finds fewer than two waiting, whatever the average is', () => {
    const { dial, ctx } = dialled();
    const queue = create('red-classic', { min: 5, max: 15, w: 0.002 }, ctx);
    while (qavg(queue, 0) < 16) queue.enqueue(packet(), 0);
    dial.value = ALWAYS;
    assert.equal(offer(queue, ctx, 0), 'aqm');
    while (queue.backlogPackets > 0) queue.dequeue(0);
    assert.deepEqual([0, 1, 2].map(() => offer(queue, ctx, 0)), ['queued', 'queued', 'aqm']);
    assert.ok(qavg(queue, 0) > 15);
  });

  it('averages avg ← avg + w (q − avg) at every arrival, dropped ones included', () => {
    const { ctx } = dialled();
    const random = randomSource(4);
    const queue = create('red-classic', { limit: 40, min: 5, max: 30, w: 0.01 }, ctx);
    let avg = 0;
    for (let i = 0; i < 3000; i++) {
      const q = queue.backlogPackets;
      if (q === 0 && i > 0) continue;
      queue.enqueue(packet(), 0);
      avg = 0.99 * avg + 0.01 * q;
      assert.ok(Math.abs(qavg(queue, 0) - avg) < 1e-9);
      if (i > 20 && queue.backlogPackets > 1) for (let k = random() % 3; k > 0 && queue.backlogPackets > 1; k--) queue.dequeue(0);
    }
    assert.ok(ctx.drops.some((drop) => drop.reason === 'limit') && ctx.drops.some((drop) => drop.reason === 'aqm'));
  });

  it('lets the average decay by 1 − w for every packet the idle link could have sent (section 4)', () => {
    // 12 Mbit/s and 1500 bytes: 1 ms a packet.
    const { ctx } = dialled({ rateBps: 12e6 });
    const queue = create('red-classic', { min: 5, max: 15, w: 0.01, avpkt: 1500 }, ctx);
    for (let i = 0; i < 10; i++) queue.enqueue(packet({ size: 1500 }), 0);
    const before = qavg(queue, 0);
    while (queue.backlogPackets > 0) queue.dequeue(20e6);
    assert.equal(qavg(queue, 21e6), before, 'the last packet is on the link until 21 ms');
    let expected = before;
    for (let k = 0; k < 250; k++) expected *= 0.99;
    assert.ok(Math.abs(qavg(queue, 271e6) - expected) < 1e-12);
    queue.enqueue(packet({ size: 1500 }), 271e6);
    assert.ok(Math.abs(qavg(queue, 271e6) - expected) < 1e-12, 'the arrival itself finds an empty queue: no sample, only the decay');
    assert.ok(Math.abs(qavg(queue, 900e6) - expected) < 1e-12, 'nothing decays while something waits');
  });

  it('counts idle time once, though nothing that arrives in it fits', () => {
    const { ctx } = dialled({ rateBps: 12e6 });
    const queue = create('red-classic', { limit: '4000B', min: '500B', max: '3000B', w: 0.01, avpkt: 1500 }, ctx);
    for (let i = 0; i < 2; i++) queue.enqueue(packet({ size: 1500 }), 0);
    const before = qavg(queue, 0);
    for (let i = 0; i < 2; i++) queue.dequeue(0);
    for (const ms of [51, 101, 201]) assert.equal(offer(queue, ctx, ms * 1e6, { size: 5000 }), 'limit');
    assert.ok(Math.abs(qavg(queue, 201e6) - before * 0.99 ** 200) < 1e-9);
  });

  it('decides alike in packets and in bytes when all packets have one size', () => {
    const run = (params: object): number[] => {
      const ctx = context({ randomU32: randomSource(9) });
      return hold(create('red-classic', { ...EXACT, ...params }, ctx), ctx, 45, 20_000);
    };
    assert.deepEqual(run({ limit: '1500kB', min: '30kB', max: '90kB' }), run({}));
  });

  it('with bytemode signals a packet in proportion to its size', () => {
    const ctx = context({ randomU32: randomSource(21) });
    const signals = hold(create('red-classic', { ...EXACT, bytemode: true }, ctx), ctx, 40, 400_000, (i) => ({ size: i % 2 === 0 ? 1500 : 150 }));
    const large = signals.filter((i) => i % 2 === 0).length, small = signals.length - large;
    assert.ok(Math.abs(large / small / 10 - 1) < 0.15, `${large} large, ${small} small`);
    // In units of full packets signals are as frequent as without: 1.1 of them pass in two arrivals.
    const inFull = (400_000 * 1.1) / 2 / signals.length;
    assert.ok(Math.abs(inFull / meanInterval(0.05) - 1) < 0.1, `${inFull}`);
  });

  it('marks ECT(0) and ECT(1) with ecn, also above max unless harddrop, and drops what is not ECN-capable', () => {
    const outcome = (params: object, backlog: number, ecn: number): string => {
      const { dial, ctx } = dialled();
      const queue = create('red-classic', { ...EXACT, ...params }, ctx);
      fill(queue, backlog);
      dial.value = ALWAYS;
      return offer(queue, ctx, 1000, { ecn });
    };
    for (const ecn of [1, 2]) {
      assert.equal(outcome({ ecn: true }, 40, ecn), 'marked');
      assert.equal(outcome({ ecn: true }, 60, ecn), 'marked');
      assert.equal(outcome({ ecn: true, harddrop: true }, 40, ecn), 'marked');
      assert.equal(outcome({ ecn: true, harddrop: true }, 60, ecn), 'aqm');
      assert.equal(outcome({}, 40, ecn), 'aqm');
    }
    assert.equal(outcome({ ecn: true }, 40, 0), 'aqm');
  });

  it('never signals below min, and never a packet when no chance comes true', () => {
    const { dial, ctx } = dialled();
    dial.value = ALWAYS;
    assert.equal(hold(create('red-classic', EXACT, ctx), ctx, 19, 1000).length, 0);
    dial.value = NEVER;
    // p_a reaches 1 after 1/p_b − 1 packets, whatever the dice say.
    assert.deepEqual(new Set(intervals(hold(create('red-classic', EXACT, ctx), ctx, 40, 1000))), new Set([20]));
  });

  it('has the defaults of the paper, and max = 3 min', () => {
    const maxOf = (params: object): number => {
      const { ctx } = dialled();
      const queue = create('red-classic', { w: 1, ...params }, ctx);
      let n = 0;
      while (n < 500 && offer(queue, ctx, 0) !== 'aqm') n++;
      return n;
    };
    assert.equal(maxOf({}), 15);
    assert.equal(maxOf({ min: '20p' }), 60);
    assert.equal(stateOf('red-classic', create('red-classic', {}, context()), 0)['max_p'], 0.02);
  });

  it('refuses what cannot be, in words', () => {
    assert.match(refusal('red-classic', { min: 60, max: 20 }), /^min: expected min below max \(20p\)/);
    assert.match(refusal('red-classic', { min: '20p', max: '90kB' }), /^max: expected max in packets, as min/);
    assert.match(refusal('red-classic', { min: 20, max: 60, limit: 50 }), /^max: expected max below limit \(50p\)/);
    assert.match(refusal('red-classic', { max: 2000 }), /^max: expected max below limit \(1000p by default\)/);
    assert.match(refusal('red-classic', { w: 0 }), /^w: /);
    assert.match(refusal('red-classic', { w: 1.5 }), /^w: /);
    assert.match(refusal('red-classic', { probability: 0 }), /^probability: /);
    assert.match(refusal('red-classic', { min: 0 }), /^min: /);
    assert.match(refusal('red-classic', { harddrop: true }), /^harddrop: expected ecn: true/);
  });
});
