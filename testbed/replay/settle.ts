/**
 * What a record leaves open, settled by where the replay agrees most: the phase of the kernel's clock, when its timer goes off, which
 * flows share a queue, and decisions within a clock step of their threshold. How much of it was needed is part of the verdict.
 */

import { ETHERNET_HEADER } from '../../aqm/aqm.js';
import { chokeParams } from '../../aqm/choke.js';
import type { Plan } from '../plan/plan.js';
import { findBuckets, type Buckets, type Sharing } from './buckets.js';
import { agrees, clockPeriodNs, differences, replayDecisions, type ReplayOutcome, type ReplayRequest, type SetKeys } from './decisions.js';
import { readSharing } from './hashes.js';
import type { JudgedKind } from './kinds.js';
import { findMatches } from './matches.js';
import { departuresReached, search } from './search.js';
import { apart, findLateReadings, findTimer } from './timer.js';

/** More than this many in a run, and not one in a hundred thousand, are no matter of clock steps. */
const mostUndecidable = (departures: number): number => Math.max(3, departures / 1e5);
/** Queues are made longer before run time 0 than HHF takes to empty its filter (40 ms; seen with traffic from time 0 on). */
const setUpNs = 1e9;
/** Decisions to look back on from a departure that disagrees, and replays in all. */
const furthestBack = 12, mostReplays = 60;
/** Flows that may be put elsewhere than the record alone suggests. */
const mostMoves = 24;

export interface Settled {
  readonly outcome: ReplayOutcome;
  readonly phaseNs: number | null;
  readonly timerNs: number | null;
  readonly undecidable: number;
  readonly lateReadings: number;
  readonly sharing: Sharing | null;
  /** Why a difference may lie in what no record shows; null: it may not. */
  readonly secret: string | null;
}
export type Given = Omit<ReplayRequest, 'keys' | 'placed' | 'phaseNs' | 'startNs' | 'timerLast' | 'nudges' | 'lateReadings' | 'otherwise' | 'stopAtFirst'>;

/** @returns a text: why it cannot be judged */
export async function settle(how: JudgedKind, plan: Plan, given: Given): Promise<Settled | string> {
  if (how.matchesNs !== undefined) {
    const { chance, samples } = given;
    if (chance === null || samples === null || apart(samples) > how.matchesNs) {
      return `without samples every ${how.matchesNs / 1e6} ms the record does not show which packet was dropped as it came and which was taken out of the queue later; run it with collect: { queue: ${how.matchesNs / 1e6}ms }`;
    }
    const found = await findMatches(given.source, samples, chance.fates, chokeParams(given.params, { mtuBytes: given.mtuBytes + ETHERNET_HEADER, rateBps: given.rateBps }), given.untilNs);
    if (found === 'lost') return `which packet was dropped as it came and which was taken out of the queue later was not found: too many were within ${how.matchesNs / 1e6} ms`;
  }
  const placed = given.source.hashed && how.hashed !== undefined;
  let buckets = how.shared === undefined || placed ? null : await findBuckets(given.source, given.untilNs);
  let numbers: readonly number[] = [];
  let { params } = given;
  if (buckets !== null) {
    const room = how.shared!(buckets.flows + 1, params);
    if (room === null) return `${buckets.flows} flows: more than can be given queues of their own`;
    ({ keys: numbers, params } = room);
  }
  let phaseNs = (given.source.monotonicNs ?? 0) % clockPeriodNs;
  const timer = how.timer?.(params) ?? null;
  let request: ReplayRequest = { ...given, params, keys: null, placed, phaseNs, startNs: -setUpNs, timerLast: timer?.jiffies === false, nudges: new Map(), lateReadings: new Set(), otherwise: new Set(), stopAtFirst: null };
  const keysOf = (map: Buckets | null): SetKeys | null => (map === null ? how.apart?.(plan, placed) ?? null : (packet) => {
    const bucket = map.queueOf(packet.flow, packet.forward ? 1 : 0);
    packet.flowHash = numbers[bucket < 0 ? map.flows : bucket]!;
  });
  let together: SetKeys | null = null;
  const replay = (more: Partial<ReplayRequest>, map = buckets): Promise<ReplayOutcome> => replayDecisions({ ...request, keys: together ?? keysOf(map), ...more });

  let timerNs: number | null = null;
  if (timer !== null) {
    timerNs = await findTimer((firstNs, untilNs, tolerance) => replay({
      startNs: firstNs - timer.firstNs, untilNs, ...(tolerance === undefined ? {} : { tolerances: { ...given.tolerances, [timer.column!]: tolerance } }),
    }), timer, given);
    if (timerNs === null) return 'the samples do not show when its timer goes off; sample more often (collect: { queue: 1ms })';
    request = { ...request, startNs: timerNs - timer.firstNs };
  }
  let outcome = await replay({});
  for (const candidate of given.source.monotonicNs === null ? how.clock?.phasesNs ?? [] : []) {
    if (agrees(outcome)) break;
    const other = candidate === phaseNs ? outcome : await replay({ phaseNs: candidate });
    if (differences(other) < differences(outcome)) [phaseNs, outcome] = [candidate, other];
  }
  request = { ...request, phaseNs };

  if (how.together !== undefined && !agrees(outcome)) {
    together = await how.together(given);
    if (together !== null) outcome = await replay({});
  }
  if (buckets !== null && outcome.first !== null) {
    const settled = await settleBuckets(buckets, outcome, (map) => replay({ stopAtFirst: 'departure' }, map));
    if (settled !== null) {
      buckets = settled;
      outcome = await replay({});
    }
  }
  if (outcome.first !== null && (outcome.chance?.taken ?? 0) > 0) {
    const otherwise = await findOtherwise((some) => replay({ otherwise: some, stopAtFirst: 'departure' }));
    if (otherwise !== null) {
      request = { ...request, otherwise };
      outcome = await replay({});
    }
  }
  let undecidable = 0;
  if (how.clock?.stepNs !== undefined && outcome.first !== null) {
    const nudges = await findNudges(outcome, how.clock.stepNs, (some) => replay({ nudges: some, stopAtFirst: 'departure' }));
    if (nudges !== null) {
      request = { ...request, nudges };
      outcome = await replay({});
      undecidable = nudges.size;
    }
  }
  let lateReadings = 0;
  if (timer?.rises === true && outcome.samples?.first) {
    const late = await findLateReadings(outcome, timerNs!, timer.periodNs, given.untilNs, (some) => replay({ lateReadings: some, stopAtFirst: 'sample' }));
    if (late !== null) {
      outcome = await replay({ lateReadings: late });
      lateReadings = late.size;
    }
  }
  return { outcome, phaseNs: how.clock === undefined ? null : phaseNs, timerNs, undecidable, lateReadings, sharing: placed ? await readSharing(given.source, (hash) => how.hashed!(hash, params), given.untilNs) : buckets, secret: how.secret?.(plan, params) ?? null };
}

