import assert from 'node:assert/strict';
import { context, create, packet, randomSource, refusal, stateOf } from './testing/packets.js';
import { ALWAYS, dialled, hold, meanInterval, NEVER, offer, probabilityOf } from './testing/probe.js';

const midTh = (queue: ReturnType<typeof create>): number => stateOf('aqmrd', queue, 0)['mid_th']!;

describe('AQMRD', () => {
  it('moves mid_th by one packet an arrival against the average, as a trace by hand says', () => {
    const { ctx } = dialled();
    const queue = create('aqmrd', { min: 4, max: 12, w: 0.5, limit: 64, ecn: true }, ctx);
    assert.equal(midTh(queue), 8);
    // [leave waiting before the arrival, average after it, mid_th after it]; w 0.5: avg ← (avg + q) / 2.
    const trace: [number, number, number][] = [
      [0, 0, 8], [1, 0.5, 8], [2, 1.25, 8], [3, 2.125, 8], [4, 3.0625, 8],
      [5, 4.03125, 7],
      [6, 5.015625, 6],
      [7, 6.0078125, 5],
      [8, 7.00390625, 4],
      [9, 8.001953125, 4],
      [2, 5.0009765625, 5],
      [3, 4.00048828125, 6],
      [2, 3.000244140625, 6],
      [3, 3.0001220703125, 6],
      [4, 3.50006103515625, 6],
      [5, 4.250030517578125, 5],
    ];
    for (const [waiting, avg, mid] of trace) {
      while (queue.backlogPackets > waiting) queue.dequeue(0);
      assert.equal(queue.backlogPackets, waiting);
      // Marked or not, an ECN-capable packet stays.
      offer(queue, ctx, 0, { ecn: 2 });
      assert.equal(stateOf('aqmrd', queue, 0)['qavg'], avg);
      assert.equal(midTh(queue), mid, `at average ${avg}`);
    }
  });

  it('leaves mid_th where it is while the average does not change, and outside min … max', () => {
    const { ctx } = dialled();
    const queue = create('aqmrd', { min: 4, max: 12, w: 1 }, ctx);
    for (let i = 0; i < 6; i++) queue.enqueue(packet(), 0);
    assert.equal(midTh(queue), 6, 'down at averages 4 and 5');
    for (let i = 0; i < 5; i++) {
      queue.dequeue(0);
      queue.enqueue(packet(), 0);
      assert.equal(midTh(queue), 6, 'average 5 again and again');
    }
    while (queue.backlogPackets > 2) queue.dequeue(0);
    queue.enqueue(packet(), 0);
    assert.equal(midTh(queue), 6, 'a fall to below min');
  });

  it('moves by a packet of avpkt bytes when the thresholds are in bytes', () => {
    const { ctx } = dialled();
    const queue = create('aqmrd', { limit: '64kB', min: '4kB', max: '12kB', avpkt: 1000, w: 1 }, ctx);
    for (let i = 0; i < 6; i++) queue.enqueue(packet({ size: 1000 }), 0);
    assert.equal(midTh(queue), 6000);
  });

  it('goes along p1, or while the average rises along p2 from mid_th on', () => {
    // w 0.5 and a constant queue: the average rises towards it for ever; or falls towards it.
    const at = (from: number, queueLength: number, arrivals: number): { pb: number; avg: number; mid: number } => {
      let avg = 0, mid = 0;
      const pb = probabilityOf(() => {
        const { dial, ctx } = dialled();
        const queue = create('aqmrd', { min: 10, max: 50, limit: 200, w: 0.5, probability: 0.1 }, ctx);
        while (queue.backlogPackets < from) queue.enqueue(packet(), 0);
        while (queue.backlogPackets > queueLength) queue.dequeue(0);
        // Every arrival is dropped: the queue stays, and count is 0.
        dial.value = ALWAYS;
        for (let i = 0; i < arrivals; i++) assert.equal(offer(queue, ctx, 0), 'aqm');
        // What the arrival asked about will see.
        const before = stateOf('aqmrd', queue, 0);
        avg = (before['qavg']! + queueLength) / 2;
        const rises = queueLength > before['qavg']!;
        mid = Math.min(50, Math.max(10, before['mid_th']! + (rises ? -1 : 1)));
        return { queue, ctx, dial, nowNs: 0 };
      });
      return { pb, avg, mid };
    };
    const p1 = (avg: number): number => (0.1 * (avg - 10)) / 40;
    const rising = at(40, 40, 3);
    assert.ok(rising.avg > rising.mid && rising.avg < 40);
    const p2 = 0.1 + (0.9 * (rising.avg - rising.mid)) / (50 - rising.mid);
    assert.ok(Math.abs(rising.pb - p2) < 1e-8, `${rising.pb}, expected ${p2}`);
    assert.ok(p2 > p1(rising.avg));
    const falling = at(45, 30, 2);
    assert.ok(falling.avg > 30);
    assert.ok(Math.abs(falling.pb - p1(falling.avg)) < 1e-8, `${falling.pb}, expected ${p1(falling.avg)}`);
    // Low in the range, below mid_th, a rising average too goes along p1.
    const low = at(14, 14, 1);
    assert.ok(low.avg < low.mid, `${low.avg} below ${low.mid}`);
    assert.ok(Math.abs(low.pb - p1(low.avg)) < 1e-8, `${low.pb}, expected ${p1(low.avg)}`);
  });

  it('is RED with the same line and correction while the average stands still', () => {
    const ctx = context({ randomU32: randomSource(8) });
    const rate = hold(create('aqmrd', { min: 10, max: 50, limit: 200, w: 1 }, ctx), ctx, 30, 200_000).length / 200_000;
    assert.ok(Math.abs(rate * meanInterval(0.05) - 1) < 0.05, `${rate}`);
  });

  it('has the set-up of the paper: w 0.002, max_p 0.1, min 16, max 48, 64 packets', () => {
    const { dial, ctx } = dialled();
    const queue = create('aqmrd', {}, ctx);
    assert.equal(midTh(queue), 32);
    assert.equal(stateOf('aqmrd', queue, 0)['max_p'], 0.1);
    dial.value = NEVER;
    for (let i = 0; i < 64; i++) assert.equal(offer(queue, ctx, 0), 'queued');
    assert.equal(offer(queue, ctx, 0), 'limit');
    let avg = 0;
    for (let q = 0; q <= 64; q++) avg = 0.998 * avg + 0.002 * q;
    assert.ok(Math.abs(stateOf('aqmrd', queue, 0)['qavg']! - avg) < 1e-9);
  });

  it('drops every packet from max on', () => {
    const { ctx } = dialled();
    const queue = create('aqmrd', { min: 4, max: 12, w: 1 }, ctx);
    for (let i = 0; i < 500; i++) offer(queue, ctx, 0);
    assert.equal(queue.backlogPackets, 12);
  });

  it('refuses thresholds beyond its small buffer', () => {
    assert.match(refusal('aqmrd', { min: 20, max: 70 }), /^max: expected max below limit \(64p by default\)/);
  });
});
