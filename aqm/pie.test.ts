import assert from 'node:assert/strict';
import type { Chance } from './aqm.js';
import { PieVars, percentOfMax, TENTH_OF_MAX, type PieParams } from './pie-core.js';
import { context, create, keyOf, packet, randomSource, refusal, runTimers, stateOf } from './testing/packets.js';

const U64 = (value: bigint): bigint => BigInt.asUintN(64, value);
const S64 = (value: bigint): bigint => BigInt.asIntN(64, value);
const MAX = (1n << 56n) - 1n;

/** RFC 8033's control in unbounded integers cut to the kernel's 64 bits, formula by formula. */
class PieOracle {
  qdelay = 0n; qdelayOld = 0n; burst = 150_000_000n >> 6n; stamp = -1n; prob = 0n; accu = 0n; dqCount = -1n; rate = 0n;
  constructor(private readonly p: PieParams) {}

  drop(backlog: number, size: number, random64: () => bigint): boolean {
    const target = BigInt(this.p.target);
    if (this.burst > 0n) return false;
    if (this.qdelay < target / 2n && this.prob < MAX / 5n) return false;
    if (backlog < 2 * this.p.mtuBytes) return false;
    const local = this.p.bytemode && size <= this.p.mtuBytes ? U64(BigInt(size) * (this.prob / BigInt(this.p.mtuBytes))) : this.prob;
    this.accu = local === 0n ? 0n : U64(this.accu + local);
    if (this.accu < (MAX / 100n) * 85n) return false;
    if (this.accu >= (MAX / 2n) * 17n) return true;
    if (random64() >> 8n >= local) return false;
    this.accu = 0n;
    return true;
  }

  departed(enqueueNs: number, size: number, backlog: number, nowNs: number): void {
    const now = BigInt(nowNs) >> 6n;
    let elapsed = 0n;
    if (!this.p.dqRateEstimator) {
      this.qdelay = backlog ? now - (BigInt(enqueueNs) >> 6n) : 0n;
      if (this.stamp >= 0n) elapsed = now - this.stamp;
      this.stamp = now;
      if (elapsed === 0n) return;
    } else {
      if (backlog >= 16384 && this.dqCount < 0n) { this.stamp = now; this.dqCount = 0n; }
      if (this.dqCount < 0n) return;
      this.dqCount += BigInt(size);
      if (this.dqCount < 16384n) return;
      elapsed = now - this.stamp;
      if (elapsed === 0n) return;
      const measured = (this.dqCount << 8n) / elapsed;
      this.rate = this.rate === 0n ? measured : this.rate - (this.rate >> 3n) + (measured >> 3n);
      if (backlog < 16384) this.dqCount = -1n; else { this.dqCount = 0n; this.stamp = now; }
    }
    this.burst = this.burst > elapsed ? this.burst - elapsed : 0n;
  }

  update(backlog: number): void {
    const target = BigInt(this.p.target);
    let qdelay = this.qdelay, old = this.qdelayOld;
    if (this.p.dqRateEstimator) {
      old = this.qdelay;
      this.qdelayOld = this.qdelay;
      qdelay = this.rate > 0n ? (BigInt(backlog) << 8n) / this.rate : 0n;
    }
    let judge = !(qdelay === 0n && backlog !== 0);
    let alpha = (BigInt(this.p.alpha) * (MAX / 15_625_000n)) >> 4n, beta = (BigInt(this.p.beta) * (MAX / 15_625_000n)) >> 4n;
    if (this.prob < MAX / 10n) {
      alpha >>= 1n;
      beta >>= 1n;
      for (let power = 100n; this.prob < MAX / power && power <= 1_000_000n; power *= 10n) { alpha >>= 2n; beta >>= 2n; }
    }
    let delta = S64(alpha * (qdelay - target) + beta * (qdelay - old));
    const before = this.prob;
    if (delta > MAX / 50n && before >= MAX / 10n) delta = (MAX / 100n) * 2n;
    if (qdelay > 250_000_000n >> 6n) delta += MAX / 50n;
    this.prob = U64(before + delta);
    if (delta > 0n) { if (this.prob < before) { this.prob = MAX; judge = false; } } else if (this.prob > before) this.prob = 0n;
    if (qdelay === 0n && old === 0n && judge) this.prob -= this.prob / 64n;
    this.qdelay = qdelay;
    if (qdelay < target / 2n && this.qdelayOld < target / 2n && this.prob === 0n && (!this.p.dqRateEstimator || this.rate > 0n)) {
      this.burst = 150_000_000n >> 6n; this.stamp = -1n; this.accu = 0n; this.dqCount = -1n; this.rate = 0n;
    }
    if (!this.p.dqRateEstimator) this.qdelayOld = qdelay;
  }
}