/** Decisions of which the less likely is the kernel's, as only later departures show; null when that does not bring it to its end. */
async function findOtherwise(replay: (otherwise: ReadonlySet<number>) => Promise<ReplayOutcome>): Promise<ReadonlySet<number> | null> {
  const none: ReadonlySet<number> = new Set();
  return search(await replay(none), none, { choices: Infinity, replays: mostReplays }, departuresReached, function* (left, otherwise) {
    // The latest come first: what they did shows soonest. The decisions before the one that is changed keep their numbers.
    const last = left.chance!.taken - 1;
    for (let number = last; number >= Math.max(0, last - furthestBack); number--) {
      if (!otherwise.has(number)) yield new Set([...otherwise].filter((one) => one < number)).add(number);
    }
  }, replay);
}

/** Departures at which ours is asked a clock step sooner or later; null when that does not bring it to the end. */
function findNudges(outcome: ReplayOutcome, stepNs: number, replay: (nudges: ReadonlyMap<number, number>) => Promise<ReplayOutcome>): Promise<ReadonlyMap<number, number> | null> {
  return search<ReadonlyMap<number, number>>(outcome, new Map(), { choices: mostUndecidable(outcome.departures), replays: Infinity }, departuresReached, function* ({ first }, nudges) {
    for (const nudge of [stepNs, -stepNs]) yield new Map([...nudges, [first!.after, nudge]]);
  }, replay);
}

/** Flows whose queue the record alone does not settle are put where the replay goes on furthest; null when that does not bring it to its end. */
async function settleBuckets(buckets: Buckets, outcome: ReplayOutcome, replay: (map: Buckets) => Promise<ReplayOutcome>): Promise<Buckets | null> {
  let [map, left] = [buckets, outcome];
  for (let moves = 0; left.first !== null && moves < mostMoves; moves++) {
    const { after, ours, kernel } = left.first;
    let best: { readonly map: Buckets; readonly outcome: ReplayOutcome } | null = null;
    for (const packet of [ours, kernel]) {
      if (packet === null) continue;
      for (const other of map.otherPlaces(packet.flow, packet.forward ? 1 : 0)) {
        const tried = await replay(other);
        const reached = tried.first?.after ?? Infinity;
        if (reached > (best === null ? after : best.outcome.first?.after ?? Infinity)) best = { map: other, outcome: tried };
        if (reached === Infinity) return other;
      }
    }
    if (best === null) return null;
    [map, left] = [best.map, best.outcome];
  }
  return left.first === null ? map : null;
}
