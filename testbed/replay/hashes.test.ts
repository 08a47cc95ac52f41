import assert from 'node:assert/strict';
import { none } from '../records/record-file.js';
import type { EventChunk, EventSource } from './events.js';
import { readSharing } from './hashes.js';

describe('the queues that hashes in the record name', () => {
  it('are counted, with the flows that shared one, the moves of a flow to another, and packets of no flow', async () => {
    // Time, flow, hash; each leaves at once.
    const arrivals = [[0, 0, 5], [1, 1, 6], [2, 0, 5], [3, 0, 14], [4, 1, 6], [5, none.i32, 7], [6, 0, 5], [90, 1, 8]] as const;
    const rows = arrivals.flatMap(([t, flow, hash]) => [{ t, flow, hash, leaving: 0 }, { t, flow, hash, leaving: 1 }]);
    const zeros = new Uint32Array(rows.length);
    const chunk: EventChunk = {
      count: rows.length, t: Float64Array.from(rows, ({ t }) => t), keyLo: zeros, keyHi: zeros, size: zeros, flow: Int32Array.from(rows, ({ flow }) => flow), leaving: Uint8Array.from(rows, ({ leaving }) => leaving),
      ecn: new Uint8Array(rows.length), forward: new Uint8Array(rows.length).fill(1), hash: Uint32Array.from(rows, ({ hash }) => hash),
    };
    const source: EventSource = { from: 'captures', file: '', lost: 0, hashed: true, monotonicNs: 0, chunks: async function* () { yield await Promise.resolve(chunk); } };
    assert.deepEqual(await readSharing(source, (hash) => hash % 8, 50), { from: 'hash', queues: 3, collisions: [['flow 1', 'flow 0']], strangers: 1, moves: 2 });
  });
});
