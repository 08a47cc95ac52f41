import assert from 'node:assert/strict';
import fc from 'fast-check';
import { aqms } from '../aqm/registry.js';
import type { PlanFlow } from '../testbed/plan/plan.js';
import { dropReasonCode } from '../testbed/records/raw.js';
import { dumbbell, queue, type DumbbellOptions } from './fixture.js';
import { simulate } from './simulate.js';
import { withRun } from './testing.js';

const topology = fc.record({
  rateBps: fc.integer({ min: 200_000, max: 30_000_000 }),
  kind: fc.constantFrom('pfifo', 'codel', 'fq_codel', 'red', 'pie'),
  limit: fc.integer({ min: 3, max: 300 }),
  pairs: fc.integer({ min: 1, max: 4 }),
  rttNs: fc.integer({ min: 0, max: 150_000_000 }),
  loss: fc.constantFrom(0, 0, 0.001, 0.02, 0.3),
  duplicate: fc.constantFrom(0, 0, 0.02),
  reorder: fc.constantFrom(0, 0, 0.05),
  jitterNs: fc.constantFrom(0, 0, 3_000_000),
  model: fc.constantFrom('linux' as const, 'classic' as const),
  seed: fc.nat(1000),
  flows: fc.array(fc.record({
    cc: fc.constantFrom('reno', 'cubic', 'bbr', 'dctcp'), ecn: fc.boolean(), startNs: fc.nat(1_000_000_000), size: fc.constantFrom(0, 1, 1448, 30_000, 2_000_000), udp: fc.boolean(),
  }), { minLength: 1, maxLength: 6 }),
});
type Topology = typeof topology extends fc.Arbitrary<infer T> ? T : never;

const planOf = (t: Topology) => {
  const flows = t.flows.map((flow): Partial<PlanFlow> => (flow.udp
    ? { transport: 'udp', kind: 'cbr', cc: null, rateBps: t.rateBps / 3, packetBytes: 400, startNs: flow.startNs }
    : { cc: flow.cc, ecn: flow.ecn, startNs: flow.startNs, ...(flow.size > 0 ? { bytes: flow.size } : {}) }));
  const options: DumbbellOptions = {
    rateBps: t.rateBps, pairs: t.pairs, rttNs: t.rttNs, seed: t.seed, model: t.model, warmupNs: 500e6, durationNs: 2.5e9, flows, probes: [{ intervalNs: 20e6 }], queueIntervalNs: 100e6, socketIntervalNs: 50e6,
    queue: queue(t.kind, t.kind === 'red' ? { limit: t.limit * 1500 + 60_000, min: 15_000, max: 45_000, avpkt: 1000 } : { limit: t.limit }),
    forwardDelayNs: Math.floor(t.rttNs / 2), wire: { loss: t.loss, duplicate: t.duplicate, reorder: t.reorder, jitterNs: Math.min(t.jitterNs, Math.floor(t.rttNs / 2)) },
  };
  return dumbbell(options);
};

