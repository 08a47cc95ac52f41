/**
 * Do a queue's own counters account for the packets that are missing? By the time of a sample, what entered and has not left
 * waits (backlog) or was dropped (drops). What remains beyond the two is uncounted.
 *
 * A change of parameters can throw packets away that Linux counts nowhere (fq_codel, fq_pie, hhf and fq above a lower limit, tins of CAKE
 * that are no more), so what becomes uncounted around a change is its purge. Only the last sample that the captures reach is judged: drops
 * after it, while the queue drains, are in the captures alone.
 */

import type { PacketColumns } from './packet-columns.js';
import { fieldOffsets, readRecordHeader, readRecords } from './record-file.js';

export interface DropAccount {
  /** Time of that sample, ns, and its counter. */
  readonly t: number;
  readonly drops: number;
  /** Entered by then, not left, not in the backlog. */
  readonly missing: number;
  /** Of the missing: thrown away by changes of parameters, uncounted. */
  readonly purged: number;
}

interface Sample { readonly t: number; readonly backlog: number; readonly drops: number }
interface Span { readonly before: Sample; readonly after: Sample }

const nothing: Sample = { t: -Infinity, backlog: 0, drops: 0 };
/** A change is done this long after it was due, ns; ordinary drops meanwhile are on both sides of the account. */
const settleNs = 50e6;

/**
 * @param file queue-<direction>.rec
 * @param changesNs when parameters of the queue were set, rising
 * @returns null without such a sample
 */
export function dropAccount(file: string, packets: PacketColumns, changesNs: readonly number[]): DropAccount | null {
  const { last, spans } = readSamples(file, changesNs, lastEvent(packets));
  if (last === null) return null;
  const wanted = [...spans.flatMap(({ before, after }) => [before, after]), last];
  const held = heldAt(packets, wanted.map(({ t }) => t));
  const uncounted = wanted.map(({ backlog, drops }, i) => held[i]! - backlog - drops);
  const purged = spans.map((_, i) => Math.max(0, uncounted[2 * i + 1]! - uncounted[2 * i]!));
  return { t: last.t, drops: last.drops, missing: held.at(-1)! - last.backlog, purged: purged.reduce((sum, one) => sum + one, 0) };
}

/** When the last packet entered or left: of a run that was interrupted, samples may have been written that its captures do not reach. */
function lastEvent(packets: PacketColumns): number {
  let last = -Infinity;
  for (let i = 0; i < packets.length; i++) {
    const left = packets.tDequeue(i);
    last = Math.max(last, packets.tEnqueue(i), Number.isNaN(left) ? -Infinity : left);
  }
  return last;
}

/** The last sample until `end`, and those before and after each change; changes too close for a sample between them are one. */
function readSamples(file: string, changesNs: readonly number[], end: number): { readonly last: Sample | null; readonly spans: readonly Span[] } {
  const header = readRecordHeader(file);
  const offsets = fieldOffsets(header);
  const spans: Span[] = [];
  let last: Sample | null = null, next = 0, open: Sample | null = null, until = 0;
  for (const { view, rows } of readRecords(file)) {
    for (let i = 0; i < rows; i++) {
      const row = i * header.rowBytes;
      const value = (name: string): number => view.getFloat64(row + offsets[name]!, true);
      if (value('t') > end) continue;
      const sample = { t: value('t'), backlog: value('backlog_packets'), drops: value('drops') };
      for (; next < changesNs.length && changesNs[next]! <= sample.t; next++) {
        open ??= last ?? nothing;
        until = changesNs[next]! + settleNs;
      }
      if (open !== null && sample.t >= until) {
        spans.push({ before: open, after: sample });
        open = null;
      }
      last = sample;
    }
  }
  if (open !== null && last !== null) spans.push({ before: open, after: last });
  return { last, spans };
}

/** Packets that have entered and not left, at each of some rising times. */
function heldAt(packets: PacketColumns, times: readonly number[]): number[] {
  const changes = new Array<number>(times.length + 1).fill(0);
  /** The first of the times at which an event at `t` has happened. */
  const at = (t: number): number => {
    let from = 0, to = times.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (times[middle]! < t) from = middle + 1;
      else to = middle;
    }
    return from;
  };
  for (let i = 0; i < packets.length; i++) {
    changes[at(packets.tEnqueue(i))]!++;
    const left = packets.tDequeue(i);
    if (!Number.isNaN(left)) changes[at(left)]!--;
  }
  let held = 0;
  return times.map((_, i) => (held += changes[i]!));
}
