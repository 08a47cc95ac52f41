/** When a discipline's periodic update comes in a run: the record does not show it, so it is found. */

import { JIFFY_NS } from '../../aqm/jiffies.js';
import { differences, type ReplayOutcome, type ReplayRequest } from './decisions.js';
import type { Timer } from './kinds.js';
import type { SampleDifference } from './samples.js';

/** Updates of a timer that may have been late. */
const mostLateTicks = 8;
const clockStep = 256;
/** Traffic that a candidate is tried with, ns. */
const triedNs = 3e9;

/**
 * ns of the run, before the first event. Samples between which the discipline's column changed bracket it, all together
 * closely; inside, where the fewest samples of the first seconds of traffic differ. null: the samples do not show it.
 * @param replay up to a time, with the timer going off first at another
 */
export async function findTimer(replay: (firstNs: number, untilNs: number) => Promise<ReplayOutcome>, timer: Timer, { samples, source, rateBps }: Pick<ReplayRequest, 'source' | 'samples' | 'rateBps'>): Promise<number | null> {
  const { periodNs } = timer;
  let begin = 0;
  for await (const chunk of source.chunks()) { begin = chunk.t[0]!; break; }
  if (timer.column === null) return likeliest(replay, periodNs);
  const column = samples?.columns.indexOf(timer.column) ?? -1;
  if (samples === null || column < 0) return null;
  let reference = NaN;
  const lows: number[] = [], highs: number[] = [];
  for (let i = 1; i < samples.rows.length; i++) {
    const [before, after] = [samples.rows[i - 1]!, samples.rows[i]!];
    // Samples further apart (at the edges of the window alone, say) may have several updates between them.
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
  let best = NaN, least = Infinity;
  // From 512 ns before the latest it can have been: a sample is seldom asked for later than that after its time.
  for (let candidate = high - 2 * clockStep; candidate > low; candidate -= step) {
    const firstNs = Math.round(candidate - back);
    const outcome = await replay(firstNs, begin + triedNs);
    const now = differences(outcome);
    if (now < least) [best, least] = [firstNs, now];
    if (now === 0) break;
  }
  return best;
}

/**
 * Of a timer of jiffies (a run begins with one) that no sample shows: with which the kernel's decisions are likeliest. The others
 * make probabilities that are up to an update too old or too new.
 */
async function likeliest(replay: (firstNs: number, untilNs: number) => Promise<ReplayOutcome>, periodNs: number): Promise<number> {
  let best = 0, most = -Infinity;
  for (let firstNs = 0; firstNs > -periodNs; firstNs -= JIFFY_NS) {
    const outcome = await replay(firstNs, Infinity);
    const likelihood = (outcome.chance?.logLikelihood ?? 0) - 100 * differences(outcome);
    if (likelihood > most) [best, most] = [firstNs, likelihood];
  }
  return best;
}

/** Updates that came after the next events, where taking them so makes the samples agree further; null when that does not bring them to the end. */
export async function findLateTicks(first: SampleDifference, timerNs: number, periodNs: number, replay: (late: ReadonlyMap<number, number>) => Promise<SampleDifference | null>): Promise<ReadonlyMap<number, number> | null> {
  const late = new Map<number, number>();
  let left: SampleDifference | null = first;
  while (left !== null && late.size < mostLateTicks) {
    const at: number = left.tNs;
    const tick = Math.floor((at - timerNs) / periodNs);
    let next: SampleDifference | null | undefined;
    for (let events = 1; events <= 3 && next === undefined; events++) {
      const found = await replay(new Map([...late, [tick, events]]));
      if (found !== null && found.tNs <= at) continue;
      late.set(tick, events);
      next = found;
    }
    if (next === undefined) return null;
    left = next;
  }
  return left === null ? late : null;
}