describe('A simulation', () => {
  it('conserves packets and bytes over random networks, and every packet record has one fate', () => {
    fc.assert(fc.property(topology, (t) => {
      withRun(planOf(t), (result) => {
        const { packets, links } = result.summary;
        assert.equal(packets.made, packets.delivered + packets.dropped + packets.inFlight);
        const bottleneck = links.find(({ name }) => name === 'BL1')!;
        const rows = result.rows('packets-BL1.rec');
        assert.equal(rows.filter((row) => row['dropped'] === 1).length, bottleneck.drops);
        assert.equal(rows.filter((row) => row['t_dequeue']! >= 0).length, bottleneck.sentPackets);
        for (const row of rows) assert.ok(row['dropped'] === 0 ? row['drop_reason'] === 0 : Number.isNaN(row['t_dequeue']!) && row['drop_reason']! > 0);
        // Drops at one instant stand before what came earlier and waits: by number of arrival all are in order of time.
        const arrivals: number[] = [];
        for (const row of rows) arrivals[row['arrival']!] = row['t_enqueue']!;
        assert.equal(arrivals.length, rows.length);
        for (let i = 1; i < arrivals.length; i++) assert.ok(arrivals[i]! >= arrivals[i - 1]!, `arrival ${i}`);
        assert.equal(result.flows.length, t.flows.length);
        for (const flow of result.flows) {
          const plan = t.flows[flow.id]!;
          if (flow.status === 'complete' && !plan.udp && plan.size > 0) assert.equal(flow.bytes, plan.size);
          assert.ok(flow.bytes! <= flow.bytes_sent! || t.duplicate > 0);
        }
      });
    }), { numRuns: 60 });
  }).timeout(120_000);

  it('counts each datagram once on a path that duplicates, reorders and loses', () => {
    const plan = dumbbell({
      rateBps: 20e6, queue: queue('pfifo', { limit: 100 }), pairs: 1, rttNs: 20e6, forwardDelayNs: 10e6, warmupNs: 1e9, durationNs: 4e9, wire: { duplicate: 0.1, loss: 0.05, reorder: 0.2 },
      flows: [{ transport: 'udp', kind: 'cbr', cc: null, rateBps: 4e6, packetBytes: 500, stopNs: 4.5e9 }],
    });
    withRun(plan, ({ flows: [row] }) => {
      const { packets_sent: sent, packets_lost: lost, packets_duplicated: copies, bytes, status, t_end: end } = row!;
      assert.deepEqual([sent, bytes, status, end], [4500, (4500 - lost!) * 472, 'complete', 4.5e9]);
      // 4 standard deviations: 5 % lost, of the others 10 % twice.
      assert.ok(Math.abs(lost! - 225) < 60, `${lost}`);
      assert.ok(Math.abs(copies! - 4500 * 0.95 * 0.1) < 80, `${copies}`);
    });
  });

  it('says of each packet why it was dropped: no room, or the algorithm', () => {
    const reasons = (kind: string, params: Record<string, number>): number[] => withRun(dumbbell({
      rateBps: 4e6, queue: queue(kind, params), pairs: 1, rttNs: 0, durationNs: 2e9, flows: [{ transport: 'udp', kind: 'cbr', cc: null, rateBps: 8e6, packetBytes: 1000 }],
    }), (result) => [...new Set(result.rows('packets-BL1.rec').map((row) => row['drop_reason']!))].sort());
    assert.deepEqual(reasons('pfifo', { limit: 20 }), [0, dropReasonCode('limit')]);
    assert.deepEqual(reasons('codel', { limit: 5000 }), [0, dropReasonCode('aqm')]);
    assert.deepEqual(reasons('codel', { limit: 100 }), [0, dropReasonCode('limit'), dropReasonCode('aqm')]);
    assert.deepEqual(reasons('fq_codel', { limit: 200 }), [0, dropReasonCode('aqm'), dropReasonCode('overload')]);
  });

  it('goes on until its queues are empty, and says what of the delays it does not know where that takes too long', () => {
    const overloaded = (rateBps: number) => dumbbell({
      rateBps, queue: queue('pfifo', { limit: 100_000 }), pairs: 1, rttNs: 0, durationNs: 2e9,
      flows: [{ transport: 'udp', kind: 'cbr', cc: null, rateBps: 8e6, packetBytes: 1000 }],
    });
    // 2000 packets of 1014 bytes: 8.1 s at 2 Mbit/s; at 0.4 Mbit/s, 32 s of the run are enough for 1578.
    for (const [rateBps, waiting] of [[2e6, 0], [0.4e6, 422]] as const) {
      withRun(overloaded(rateBps), (result) => {
        const rows = result.rows('packets-BL1.rec');
        assert.equal(rows.length, 2000);
        assert.ok(Math.abs(rows.filter((row) => row['dropped'] === 0 && Number.isNaN(row['t_dequeue']!)).length - waiting) <= 2);
        assert.ok(Math.abs(result.flows[0]!.packets_lost! - waiting) <= 2);
        assert.deepEqual([result.flows[0]!.status, result.flows[0]!.t_end], ['running', null]);
      });
    }
  });

  it('writes the same bytes for the same plan, and others for another seed', () => {
    const base: Topology = {
      rateBps: 8e6, kind: 'pie', limit: 200, pairs: 3, rttNs: 40_000_000, loss: 0.001, duplicate: 0, reorder: 0, jitterNs: 3_000_000, model: 'linux', seed: 7,
      flows: [{ cc: 'cubic', ecn: false, startNs: 0, size: 0, udp: false }, { cc: 'bbr', ecn: false, startNs: 5e6, size: 0, udp: false }, { cc: 'reno', ecn: true, startNs: 1e9, size: 30_000, udp: false }],
    };
    const files = (seed: number) => withRun(planOf({ ...base, seed }), (result) => result.files());
    const [first, second, other] = [files(7), files(7), files(8)];
    assert.deepEqual([...first.keys()], ['agent.jsonl', 'flows.jsonl', 'packets-BL1.rec', 'probes.rec', 'queue-BL1.rec', 'sockets.rec']);
    for (const [name, bytes] of first) assert.ok(bytes.equals(second.get(name)!), `${name} differs between two runs of one plan`);
    assert.ok(!first.get('packets-BL1.rec')!.equals(other.get('packets-BL1.rec')!));
  }).timeout(20_000);

  it('uses no more packet objects in a longer run', () => {
    const peak = (seconds: number) => withRun(dumbbell({ rateBps: 10e6, queue: queue('codel'), pairs: 2, rttNs: 40e6, durationNs: seconds * 1e9, flows: [{}, { cc: 'cubic' }] }), (result) => result.summary.packets.peak, { records: false });
    assert.equal(peak(40), peak(10));
  }).timeout(20_000);

  it('samples queues and sockets at the edges of the window and each interval between', () => {
    const plan = dumbbell({ rateBps: 10e6, queue: queue('codel'), pairs: 1, rttNs: 40e6, warmupNs: 1.25e9, durationNs: 2e9, queueIntervalNs: 500e6, socketIntervalNs: null, flows: [{}] });
    withRun(plan, (result) => {
      assert.deepEqual(result.rows('queue-BL1.rec').map((row) => row['t']! / 1e9), [0, 0.5, 1, 1.25, 1.5, 2, 2.5, 3, 3.25]);
      assert.deepEqual(result.rows('sockets.rec').map((row) => row['t']! / 1e9), [1.25, 3.25]);
    });
  });

  it('says which queue disciplines and congestion controls it has, and when memory would not do', () => {
    const base = { rateBps: 10e6, pairs: 1, rttNs: 40e6, durationNs: 1e9 } as const;
    assert.throws(() => simulate(dumbbell({ ...base, queue: queue('mystery'), flows: [{}] }), '/tmp', { records: false }), /no queue discipline "mystery"; it has .*codel/);
    assert.throws(() => simulate(dumbbell({ ...base, queue: queue('codel'), flows: [{ cc: 'vegas' }] }), '/tmp', { records: false }), /flow 0 \(long\): the simulator has no congestion control "vegas"; it has reno, cubic, bbr, dctcp/);
    assert.throws(() => simulate(dumbbell({ ...base, queue: queue('pfifo', { limit: 1e9 }), flows: [{}] }), '/tmp', { records: false }), /may take \d+ MiB/);
  });

  it('carries every byte of a connection that pauses, with either model of TCP, from before it is connected to after it was told to stop', () => {
    for (const model of ['linux', 'classic'] as const) {
      const chunks: [number, number][] = [[0, 50_000], [10e6, 3], [500e6, 1448], [900e6, 100_000]];
      withRun(dumbbell({ rateBps: 5e6, queue: queue('pfifo', { limit: 20 }), pairs: 1, rttNs: 50e6, durationNs: 3e9, model, flows: [{ kind: 'chunks', chunks, stopNs: 1e9 }] }), (result) => {
        assert.deepEqual([result.flows[0]!.status, result.flows[0]!.bytes], ['complete', 151_451], model);
      });
    }
  });

  it('stops when it is told to', () => {
    const controller = new AbortController();
    const plan = dumbbell({ rateBps: 10e6, queue: queue('codel'), pairs: 1, rttNs: 40e6, durationNs: 1000e9, flows: [{}] });
    assert.throws(() => withRun(plan, () => undefined, { records: false, signal: controller.signal, onProgress: (t) => { if (t >= 1e9) controller.abort(new Error('enough')); } }), /enough/);
  });

  it('knows every discipline of aqm/', () => {
    for (const kind of ['pfifo', 'bfifo', 'red', 'codel', 'fq_codel', 'pie']) assert.ok(aqms.has(kind), kind);
  });
});
