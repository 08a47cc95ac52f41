/**
 * A record file's rows in order of time. Captures are drained from one ring an interface, so the rows of a file
 * are ordered within a ring but not between rings. A first pass finds how late a row can be; the second holds
 * rows back by that much and sorts what it holds, so memory grows with the disorder and not with the file.
 */

import { fieldOffsets, readRecordHeader, readRecords } from './record-file.js';

export interface OrderedRows {
  /** Rows of `rowBytes`; row `order[i]` is the i-th in time. Valid until the next step. */
  readonly view: DataView;
  readonly order: Uint32Array;
  readonly count: number;
}

/**
 * Indices 0 … n − 1 sorted by (time, tie), equal ones in their first order: a natural merge sort, linear when sorted.
 * `order` and `spare` are at least n long; the result is in the one returned.
 */
export function sortByTime(time: Float64Array, tie: Uint8Array | Uint32Array, n: number, order = new Uint32Array(n), spare?: Uint32Array): Uint32Array {
  for (let i = 0; i < n; i++) order[i] = i;
  const after = (a: number, b: number): boolean => time[a]! > time[b]! || (time[a] === time[b] && tie[a]! > tie[b]!);
  let starts: number[] = [];
  for (let i = 0; i < n; i++) if (i === 0 || after(i - 1, i)) starts.push(i);
  if (starts.length <= 1) return order;
  let from: Uint32Array = order;
  let to: Uint32Array = spare ?? new Uint32Array(n);
  while (starts.length > 1) {
    const merged: number[] = [];
    for (let r = 0; r < starts.length; r += 2) {
      let i = starts[r]!;
      const middle = starts[r + 1] ?? n;
      let j = middle;
      const end = starts[r + 2] ?? n;
      merged.push(i);
      for (let k = i; k < end; k++) {
        if (j >= end || (i < middle && !after(from[i]!, from[j]!))) to[k] = from[i++]!;
        else to[k] = from[j++]!;
      }
    }
    starts = merged;
    [from, to] = [to, from];
  }
  return from;
}

/**
 * Rows of a record file by (`timeField`, `tieField`), then as they stand in the file.
 * @param tieField u8 field: the smaller first at equal times
 */
export function* rowsInTimeOrder(path: string, timeField: string, tieField: string, chunkRows = 65536): Generator<OrderedRows> {
  const header = readRecordHeader(path);
  const offsets = fieldOffsets(header);
  const timeAt = offsets[timeField]!;
  const tieAt = offsets[tieField]!;
  const { rowBytes } = header;

  let latest = -Infinity;
  let tieOfLatest = 0;
  let lateness = 0;
  let sorted = true;
  for (const { view, rows } of readRecords(path, chunkRows)) {
    for (let i = 0, at = 0; i < rows; i++, at += rowBytes) {
      const t = view.getFloat64(at + timeAt, true);
      if (t > latest) {
        latest = t;
        tieOfLatest = view.getUint8(at + tieAt);
      } else if (t < latest) {
        sorted = false;
        if (latest - t > lateness) lateness = latest - t;
      } else {
        const tie = view.getUint8(at + tieAt);
        if (tie < tieOfLatest) sorted = false;
        else tieOfLatest = tie;
      }
    }
  }
  if (sorted) {
    const identity = new Uint32Array(chunkRows);
    for (let i = 0; i < chunkRows; i++) identity[i] = i;
    for (const { view, rows } of readRecords(path, chunkRows)) yield { view, order: identity, count: rows };
    return;
  }

  let held = new Uint8Array(0);
  let heldRows = 0;
  let keptRows = 0;
  latest = -Infinity;
  const sortHeld = (): { view: DataView; order: Uint32Array; time: Float64Array } => {
    const view = new DataView(held.buffer);
    const time = new Float64Array(heldRows);
    const tie = new Uint8Array(heldRows);
    for (let i = 0, at = 0; i < heldRows; i++, at += rowBytes) {
      time[i] = view.getFloat64(at + timeAt, true);
      tie[i] = view.getUint8(at + tieAt);
    }
    return { view, order: sortByTime(time, tie, heldRows), time };
  };
  for (const { view, bytes, rows } of readRecords(path, chunkRows)) {
    const needed = (heldRows + rows) * rowBytes;
    if (needed > held.length) {
      const larger = new Uint8Array(Math.max(needed, 2 * held.length));
      larger.set(held.subarray(0, heldRows * rowBytes));
      held = larger;
    }
    held.set(bytes.subarray(0, rows * rowBytes), heldRows * rowBytes);
    heldRows += rows;
    for (let i = 0, at = timeAt; i < rows; i++, at += rowBytes) {
      const t = view.getFloat64(at, true);
      if (t > latest) latest = t;
    }
    if (heldRows < 2 * keptRows) continue; // wait until most of what is sorted can go, so that sorting stays linear
    const sortedRows = sortHeld();
    let ready = heldRows;
    // No later row can be earlier than this.
    while (ready > 0 && !(sortedRows.time[sortedRows.order[ready - 1]!]! < latest - lateness)) ready--;
    if (ready > 0) yield { view: sortedRows.view, order: sortedRows.order, count: ready };
    keptRows = heldRows - ready;
    const rest = new Uint8Array(Math.max(held.length, (keptRows + chunkRows) * rowBytes));
    for (let i = 0; i < keptRows; i++) {
      const at = sortedRows.order[ready + i]! * rowBytes;
      rest.set(held.subarray(at, at + rowBytes), i * rowBytes);
    }
    held = rest;
    heldRows = keptRows;
  }
  if (heldRows > 0) {
    const { view, order } = sortHeld();
    yield { view, order, count: heldRows };
  }
}
