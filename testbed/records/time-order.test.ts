import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import fc from 'fast-check';
import { RecordWriter } from './record-file.js';
import { rowsInTimeOrder, sortByTime } from './time-order.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

describe('rows in time order', () => {
  let folder: string;
  beforeEach(() => { folder = temporaryFolder('testbed-order-'); });
  afterEach(() => { fs.rmSync(folder, { recursive: true, force: true }); });

  it('sorts like a stable sort by time and tie', () => {
    fc.assert(fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 1 })), { maxLength: 200 }), (rows) => {
      const order = sortByTime(Float64Array.from(rows, ([t]) => t), Uint8Array.from(rows, ([, tie]) => tie), rows.length);
      const expected = rows.map((row, index) => [...row, index] as const).sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]).map((row) => row[2]);
      assert.deepEqual([...order.subarray(0, rows.length)], expected);
    }));
  });

  it('gives the rows of a file in order whatever the chunk size and however late a row is', () => {
    fc.assert(fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 1 })), { maxLength: 300 }), fc.integer({ min: 1, max: 64 }), (rows, chunkRows) => {
      const file = path.join(folder, 'x.rec');
      const writer = new RecordWriter(file, 'captures', {}, [{ name: 't', type: 'f64' }, { name: 'leaving', type: 'u8' }, { name: 'id', type: 'u32' }]);
      rows.forEach(([t, leaving], id) => writer.row(t, leaving, id));
      writer.close();
      const got: number[] = [];
      for (const { view, order, count } of rowsInTimeOrder(file, 't', 'leaving', chunkRows)) {
        for (let i = 0; i < count; i++) got.push(view.getUint32(order[i]! * 13 + 9, true));
      }
      const expected = rows.map((row, index) => [...row, index] as const).sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]).map((row) => row[2]);
      assert.deepEqual(got, expected);
    }), { numRuns: 60 });
  });
});