/** Decides by numbers of its own and shows the probability that the last packet faced: the state shows it modulo 1. */
function watched(): Chance & { faced: number } {
  const random = randomSource(2);
  const never = (): never => assert.fail('PIE decides nothing else by chance');
  return {
    faced: NaN,
    placed: false,
    signals(_, probability) {
      this.faced = probability;
      return random() < probability * 2 ** 32;
    },
    drops: never, matches: never, victim: never, reused: never, rounded: never, usedUp: never,
  };
}

describe('PIE', () => {
  for (const dqRateEstimator of [false, true]) {
    for (const bytemode of [false, true]) {
      it(`layer 1: computes every probability and decision as 64-bit integers do (rate estimator ${dqRateEstimator}, byte mode ${bytemode})`, () => {
        const params: PieParams = { target: Math.floor(15e6 / 64), alpha: 2, beta: 20, bytemode, dqRateEstimator, mtuBytes: 1514 };
        const vars = new PieVars(), oracle = new PieOracle(params);
        const random = randomSource(11), same = randomSource(4711), sameAgain = randomSource(4711);
        const random64 = (): bigint => BigInt(sameAgain()) | (BigInt(sameAgain()) << 32n);
        const queue: { at: number; size: number }[] = [];
        let backlog = 0, nowNs = 1e15, load = 1.5, drops = 0;
        const distinct = new Set<bigint>();
        for (let step = 0; step < 60_000; step++) {
          if (step % 1500 === 0) load = [0.5, 1.1, 1.4, 3, 9][random() % 5]!;
          nowNs += 200_000 + (random() % 400_000);
          for (let n = Math.floor(load) + (random() / 2 ** 32 < load % 1 ? 1 : 0); n > 0; n--) {
            const size = random() % 4 === 0 ? 66 : 1514;
            const dropped = vars.dropEarly(params, backlog, size, same);
            assert.equal(dropped, oracle.drop(backlog, size, random64), `step ${step}`);
            if (dropped) {
              drops++;
              vars.clearAccumulated();
              oracle.accu = 0n;
            } else if (queue.length < 3000) {
              queue.push({ at: nowNs, size });
              backlog += size;
            }
          }
          const left = queue.shift();
          if (left) {
            backlog -= left.size;
            vars.departed(packet({ enqueueNs: left.at, size: left.size }), params, backlog, nowNs);
            oracle.departed(left.at, left.size, backlog, nowNs);
          }
          if (step % 37 === 0) {
            vars.update(params, backlog);
            oracle.update(backlog);
            const prob = BigInt(vars.probHigh) * (1n << 28n) + BigInt(vars.probLow);
            assert.equal(prob, oracle.prob, `step ${step}`);
            distinct.add(prob);
            assert.equal(vars.atMost(TENTH_OF_MAX), oracle.prob <= MAX / 10n);
            assert.equal(vars.atMost(percentOfMax(3)), oracle.prob <= (MAX / 100n) * 3n);
          }
          assert.equal(BigInt(vars.qdelay), oracle.qdelay);
          assert.equal(BigInt(vars.burstTime), oracle.burst);
        }
        assert.ok(drops > 500 && distinct.size > 300, `${drops} drops, ${distinct.size} probabilities`);
      });
    }
  }

  it('lets a burst of 150 ms through, then drops early', () => {
    const ctx = context();
    const queue = create('pie', { limit: 10_000 }, ctx);
    let firstNs = 0;
    for (let us = 0; us < 3e6 && firstNs === 0; us += 500) {
      const nowNs = us * 1000;
      runTimers(queue, nowNs);
      queue.enqueue(packet(), nowNs);
      if (us % 1000 === 0) queue.dequeue(nowNs);
      firstNs = ctx.drops[0]?.nowNs ?? 0;
    }
    assert.ok(firstNs >= 500e6, `the controller starts 0.5 s after creation; first drop at ${firstNs / 1e6} ms`);
    assert.equal(ctx.drops[0]!.reason, 'aqm');
  });

  it('updates after 0.5 s and then every tupdate, each in jiffies of HZ = 100 and one more: 15 ms are 30 ms, as kernels 6.12 and 7.3 were seen to do', () => {
    for (const [tupdate, periodNs] of [['15ms', 30e6], ['10ms', 20e6], ['20ms', 30e6], ['1ms', 20e6]] as const) {
      const queue = create('pie', { tupdate }, context(), 3e9);
      assert.equal(queue.timerNs, 3.51e9);
      queue.tick(3.51e9);
      assert.equal(queue.timerNs, 3.51e9 + periodNs, tupdate);
    }
  });

  it('marks up to a probability of 10 % and drops beyond', () => {
    const seen = watched();
    const ctx = context({ chance: seen });
    const queue = create('pie', { limit: 10_000, ecn: true }, ctx);
    let marksBelow = 0, dropsBelow = 0, dropsAbove = 0;
    for (let step = 0; step < 12_000; step++) {
      const nowNs = step * 500_000;
      runTimers(queue, nowNs);
      const arrival = packet({ ecn: 2 });
      ctx.drops.length = 0;
      seen.faced = NaN;
      queue.enqueue(arrival, nowNs);
      if (seen.faced <= 0.1) {
        if (arrival.marked) marksBelow++;
        dropsBelow += ctx.drops.length;
      } else if (seen.faced > 0.1) {
        dropsAbove += ctx.drops.length;
      }
      if (step % 2 === 0) queue.dequeue(nowNs);
    }
    assert.ok(marksBelow > 0 && dropsBelow === 0 && dropsAbove > 0, `${marksBelow} ${dropsBelow} ${dropsAbove}`);
  });

  it('shows a probability above 1 modulo 1, as tc does, and drops every packet then', () => {
    const seen = watched();
    const ctx = context({ chance: seen });
    const queue = create('pie', { limit: 10_000 }, ctx);
    let above = 0;
    for (let step = 0; step < 12_000; step++) {
      const nowNs = step * 500_000;
      runTimers(queue, nowNs);
      ctx.drops.length = 0;
      const shown = stateOf('pie', queue, nowNs)['prob']!;
      seen.faced = NaN;
      const spared = queue.backlogBytes <= 2 * 1514; // two packets are always let in
      queue.enqueue(packet({}), nowNs);
      const { faced } = seen;
      if (faced === 1 && !spared) {
        above++;
        assert.ok(shown < 1);
        assert.equal(ctx.drops.length, 1);
      } else if (faced < 1) assert.equal(faced, shown);
      if (step % 2 === 0) queue.dequeue(nowNs);
    }
    assert.ok(above > 0);
  });

  it('refuses a target or an update time of 0 and gains out of range', () => {
    assert.match(refusal('pie', { target: '0ms' }), /target: expected a target of at least 1us/);
    assert.match(refusal('pie', { tupdate: '0ms' }), /tupdate: /);
    assert.match(refusal('pie', { alpha: 33 }), /alpha: expected a whole number from 1 to 32/);
  });
});

describe('FQ-PIE', () => {
  it('drops from the flow that queues, not from the one that does not', () => {
    const ctx = context();
    const queue = create('fq_pie', { limit: 10_000 }, ctx);
    for (let step = 0; step < 20_000; step++) {
      const nowNs = step * 250_000;
      runTimers(queue, nowNs);
      queue.enqueue(packet({ flow: 1, flowHash: keyOf(1) }), nowNs);
      if (step % 40 === 0) queue.enqueue(packet({ flow: 2, size: 200, flowHash: keyOf(2) }), nowNs);
      if (step % 2 === 0) queue.dequeue(nowNs);
    }
    assert.ok(ctx.drops.length > 1000);
    assert.ok(ctx.drops.every((drop) => drop.packet.flow === 1));
  });

  it('counts being over memory_limit but drops nothing for it, as the kernel does', () => {
    const ctx = context();
    const queue = create('fq_pie', { memory_limit: 5000 }, ctx);
    for (let i = 0; i < 20; i++) queue.enqueue(packet({ flowHash: keyOf(1) }), 0);
    assert.equal(ctx.drops.length, 0);
    assert.ok(stateOf('fq_pie', queue, 0)['overmemory']! > 10);
  });
});
