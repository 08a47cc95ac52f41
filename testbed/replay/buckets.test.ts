import assert from 'node:assert/strict';
import { packet, context, create, randomSource, type TestPacket } from '../../aqm/testing/packets.js';
import { findBuckets } from './buckets.js';
import type { EventChunk, EventSource } from './events.js';

/** What captures of a queue would show whose flows go to `bucketOf[flow]`: seven flows, arrivals faster than departures half of the time. */
function record(kind: string, bucketOf: readonly number[]): EventSource {
  const events: { t: number; id: number; flow: number; leaving: number }[] = [];
  const queue = create(kind, { flows: 16, limit: 200 }, context());
  const random = randomSource(4);
  for (let step = 0, id = 0; step < 4000; step++) {
    const t = step * 100_000;
    for (let n = random() % (step % 1000 < 500 ? 4 : 2); n > 0; n--) {
      const flow = Math.min(random() % bucketOf.length, random() % bucketOf.length);
      events.push({ t, id, flow, leaving: 0 });
      queue.enqueue(packet({ seq: id++, flow, flowHash: (bucketOf[flow]! + 0.5) * 2 ** 28 }), t);
    }
    const out = queue.dequeue(t) as TestPacket | null;
    if (out !== null) events.push({ t, id: out.seq, flow: out.flow, leaving: 1 });
  }
  const of = <Out>(from: (values: number[]) => Out, key: 't' | 'id' | 'flow' | 'leaving'): Out => from(events.map((event) => event[key]));
  const chunk: EventChunk = {
    count: events.length, t: of((v) => Float64Array.from(v), 't'), keyLo: of((v) => Uint32Array.from(v), 'id'), keyHi: new Uint32Array(events.length), size: new Uint32Array(events.length).fill(1500),
    flow: of((v) => Int32Array.from(v), 'flow'), leaving: of((v) => Uint8Array.from(v), 'leaving'), ecn: new Uint8Array(events.length), forward: new Uint8Array(events.length).fill(1), hash: null,
  };
  return { from: 'captures', file: '', lost: 0, hashed: false, monotonicNs: 0, chunks: async function* () { yield await Promise.resolve(chunk); } };
}

describe('the map of flows to queues', () => {
  for (const kind of ['fq_codel', 'drr']) {
    it(`is read from the order in which packets leave ${kind}`, async () => {
      const alone = await findBuckets(record(kind, [0, 1, 2, 3, 4, 5, 6]), Infinity);
      assert.deepEqual([alone.flows, alone.queues, alone.collisions, alone.strangers], [7, 7, [], 0]);
      const shared = await findBuckets(record(kind, [0, 1, 2, 0, 4, 1, 6]), Infinity);
      assert.deepEqual(shared.collisions.map((flows) => [...flows].sort()).sort(), [['flow 0', 'flow 3'], ['flow 1', 'flow 5']]);
      assert.equal(shared.queueOf(0, 1), shared.queueOf(3, 1));
      assert.notEqual(shared.queueOf(0, 1), shared.queueOf(1, 1));
      assert.equal(shared.queueOf(-0x80000000, 1), -1);
    });
  }

  it('offers other places for a flow, none with one it was seen apart from', async () => {
    const map = await findBuckets(record('drr', [0, 1, 2, 0, 4, 1, 6]), Infinity);
    const places = [...map.otherPlaces(3, 1)];
    // Alone is the only other place: flow 3 met all the others and was apart from them.
    assert.equal(places.length, 1);
    assert.deepEqual(places[0]!.collisions.map((flows) => [...flows].sort()), [['flow 1', 'flow 5']]);
    assert.deepEqual([...map.otherPlaces(2, 1)], []);
  });
});
