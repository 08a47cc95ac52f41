/** When a discipline's periodic update comes in a run: the record does not show it, so it is found. */

import { JIFFY_NS } from '../../aqm/jiffies.js';
import { differences, type ReplayOutcome, type ReplayRequest } from './decisions.js';
import type { Timer } from './kinds.js';
import type { SampleDifference } from './samples.js';

/** Updates of a timer that may have come at another place among the events of their instant, of so many: retransmission timers of many flows go off in the same jiffies as they. */
const mostLateTicks = (ticks: number): number => Math.max(8, ticks / 100);
const clockStep = 256;
/**
 * In place of a number of events. A timer of the kernel's own that goes off in the same softirq (a delayed acknowledgement, a
 * retransmission) may send a packet that is stamped before the update and queued after it.
 */
const BEFORE_ITS_INSTANT = -1;
/** An update and an event so close may be in either order: interrupts of one instant, each of which reads the clock a few times. */
const instantNs = 2_000, justAfterNs = 600;
/** Such updates looked back on from a disagreement, and found in all. */
const furthestTicks = 40, mostHiddenTicks = 8;
/** By how much a probability differs for 256 ns of the delay that one update saw, some times over. */
const finest = 1e-5;
/** And for a part of a packet's time. */
const coarse = 1e-3;
/** Traffic that a candidate is tried with, ns. */
const triedNs = 3e9;

/** @param tolerance by how much the timer's column may differ; absent: as in the verdict */
type Replay = (firstNs: number, untilNs: number, tolerance?: number) => Promise<ReplayOutcome>;
type Record = Pick<ReplayRequest, 'source' | 'samples' | 'rateBps'>;

/**
 * ns of the run, at or before the first event; null: the record does not show it.
 * @param replay up to a time, with the timer going off first at another
 */
export async function findTimer(replay: Replay, timer: Timer, record: Record): Promise<number | null> {
  let begin = 0;
  for await (const chunk of record.source.chunks()) { begin = chunk.t[0]!; break; }
  if (timer.jiffies) {
    const found = await byJiffy(replay, timer, record, begin);
    if (found !== null) return found;
  }
  return bracketed(replay, timer, record, begin);
}

/**
 * A timer of jiffies, in a run that begins with one (all do so far): a few times to choose from. The right one is where the fewest samples
 * differ, or, where those are too far apart to tell, with which the kernel's decisions are likeliest: the others make
 * probabilities that are up to an update too old or too new. null: none fits.
 */
async function byJiffy(replay: Replay, timer: Timer, { samples }: Record, begin: number): Promise<number | null> {
  const shown = timer.column !== null && samples !== null && samples.columns.includes(timer.column) && apart(samples) < timer.periodNs;
  let best: number | null = null, least = Infinity, most = -Infinity;
  for (let firstNs = Math.floor(begin / JIFFY_NS) * JIFFY_NS, i = 0; i < timer.periodNs / JIFFY_NS; i++, firstNs -= JIFFY_NS) {
    const outcome = await replay(firstNs, shown ? begin + triedNs : Infinity);
    const [now, likelihood] = [differences(outcome), outcome.chance?.logLikelihood ?? 0];
    if (now < least || (now === least && likelihood > most)) [best, least, most] = [firstNs, now, likelihood];
  }
  return shown && least > 0 ? null : best;
}

/** Between two samples, ns, mostly. */
export function apart({ rows }: NonNullable<Record['samples']>): number {
  const gaps = rows.slice(1).map((row, i) => row[0]! - rows[i]![0]!).sort((a, b) => a - b);
  return gaps[Math.floor(gaps.length / 2)] ?? Infinity;
}

/** Samples between which the discipline's column changed bracket it, all together closely; inside, where the fewest samples of the first seconds of traffic differ. */
async function bracketed(replay: Replay, timer: Timer, { samples, rateBps }: Record, begin: number): Promise<number | null> {
  const { periodNs, column: name } = timer;
  const column = name === null ? -1 : samples?.columns.indexOf(name) ?? -1;
  if (samples === null || column < 0) return null;
  let reference = NaN;
  const lows: number[] = [], highs: number[] = [];
  for (let i = 1; i < samples.rows.length; i++) {
    const [before, after] = [samples.rows[i - 1]!, samples.rows[i]!];
    // Samples further apart may have several updates between them.
    if (before[column] === after[column] || after[0]! - before[0]! >= periodNs) continue;
    if (Number.isNaN(reference)) reference = after[0]!;
    const shift = Math.round((after[0]! - reference) / periodNs) * periodNs;
    lows.push(before[0]! - shift);
    highs.push(after[0]! - shift);
  }
  if (lows.length === 0) return null;
  // One in a hundred may be an update that came late.
  const rank = Math.floor(lows.length / 100);
  const [low, high] = [lows.sort((a, b) => b - a)[rank]!, highs.sort((a, b) => a - b)[rank]!];
  if (low >= high) return null;
  const back = Math.ceil((low - begin) / periodNs) * periodNs;
  const step = Math.max(clockStep, (1514 * 8e9) / (rateBps ?? 1e9) / 4);
  // Set again from the clock as it is read, so it stands on one of its steps; a step too early is made up for (slips.ts).
  if (timer.rises) return Math.floor(await risen(replay, name!, low - back, high - back, step, begin + triedNs / 5) / clockStep - 1) * clockStep;
  let best = NaN, least = Infinity;
  // From 512 ns before the latest it can have been: a sample is seldom asked for later than that after its time.
  for (let candidate = high - 2 * clockStep; candidate > low; candidate -= step) {
    const firstNs = Math.round(candidate - back);
    const now = differences(await replay(firstNs, begin + triedNs));
    if (now < least) [best, least] = [firstNs, now];
    if (now === 0) break;
  }
  return best;
}

