/**
 * What became of each packet that never left CHOKe: dropped as it came because its like waited, taken out of the queue as that like, or dropped for
 * another reason. No capture shows which, but little fits the whole record. Those taken out and those that met them come in pairs of one flow; one is taken
 * out before any packet that came after it leaves (the queue is a FIFO); above max, and only above min, something happens to each arrival; and the kernel's
 * counters of both sorts of drops are sampled.
 *
 * All that fits is followed from event to event, each history with the average queue that it makes. What is found need not be what happened, but nothing
 * in the record tells the two apart.
 */

import type { ChokeParams } from '../../aqm/choke.js';
import { RedVars } from '../../aqm/red-core.js';
import { PendingByKey } from '../records/match.js';
import type { EventSource } from './events.js';
import { ARRIVED_CE, MARKED, MATCHED, SENT, TAKEN, type KernelFates } from './fates.js';
import type { QueueSamples } from './samples.js';

/** A sample's counters may be from so much after or before the time that it carries (SampleJudge). */
const laterNs = 200_000, earlierNs = 2_000;
/** Histories followed at a time, about, and of those that differ in the average alone, by less than so many packets, one; where that is too coarse, more and finer. */
const efforts = [{ most: 2000, same: 1 / 16 }, { most: 12_000, same: 1 / 64 }] as const;
/** Of those that differ in the average alone, always so many. */
const fewest = 3;

/** A packet that never left: bits of its fate. */
interface Step { readonly seq: number; readonly fate: number; readonly before: Step | null }

class History {
  readonly red = new RedVars();

  /**
   * @param waiting arrivals that are still to be taken out, by flow, the oldest first: how many that will leave came before each, which is all that tells them apart; no list is changed
   * @param waits their number
   * @param off by how much its counters were less than a sample's that came shortly before
   */
  constructor(readonly waiting: readonly (readonly number[])[], readonly waits: number, readonly matched: number, readonly dropped: number, public off: number, qavg: number, readonly last: Step | null) {
    this.red.qavg = qavg;
  }
  /** Of its oldest arrival that is still to be taken out. */
  get oldest(): number { return Math.min(...this.waiting.map(([first]) => first ?? Infinity)); }
}

/**
 * Adds MATCHED and TAKEN to the fates of packets that never left.
 * @param untilNs arrivals after it are not looked at
 * @returns `lost`: nothing was found, but not all was followed; `none`: nothing fits the record
 */
export async function findMatches(source: EventSource, samples: QueueSamples, fates: KernelFates, choke: ChokeParams, untilNs: number): Promise<'found' | 'lost' | 'none'> {
  for (const effort of efforts) {
    const found = await follow(source, samples, fates, choke, untilNs, effort);
    if (found === null) return 'none';
    if (found === 'lost') continue;
    for (let step = found.last; step !== null; step = step.before) fates.fates.set(step.seq, step.fate);
    return 'found';
  }
  return 'lost';
}

