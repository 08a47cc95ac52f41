/** When a discipline's periodic update comes in a run: the record does not show it, so it is found. */

import { JIFFY_NS } from '../../aqm/jiffies.js';
import { clockStep, differences, type ReplayOutcome, type ReplayRequest } from './decisions.js';
import type { Timer } from './kinds.js';
import { samplesReached, search } from './search.js';

/** By how much a probability differs for 256 ns of the delay that one update saw, some times over. */
const finest = 1e-5;
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
 * A timer of jiffies, in a run that begins with one (a whole second of CLOCK_MONOTONIC): a few times to choose from. The right one is where the fewest samples
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
  if (timer.rises) return risen(replay, name!, low - back, high - back, step, begin + triedNs / 5);
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
    const now = await differing(at);
    if (now < least) [least, candidates] = [now, []];
    if (now === least) candidates.push(at);
  }
  let best = (low + high) / 2, fewest = Infinity;
  for (const at of candidates) {
    const found = await bisected(replay, column, Math.max(low, at - step), Math.min(high, at + step), untilNs);
    const now = await differing(found, finest);
    if (now < fewest) [best, fewest] = [found, now];
  }
  // The kernel sets it from a reading of its clock, and it reads the clock when it goes off: steps of it.
  let exact = best;
  fewest = Infinity;
  for (const at of [Math.floor(best / clockStep), Math.ceil(best / clockStep)]) {
    const now = await differing(at * clockStep, 0);
    if (now < fewest) [exact, fewest] = [at * clockStep, now];
  }
  return exact;
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

/** Updates to look back on from a sample that differs: one may leave the probability 0 whenever it comes. */
const furthestUpdates = 12;
/** One interrupt in 100 came a step late in runs of 70 s: no more than twice as many. */
const mostLate = (updates: number): number => Math.max(8, updates / 50);

/**
 * Updates of a timer of ns at which the kernel's clock showed a step more than it was set to: its interrupt comes up to 256 ns and one more late (it is set by its
 * distance from the clock, and itimer_next_event adds one, arch/um/kernel/time.c), and it sets itself again from what it reads. The probability in the next sample shows it
 * exactly. null when that does not bring the samples to agree.
 */
export function findLateReadings(outcome: ReplayOutcome, timerNs: number, periodNs: number, untilNs: number, replay: (late: ReadonlySet<number>) => Promise<ReplayOutcome>): Promise<ReadonlySet<number> | null> {
  const none: ReadonlySet<number> = new Set();
  return search(outcome, none, { choices: mostLate((untilNs - timerNs) / periodNs), replays: Infinity }, samplesReached, function* (left, late) {
    const last = Math.floor((samplesReached(left) - timerNs - late.size * clockStep) / periodNs);
    for (let update = last; update > last - furthestUpdates; update--) if (!late.has(update)) yield new Set([...late, update]);
  }, replay);
}
