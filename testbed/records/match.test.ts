import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import fc from 'fast-check';
import { matchCaptures, PendingByKey } from './match.js';
import type { LastBacklog } from './match.js';
import { ecnShift, packetFlag } from './packet-columns.js';
import { captureFields } from './raw.js';
import { RecordWriter } from './record-file.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

interface Sighting { t: number; key: number; leaving: 0 | 1; ecn?: number; direction?: number; size?: number; flow?: number; forward?: 0 | 1 }

describe('pending packets by key', () => {
  it('behaves like a map of queues, also while it grows and shrinks', () => {
    const operation = fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 3 }));
    fc.assert(fc.property(fc.array(operation, { maxLength: 600 }), (operations) => {
      const table = new PendingByKey(4);
      const model = new Map<string, number[]>();
      operations.forEach(([push, low, high], index) => {
        const key = `${low} ${high}`;
        if (push) {
          table.push(low, high, index);
          model.set(key, [...(model.get(key) ?? []), index]);
        } else {
          assert.equal(table.shift(low, high), model.get(key)?.shift() ?? -1);
        }
      });
      for (const [key, queue] of model) {
        const [low, high] = key.split(' ').map(Number) as [number, number];
        for (const packet of queue) assert.equal(table.shift(low, high), packet);
        assert.equal(table.shift(low, high), -1);
      }
    }));
  });
});

describe('matching captures', () => {
  let folder: string;
  beforeEach(() => { folder = temporaryFolder('testbed-match-'); });
  afterEach(() => { fs.rmSync(folder, { recursive: true, force: true }); });

  const noSample: LastBacklog = () => null;
  function match(sightings: readonly Sighting[], lastBacklog: LastBacklog = noSample, directions = ['BL1', 'BL1.reverse']) {
    const file = path.join(folder, 'captures-R1.rec');
    const writer = new RecordWriter(file, 'captures', {}, captureFields);
    for (const s of sightings) writer.row(s.t, s.key >>> 0, Math.floor(s.key / 2 ** 32), s.size ?? 1500, s.flow ?? 0, s.direction ?? 0, s.leaving, s.ecn ?? 0, s.forward ?? 1);
    writer.close();
    return matchCaptures(file, directions, lastBacklog).map(({ name, packets, note }) => ({
      name, note, rows: Array.from({ length: packets.length }, (_, i) => ({ in: packets.tEnqueue(i), out: packets.tDequeue(i), flags: packets.flags(i) & 15, ecn: packets.flags(i) >> ecnShift })),
    }));
  }

  it('gives each packet the time between its two sightings, in order of arrival', () => {
    const [bl1] = match([{ t: 10, key: 1, leaving: 0 }, { t: 12, key: 2, leaving: 0 }, { t: 20, key: 2, leaving: 1 }, { t: 25, key: 1, leaving: 1 }]);
    assert.deepEqual(bl1!.rows.map(({ in: tIn, out }) => [tIn, out]), [[10, 25], [12, 20]]);
    assert.deepEqual(bl1!.note, { direction: 'BL1', entered: 2, left: 2, own: 0, dropped: 0, marked: 0, waiting: 0 });
  });

  it('takes the oldest packet of a key first when identical packets are in the queue', () => {
    const [bl1] = match([{ t: 1, key: 7, leaving: 0 }, { t: 2, key: 7, leaving: 0 }, { t: 5, key: 7, leaving: 1 }, { t: 9, key: 7, leaving: 1 }]);
    assert.deepEqual(bl1!.rows.map(({ out }) => out), [5, 9]);
  });

  it('matches a packet that leaves at the instant it enters, in whichever order the rings were drained', () => {
    const [bl1] = match([{ t: 5, key: 3, leaving: 1 }, { t: 5, key: 3, leaving: 0 }]);
    assert.deepEqual(bl1!.rows.map(({ in: tIn, out }) => [tIn, out]), [[5, 5]]);
    assert.equal(bl1!.note.own, 0);
  });

  it('keeps directions apart, also for one key', () => {
    const [bl1, reverse] = match([{ t: 1, key: 9, leaving: 0 }, { t: 2, key: 9, leaving: 0, direction: 1 }, { t: 3, key: 9, leaving: 1, direction: 1 }, { t: 8, key: 9, leaving: 1 }]);
    assert.deepEqual([bl1!.rows[0]!.out, reverse!.rows[0]!.out], [8, 3]);
  });

  it('counts as marked what leaves with CE but entered without, and nothing else', () => {
    const [bl1] = match([
      { t: 1, key: 1, leaving: 0, ecn: 2 }, { t: 2, key: 2, leaving: 0, ecn: 3 }, { t: 3, key: 3, leaving: 0, ecn: 1 },
      { t: 4, key: 1, leaving: 1, ecn: 3 }, { t: 5, key: 2, leaving: 1, ecn: 3 }, { t: 6, key: 3, leaving: 1, ecn: 1 },
    ]);
    assert.deepEqual(bl1!.rows.map(({ flags }) => (flags & packetFlag.marked) !== 0), [true, false, false]);
    assert.deepEqual(bl1!.rows.map(({ ecn }) => ecn), [2, 3, 1]);
    assert.equal(bl1!.note.marked, 1);
  });

  it("records the router's own packets with no delay and counts them", () => {
    const [bl1] = match([{ t: 4, key: 1, leaving: 1 }]);
    assert.deepEqual(bl1!.rows.map(({ in: tIn, out }) => [tIn, out]), [[4, 4]]);
    assert.equal(bl1!.note.own, 1);
  });

  it('takes a packet that never left for dropped, and the latest arrivals for waiting when the queue was not empty', () => {
    const sightings: Sighting[] = [1, 2, 3, 4, 5].map((key) => ({ t: key, key, leaving: 0 }));
    sightings.push({ t: 6, key: 2, leaving: 1 });
    const dropped = (lastBacklog: LastBacklog): boolean[] => match(sightings, lastBacklog)[0]!.rows.map(({ flags }) => (flags & packetFlag.dropped) !== 0);
    assert.deepEqual(dropped(() => ({ t: 6, backlogPackets: 2 })), [true, false, true, false, false]);
    assert.deepEqual(dropped(() => ({ t: 6, backlogPackets: 0 })), [true, false, true, true, true]);
  });

  it('does not take for waiting what the queue gave up since its last sample', () => {
    const [bl1] = match([{ t: 1, key: 1, leaving: 0 }, { t: 2, key: 2, leaving: 0 }, { t: 6, key: 2, leaving: 1 }], () => ({ t: 3, backlogPackets: 1 }));
    assert.equal(bl1!.note.dropped, 1);
    assert.equal(bl1!.note.waiting, 0);
  });

  it('without a queue sample takes for waiting what arrived after the last packet that left', () => {
    const [bl1] = match([{ t: 1, key: 1, leaving: 0 }, { t: 2, key: 2, leaving: 0 }, { t: 3, key: 3, leaving: 0 }, { t: 6, key: 2, leaving: 1 }]);
    assert.deepEqual(bl1!.rows.map(({ flags }) => (flags & packetFlag.dropped) !== 0), [true, false, false]);
  });

  it('leaves out packets on their way to a link that is no bottleneck', () => {
    const [bl1] = match([{ t: 1, key: 1, leaving: 0, direction: 255 }, { t: 2, key: 2, leaving: 0 }, { t: 3, key: 2, leaving: 1 }]);
    assert.equal(bl1!.rows.length, 1);
  });
});
