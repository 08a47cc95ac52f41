import assert from 'node:assert/strict';
import fc from 'fast-check';
import { UserError } from '../testbed/errors.js';
import { RedParams, RedVars } from './red-core.js';
import { context, create, packet, randomSource, refusal, runTimers, stateOf, type TestContext } from './testing/packets.js';
import type { QueueDiscipline } from './aqm.js';

const SIZE = 1500;

/** Keeps `backlog` packets waiting while `arrivals` come; returns the arrivals that were dropped or marked. */
function hold(queue: QueueDiscipline, ctx: TestContext, backlog: number, arrivals: number, ecn = 0): number[] {
  const signals: number[] = [];
  for (let i = 0; i < arrivals; i++) {
    ctx.drops.length = 0;
    const arrival = packet({ size: SIZE, ecn });
    queue.enqueue(arrival, i * 1000);
    if (ctx.drops.length > 0 || arrival.marked) signals.push(i);
    while (queue.backlogPackets > backlog) queue.dequeue(i * 1000);
  }
  return signals;
}

const PARAMS = { limit: '600kB', min: '30kB', max: '90kB', avpkt: '1500B', probability: 0.02 };

describe('RED', () => {
  it('spaces its drops uniformly on 1 … 1/p_b (Floyd & Jacobson 1993, section 7, method 2)', () => {
    const ctx = context();
    const queue = create('red', PARAMS, ctx);
    hold(queue, ctx, 40, 20_000);
    const state = stateOf('red', queue, 0);
    assert.ok(Math.abs(state['qavg']! - 40 * SIZE) < SIZE, `average ${state['qavg']}`);
    const pb = (0.02 * (state['qavg']! - 30_000)) / 60_000;
    const signals = hold(queue, ctx, 40, 500_000);
    const gaps = signals.slice(1).map((at, i) => at - signals[i]!);
    const longest = 1 / pb;
    assert.ok(Math.min(...gaps) <= 3 && Math.max(...gaps) <= Math.ceil(longest) + 1, `${Math.min(...gaps)} … ${Math.max(...gaps)} of ${longest}`);
    const mean = gaps.reduce((a, b) => a + b) / gaps.length;
    assert.ok(Math.abs(mean - (longest + 1) / 2) < 1, `mean ${mean} of ${longest}`);
    // Ten equal bins; chi-square with 9 degrees of freedom is above 27.9 once in a thousand.
    const bins = new Array<number>(10).fill(0);
    for (const gap of gaps) bins[Math.min(9, Math.floor(((gap - 1) / longest) * 10))]!++;
    const expected = gaps.length / 10;
    const chi2 = bins.reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0);
    assert.ok(chi2 < 27.9, `chi-square ${chi2}: ${bins}`);
  });

  it('layer 1: averages as avg + w (q − avg) and in the integers of the kernel', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.array(fc.integer({ min: 0, max: 2_000_000 }), { minLength: 1, maxLength: 300 }), (wlog, backlogs) => {
        const params = new RedParams(30_000, 90_000, wlog, 1, 0, null), vars = new RedVars();
        let exact = 0n, float = 0;
        for (const backlog of backlogs) {
          vars.arrive(params, backlog, 0);
          exact += BigInt(backlog) - (exact >> BigInt(wlog));
          float += (backlog - float) / 2 ** wlog;
          assert.equal(BigInt(vars.qavg), exact);
        }
        assert.ok(Math.abs(vars.qavg / 2 ** wlog - float) <= 1);
      }),
    );
  });

  it('layer 1: decides on every packet as the integers of the kernel do, adapting max_p as well', () => {
    const random = randomSource(31), same = randomSource(6), sameAgain = randomSource(6);
    const [min, max, wlog, maxP] = [30_000, 90_000, 5, Math.floor(0.1 * 2 ** 32)];
    const params = new RedParams(min, max, wlog, maxP, 0, null), vars = new RedVars();
    const w = BigInt(wlog), qthMin = BigInt(min) << w, qthMax = BigInt(max) << w, span = BigInt(max - min);
    let qavg = 0n, count = -1n, qR = 0n, p = BigInt(maxP), divisor = p / span, backlog = 50_000;
    const seen = [0, 0, 0];
    for (let step = 0; step < 40_000; step++) {
      backlog = Math.max(0, Math.min(150_000, backlog + (random() % 3001) - (step % 4000 < 2000 ? 1470 : 1530)));
      vars.arrive(params, backlog, 0);
      const action = vars.action(params, same);
      qavg += BigInt(backlog) - (qavg >> w);
      let expected = 0;
      if (qavg < qthMin) count = -1n;
      else if (qavg >= qthMax) {
        count = -1n;
        expected = 2;
      } else {
        count++;
        if (count === 0n) qR = BigInt(sameAgain()) / divisor;
        else if (((qavg - qthMin) >> w) * count >= qR) {
          count = 0n;
          qR = BigInt(sameAgain()) / divisor;
          expected = 1;
        }
      }
      assert.equal(action, expected, `step ${step}`);
      seen[action]!++;
      if (step % 500 === 499) {
        params.adapt(vars.qavg);
        const onePercent = ((1n << 32n) + 50n) / 100n, average = qavg >> w, fifth = span / 5n;
        if (average > BigInt(min) + 3n * fifth && p <= 50n * onePercent) p += p / 4n < onePercent ? p / 4n : onePercent;
        else if (average < BigInt(min) + 2n * fifth && p >= onePercent) p = (p / 10n) * 9n;
        divisor = (p + span / 2n) / span;
        assert.equal(BigInt(params.maxP), p);
      }
    }
    assert.ok(seen.every((n) => n > 300), `${seen}`);
  });

  it('lets the average decay while idle by the table, or linearly within its first cells', () => {
    const stab = Uint8Array.from({ length: 256 }, (_, i) => Math.min(31, i >> 3));
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 36 }), fc.integer({ min: 0, max: 2_000_000_000 }), fc.integer({ min: 0, max: 22 }), (qavg, idleUs, scellLog) => {
        const params = new RedParams(1000, 3000, 9, 1, scellLog, stab);
        const q = BigInt(qavg), us = BigInt(Math.min(idleUs, 255 * 2 ** scellLog));
        const shift = BigInt(stab[Number((us >> BigInt(scellLog)) & 255n)]!);
        const linear = (q * us) >> BigInt(scellLog);
        const expected = shift > 0n ? q >> shift : linear < q >> 1n ? q - linear : q >> 1n;
        assert.equal(BigInt(params.afterIdle(qavg, idleUs * 1000 + 999)), expected);
      }),
      { numRuns: 3000 },
    );
  });

  it('never signals below min and always from max on', () => {
    const ctx = context();
    const low = create('red', PARAMS, ctx);
    assert.equal(hold(low, ctx, 18, 30_000).length, 0);
    const high = create('red', PARAMS, ctx);
    hold(high, ctx, 100, 10_000);
    // Every arrival is refused now, so the queue of 60 kB and more only shrinks when something leaves.
    assert.ok(stateOf('red', high, 0)['qavg']! >= 90_000);
    assert.equal(hold(high, ctx, 100, 50).length, 50);
  });

  it('marks with ecn, drops above max with harddrop, and lets non-ECT packets in with nodrop', () => {
    const count = (params: object, backlog: number, ecn: number): { dropped: number; marked: number } => {
      const ctx = context();
      const queue = create('red', { ...PARAMS, ...params }, ctx);
      let dropped = 0;
      for (let i = 0; i < 20_000; i++) {
        ctx.drops.length = 0;
        queue.enqueue(packet({ size: SIZE, ecn }), i);
        dropped += ctx.drops.length;
        while (queue.backlogPackets > backlog) queue.dequeue(i);
      }
      return { dropped, marked: queue.marks };
    };
    const marking = count({ ecn: true }, 40, 2);
    assert.ok(marking.dropped === 0 && marking.marked > 100);
    const above = count({ ecn: true }, 100, 2);
    assert.ok(above.dropped === 0 && above.marked > 5000);
    assert.ok(count({ ecn: true, harddrop: true }, 100, 2).dropped > 1000);
    assert.ok(count({ ecn: true }, 40, 0).dropped > 100);
    assert.equal(count({ ecn: true, nodrop: true }, 40, 0).dropped, 0);
  });

  it('adapts max_p every HZ / 2 jiffies (0.51 s): up by a quarter, at most 1 %, when the average is high; down to nine tenths when low', () => {
    const ctx = context();
    const queue = create('red', { ...PARAMS, adaptive: true }, ctx);
    assert.equal(queue.timerNs, 510e6);
    const start = stateOf('red', queue, 0)['max_p']!;
    assert.ok(Math.abs(start - 0.02) < 1e-9);
    hold(queue, ctx, 55, 20_000);
    queue.tick(510e6);
    assert.ok(Math.abs(stateOf('red', queue, 0)['max_p']! - 0.025) < 1e-9);
    assert.equal(queue.timerNs, 1020e6);
    hold(queue, ctx, 5, 30_000);
    queue.tick(1020e6);
    assert.ok(Math.abs(stateOf('red', queue, 0)['max_p']! - 0.0225) < 1e-8);
    runTimers(queue, 60e9);
    const least = stateOf('red', queue, 0)['max_p']!;
    assert.ok(least < 0.01 && least > 0.0089);
  });

  it('begins an idle period when asked and found empty, and at no other time', () => {
    const ctx = context({ randomU32: randomSource(3) });
    const queue = create('red', { ...PARAMS, bandwidth: '100mbit' }, ctx);
    hold(queue, ctx, 40, 5000);
    const before = stateOf('red', queue, 0)['qavg']!;
    while (queue.backlogPackets > 0) queue.dequeue(5e6);
    queue.enqueue(packet({ size: SIZE }), 2e9);
    const notAsked = stateOf('red', queue, 0)['qavg']!;
    assert.ok(notAsked > before * 0.9, 'nobody asked the empty queue: one more arrival at 0, no decay');
    queue.dequeue(2e9);
    assert.equal(queue.dequeue(2e9), null);
    queue.enqueue(packet({ size: SIZE }), 4e9);
    assert.ok(stateOf('red', queue, 0)['qavg']! < before / 2);
  });

  it('refuses thresholds and bursts that cannot be, in words', () => {
    assert.match(refusal('red', { limit: '600kB', min: '90kB', max: '30kB' }), /min: .*below max/);
    assert.match(refusal('red', { limit: '600kB', nodrop: true }), /nodrop: .*ecn/);
    assert.throws(() => create('red', { ...PARAMS, burst: 1 }, context()), (error: unknown) => error instanceof UserError && /burst of 1 packets is too small/.test(error.message));
  });
});
