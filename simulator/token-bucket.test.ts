import assert from 'node:assert/strict';
import { dumbbell, queue } from './fixture.js';
import { withRun } from './testing.js';
import { TokenBucket } from './token-bucket.js';

/** Asks until the packet may leave, as the shaper's timer does. @returns when it left, ns */
function leave(bucket: TokenBucket, bytes: number, nowNs: number): number {
  let at = nowNs;
  for (let wait = bucket.take(bytes, at); wait > 0; wait = bucket.take(bytes, at)) at += wait;
  return at;
}

describe('TBF', () => {
  it('lets what it saved go at the peak rate, then the rest at the rate: times worked out by hand', () => {
    // 8 Mbit/s = 1 µs a byte, 5000 bytes saved; 16 Mbit/s = 0.5 µs a byte, one packet of 1000 bytes saved.
    const bucket = new TokenBucket(1000, 0, { burstBytes: 5000, peakRateBps: 16e6 });
    bucket.setRate(1000);
    const times: number[] = [];
    for (let k = 0, now = 0; k < 12; k++) times.push(now = leave(bucket, 1000, now));
    // Packet k is let go by the peak bucket at k × 500 µs, by the other when 1000 (k + 1) bytes are covered by 5000 + t: at (k − 4) × 1000 µs.
    assert.deepEqual(times, Array.from({ length: 12 }, (_, k) => Math.max(k * 500e3, (k - 4) * 1000e3)));
  });

  it('saves no more than its depths over an idle time', () => {
    const bucket = new TokenBucket(1000, 0, { burstBytes: 2000, peakRateBps: 16e6 });
    bucket.setRate(1000);
    for (let k = 0, now = 0; k < 5; k++) now = leave(bucket, 1000, now);
    const times: number[] = [];
    for (let k = 0, now = 1e9; k < 5; k++) times.push((now = leave(bucket, 500, now)) - 1e9);
    assert.deepEqual(times, [0, 0, 250e3, 500e3, 1000e3 - 250e3]);
    // 2000 bytes were saved; the sixth packet is the first that the rate alone lets go: 3000 bytes are covered 1 ms after the silence.
    assert.equal(leave(bucket, 500, 1e9 + 750e3) - 1e9, 1000e3);
  });

  it('without a peak rate lets the whole burst go at once', () => {
    const bucket = new TokenBucket(1000, 0, { burstBytes: 3000, peakRateBps: null });
    bucket.setRate(1000);
    const times: number[] = [];
    for (let k = 0, now = 0; k < 5; k++) times.push(now = leave(bucket, 1000, now));
    assert.deepEqual(times, [0, 0, 0, 1000e3, 2000e3]);
  });

  it('shapes a link of the simulator: a burst after silence leaves at the peak rate', () => {
    // 16 datagrams of 986 bytes (1000 with the header) almost at once, each 100 ms apart in bursts of 1.6 ms at 80 Mbit/s.
    const plan = dumbbell({
      rateBps: 8e6, queue: queue('pfifo', { limit: 100 }), pairs: 1, rttNs: 10e6, durationNs: 1e9, mtuBytes: 986,
      flows: [{ transport: 'udp', kind: 'onoff', cc: null, rateBps: 78.88e6, packetBytes: 986, bursts: Array.from({ length: 9 }, (_, k) => [k * 100e6, k * 100e6 + 1.6e6] as const) }],
    });
    const [bottleneck, ...others] = plan.links;
    const shaped = { ...plan, links: [{ ...bottleneck!, forward: { ...bottleneck!.forward, shaper: 'tbf' as const, bucket: { burstBytes: 5000, peakRateBps: 16e6 } } }, ...others] };
    withRun(shaped, (result) => {
      const { t_dequeue: left } = result.columns('packets-BL1.rec', 't_dequeue');
      assert.equal(left.length, 9 * 16);
      for (let burst = 0; burst < 9; burst++) {
        const first = left[burst * 16]!;
        for (let k = 0; k < 16; k++) assert.equal(Math.round((left[burst * 16 + k]! - first) / 1e3), Math.max(k * 500, (k - 4) * 1000), `packet ${k} of burst ${burst}`);
      }
    });
  });
});
