/** For tests: runs a plan in a temporary folder and reads its raw records back; a queue that drops or marks chosen arrivals. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { z } from 'zod';
import type { AqmKind, QueuedPacket } from '../aqm/aqm.js';
import { Discipline } from '../aqm/discipline.js';
import type { Plan } from '../testbed/plan/plan.js';
import type { FlowRow } from '../testbed/records/raw.js';
import { fieldOffsets, headerBytes, readRecordHeader, readRecords } from '../testbed/records/record-file.js';
import { simulate, type SimulateOptions, type SimulationSummary } from './simulate.js';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';

export type Row = Readonly<Record<string, number>>;

/** @param times ns, ascending @returns sizes of the bursts, each within 50 µs from one packet to the next, as run lengths: `10x1 4x2` is one of ten and two of four */
export function burstRuns(times: readonly number[]): string {
  const bursts: [size: number, times: number][] = [];
  let size = 0;
  times.forEach((t, i) => {
    size++;
    if (times[i + 1]! - t < 50e3) return;
    const last = bursts.at(-1);
    if (last?.[0] === size) last[1]++;
    else bursts.push([size, 1]);
    size = 0;
  });
  return bursts.map(([n, run]) => `${n}x${run}`).join(' ');
}

export class Result {
  constructor(readonly dir: string, readonly summary: SimulationSummary) {}
  get flows(): readonly FlowRow[] {
    const rows = fs.readFileSync(path.join(this.dir, 'flows.jsonl'), 'utf8').split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as FlowRow);
    return rows.sort((a, b) => a.id - b.id);
  }
  /** @param file `packets-BL1.rec` */
  rows(file: string): Row[] {
    const name = path.join(this.dir, file);
    const header = readRecordHeader(name);
    const offsets = fieldOffsets(header);
    const rows: Row[] = [];
    for (const { view, rows: count } of readRecords(name)) {
      for (let i = 0; i < count; i++) {
        const row: Record<string, number> = {};
        for (const field of header.fields) {
          const at = i * header.rowBytes + offsets[field.name]!;
          row[field.name] = field.type === 'f64' ? view.getFloat64(at, true) : field.type === 'i32' ? view.getInt32(at, true) : field.type === 'u32' ? view.getUint32(at, true) : view.getUint8(at);
        }
        rows.push(row);
      }
    }
    return rows;
  }
  /** Chosen columns of a record file, each whole: a tenth of what `rows` costs. */
  columns<Name extends string>(file: string, ...names: readonly Name[]): Readonly<Record<Name, Float64Array>> {
    const name = path.join(this.dir, file);
    const header = readRecordHeader(name);
    const offsets = fieldOffsets(header);
    const total = Math.floor((fs.statSync(name).size - headerBytes) / header.rowBytes);
    const columns = names.map((column) => ({ column, type: header.fields.find((field) => field.name === column)!.type, offset: offsets[column]!, values: new Float64Array(total) }));
    let first = 0;
    for (const { view, rows } of readRecords(name)) {
      for (const { type, offset, values } of columns) {
        for (let i = 0; i < rows; i++) {
          const at = i * header.rowBytes + offset;
          values[first + i] = type === 'f64' ? view.getFloat64(at, true) : type === 'i32' ? view.getInt32(at, true) : type === 'u32' ? view.getUint32(at, true) : view.getUint8(at);
        }
      }
      first += rows;
    }
    return Object.fromEntries(columns.map(({ column, values }) => [column, values])) as Record<Name, Float64Array>;
  }
  /** Every file, by name. */
  files(): ReadonlyMap<string, Buffer> {
    return new Map(fs.readdirSync(this.dir).sort().map((name) => [name, fs.readFileSync(path.join(this.dir, name))]));
  }
  text(file: string): string { return fs.readFileSync(path.join(this.dir, file), 'utf8'); }
}

/** Runs the plan, gives the result to `look`, and removes the files. */
export function withRun<T>(plan: Plan, look: (result: Result) => T, options: Partial<SimulateOptions> = {}): T {
  const dir = temporaryFolder('simulate-');
  try {
    return look(new Result(dir, simulate(plan, dir, { records: true, ...options })));
  } finally {
    fs.rmSync(dir, { recursive: true, force: true });
  }
}

/** A FIFO that drops and marks chosen arrivals (counted from 0, in order of arrival), and nothing else. */
export function chosen(drop: readonly number[], mark: readonly number[] = []): ReadonlyMap<string, AqmKind> {
  class Chosen extends Discipline {
    private arrivals = 0;
    private readonly held: QueuedPacket[] = [];
    override enqueue(packet: QueuedPacket, nowNs: number): void {
      const n = this.arrivals++;
      if (drop.includes(n)) { this.context.drop(packet, 'aqm', nowNs); return; }
      if (mark.includes(n)) { packet.ecn = 3; packet.marked = true; this.marks++; }
      this.backlogPackets++;
      this.backlogBytes += packet.size;
      this.held.push(packet);
    }
    override dequeue(): QueuedPacket | null {
      const packet = this.held.shift();
      if (packet === undefined) return null;
      this.backlogPackets--;
      this.backlogBytes -= packet.size;
      return packet;
    }
  }
  return new Map([['chosen', { kind: 'chosen', schema: z.strictObject({}), state: [], create: (_params, context) => new Chosen(context) }]]);
}

export const quantile = (values: ArrayLike<number>, q: number): number => {
  const sorted = Float64Array.from(values).sort();
  const at = (sorted.length - 1) * q;
  const low = Math.floor(at);
  return sorted[low]! + (sorted[Math.min(low + 1, sorted.length - 1)]! - sorted[low]!) * (at - low);
};
