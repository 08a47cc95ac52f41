import assert from 'node:assert/strict';
import fc from 'fast-check';
import { codelPeriod, newtonStep } from './codel-core.js';
import { CodelOracle, oracleStep } from './testing/codel-oracle.js';
import { context, create, packet, randomSource, refusal, stateOf, type TestPacket } from './testing/packets.js';

describe('CoDel', () => {
  it('drops first at 111 ms when arrivals are twice the service rate and a packet leaves every ms', () => {
    const ctx = context();
    const queue = create('codel', {}, ctx);
    // 2 packets arrive a ms, the first at 0; one leaves at 0 ms, 1 ms, … So packet k leaves at k ms after k / 2 ms: at 10 ms that is the target.
    for (let half = 0; ctx.drops.length === 0; half++) {
      assert.ok(half < 400);
      queue.enqueue(packet(), half * 500_000);
      if (half % 2 === 0) queue.dequeue(half * 500_000);
    }
    assert.equal(ctx.drops[0]!.nowNs, 111e6);
    assert.equal(ctx.drops[0]!.reason, 'aqm');
  });

  it('spaces its drops by interval / sqrt(count)', () => {
    const ctx = context();
    const queue = create('codel', { limit: 100_000 }, ctx);
    for (let ms = 0; ms < 3000; ms++) {
      for (let i = 0; i < 20; i++) queue.enqueue(packet(), ms * 1e6 + i * 50_000);
      for (let i = 0; i < 10; i++) queue.dequeue(ms * 1e6 + i * 100_000);
    }
    assert.ok(ctx.drops.length > 100);
    for (let n = 20; n < 100; n++) {
      const gapMs = (ctx.drops[n]!.nowNs - ctx.drops[n - 1]!.nowNs) / 1e6;
      assert.ok(Math.abs(gapMs - 100 / Math.sqrt(n)) < 0.4, `gap ${n}: ${gapMs} ms`);
    }
  });

  it('layer 1: takes the same Newton step as 64-bit integers do, also when the count jumped and the product wraps', () => {
    const count = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 0xffffffff }));
    fc.assert(
      fc.property(count, fc.integer({ min: 0, max: 0xffff }), (n, rec) => {
        assert.equal(BigInt(newtonStep(n, rec)), oracleStep(BigInt(n), BigInt(rec)));
      }),
      { numRuns: 20_000 },
    );
    // 1/sqrt(count) itself, starting from exact 1
    let rec = 0xffff;
    for (let n = 2; n < 5000; n++) rec = newtonStep(n, rec);
    assert.ok(Math.abs(rec / 0x10000 - 1 / Math.sqrt(4999)) < 0.0002);
  });

  for (const [ecn, target, interval] of [[false, 5e6, 100e6], [true, 5e6, 100e6], [false, 1.5e6, 20e6], [true, 13e6, 250e6]] as const) {
    it(`layer 1: decides on every packet as an independent CoDel in unbounded integers (ecn ${ecn}, target ${target / 1e6} ms, interval ${interval / 1e6} ms)`, () => {
      const ctx = context();
      const queue = create('codel', { ecn, target: `${target}ns`, interval: `${interval}ns`, limit: 100_000 }, ctx);
      const oracle = new CodelOracle(BigInt(codelPeriod(target)), BigInt(codelPeriod(interval)), 1514, ecn);
      const random = randomSource(9);
      // Near the wrap of the 32-bit clock (2^42 ns), so that it is crossed.
      let nowNs = 2 ** 42 - 20e9, id = 0, arrivals = 1.2;
      const marked: number[] = [];
      for (let step = 0; step < 60_000; step++) {
        if (step % 2000 === 0) arrivals = [0.7, 1.05, 1.6, 3][random() % 4]!;
        nowNs += 300_000 + (random() % 600_000);
        let n = Math.floor(arrivals) + (random() / 2 ** 32 < arrivals % 1 ? 1 : 0);
        for (; n > 0; n--) {
          const size = random() % 5 === 0 ? 66 : 1514, ect = random() % 3 !== 0;
          queue.enqueue(packet({ seq: id, size, ecn: ect ? 2 : 0 }), nowNs);
          oracle.enqueue(id++, nowNs, size, ect);
        }
        const out = queue.dequeue(nowNs) as TestPacket | null;
        if (out?.marked) marked.push(out.seq);
        assert.equal(out === null ? null : out.seq, oracle.dequeue(nowNs), `step ${step}`);
      }
      assert.ok(nowNs > 2 ** 42);
      assert.deepEqual(ctx.drops.map((drop) => drop.packet.seq), oracle.dropped);
      assert.deepEqual(marked, oracle.marked);
      assert.ok(oracle.dropped.length > 100, `${oracle.dropped.length} drops`);
      assert.equal(stateOf('codel', queue, nowNs)['count'], Number(oracle.count));
    });
  }

  it('marks above ce_threshold whatever the control law says', () => {
    const queue = create('codel', { ce_threshold: '1ms' }, context());
    for (const at of [0, 0, 0.5e6, 0.5e6]) queue.enqueue(packet({ ecn: 1 }), at);
    assert.equal(queue.dequeue(0.9e6)!.marked, false);
    assert.equal(queue.dequeue(2e6)!.marked, true);
    queue.enqueue(packet({ ecn: 0 }), 2e6);
    queue.dequeue(2e6);
    queue.dequeue(2e6);
    assert.equal(queue.dequeue(9e6)!.ecn, 0);
    assert.equal(queue.marks, 3);
    assert.equal(stateOf('codel', queue, 9e6)['ce_mark'], 3);
  });

  it('refuses parameters that mean nothing, and says what it would take', () => {
    assert.match(refusal('codel', { target: '0ms' }), /target: expected a target of at least 1us/);
    assert.match(refusal('codel', { interval: '5000s' }), /interval: .*at most 4294s/);
    assert.match(refusal('codel', { target: 5 }), /target: expected a time such as 5ms/);
    assert.match(refusal('codel', { limit: 0 }), /limit: /);
  });
});
