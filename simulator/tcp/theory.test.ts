import assert from 'node:assert/strict';
import { dumbbell, queue } from '../fixture.js';
import { chosen, quantile, withRun } from '../testing.js';

const ms = (ns: number): number => ns / 1e6;
const fast = { rateBps: 10e9, queue: queue('pfifo', { limit: 10000 }), pairs: 1, rttNs: 100e6 };
const scripted = { ...fast, queue: queue('chosen') };
/** Data segments that arrived at the bottleneck, by time in ms, rounded. */
const rounds = (rows: readonly Readonly<Record<string, number>>[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const row of rows) if (row['forward'] === 1 && row['size']! > 100) counts[Math.round(ms(row['t_enqueue']!) / 10) * 10] = (counts[Math.round(ms(row['t_enqueue']!) / 10) * 10] ?? 0) + 1;
  return counts;
};

for (const model of ['linux', 'classic'] as const) {
  describe(`TCP on an unloaded path (${model})`, () => {
    it('takes a round trip to connect and doubles from 10 segments each round trip; the flow ends with the last round', () => {
      withRun(dumbbell({ ...fast, model, durationNs: 2e9, flows: [{ bytes: 100 * 1448 }] }), (result) => {
        assert.deepEqual(rounds(result.rows('packets-BL1.rec')), { 100: 10, 200: 20, 300: 40, 400: 30 });
        const [flow] = result.flows;
        assert.equal(flow!.status, 'complete');
        assert.equal(flow!.bytes, 144_800);
        assert.equal(flow!.retransmits, 0);
        // With serialisation of a 74-byte SYN on a wire, none on a token bucket with credit.
        assert.equal(flow!.t_connected, model === 'linux' ? 100e6 : 100e6 + Math.floor(74 * 0.8));
        assert.ok(flow!.t_end! >= 500e6 && flow!.t_end! < 500.2e6, `ends at ${ms(flow!.t_end!)} ms`);
      });
    });

    it('sends 1500-byte packets that carry 1448, 60-byte SYNs and 52-byte ACKs', () => {
      withRun(dumbbell({ ...fast, model, durationNs: 1e9, flows: [{ bytes: 1448 * 3 + 7 }] }), (result) => {
        const sizes = result.rows('packets-BL1.rec').map((row) => row['size']!);
        assert.equal(sizes[0], 60);
        assert.equal(sizes[1], 52);
        assert.deepEqual(sizes.slice(2, 6), [1500, 1500, 1500, 59]);
      });
    });
  });
}

describe('Retransmission timers (linux)', () => {
  it('repeats a lost SYN after one second, at a jiffy', () => {
    withRun(dumbbell({ ...scripted, durationNs: 3e9, flows: [{ bytes: 1448 }] }), (result) => {
      // 100 jiffies of 10 ms, in the timer wheel's second level: the next slot of 8 jiffies.
      assert.equal(result.rows('packets-BL1.rec').filter((row) => row['size'] === 60)[1]!['t_enqueue'], 1040e6);
      assert.equal(result.flows[0]!.t_connected, 1140e6);
    }, { aqms: chosen([0]) });
  });

  it('sends a tail loss probe two round trips and 2 ms after the last ACK', () => {
    // 0 SYN, 1 ACK, 2 … 11 data, 12 FIN: the last data segment and the FIN are lost. ACKs come at 200 ms.
    withRun(dumbbell({ ...scripted, durationNs: 3e9, flows: [{ bytes: 1448 * 10 }] }), (result) => {
      const later = result.rows('packets-BL1.rec').filter((row) => row['t_enqueue']! > 210e6).map((row) => ms(row['t_enqueue']!));
      // 2 × 100.00x ms + 2 ms: 21 jiffies from jiffy 20, and one more: the probe (the FIN). Its SACK at 520 shows the hole.
      assert.equal(later[0], 420);
      assert.ok(Math.abs(later[1]! - 520) < 0.1, `${later[1]}`);
      assert.ok(Math.abs(ms(result.flows[0]!.t_end!) - 620) < 0.2);
    }, { aqms: chosen([11, 12]) });
  });

  it('falls back on the retransmission timeout when the probe is lost too, and doubles it', () => {
    // 0 SYN, 1 ACK, 2 data, 3 FIN, 4 probe at 320 ms (2 × 100 + 2 ms), then the timeouts: RTO = 100 + 200 ms, then 600, 1200 (rounded to 8 jiffies).
    withRun(dumbbell({ ...scripted, durationNs: 6e9, flows: [{ bytes: 1448 }] }), (result) => {
      const times = result.rows('packets-BL1.rec').slice(4).map((row) => ms(row['t_enqueue']!));
      assert.deepEqual(times.slice(0, 4), [320, 630, 1240, 2480]);
    }, { aqms: chosen([2, 3, 4, 5, 6]) });
  });
});