/** @returns the likeliest history; null: there is none */
async function follow(source: EventSource, samples: QueueSamples, { fates, decided }: KernelFates, choke: ChokeParams, untilNs: number, { most, same }: (typeof efforts)[number]): Promise<History | 'lost' | null> {
  const { red, limit } = choke;
  let complete = true;
  const [matchedAt, earlyAt, pdropAt] = ['matched', 'early', 'pdrop'].map((name) => samples.columns.indexOf(name)) as [number, number, number]; // as many as there are names
  const counters = samples.rows.map((row) => ({ tNs: row[0]!, matched: row[matchedAt]!, dropped: row[earlyAt]! + row[pdropAt]! }));
  const numbers = new Map<number, number>();
  const pending = new PendingByKey();
  let histories: History[] = [new History([], 0, 0, 0, 0, 0, null)];
  /** Of those that will leave, how many came and went; samples whose time has come, and those that show nothing that may still happen. */
  let came = 0, gone = 0, reached = 0, passed = 0, seq = 0;
  events: for await (const { count, t, leaving, keyLo, keyHi, flow, forward, ecn } of source.chunks()) {
    for (let i = 0; i < count; i++) {
      const tNs = t[i]!;
      if (tNs > untilNs || seq >= decided || histories.length === 0) break events;
      if (leaving[i] !== 0) {
        let sent = pending.shift(keyLo[i]!, keyHi[i]!);
        while (sent >= 0 && (fates.get(sent) & SENT) === 0) sent = pending.shift(keyLo[i]!, keyHi[i]!);
        if (sent < 0) continue;
        gone++;
        if (histories.some((history) => history.waits > 0)) histories = histories.filter((history) => history.waits === 0 || history.oldest >= gone);
        continue;
      }
      const arrival = seq++;
      pending.push(keyLo[i]!, keyHi[i]!, arrival);
      for (const history of histories) history.red.arrive(red, came - gone + history.waits, tNs);
      const fate = fates.get(arrival);
      if ((fate & SENT) !== 0) {
        const marked = (fate & MARKED) !== 0, either = (fate & ARRIVED_CE) !== 0;
        if (!either) histories = histories.filter(({ red: { qavg } }) => (marked ? qavg > red.qthMin : qavg <= red.qthMax));
        came++;
        continue;
      }
      for (; passed < counters.length && counters[passed]!.tNs + laterNs < tNs; passed++) {
        const { matched, dropped } = counters[passed]!;
        histories = histories.filter((history) => history.matched >= matched && history.dropped >= dropped);
      }
      while (reached < counters.length && counters[reached]!.tNs - earlierNs < tNs) reached++;
      const identity = flow[i]! * 2 + forward[i]!;
      if (!numbers.has(identity)) numbers.set(identity, numbers.size);
      const markable = choke.ecn && ecn[i] !== 0;
      const next = counters[reached] ?? { matched: Infinity, dropped: Infinity }, shown = counters[reached - 1];
      const found = new Map<string, Map<number, History>>();
      for (const history of histories) {
        // Its counters are behind a sample of just before: possible, but less likely.
        if (shown !== undefined && tNs - shown.tNs <= laterNs) history.off += Math.max(0, shown.matched - history.matched) + Math.max(0, shown.dropped - history.dropped);
        const { qavg } = history.red;
        for (const after of followers(history, arrival, came, numbers.get(identity)!, { mayMatch: qavg > red.qthMin, mayDrop: qavg > red.qthMin || came - gone + history.waits >= limit, mayStay: came - gone + history.waits < limit && (markable || qavg <= red.qthMax) })) {
          if (after.matched > next.matched || after.dropped > next.dropped) continue;
          const key = `${after.matched} ${after.dropped} ${after.waiting.map((of) => of.join(',')).join(';')}`;
          let alike = found.get(key);
          if (alike === undefined) found.set(key, alike = new Map<number, History>());
          const average = Math.floor(qavg / red.scale / same);
          const known = alike.get(average);
          if (known !== undefined && known.red.qavg !== qavg) complete = false;
          if (known === undefined || known.off > after.off) alike.set(average, after);
        }
      }
      histories = [...found.values()].flatMap((alike) => [...alike.values()]);
      if (histories.length > most) {
        const groups = [...found.values()].map((alike) => [...alike.values()]);
        const leastOff = (group: readonly History[]): number => group.reduce((least, { off }) => Math.min(least, off), Infinity);
        const kept = groups.length * fewest <= most ? groups : groups.sort((a, b) => leastOff(a) - leastOff(b)).slice(0, most / fewest);
        histories = kept.flatMap((alike) => thinned(alike, Math.max(fewest, Math.floor(most / kept.length))));
        complete = false;
      }
    }
  }
  if (histories.length === 0) return complete ? null : 'lost';
  return histories.reduce((least, one) => (one.off < least.off ? one : least));
}

/** So many of histories that differ in the average alone: the least, the largest, and evenly between. */
function thinned(histories: readonly History[], most: number): readonly History[] {
  if (histories.length <= most) return histories;
  const sorted = [...histories].sort((a, b) => a.red.qavg - b.red.qavg);
  return Array.from({ length: most }, (_, i) => sorted[Math.floor((i * (sorted.length - 1)) / (most - 1))]!);
}

/** What may have become of an arrival that never left. */
function* followers({ waiting, waits, matched, dropped, off, red: { qavg }, last }: History, seq: number, came: number, flow: number, may: { readonly mayMatch: boolean; readonly mayDrop: boolean; readonly mayStay: boolean }): Generator<History> {
  const own = waiting[flow] ?? [];
  const withOwn = (list: readonly number[]): readonly (readonly number[])[] => Array.from({ length: Math.max(waiting.length, flow + 1) }, (_, of) => (of === flow ? list : waiting[of] ?? []));
  if (may.mayMatch && own.length > 0) yield new History(withOwn(own.slice(1)), waits - 1, matched + 1, dropped, off, qavg, { seq, fate: MATCHED, before: last });
  if (may.mayStay) yield new History(withOwn([...own, came]), waits + 1, matched, dropped, off, qavg, { seq, fate: TAKEN, before: last });
  if (may.mayDrop) yield new History(waiting, waits, matched, dropped + 1, off, qavg, last);
}
