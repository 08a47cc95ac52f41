/** What a change of parameters keeps, and what it throws away: as the change function of each Linux qdisc, whose name each test cites. */

import assert from 'node:assert/strict';
import type { QueueDiscipline } from './aqm.js';
import { changeQueue } from './change.js';
import { context, create, keyOf, kindOf, packet, runTimers, stateOf, type TestContext, type TestPacket } from './testing/packets.js';

type Given = Record<string, unknown>;

function changed(name: string, queue: QueueDiscipline, params: Given, ctx: TestContext, nowNs: number): QueueDiscipline {
  const kind = kindOf(name);
  return changeQueue(queue, kind, kind.schema.parse(params) as Record<string, number | boolean | string>, ctx, nowNs);
}
/** `count` packets of `flows` flows, numbered, a packet each 1 ms until `nowNs`. */
function fill(queue: QueueDiscipline, count: number, nowNs: number, flows = 1): void {
  for (let n = 0; n < count; n++) queue.enqueue(packet({ flow: n % flows, seq: n, flowHash: keyOf(n % flows) }), nowNs - (count - 1 - n) * 1e6);
}
const drain = (queue: QueueDiscipline, nowNs: number): number[] => {
  const out: number[] = [];
  for (let got = queue.dequeue(nowNs) as TestPacket | null; got !== null; got = queue.dequeue(nowNs) as TestPacket | null) out.push(got.seq);
  return out;
};
const seqs = (ctx: TestContext): number[] => ctx.drops.map((drop) => drop.packet.seq);
const reasons = (ctx: TestContext): string[] => [...new Set(ctx.drops.map((drop) => drop.reason))];
const count = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

