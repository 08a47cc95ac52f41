import assert from 'node:assert/strict';
import { cobaltRoot, CobaltVars, type CobaltParams } from './cobalt-core.js';
import { context, create, packet, randomSource, refusal, stateOf } from './testing/packets.js';

/** The numbers of inv_sqrt_cache, net/sched/sch_cake.c, Linux 6.12. */
const CACHE = [
  4294967295, 4294967295, 3037000500, 2479700525, 2147483647, 1920767767, 1753413056, 1623345051,
  1518500250, 1431655765, 1358187914, 1294981364, 1239850263, 1191209601, 1147878294, 1108955788,
];

/** COBALT in unbounded integers. */
class CobaltOracle {
  count = 0n; root = 0n; next = 0n; blue = 0n; p = 0n; dropping = false; marked = false;
  constructor(private readonly interval: bigint, private readonly target: bigint, private readonly mtuTime: bigint) {}

  private newRoot(): void {
    if (this.count < 16n) {
      this.root = BigInt(CACHE[Number(this.count)]!);
      return;
    }
    const square = (this.root * this.root) >> 32n;
    const value = BigInt.asUintN(64, (3n << 32n) - this.count * square) >> 2n;
    this.root = BigInt.asUintN(32, BigInt.asUintN(64, value * this.root) >> 31n);
  }
  private control(from: bigint): bigint {
    return from + ((BigInt.asUintN(32, this.interval) * this.root) >> 32n);
  }
  full(now: bigint): void {
    if (now - this.blue > this.target) {
      this.p += 1n << 24n;
      if (this.p > 0xffffffffn) this.p = 0xffffffffn;
      this.blue = now;
    }
    this.dropping = true;
    this.next = now;
    if (this.count === 0n) this.count = 1n;
  }
  empty(now: bigint): void {
    if (this.p > 0n && now - this.blue > this.target) {
      this.p = this.p < 1n << 20n ? 0n : this.p - (1n << 20n);
      this.blue = now;
    }
    this.dropping = false;
    if (this.count > 0n && now >= this.next) {
      this.count--;
      this.newRoot();
      this.next = this.control(this.next);
    }
  }
  drop(now: bigint, enqueued: bigint, ect: boolean, bulk: bigint, random: () => number): boolean {
    const sojourn = now - enqueued;
    const over = sojourn > this.target && sojourn > this.mtuTime * bulk * 2n && sojourn > this.mtuTime * 4n;
    let late = now - this.next, due = this.count > 0n && late >= 0n, drop = false;
    this.marked = false;
    if (over) {
      if (!this.dropping) { this.dropping = true; this.next = this.control(now); }
      if (this.count === 0n) this.count = 1n;
    } else this.dropping = false;
    if (due && this.dropping) {
      this.marked = ect;
      drop = !ect;
      this.count++;
      this.newRoot();
      this.next = this.control(this.next);
      late = now - this.next;
    } else {
      while (due) {
        this.count--;
        this.newRoot();
        this.next = this.control(this.next);
        late = now - this.next;
        due = this.count > 0n && late >= 0n;
      }
    }
    if (this.p > 0n && BigInt(random()) < this.p) drop = true;
    if (this.count === 0n) this.next = now + this.interval;
    else if (late > 0n && !drop) this.next = now;
    return drop;
  }
}

