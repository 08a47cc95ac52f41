import assert from 'node:assert/strict';
import { UserError } from '../testbed/errors.js';
import { context, create, packet, randomSource, refusal, runTimers, stateOf } from './testing/packets.js';
import { ALWAYS, dialled, fill, NEVER, offer } from './testing/probe.js';

const state = (queue: ReturnType<typeof create>, nowNs: number): Record<string, number> => stateOf('docsis-pie', queue, nowNs);
const near = (actual: number, expected: number, tolerance: number, what: string): void => assert.ok(Math.abs(actual - expected) <= tolerance, `${what}: ${actual}, expected ${expected}`);
const INTERVAL = 16e6;

describe('DOCSIS-PIE', () => {
  it('estimates latency: what the token bucket holds at the peak rate, the rest at the sustained rate', () => {
    const { ctx } = dialled();
    const queue = create('docsis-pie', { msr: '20mbit', peak_rate: '50mbit', burst: 30_000, limit: '1MB' }, ctx);
    for (let i = 0; i < 40; i++) queue.enqueue(packet({ size: 1500 }), 0);
    // 60 kB: 30 kB at 6.25 MB/s are 4.8 ms, 30 kB at 2.5 MB/s are 12 ms.
    near(state(queue, 0)['delay']!, 16.8e6, 1, 'a full bucket');
    for (let i = 0; i < 20; i++) queue.dequeue(0);
    near(state(queue, 0)['delay']!, 12e6, 1, 'the bucket is empty: 30 kB at 2.5 MB/s');
    // 6 ms bring 15 kB of tokens.
    near(state(queue, 6e6)['delay']!, 2.4e6 + 6e6, 1, 'half a bucket');
    for (let i = 0; i < 20; i++) queue.dequeue(6e6);
    for (let i = 0; i < 10; i++) queue.enqueue(packet({ size: 1500 }), 6e6);
    // 30 kB left for 15 kB of tokens: the bucket was empty, not in debt. 6 ms later it holds 15 kB again.
    near(state(queue, 12e6)['delay']!, 2.4e6, 1, '15 kB at the peak rate');
    for (let i = 0; i < 10; i++) queue.enqueue(packet({ size: 1500 }), 12e6);
    near(state(queue, 100e6)['delay']!, 4.8e6, 1, 'all that waits fits the bucket');
    const plain = create('docsis-pie', { limit: '1MB' }, context({ rateBps: 20e6 }));
    for (let i = 0; i < 40; i++) plain.enqueue(packet({ size: 1500 }), 0);
    near(state(plain, 0)['delay']!, 24e6, 1, 'without a peak rate: size over rate');
  });

  it('updates its probability as the formula with auto-tuning by decades says', () => {
    const { ctx } = dialled({ rateBps: 8e6 });
    // Never a third of the buffer: inactive, nothing is dropped, only computed.
    const queue = create('docsis-pie', { limit: '100MB' }, ctx);
    const random = randomSource(12);
    let prob = 0, old = 0;
    const decades = new Set<number>();
    for (let k = 1; k <= 3000; k++) {
      const packets = k % 500 < 300 ? 8 + (random() % 12) : k % 500 < 360 ? random() % 260 : random() % 6;
      // 1001 bytes: no delay falls on a bound of the algorithm.
      fill(queue, packets, { size: 1001 }, k * INTERVAL - 1);
      assert.equal(queue.timerNs, k * INTERVAL);
      queue.tick(k * INTERVAL);
      const delay = packets * 0.001001;
      // Appendix A's table: 2^-11 below 10^-6, times 4 a decade, up to 2^5.
      const decade = prob < 1e-6 ? -7 : Math.min(1, Math.floor(Math.log10(prob)));
      let step = (0.25 * (delay - 0.01) + 2.5 * (delay - old)) * 2 ** (2 * decade + 3);
      if (prob >= 0.1) step = Math.min(0.02, step);
      prob += step;
      if (delay < 0.005 && old < 0.005) prob *= 0.98;
      else if (delay > 0.2) prob += 0.02;
      prob = Math.min(13.6, Math.max(0, prob));
      decades.add(decade);
      old = delay;
      near(state(queue, k * INTERVAL)['prob']!, prob, 1e-9 * Math.max(1, prob), `update ${k}`);
    }
    assert.ok(decades.size >= 6, `${[...decades].sort()}`);
    assert.equal(ctx.drops.length, 0);
  });

  it('goes beyond 1 up to 0.85 × 1024 / 64', () => {
    const { ctx } = dialled({ rateBps: 1e6 });
    const queue = create('docsis-pie', { limit: '100MB' }, ctx);
    fill(queue, 100, { size: 1000 });
    runTimers(queue, 60e9);
    near(state(queue, 60e9)['prob']!, 13.6, 1e-9, 'at its bound');
  });

  it('stays inactive below a third of the buffer, and gives a burst 142 ms after its first drop', () => {
    const { dial, ctx } = dialled({ rateBps: 12e6 });
    const queue = create('docsis-pie', { limit: '150kB' }, ctx);
    dial.value = ALWAYS;
    let nowNs = 0;
    const intervals = (n: number): void => {
      for (let i = 0; i < n; i++) {
        nowNs = queue.timerNs;
        queue.tick(nowNs);
      }
    };
    // 45 kB: 30 ms of latency, three times the target, for 3 s; less than a third of the buffer.
    fill(queue, 30, {}, 0);
    intervals(190);
    assert.ok(state(queue, nowNs)['prob']! > 0.1);
    for (let i = 0; i < 3; i++) assert.equal(offer(queue, ctx, nowNs), 'queued');
    assert.equal(state(queue, nowNs)['aqm_state'], 0);
    // The 34th arrival finds 49.5 kB, the 35th 51 kB: from there on arrivals count towards the first drop.
    assert.equal(offer(queue, ctx, nowNs), 'queued');
    assert.equal(state(queue, nowNs)['aqm_state'], 0);
    const p1 = Math.min(0.85, (state(queue, nowNs)['prob']! * 1500) / 1024);
    let arrivals = 1;
    while (offer(queue, ctx, nowNs) === 'queued') {
      assert.equal(state(queue, nowNs)['aqm_state'], 1);
      arrivals++;
    }
    assert.equal(arrivals, Math.ceil(0.85 / p1));
    assert.equal(state(queue, nowNs)['aqm_state'], 2);
    near(state(queue, nowNs)['burst_allowance']!, 142e6, 1e-3, 'allowance');
    // Nine intervals of 16 ms use it up; meanwhile p is 0 and nothing is dropped, however long the queue.
    for (let i = 1; i <= 9; i++) {
      intervals(1);
      near(state(queue, nowNs)['burst_allowance']!, Math.max(0, 142e6 - i * INTERVAL), 1, `after ${i}`);
      assert.equal(state(queue, nowNs)['prob'], 0);
      assert.equal(offer(queue, ctx, nowNs), 'queued');
    }
    intervals(60);
    let until = 0;
    while (offer(queue, ctx, nowNs) === 'queued' && until < 1000) until++;
    assert.ok(until < 1000, 'then it drops again');
    assert.equal(state(queue, nowNs)['burst_allowance'], 0);
  });

  it('returns to inactive after more than a second of quiet', () => {
    const { dial, ctx } = dialled({ rateBps: 12e6 });
    const queue = create('docsis-pie', { limit: '150kB' }, ctx);
    dial.value = ALWAYS;
    // While it is inactive the queue fills; then p rises, and the first drop makes it active.
    fill(queue, 60, {}, 0);
    let nowNs = 0;
    while (state(queue, nowNs)['aqm_state'] !== 2) {
      nowNs = queue.timerNs;
      queue.tick(nowNs);
      if (offer(queue, ctx, nowNs) === 'queued') queue.dequeue(nowNs);
    }
    while (queue.backlogPackets > 0) queue.dequeue(nowNs);
    let quiet = 0;
    while (state(queue, nowNs)['aqm_state'] === 2) {
      nowNs = queue.timerNs;
      queue.tick(nowNs);
      assert.ok(quiet++ < 100);
    }
    assert.ok(quiet >= 9, 'not before the allowance is used up');
    let more = 0;
    while (state(queue, nowNs)['aqm_state'] === 1) {
      nowNs = queue.timerNs;
      queue.tick(nowNs);
      assert.ok(more++ < 100);
    }
    assert.equal(more, Math.floor(1000 / 16) + 1);
  });

  it('weighs a packet by its size, drops none before 0.85 has come together, and certainly one at 8.5', () => {
    /** Arrivals up to and with the first drop, at a probability of about 4 % that is not updated. */
    const arrivals = (size: number, value: number): { count: number; p1: number } => {
      const { dial, ctx } = dialled({ rateBps: 12e6 });
      const queue = create('docsis-pie', { limit: '600kB' }, ctx);
      fill(queue, 140, { size: 1500 }, 0);
      let nowNs = 0;
      while (state(queue, nowNs)['prob']! < 0.04) {
        nowNs = queue.timerNs;
        queue.tick(nowNs);
      }
      dial.value = value;
      const p1 = Math.min(0.85, (state(queue, nowNs)['prob']! * size) / 1024);
      let count = 1;
      while (offer(queue, ctx, nowNs, { size }) !== 'aqm') {
        count++;
        assert.ok(count < 1e4);
      }
      return { count, p1 };
    };
    for (const size of [1500, 300, 64]) {
      const early = arrivals(size, ALWAYS);
      assert.equal(early.count, Math.ceil(0.85 / early.p1), `${size} bytes`);
      const late = arrivals(size, NEVER);
      near(late.count, Math.ceil(8.5 / late.p1), 1, `${size} bytes`);
    }
  });

  it('drops none while the latency is low and p below 0.2, nor with two mean packets or fewer waiting', () => {
    /** The outcome of an arrival at an almost empty queue, after p has climbed to `high`. */
    const outcomes = (high: number): { prob: number; seen: string[] } => {
      const { dial, ctx } = dialled({ rateBps: 12e6 });
      const queue = create('docsis-pie', { limit: '60kB' }, ctx);
      fill(queue, 30, {}, 0);
      let nowNs = 0;
      while (state(queue, nowNs)['prob']! < high) {
        nowNs = queue.timerNs;
        queue.tick(nowNs);
      }
      assert.equal(offer(queue, ctx, nowNs), 'queued');
      assert.equal(state(queue, nowNs)['aqm_state'], 1);
      while (queue.backlogPackets > 0) queue.dequeue(nowNs);
      nowNs = queue.timerNs;
      queue.tick(nowNs);
      dial.value = ALWAYS;
      // They find 0, 1500 and 3000 bytes.
      const seen = [0, 1, 2].map(() => offer(queue, ctx, nowNs));
      return { prob: state(queue, nowNs)['prob']!, seen };
    };
    const low = outcomes(0.3);
    assert.ok(low.prob > 0.1 && low.prob < 0.2, `${low.prob}`);
    assert.deepEqual(low.seen, ['queued', 'queued', 'queued']);
    const high = outcomes(0.9);
    assert.ok(high.prob > 0.2, `${high.prob}`);
    assert.deepEqual(high.seen, ['queued', 'queued', 'aqm']);
  });

  it('has a buffer of 100 ms of the peak rate, and refuses what cannot be', () => {
    const { ctx } = dialled({ rateBps: 12e6 });
    const queue = create('docsis-pie', { peak_rate: '24mbit' }, ctx);
    for (let i = 0; i < 200; i++) assert.equal(offer(queue, ctx, 0), 'queued');
    assert.equal(offer(queue, ctx, 0), 'limit');
    assert.match(refusal('docsis-pie', { msr: '20mbit', peak_rate: '10mbit' }), /^peak_rate: expected peak_rate of at least msr/);
    assert.match(refusal('docsis-pie', { target: '0ms' }), /^target: /);
    assert.throws(() => create('docsis-pie', {}, context({ rateBps: null })), (error: unknown) => error instanceof UserError && /expected msr/.test(error.message));
    assert.throws(() => create('docsis-pie', { peak_rate: '1mbit' }, context()), (error: unknown) => error instanceof UserError && /peak_rate \(1000000 bits\/s\) must be at least/.test(error.message));
  });
});