describe('A change of parameters', () => {
  it('of a FIFO drops nothing that waits (fifo_init)', () => {
    for (const [name, params] of [['pfifo', { limit: '5p' }], ['bfifo', { limit: '5kB' }]] as const) {
      const ctx = context();
      const queue = create(name, name === 'pfifo' ? { limit: '20p' } : { limit: '100kB' }, ctx);
      fill(queue, 20, 1e9);
      assert.equal(changed(name, queue, params, ctx, 1e9), queue);
      queue.enqueue(packet({ seq: 99 }), 1e9);
      assert.deepEqual(seqs(ctx), [99]);
      assert.deepEqual(drain(queue, 1e9), count(0, 20));
    }
  });

  it('of CoDel keeps the control law and takes the oldest above a lower limit, counted (codel_change)', () => {
    const ctx = context();
    const queue = create('codel', { limit: '100p' }, ctx);
    fill(queue, 60, 1e9);
    for (let n = 0; n < 30; n++) queue.dequeue(1e9 + n * 20e6);
    const before = stateOf('codel', queue, 1.6e9);
    assert.ok(before['dropping'] === 1 && before['count']! > 0);
    const dropped = ctx.drops.length;
    changed('codel', queue, { limit: '10p', target: '20ms' }, ctx, 1.6e9);
    assert.deepEqual({ ...stateOf('codel', queue, 1.6e9) }, before);
    assert.equal(queue.backlogPackets, 10);
    assert.ok(ctx.drops.slice(dropped).every((drop) => drop.reason === 'limit' && drop.nowNs === 1.6e9));
    assert.deepEqual(drain(queue, 1.6e9).at(-1), 59);
  });

  it('of PIE keeps probability and phase, and takes the oldest above a lower limit, counted (pie_change)', () => {
    const ctx = context();
    const queue = create('pie', { limit: '1000p' }, ctx);
    fill(queue, 900, 1e9);
    for (let n = 0; n < 20; n++) {
      runTimers(queue, 1e9 + n * 30e6);
      for (let i = 0; i < 10; i++) queue.dequeue(1e9 + n * 30e6);
    }
    const { prob } = stateOf('pie', queue, 1.6e9);
    const { timerNs } = queue;
    assert.ok(prob! > 0);
    changed('pie', queue, { limit: '50p', target: '5ms' }, ctx, 1.6e9);
    assert.equal(stateOf('pie', queue, 1.6e9)['prob'], prob);
    assert.equal(queue.timerNs, timerNs);
    assert.equal(queue.backlogPackets, 50);
    assert.deepEqual(reasons(ctx), ['limit']);
    assert.deepEqual(drain(queue, 1.6e9), count(850, 900));
  });

  it('of FQ-CoDel, FQ-PIE, HHF and FQ dequeues what is above a lower limit, uncounted, in the order it would have been sent (fq_codel_change …)', () => {
    for (const name of ['fq_codel', 'fq_pie', 'hhf', 'fq']) {
      const [ctx, other] = [context(), context()];
      const [queue, twin] = [create(name, { limit: '200p' }, ctx), create(name, { limit: '200p' }, other)];
      for (const one of [queue, twin]) fill(one, 100, 1e9, 4);
      changed(name, queue, { limit: '30p' }, ctx, 1e9);
      const order = drain(twin, 1e9);
      assert.deepEqual(seqs(ctx), order.slice(0, 70), name);
      assert.deepEqual(reasons(ctx), ['purge']);
      assert.deepEqual(drain(queue, 1e9), order.slice(70), name);
    }
  });

  it('of FQ-CoDel lets CoDel decide meanwhile, and counts those (fq_codel_change calls fq_codel_dequeue)', () => {
    const ctx = context();
    const queue = create('fq_codel', {}, ctx);
    fill(queue, 200, 1e9);
    queue.dequeue(1e9);
    // 100 ms after it was first above target it drops, once, and then a packet each interval / sqrt(count).
    changed('fq_codel', queue, { limit: '20p' }, ctx, 1.5e9);
    const byAlgorithm = ctx.drops.filter((drop) => drop.reason === 'aqm').length;
    assert.ok(byAlgorithm >= 1 && byAlgorithm < 20, `${byAlgorithm}`);
    assert.equal(queue.backlogPackets, 20);
  });

  it('of RED begins with an empty queue and an average of 0, and drops what waits (red_change)', () => {
    const ctx = context();
    const queue = create('red', { min: '10p', max: '30p', limit: '200p' }, ctx);
    fill(queue, 20, 1e9);
    assert.ok(stateOf('red', queue, 1e9)['qavg']! > 0);
    const lost = queue.backlogPackets;
    ctx.drops.length = 0;
    changed('red', queue, { min: '20p', max: '60p', limit: '200p' }, ctx, 1e9);
    assert.equal(queue.backlogPackets, 0);
    assert.equal(ctx.drops.length, lost);
    assert.deepEqual(reasons(ctx), ['limit']);
    assert.equal(stateOf('red', queue, 1e9)['qavg'], 0);
  });

  it('of SFB begins with empty bins and an empty queue, and drops what waits (sfb_change)', () => {
    const ctx = context();
    const queue = create('sfb', {}, ctx);
    fill(queue, 200, 1e9);
    for (let n = 0; n < 300; n++) queue.enqueue(packet({ flowHash: keyOf(0) }), 1e9);
    assert.ok(stateOf('sfb', queue, 1e9)['maxqlen']! > 0);
    ctx.drops.length = 0;
    changed('sfb', queue, { limit: '500p' }, ctx, 1e9);
    assert.equal(queue.backlogPackets, 0);
    assert.deepEqual(reasons(ctx), ['limit']);
    assert.equal(stateOf('sfb', queue, 1e9)['maxqlen'], 0);
  });

  it('of CHOKe moves what waits to a table of another size, drops the rest, counted, and starts with an average of 0 (choke_change)', () => {
    const ctx = context();
    const queue = create('choke', { limit: '100p', min: '83p', max: '90p' }, ctx);
    fill(queue, 80, 1e9, 80);
    changed('choke', queue, { limit: '40p', min: '10p', max: '20p' }, ctx, 1e9);
    // The table has 64 places, of which 63 can be used; the limit holds for arrivals only.
    assert.equal(queue.backlogPackets, 63);
    assert.deepEqual(seqs(ctx), count(63, 80));
    assert.deepEqual(reasons(ctx), ['limit']);
    assert.equal(stateOf('choke', queue, 1e9)['qavg'], 0);
    assert.deepEqual(drain(queue, 1e9), count(0, 63));
  });

  it('of CAKE keeps flows and tins, and throws away what waits in tins that are no more, uncounted (cake_reconfigure)', () => {
    const ctx = context();
    const queue = create('cake', { bandwidth: '100mbit', diffserv4: true }, ctx);
    for (let n = 0; n < 10; n++) queue.enqueue(packet({ seq: n, dscp: 0, flowHash: keyOf(1) }), 1e9);
    for (let n = 10; n < 15; n++) queue.enqueue(packet({ seq: n, dscp: 46, flowHash: keyOf(2) }), 1e9);
    changed('cake', queue, { bandwidth: '10mbit', diffserv3: true }, ctx, 1e9);
    assert.deepEqual(seqs(ctx), count(10, 15), 'those of the fourth tin');
    assert.deepEqual(reasons(ctx), ['purge']);
    assert.equal(queue.backlogPackets, 10);
    const times: number[] = [];
    for (let nowNs = 1e9; queue.backlogPackets > 0;) {
      if (queue.dequeue(nowNs) !== null) times.push(nowNs);
      else nowNs = queue.readyNs;
    }
    const gap = (times.at(-1)! - times[1]!) / (times.length - 2);
    assert.ok(Math.abs(gap - (1514 * 8e9) / 10e6) < 1e5, `${gap}`);
  });

  it('of DualPI2 takes from the Classic queue first, counted (dualpi2_change)', () => {
    const ctx = context();
    const queue = create('dualpi2', {}, ctx);
    for (let n = 0; n < 20; n++) queue.enqueue(packet({ seq: n, ecn: n < 10 ? 0 : 1, flowHash: keyOf(n) }), 1e9);
    changed('dualpi2', queue, { limit: '5p' }, ctx, 1e9);
    assert.deepEqual(seqs(ctx), count(0, 15));
    assert.deepEqual(reasons(ctx), ['limit']);
  });

  it('of a discipline that Linux has not, or does not change (sfq), makes it anew with what waits', () => {
    const sfq = create('sfq', {}, context());
    fill(sfq, 20, 1e9);
    assert.equal(changed('sfq', sfq, { limit: '50p' }, context(), 1e9).backlogPackets, 20);
    const ctx = context();
    const queue = create('blue', { limit: '50p' }, ctx);
    fill(queue, 20, 1e9);
    const after = changed('blue', queue, { limit: '15p' }, ctx, 1e9);
    assert.notEqual(after, queue);
    assert.deepEqual(drain(after, 1e9), count(0, 15));
    assert.equal(ctx.drops.length, 5);
  });

  it('takes a packet that the shaper has looked at first (qdisc_dequeue_internal)', () => {
    const ctx = context();
    const queue = create('codel', {}, ctx);
    fill(queue, 10, 1e9);
    assert.equal((queue.peek(1e9) as TestPacket).seq, 0);
    assert.equal(queue.backlogPackets, 10);
    changed('codel', queue, { limit: '8p' }, ctx, 1e9);
    assert.deepEqual(seqs(ctx), [0, 1]);
    assert.equal((queue.dequeuePeeked(1e9) as TestPacket).seq, 2);
  });
});