describe('COBALT', () => {
  it('layer 1: keeps 1/sqrt(count): exactly up to 15, by single Newton steps within 0.2 % beyond, up and down', () => {
    let root = 0;
    const check = (count: number): void => {
      root = cobaltRoot(count, root);
      const exact = 1 / Math.sqrt(Math.max(1, count));
      assert.ok(Math.abs(root / 2 ** 32 / exact - 1) < (count < 16 ? 1e-9 : 0.002), `${count}`);
    };
    for (let count = 0; count < 3000; count++) check(count);
    for (let count = 2998; count >= 0; count--) check(count);
  });

  for (const [intervalNs, targetNs, mtuTimeNs] of [[100e6, 5e6, 605_600], [30e6, 1.5e6, 0], [1e12, 50e9, 1000]] as const) {
    it(`layer 1: decides on every packet as unbounded integers do (interval ${intervalNs / 1e6} ms)`, function () {
      this.timeout(20_000);
      const params: CobaltParams = { intervalNs, targetNs, mtuTimeNs };
      const vars = new CobaltVars(), oracle = new CobaltOracle(BigInt(intervalNs), BigInt(targetNs), BigInt(mtuTimeNs));
      const random = randomSource(21), same = randomSource(5), sameAgain = randomSource(5);
      let nowNs = 1e12, sojourn = 0, drops = 0, marks = 0, trend = 1;
      for (let step = 0; step < 60_000; step++) {
        if (step % 500 === 0) trend = random() % 2 === 0 ? 1 : -1;
        const gap = (random() % Math.max(1, Math.floor(targetNs / 3))) + 1;
        nowNs += gap;
        sojourn = Math.max(0, sojourn + trend * (random() % gap));
        const choice = random() % 100;
        if (choice === 0) {
          vars.queueFull(params, nowNs);
          oracle.full(BigInt(nowNs));
        } else if (choice < 6 || sojourn === 0) {
          vars.queueEmpty(params, nowNs);
          oracle.empty(BigInt(nowNs));
        } else {
          const ect = random() % 2 === 0, bulk = random() % 5;
          const made = packet({ enqueueNs: nowNs - sojourn, ecn: ect ? 1 : 0 });
          const drop = vars.shouldDrop(made, params, bulk, nowNs, same);
          assert.equal(drop, oracle.drop(BigInt(nowNs), BigInt(nowNs - sojourn), ect, BigInt(bulk), sameAgain), `step ${step}`);
          assert.equal(vars.ecnMarked, oracle.marked);
          if (drop) drops++;
          if (made.marked) marks++;
        }
        assert.equal(BigInt(vars.count), oracle.count, `step ${step}`);
        assert.equal(BigInt(vars.dropNextNs), oracle.next, `step ${step}`);
        assert.equal(BigInt(vars.pDrop), oracle.p);
        assert.equal(vars.dropping, oracle.dropping);
      }
      assert.ok(drops > 50 && marks > 5, `${drops} drops, ${marks} marks`);
    });
  }

  it('signals first as soon as a fresh queue is over target, but an interval later in a queue that was over target before; a replay is asked which', () => {
    const params: CobaltParams = { intervalNs: 100e6, targetNs: 5e6, mtuTimeNs: 0 };
    const ms = (vars: CobaltVars, reused?: boolean): number => {
      const unasked = (): never => assert.fail('nothing else is decided by chance');
      const asked: number[] = [];
      // One packet in time first, as every queue begins with.
      assert.equal(vars.shouldDrop(packet({ enqueueNs: 999e6 }), params, 0, 999e6, () => 0), false);
      const chance = reused === undefined ? undefined : { signals: unasked, drops: unasked, matches: unasked, victim: unasked, placed: false, rounded: unasked, usedUp: unasked, reused: (_: unknown, share: number) => { asked.push(share); return reused; } };
      for (let now = 1000; ; now++) {
        if (!vars.shouldDrop(packet({ enqueueNs: (now - 10) * 1e6 }), params, 0, now * 1e6, () => 0, chance, false, 0.25)) continue;
        assert.deepEqual(asked, reused === undefined ? [] : [0.25]);
        return now - 1000;
      }
    };
    assert.equal(ms(new CobaltVars()), 1);
    const used = new CobaltVars();
    ms(used);
    // Empty and left alone, its count goes back to 0.
    for (let now = 1e4; used.count > 0; now += 100) used.queueEmpty(params, now * 1e6);
    const later = new CobaltVars();
    Object.assign(later, { count: used.count, recInvSqrt: used.recInvSqrt });
    assert.equal(ms(later), 100);
    assert.equal(ms(new CobaltVars(), false), 1);
    assert.equal(ms(new CobaltVars(), true), 100);
  });

  it('wakes BLUE when its queue overflows, and never drops the last packet', () => {
    const ctx = context();
    const queue = create('cobalt', { limit: '10p' }, ctx);
    for (let ms = 0; ms < 500; ms++) for (let i = 0; i < 3; i++) queue.enqueue(packet(), ms * 1e6 + i);
    assert.ok(ctx.drops.length > 1000 && ctx.drops.every((drop) => drop.reason === 'limit'));
    assert.ok(stateOf('cobalt', queue, 500e6)['prob']! > 50 / 256);
    let out = 0;
    while (queue.dequeue(500e6) !== null) out++;
    assert.ok(out >= 1);
    assert.match(refusal('cobalt', { target: '0s' }), /target/);
  });
});
