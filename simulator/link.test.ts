import assert from 'node:assert/strict';
import { dumbbell, queue } from './fixture.js';
import { quantile, withRun } from './testing.js';

const cbr = (rateBps: number, packetBytes: number) => ({ transport: 'udp', kind: 'cbr', cc: null, rateBps, packetBytes } as const);

describe('A link', () => {
  it('serialises a packet in (IP bytes + overhead) × 8 / rate and then delays it: exact one-way delays (classic)', () => {
    // 100-byte probes on an idle 1 Mbit/s link: 114 bytes = 912 µs, then 7 ms; back over cables: 13 ms.
    const plan = dumbbell({ rateBps: 1e6, queue: queue('pfifo', { limit: 10 }), pairs: 1, rttNs: 20e6, forwardDelayNs: 7e6, durationNs: 1e9, model: 'classic', flows: [], probes: [{ intervalNs: 50e6 }] });
    withRun(plan, (result) => {
      const rows = result.rows('probes.rec');
      assert.equal(rows.length, 21);
      for (const row of rows) {
        assert.equal(row['owd_forward'], 912_000 + 7e6);
        assert.equal(row['owd_reverse'], 13e6);
        assert.equal(row['rtt'], 912_000 + 20e6);
      }
    });
  });

  it('as HTB lets a packet go at once and pays afterwards (linux)', () => {
    const plan = dumbbell({ rateBps: 1e6, queue: queue('pfifo', { limit: 10 }), pairs: 1, rttNs: 20e6, durationNs: 1e9, flows: [], probes: [{ intervalNs: 50e6 }] });
    withRun(plan, (result) => { for (const row of result.rows('probes.rec')) assert.equal(row['rtt'], 20e6); });
  });

  it('carries exactly its rate under overload, and a drop-tail queue of n packets holds each for n services', () => {
    // 1000-byte packets at twice the rate of 8.112 Mbit/s (1014 bytes = 1 ms): n = 20 packets wait, 20 ms each.
    const plan = dumbbell({ rateBps: 8.112e6, queue: queue('pfifo', { limit: 20 }), pairs: 1, rttNs: 10e6, warmupNs: 1e9, durationNs: 4e9, model: 'classic', flows: [cbr(16e6, 1000)] });
    withRun(plan, (result) => {
      const window = result.rows('packets-BL1.rec').filter((row) => row['t_enqueue']! >= 1e9 && row['t_enqueue']! < 5e9);
      const sent = window.filter((row) => row['dropped'] === 0);
      assert.ok(Math.abs(sent.length - 4000) <= 21, `${sent.length} packets in 4 s of 1 ms services`);
      const sojourn = sent.map((row) => row['t_dequeue']! - row['t_enqueue']!).filter((ns) => !Number.isNaN(ns));
      assert.ok(quantile(sojourn, 0.5) >= 19e6 && quantile(sojourn, 0.5) <= 20e6);
      assert.ok(Math.abs(window.length - sent.length - 4000) <= 21);
    });
  });

  it('changes rate and delay at a plan event, keeping packets in order', () => {
    const plan = dumbbell({
      rateBps: 10e6, queue: queue('pfifo', { limit: 1000 }), pairs: 1, rttNs: 20e6, durationNs: 3e9, model: 'classic', flows: [cbr(5e6, 1236)],
      events: [{ atNs: 1e9, direction: 'BL1', set: { rateBps: 4e6 } }, { atNs: 2e9, direction: 'BL1', set: { wire: { delayNs: 5e6, jitterNs: 0, loss: 0.5, duplicate: 0, reorder: 0, limitPackets: 1000 } } }],
      probes: [{ intervalNs: 20e6 }],
    });
    withRun(plan, (result) => {
      const rows = result.rows('packets-BL1.rec').filter((row) => row['flow'] === 0);
      const gaps = (from: number, to: number) => rows.filter((row) => row['t_dequeue']! > from && row['t_dequeue']! < to).map((row, i, all) => (i === 0 ? NaN : row['t_dequeue']! - all[i - 1]!['t_dequeue']!)).slice(1);
      // Before: the flow's own spacing, 1236 × 8 / 5 Mbit/s; after: serialisation of 1250 bytes at 4 Mbit/s, plus a probe now and then.
      assert.equal(Math.round(quantile(gaps(0, 1e9), 0.5)), 1_977_600);
      assert.equal(quantile(gaps(1.1e9, 2e9), 0.5), 2_500_000);
      const probes = result.rows('probes.rec');
      const lost = probes.filter((row) => row['t']! > 2.01e9 && Number.isNaN(row['rtt']!)).length;
      assert.ok(lost > 10 && lost < 40, `${lost} of 50 probes lost at 50 %`);
      assert.equal(probes.filter((row) => row['t']! < 1.5e9 && Number.isNaN(row['rtt']!)).length, 0);
    });
  });

  it('holds packets at an interface that a plan event gives a queue, though until then nothing held them there', () => {
    const plan = dumbbell({
      rateBps: 10e6, queue: queue('pfifo', { limit: 1000 }), pairs: 1, rttNs: 20e6, durationNs: 2e9, model: 'classic', flows: [cbr(5e6, 1236)],
      events: [{ atNs: 1e9, direction: 'S[0]', set: { rateBps: 2.5e6, queue: queue('pfifo', { limit: 5 }) } }],
    });
    withRun(plan, ({ summary }) => {
      // From 1 s on half of the 505 datagrams a second fit: 1250 bytes at 2.5 Mbit/s take 4 ms.
      const { sentPackets, drops } = summary.links.find(({ name }) => name === 'S[0]')!;
      assert.ok(Math.abs(sentPackets - 255) <= 6, `${sentPackets} sent`);
      assert.ok(Math.abs(drops - 250) <= 7, `${drops} dropped`);
    });
  });

  it('says that the run is invalid when a wire had no room', () => {
    const plan = dumbbell({ rateBps: 10e6, queue: queue('pfifo', { limit: 100 }), pairs: 1, rttNs: 200e6, forwardDelayNs: 100e6, wire: { limitPackets: 10 }, durationNs: 1e9, flows: [cbr(5e6, 1236)] });
    withRun(plan, (result) => assert.match(result.text('agent.jsonl'), /"level":"invalid","rule":"netem-dropped"/));
  });
});
