/**
 * The kernel's own statistics of a queue (queue samples: backlog, cumulative drops and marks, the algorithm's state)
 * against ours at the same moments of a replay. They tell *when* a packet was dropped, which captures do not show, and
 * what the algorithm remembers.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import type { QueueDiscipline } from '../../aqm/aqm.js';
import { fieldOffsets, readRecords } from '../records/record-file.js';
import { headerOf } from './events.js';

/** Columns of an algorithm's state that only count up. */
const cumulativeColumns: ReadonlySet<string> = new Set(['new_flow_count', 'drop_overlimit', 'ce_mark', 'early', 'pdrop', 'packets_in', 'dropped', 'overlimit', 'matched', 'flows_plimit', 'hh_overlimit', 'hh_tot_count', 'earlydrop', 'penaltydrop', 'bucketdrop', 'queuedrop', 'packets_in_c', 'packets_in_l', 'step_marks',
  ...Array.from({ length: 8 }, (_, tin) => ['sent', 'dropped', 'marked'].map((name) => `tin${tin}_${name}`)).flat()]);

export interface SampleDifference {
  readonly tNs: number;
  readonly column: string;
  readonly kernel: number;
  readonly ours: number;
}
export interface SamplesVerdict {
  readonly samples: number;
  /** Values compared, all columns together. */
  readonly values: number;
  /** Samples with a value that the queue had at no instant from `earlierNs` before their time to `laterNs` after it. */
  readonly different: number;
  readonly columns: readonly string[];
  readonly first: SampleDifference | null;
}

export interface QueueSamples { readonly columns: readonly string[]; readonly rows: readonly Float64Array[] }

/** raw/queue-<direction>.rec, whole: about 100 bytes a sample. null: none recorded. @throws DamagedRecord */
export function readQueueSamples(runDir: string, direction: string): QueueSamples | null {
  const file = path.join(runDir, 'raw', `queue-${direction}.rec`);
  if (!fs.existsSync(file)) return null;
  const header = headerOf(file);
  const offsets = fieldOffsets(header);
  const columns = header.fields.map(({ name }) => name);
  const rows: Float64Array[] = [];
  for (const chunk of readRecords(file)) {
    for (let i = 0; i < chunk.rows; i++) rows.push(Float64Array.from(columns, (name) => chunk.view.getFloat64(i * header.rowBytes + offsets[name]!, true)));
  }
  return { columns, rows };
}

export class SampleJudge {
  private next = 0;
  private readonly compared: { readonly name: string; readonly from: number; readonly own: number; readonly tolerance: number; readonly cumulative: boolean }[] = [];
  private readonly base: Float64Array;
  private readonly state: Float64Array;
  private values = 0;
  private different = 0;
  private judged = 0;
  private first: SampleDifference | null = null;
  /** The sample at hand, when some of its values have not been met yet. */
  private held: Float64Array | null = null;
  private readonly met: Uint8Array;

  /**
   * @param stateColumns of the discipline (AqmKind.state)
   * @param tolerances columns of the algorithm's state to compare, and by how much they may differ
   * @param originNs our clock at run time 0
   * @param laterNs the agent may be sending packets between the time that a sample carries and the asking, and the kernel may
   * send one between reading two of its counters: each value may be from after any event of this long
   * @param earlierNs a timer interrupt of the guest is up to 256 ns late, as it is set by its distance from a clock that shows multiples of them (clockevents_program_event, kernel/time/clockevents.c):
   * an agent that is awake by then may ask before what is due is done. Each value may be from before any event of this long
   * @param advance runs the queue's timers up to a time on its own clock
   */
  constructor(private readonly samples: QueueSamples, private readonly queue: QueueDiscipline, stateColumns: readonly string[], tolerances: Readonly<Record<string, number>>, private readonly originNs: number, private readonly laterNs: number, private readonly earlierNs: number, private readonly drops: () => number, private readonly advance: (nowNs: number) => void) {
    this.state = new Float64Array(stateColumns.length);
    const column = (name: string): number => samples.columns.indexOf(name);
    for (const name of ['backlog_bytes', 'backlog_packets', 'drops', 'marks']) {
      if (column(name) >= 0) this.compared.push({ name, from: column(name), own: -1, tolerance: tolerances[name] ?? 0, cumulative: name === 'drops' || name === 'marks' });
    }
    for (const [name, tolerance] of Object.entries(tolerances)) {
      if (column(name) >= 0 && stateColumns.includes(name)) this.compared.push({ name, from: column(name), own: stateColumns.indexOf(name), tolerance, cumulative: cumulativeColumns.has(name) });
    }
    this.met = new Uint8Array(this.compared.length);
    this.base = new Float64Array(samples.columns.length);
  }

