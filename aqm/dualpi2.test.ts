import assert from 'node:assert/strict';
import { context, create, packet, randomSource, refusal, runTimers, stateOf, type TestPacket } from './testing/packets.js';

/** dualpi2_scale_alpha_beta(): 41/256 and 819/256 Hz in units of 2^-32 a 64 ns. */
const ALPHA = 44n, BETA = 879n;

describe('DualPI2', () => {
  it('layer 1: updates its probability as the 64-bit integers of the kernel do', () => {
    const queue = create('dualpi2', { limit: 100_000 }, context());
    const random = randomSource(2);
    let prob = 0n, last = 0n, nowNs = 0;
    const distinct = new Set<bigint>();
    const heads: number[] = [];
    for (let n = 0; n < 3000; n++) {
      nowNs = queue.timerNs;
      const oldest = heads.length > 0 ? BigInt(nowNs - heads[0]!) : 0n;
      const delta = (oldest - 15_000_000n) * ALPHA + (oldest - last) * BETA;
      last = oldest;
      const before = prob;
      if (delta > 0n) {
        prob = BigInt.asUintN(32, delta / 64n + before);
        if (prob < before) prob = 0xffffffffn;
      } else {
        prob = BigInt.asUintN(32, before - -delta / 64n);
        if (prob > before) prob = 0n;
      }
      queue.tick(nowNs);
      assert.equal(stateOf('dualpi2', queue, nowNs)['prob'], Number(prob) / 2 ** 32, `update ${n}`);
      distinct.add(prob);
      // Small packets: below 2 MTU nothing is ever dropped, so what waits is known.
      if (heads.length < 40 && random() % 3 !== 0) {
        queue.enqueue(packet({ size: 66 }), nowNs + 1);
        heads.push(nowNs + 1);
      } else if (heads.length > 0) {
        for (let i = random() % 3; i >= 0 && heads.length > 0; i--) {
          assert.notEqual(queue.dequeue(nowNs + 2), null);
          heads.shift();
        }
      }
    }
    assert.ok(distinct.size > 500);
    assert.equal(queue.timerNs, nowNs + 16e6);
  });

  it('drops Classic with the square of the probability and marks L4S with twice it', () => {
    const ctx = context();
    const queue = create('dualpi2', { limit: 1_000_000, memlimit: '2000MB', step_thresh: '4s', target: '1ms' }, ctx);
    // Let the controller see a delay until it holds p; then freeze it by not calling tick.
    for (let i = 0; i < 10; i++) queue.enqueue(packet({ ecn: i % 2 }), 1);
    while (stateOf('dualpi2', queue, 0)['prob']! < 0.2) queue.tick(queue.timerNs);
    const prob = stateOf('dualpi2', queue, 0)['prob']!;
    assert.ok(prob < 0.4);
    let classic = 0, l4s = 0, marked = 0;
    ctx.drops.length = 0;
    for (let i = 0; i < 40_000; i++) {
      // Below two packets nothing is dropped: keep more waiting.
      do for (const ecn of [0, 1]) queue.enqueue(packet({ ecn }), 1e9 + i);
      while (queue.backlogPackets < 20);
      for (let k = 0; k < 2; k++) {
        const out = queue.dequeue(1e9 + i);
        if (out === null) continue;
        if (out.ecn === 0) classic++;
        else {
          l4s++;
          if (out.marked) marked++;
        }
      }
    }
    const dropped = ctx.drops.filter((drop) => drop.packet.ecn === 0).length;
    assert.equal(dropped, ctx.drops.length);
    const pC = dropped / (classic + dropped), pL = marked / l4s;
    assert.ok(Math.abs(pC - prob ** 2) < 0.01, `classic ${pC}, p² ${prob ** 2}`);
    assert.ok(Math.abs(pL - 2 * prob) < 0.01, `L4S ${pL}, 2p ${2 * prob}`);
  });

  it('serves L4S first but gives Classic its 10 % while both wait', () => {
    const queue = create('dualpi2', {}, context());
    for (let i = 0; i < 3000; i++) for (const ecn of [0, 1]) queue.enqueue(packet({ ecn }), 0);
    let classic = 0;
    assert.equal((queue.dequeue(10) as TestPacket).ecn === 0, false);
    for (let i = 0; i < 2000; i++) if (queue.dequeue(10)!.ecn === 0) classic++;
    assert.ok(classic > 190 && classic < 260, `${classic} of 2000`);
  });

  it('marks L4S packets that waited longer than step_thresh, in time or in packets', () => {
    const inTime = create('dualpi2', {}, context());
    inTime.enqueue(packet({ ecn: 1 }), 0);
    inTime.enqueue(packet({ ecn: 1 }), 1.5e6);
    assert.equal(inTime.dequeue(2e6)!.marked, true);
    assert.equal(inTime.dequeue(2e6)!.marked, false);
    const inPackets = create('dualpi2', { step_thresh: '2p' }, context());
    for (let i = 0; i < 5; i++) inPackets.enqueue(packet({ ecn: 1 }), 0);
    assert.deepEqual(Array.from({ length: 5 }, () => inPackets.dequeue(1e9)!.marked), [true, true, false, false, false]);
  });

  it('takes ECT(0) into the L queue with any_ect only', () => {
    for (const [params, first] of [[{}, 0], [{ any_ect: true }, 2]] as const) {
      const queue = create('dualpi2', params, context());
      queue.enqueue(packet({ ecn: 0 }), 0);
      queue.enqueue(packet({ ecn: 2 }), 0);
      assert.equal(queue.dequeue(10)!.ecn, first);
    }
  });

  it('drops on arrival with drop_enqueue, and refuses a coupling of 0 or a target of 0', () => {
    const ctx = context();
    const queue = create('dualpi2', { drop_enqueue: true, target: '1ms' }, ctx);
    for (let i = 0; i < 4000; i++) {
      runTimers(queue, i * 1e6);
      for (let k = 0; k < 2; k++) {
        const made = packet();
        queue.enqueue(made, i * 1e6);
        const drop = ctx.drops.at(-1);
        if (drop?.nowNs === i * 1e6) assert.equal(drop.packet.seq, made.seq);
      }
      const before = ctx.drops.length;
      queue.dequeue(i * 1e6 + 1);
      assert.equal(ctx.drops.length, before);
    }
    assert.ok(ctx.drops.length > 100);
    assert.match(refusal('dualpi2', { coupling_factor: 0 }), /coupling_factor/);
    assert.match(refusal('dualpi2', { target: '0ms' }), /target: expected at least 1us/);
  });
});