/**
 * The delay that an update saw rises with its time between two departures only, and falls at each, so several times fit one sample: those with which the fewest of the first
 * samples differ, at steps of a part of a packet's time, are halved each for itself.
 */
async function risen(replay: Replay, column: string, low: number, high: number, step: number, untilNs: number): Promise<number> {
  const differing = async (firstNs: number, tolerance?: number): Promise<number> => (await replay(Math.round(firstNs), untilNs, tolerance)).samples?.different ?? 0;
  let least = Infinity, candidates: number[] = [];
  for (let at = low + step / 2; at < high; at += step) {
    const now = await differing(at, coarse);
    if (now < least) [least, candidates] = [now, []];
    if (now === least) candidates.push(at);
  }
  let best = (low + high) / 2, fewest = Infinity;
  for (const at of candidates) {
    const found = await bisected(replay, column, Math.max(low, at - step), Math.min(high, at + step), untilNs);
    const now = await differing(found, finest);
    if (now < fewest) [best, fewest] = [found, now];
  }
  return best;
}

/** The column shows the delay that an update saw to some ns, and is larger the later the update came: halves until none of the first samples differs. */
async function bisected(replay: Replay, column: string, low: number, high: number, untilNs: number): Promise<number> {
  for (let [from, to] = [low, high]; ;) {
    const middle = Math.round((from + to) / 2);
    const first = (await replay(middle, untilNs, 1e-6)).samples?.first ?? null;
    if (first?.column !== column || to - from < 2) return middle;
    if (first.kernel > first.ours) from = middle;
    else to = middle;
  }
}

/** Updates that came after the next events, or before those of their instant, where taking them so makes the samples agree further; null when that does not bring them to the end. */
export async function findLateTicks(first: SampleDifference, timerNs: number, periodNs: number, untilNs: number, replay: (late: ReadonlyMap<number, number>) => Promise<SampleDifference | null>): Promise<ReadonlyMap<number, number> | null> {
  const late = new Map<number, number>();
  let left: SampleDifference | null = first;
  while (left !== null && late.size < mostLateTicks((untilNs - timerNs) / periodNs)) {
    const at: number = left.tNs;
    const tick = Math.floor((at - timerNs) / periodNs);
    let next: SampleDifference | null | undefined;
    for (const events of [1, 2, 3, BEFORE_ITS_INSTANT]) {
      const found = await replay(new Map([...late, [tick, events]]));
      if (found !== null && found.tNs <= at) continue;
      late.set(tick, events);
      next = found;
      break;
    }
    if (next === undefined) return null;
    left = next;
  }
  return left === null ? late : null;
}

/**
 * The same for a probability that is in no sample (fq_pie): it is added up over hundreds of packets of a flow before it decides, so an update in the wrong place shows only
 * seconds later. Of the updates with an event of the flow that disagrees in their instant, latest first, those with which the replay goes on further; null when that does
 * not bring it to its end.
 */
export async function findHiddenTicks(outcome: ReplayOutcome, source: Record['source'], timerNs: number, periodNs: number, replay: (late: ReadonlyMap<number, number>) => Promise<ReplayOutcome>): Promise<ReadonlyMap<number, number> | null> {
  const late = new Map<number, number>();
  let left = outcome;
  while (left.first !== null && late.size < mostHiddenTicks) {
    const { after, tNs, kernel, ours } = left.first;
    const flows = new Set([kernel, ours].flatMap((packet) => (packet === null ? [] : [packet.flow])));
    let next: ReplayOutcome | null = null;
    for (const [tick, events] of await closeTicks(source, flows, timerNs, periodNs, tNs)) {
      if (late.has(tick)) continue;
      const tried = await replay(new Map([...late, [tick, events]]));
      if ((tried.first?.after ?? Infinity) <= after) continue;
      late.set(tick, events);
      next = tried;
      break;
    }
    if (next === null) return null;
    left = next;
  }
  return left.first === null ? late : null;
}

/** Updates before `untilNs` with an event of one of `flows` in their instant, and after how many events they would then come; the latest first. */
async function closeTicks(source: Record['source'], flows: ReadonlySet<number>, timerNs: number, periodNs: number, untilNs: number): Promise<readonly (readonly [number, number])[]> {
  const found: (readonly [number, number])[] = [];
  let current = -1, events = 0;
  for await (const { count, t, flow } of source.chunks()) {
    for (let i = 0; i < count; i++) {
      if (t[i]! > untilNs) return found.reverse().slice(0, furthestTicks);
      const tick = Math.round((t[i]! - timerNs) / periodNs);
      const since = t[i]! - (timerNs + tick * periodNs);
      if (since < -instantNs || since > justAfterNs) continue;
      if (tick !== current) [current, events] = [tick, 0];
      if (since >= 0) events++;
      if (flows.has(flow[i]!)) found.push([tick, since < 0 ? BEFORE_ITS_INSTANT : events]);
    }
  }
  return found.reverse().slice(0, furthestTicks);
}