  /** The kernel's latest sample at or before `tNs`, by column. */
  latest(tNs: number): Readonly<Record<string, number>> | null {
    let found: Float64Array | null = null;
    for (let i = Math.min(this.next, this.samples.rows.length - 1); i >= 0 && found === null; i--) if (this.samples.rows[i]![0]! <= tNs) found = this.samples.rows[i]!;
    return found === null ? null : Object.fromEntries(this.samples.columns.map((name, i) => [name, found![i]!]));
  }

  get differed(): boolean { return this.first !== null; }

  /** Before the event at `tNs` is applied. */
  before(tNs: number): void {
    const { rows } = this.samples;
    if (this.held !== null) {
      this.advance(Math.min(tNs, this.held[0]!) + this.originNs); // the first look may have been at an event before its time
      this.look(this.held);
      if (this.held !== null && tNs - this.held[0]! >= this.laterNs) this.differs(this.held);
    }
    while (this.next < rows.length && rows[this.next]![0]! - this.earlierNs <= tNs) {
      if (this.held !== null) this.differs(this.held); // the next sample's time has come
      const row = rows[this.next++]!;
      this.judged++;
      this.values += this.compared.length;
      this.met.fill(0);
      const atNs = Math.min(row[0]!, tNs) + this.originNs;
      // An update in the instant of the sample may come before or after it.
      this.advance(atNs - this.earlierNs);
      if (this.judged === 1) this.countFrom(row);
      this.look(row);
      for (const untilNs of [atNs - 1, atNs]) {
        if (this.held === null) break;
        this.advance(untilNs);
        this.look(row);
      }
      if (this.held !== null && tNs - row[0]! >= this.laterNs) this.differs(row);
    }
  }

  /** Counters began when the queue was made, before the record; and the first sample may come late (at the edge of the window): what they do from there on is judged. */
  private countFrom(row: Float64Array): void {
    this.queue.readState(this.state, row[0]! + this.originNs);
    for (let i = 0; i < this.compared.length; i++) {
      const { from, cumulative } = this.compared[i]!;
      if (cumulative && !Number.isNaN(row[from]!)) this.base[from] = row[from]! - this.ourValue(i);
    }
  }

  /** Notes which values of the sample the queue has now. */
  private look(row: Float64Array): void {
    this.held = null;
    this.queue.readState(this.state, row[0]! + this.originNs);
    for (let i = 0; i < this.compared.length; i++) {
      if (this.met[i] === 1) continue;
      const kernel = this.kernelValue(row, i);
      if (Number.isNaN(kernel) || Math.abs(kernel - this.ourValue(i)) <= this.compared[i]!.tolerance) this.met[i] = 1;
      else this.held = row;
    }
  }

  private kernelValue(row: Float64Array, i: number): number {
    const { from } = this.compared[i]!;
    return row[from]! - this.base[from]!;
  }
  /** After `readState`. */
  private ourValue(i: number): number {
    const { name, own } = this.compared[i]!;
    if (own >= 0) return this.state[own]!;
    return name === 'backlog_bytes' ? this.queue.backlogBytes : name === 'backlog_packets' ? this.queue.backlogPackets : name === 'drops' ? this.drops() : this.queue.marks;
  }

  private differs(row: Float64Array): void {
    this.held = null;
    this.different++;
    const i = this.met.indexOf(0);
    this.first ??= { tNs: row[0]!, column: this.compared[i]!.name, kernel: this.kernelValue(row, i), ours: this.ourValue(i) };
  }

  /** @param untilNs samples after it are not judged */
  finish(untilNs: number): SamplesVerdict {
    this.before(untilNs);
    return { samples: this.judged, values: this.values, different: this.different, columns: this.compared.map(({ name }) => name), first: this.first };
  }
}