describe('SACK recovery', () => {
  // 0 SYN, 1 ACK, then segments 0 … from arrival 2 on; the third round (segments 30 …) loses five.
  const lost = [32 + 5, 32 + 7, 32 + 10, 32 + 11, 32 + 15];
  for (const model of ['linux', 'classic'] as const) {
    it(`repairs five scattered losses of a window in one round trip (${model})`, () => {
      withRun(dumbbell({ ...scripted, model, durationNs: 5e9, flows: [{ bytes: 400 * 1448 }] }), (result) => {
        const rows = result.rows('packets-BL1.rec').sort((a, b) => a['t_enqueue']! - b['t_enqueue']!);
        assert.equal(rows.filter((row) => row['dropped'] === 1).length, 5);
        const [flow] = result.flows;
        assert.equal(flow!.retransmits, 5);
        assert.equal(flow!.status, 'complete');
        assert.equal(flow!.bytes, 400 * 1448);
      }, { aqms: chosen(lost) });
    });
  }
});

describe('Reno', () => {
  for (const [share, name] of [[1, 'a buffer of one bandwidth-delay product'], [0.25, 'a quarter of it']] as const) {
    it(`draws the sawtooth of the textbook over ${name}: period and utilisation`, () => {
      // 10 Mbit/s, 1250 bytes a packet with its overhead: C = 1000 packets/s; RTT 100 ms: P = 100 packets.
      const P = 100;
      const B = P * share;
      const C = 1000;
      const plan = dumbbell({ rateBps: 10e6, queue: queue('pfifo', { limit: B }), pairs: 1, rttNs: 100e6, mtuBytes: 1236, warmupNs: 60e9, durationNs: 240e9, model: 'classic', flows: [{}] });
      withRun(plan, (result) => {
        const rows = result.rows('packets-BL1.rec').filter((row) => row['t_enqueue']! > 60e9);
        const drops = rows.filter((row) => row['dropped'] === 1).map((row) => row['t_enqueue']! / 1e9);
        const events = drops.filter((t, i) => i === 0 || t - drops[i - 1]! > 1);
        const period = (events.at(-1)! - events[0]!) / (events.length - 1);
        const W = P + B;
        const time = Math.max(0, P - W / 2) * 0.1 + (W ** 2 - Math.max(P, W / 2) ** 2) / 2 / C;
        assert.ok(Math.abs(period / time - 1) < 0.08, `period ${period.toFixed(2)} s, by formula ${time.toFixed(2)} s`);
        const utilisation = rows.filter((row) => row['t_dequeue']! < 300e9).length / (240 * C);
        const expected = ((3 / 8) * W ** 2) / (C * time);
        assert.ok(Math.abs(utilisation - expected) < 0.02, `utilisation ${utilisation.toFixed(3)}, by formula ${expected.toFixed(3)}`);
      }, { records: true });
    }).timeout(30_000);
  }

  it('shares a bottleneck equally among equal flows', () => {
    const plan = (kind: string) => dumbbell({ rateBps: 20e6, queue: queue(kind), pairs: 4, rttNs: 50e6, warmupNs: 10e9, durationNs: 60e9, flows: [{}, {}, {}, {}] });
    for (const [kind, least] of [['fq_codel', 0.999], ['codel', 0.95]] as const) {
      withRun(plan(kind), (result) => {
        const rates = result.flows.map((flow) => flow.bytes_at_end! - flow.bytes_at_warmup!);
        const jain = rates.reduce((a, b) => a + b, 0) ** 2 / (4 * rates.reduce((a, b) => a + b * b, 0));
        assert.ok(jain > least, `${kind}: Jain's index ${jain.toFixed(4)}`);
      }, { records: false });
    }
  }).timeout(20_000);
});

describe('CUBIC', () => {
  it("follows W(t) = 0.4 (t − K)³ + W_max after a loss (RFC 9438, section 4.2)", () => {
    // The loss falls into slow start; the pipe is never full, so RTT stays 100 ms.
    const plan = dumbbell({ ...scripted, rateBps: 1e9, durationNs: 12e9, socketIntervalNs: 10e6, flows: [{ cc: 'cubic' }] });
    withRun(plan, (result) => {
      const rows = result.rows('sockets.rec');
      const first = rows.findIndex((row) => row['state'] === 3);
      const start = rows.findIndex((row, i) => i > first && row['state'] === 0);
      const W0 = rows[start]!['ssthresh']!;
      // cwnd at the loss itself, between two samples: β = 717/1024.
      const Wmax = (W0 * 1024) / 717;
      const K = Math.cbrt((Wmax - W0) / 0.4);
      for (let i = start + 20; i < rows.length; i += 20) {
        const t = (rows[i]!['t']! - rows[start]!['t']!) / 1e9;
        const W = 0.4 * (t - K) ** 3 + Wmax;
        if (t > 1.3 * K) break;
        assert.ok(Math.abs(rows[i]!['cwnd']! - W) < 0.04 * W, `at ${t.toFixed(2)} s cwnd is ${rows[i]!['cwnd']}, W(t) ${W.toFixed(1)}`);
      }
    }, { aqms: chosen([400]) });
  }).timeout(20_000);
});

describe('ECN', () => {
  it('halves Reno once a round trip, without a loss or a retransmission', () => {
    // Two marks in one window count once.
    const plan = dumbbell({ ...scripted, rateBps: 1e9, durationNs: 2e9, socketIntervalNs: 5e6, flows: [{ ecn: true }] });
    withRun(plan, (result) => {
      const rows = result.rows('sockets.rec');
      const cwr = rows.findIndex((row) => row['state'] === 2);
      const before = rows[cwr - 1]!['cwnd']!;
      const after = rows.slice(cwr).find((row) => row['state'] === 0)!;
      // cwnd had grown by the ACKs before the first ECE.
      assert.ok(after['ssthresh']! >= before / 2 && after['ssthresh']! <= before * 0.75, `ssthresh ${after['ssthresh']} after a cwnd of ${before}`);
      assert.equal(result.flows[0]!.retransmits, 0);
      const ssthresh = new Set(rows.map((row) => row['ssthresh']));
      assert.equal(ssthresh.size, 2, 'infinite, then one value');
    }, { aqms: chosen([], [100, 104]) });
  });

  it('lets DCTCP reduce in proportion to the marks', () => {
    const plan = dumbbell({ rateBps: 100e6, queue: queue('codel', { ecn: true, ce_threshold: 1e6, target: 100e6 }), pairs: 2, rttNs: 10e6, warmupNs: 2e9, durationNs: 5e9, flows: [{ cc: 'dctcp', ecn: true }, { cc: 'dctcp', ecn: true }] });
    withRun(plan, (result) => {
      const rows = result.rows('packets-BL1.rec').filter((row) => row['t_enqueue']! > 2e9 && row['t_dequeue']! < 7e9);
      const bits = rows.reduce((sum, row) => sum + (row['size']! + 14) * 8, 0);
      assert.ok(bits > 0.95 * 100e6 * 5, `utilisation ${(bits / 5e8).toFixed(3)}`);
      const sojourn = quantile(rows.map((row) => row['t_dequeue']! - row['t_enqueue']!), 0.5);
      assert.ok(sojourn < 3e6, `median sojourn ${ms(sojourn)} ms around a threshold of 1 ms`);
      assert.equal(rows.filter((row) => row['dropped'] === 1).length, 0);
    });
  }).timeout(20_000);
});
