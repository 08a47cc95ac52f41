/**
 * `testbed replay`: layer 2 of validation. Is every decision of the kernel's queue discipline the one that the discipline
 * of aqm/ makes, given the same arrivals and the same instants of departure? Judges each bottleneck direction of a run
 * and writes replay.json into its folder.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import type { AqmKind } from '../../aqm/aqm.js';
import { aqms as ourAqms } from '../../aqm/registry.js';
import { UserError } from '../errors.js';
import type { Plan, PlanDirection, PlanLink } from '../plan/plan.js';
import { readRunJson, writeJsonAtomically, type RunJson } from '../records/run-json.js';
import { findBuckets, type Buckets } from './buckets.js';
import { kernelFates, originNs, replayByChance, type ChanceOutcome, type ChanceRequest } from './chance.js';
import { eventsOf, type EventSource } from './events.js';
import { replayExactly, type ExactOutcome, type ExactRequest } from './exact.js';
import { kinds, type ChanceKind, type ExactKind } from './kinds.js';
import { readQueueSamples, type SampleDifference } from './samples.js';

export const replayName = 'replay.json';

interface Judged {
  readonly bottleneck: string;
  /** The kernel's queue discipline. */
  readonly kind: string;
  readonly params: Readonly<Record<string, number | boolean | string>>;
  /** The discipline of aqm/ that was judged against it: mostly the same. */
  readonly judged: string;
}
export interface NotJudged extends Judged { readonly verdict: 'not judged'; readonly reason: string }
export interface ExactVerdict extends Judged {
  readonly verdict: 'agree' | 'disagree';
  readonly method: 'exact';
  readonly from: EventSource['from'];
  /** Departures that agree only when the clock is read one step of 1024 ns sooner or later. */
  readonly undecidable: number;
  /** Where run time 0 lies in the 1024 ns of CoDel's clock; null where no clock matters. */
  readonly phaseNs: number | null;
  readonly buckets: { readonly queues: number; readonly collisions: Buckets['collisions']; readonly strangers: number; /** A TCP socket that times out takes a new hash, and perhaps another queue: net.core.txrehash is not 0. */ readonly rehash: boolean } | null;
  readonly outcome: ExactOutcome;
}
export interface ChanceVerdict extends Judged {
  readonly verdict: 'agree' | 'disagree';
  readonly method: 'chance';
  readonly from: EventSource['from'];
  /** When the discipline's timer went off first after run time 0, as found, ns; null where it has none. */
  readonly timerNs: number | null;
  /** Updates that agree only when they come after the events of the next moment: undecidable by the record. */
  readonly lateTicks: number;
  readonly outcome: ChanceOutcome;
}
export type Verdict = NotJudged | ExactVerdict | ChanceVerdict;

export interface ReplayResult {
  readonly run: string;
  readonly machine: string;
  readonly release: string | null;
  readonly verdicts: readonly Verdict[];
  /** 0: all agree. 1: one or more disagree. 2: none disagrees, but not all could be judged. */
  readonly exitCode: 0 | 1 | 2;
}

export interface ReplayOptions {
  /** Only this direction. */
  readonly bottleneck?: string;
  /** Disciplines to judge instead of aqm/'s, by kind. */
  readonly aqms?: ReadonlyMap<string, AqmKind>;
  /** Do not write replay.json. */
  readonly keep?: boolean;
}

/** Of 99.9 % of runs, and of 99.995 %: two-sided quantiles of the normal distribution. */
export const zLimit = 3.29, decileZLimit = 4.06;
/** More than this many in a run, and not one in a hundred thousand, are no matter of clock steps. */
const mostUndecidable = (departures: number): number => Math.max(3, departures / 1e5);
/** Flows that may be put elsewhere than the record alone suggests. */
const mostMoves = 24;
/** Updates of a timer that may have been late. */
const mostLateTicks = 8;
const codelTick = 1024, clockStep = 256;

/** @throws UserError when the run is unknown to it, or has no such bottleneck */
export async function replayRun(runDir: string, options: ReplayOptions = {}): Promise<ReplayResult> {
  const run = readRunJson(runDir);
  if (run === null) throw new UserError(`${runDir}: no run.json of this version there; name the folder of a run`, 2);
  const plan = readPlan(runDir);
  const directions = plan.links.filter(({ role }) => role === 'bottleneck').flatMap((link) => [link.forward, link.reverse].filter(({ queue }) => queue !== null).map((direction) => ({ link, direction })));
  const wanted = options.bottleneck === undefined ? directions : directions.filter(({ direction }) => direction.name === options.bottleneck);
  if (wanted.length === 0) {
    throw new UserError(options.bottleneck === undefined ? `${runDir}: no bottleneck of this run has a queue` : `no bottleneck ${options.bottleneck} with a queue in this run; there are ${directions.map(({ direction }) => direction.name).join(', ')}`, 2);
  }
  const verdicts: Verdict[] = [];
  for (const { link, direction } of wanted) verdicts.push(...await judgeDirection(runDir, run, plan, link, direction, options.aqms ?? ourAqms));
  const exitCode = verdicts.some(({ verdict }) => verdict === 'disagree') ? 1 : verdicts.some(({ verdict }) => verdict === 'not judged') ? 2 : 0;
  const result: ReplayResult = { run: path.basename(path.resolve(runDir)), machine: run.machine, release: run.kernel?.release ?? null, verdicts, exitCode };
  if (options.keep !== false) writeJsonAtomically(path.join(runDir, replayName), result);
  return result;
}

function readPlan(runDir: string): Plan {
  try {
    return JSON.parse(fs.readFileSync(path.join(runDir, 'raw', 'plan.json'), 'utf8')) as Plan;
  } catch (error) {
    throw new UserError(`${runDir}: cannot read raw/plan.json (${error instanceof Error ? error.message : String(error)}); the replay needs the run's raw/ folder`, 2);
  }
}

/** What makes a run's figures worthless but not its packet records: what flows and wires did is all the same to a queue. */
const harmless: ReadonlySet<string> = new Set(['ecn', 'netem-dropped']);

/** Why nothing can be said, or null. */
function unfit(run: RunJson, plan: Plan, direction: PlanDirection): string | null {
  const queue = direction.queue!;
  if (run.engine === 'sim') return 'a run of the simulator: its queue is that of aqm/ already; replay a run of a kernel (testbed run)';
  if (run.clock !== 'virtual') return 'a run in real time: the record does not show the instants at which the kernel decided; run it with --machine uml --clock virtual';
  const damage = run.findings.find(({ level, rule }) => level !== 'warning' && !harmless.has(rule));
  if (run.status !== 'complete' && !(run.status === 'invalid' && damage === undefined)) return `the run is ${run.status}: its records may not show what its queue did${damage === undefined ? '' : ` (${damage.message})`}; run it again`;
  if (queue.in !== 'kernel') return 'the queue was no qdisc of the kernel';
  if (queue.kind === 'raw') return "a queue in tc's own words: its parameters are not known here; name the discipline in the scenario";
  if (plan.events.some((event) => event.direction === direction.name && event.set.queue !== undefined)) return 'an event changes the queue while it runs, which the kernel does in place; leave the event out';
  if (direction.shaper !== 'htb') return `under ${direction.shaper ?? 'no shaper'} the qdisc is not asked at the instants of departure (TBF peeks earlier); use shaper: htb`;
  return null;
}

async function judgeDirection(runDir: string, run: RunJson, plan: Plan, link: PlanLink, direction: PlanDirection, aqms: ReadonlyMap<string, AqmKind>): Promise<Verdict[]> {
  const { kind, params } = direction.queue!;
  const base = { bottleneck: direction.name, kind, params };
  const not = (reason: string, judged = kind): Verdict[] => [{ ...base, judged, verdict: 'not judged', reason }];
  const reason = unfit(run, plan, direction);
  if (reason !== null) return not(reason);
  const how = kinds[kind];
  if (how === undefined) return not(`${kind} is not in aqm/`);
  if (how.method === 'none') return not(how.why);
  const refused = how.refuse?.(params) ?? null;
  if (refused !== null) return not(refused);
  const source = eventsOf(runDir, direction.name);
  if (source === null) return not('no packet records; run with collect: { packets: true } and without --no-packets');
  if (source.lost > 0) return not(`the capture lost ${source.lost} packets`);
  const samples = readQueueSamples(runDir, direction.name);
  const untilNs = plan.warmupNs + plan.durationNs;
  const common = { source, mtuBytes: link.mtuBytes, rateBps: direction.rateBps, overheadBytes: direction.overheadBytes, samples, untilNs };
  if (how.method === 'chance') return [await judgeByChance({ ...base, judged: kind }, how, { ...common, kind: aqms.get(kind)!, params, steer: how.steer, tolerances: how.tolerances })];
  const verdicts: Verdict[] = [];
  const judged = [{ kind, params }, ...(how.twins?.(params) ?? [])];
  for (const one of judged) verdicts.push(await judgeExactly({ ...base, judged: one.kind }, how, plan.tcp.hostSysctls['net.core.txrehash'] !== '0', { ...common, kind: aqms.get(one.kind)!, params: one.params, tolerances: how.tolerances }));
  return verdicts;
}

async function judgeExactly(base: Judged, how: ExactKind, rehash: boolean, given: Omit<ExactRequest, 'flowHash' | 'phaseNs' | 'nudges' | 'stopAtFirst'>): Promise<Verdict> {
  let buckets = how.keys === undefined ? null : await findBuckets(given.source, given.untilNs);
  let keys: readonly number[] = [];
  if (buckets !== null) {
    const room = how.keys!(buckets.flows + 1, given.params);
    if (room === null) return { ...base, verdict: 'not judged', reason: `${buckets.flows} flows: more than can be given queues of their own` };
    keys = room.keys;
    given = { ...given, params: room.params };
  }
  const hashBy = (map: Buckets | null): ExactRequest['flowHash'] => (map === null ? () => 0 : (flow, forward) => {
    const bucket = map.queueOf(flow, forward);
    return keys[bucket < 0 ? map.flows : bucket]!;
  });
  const replay = (phaseNs: number, nudges: ReadonlyMap<number, number>, stopAtFirst: boolean, map = buckets): Promise<ExactOutcome> => replayExactly({ ...given, flowHash: hashBy(map), phaseNs, nudges, stopAtFirst });
  const none = new Map<number, number>();
  let phaseNs = 0;
  let outcome = await replay(phaseNs, none, false);
  if (how.clock) {
    // The virtual clock steps by 256 ns: four places. The right one is where the most agrees.
    for (const candidate of [1, 2, 3].map((steps) => steps * clockStep)) {
      if (agrees(outcome)) break;
      const other = await replay(candidate, none, false);
      if (distance(other) < distance(outcome)) [phaseNs, outcome] = [candidate, other];
    }
  }
  if (buckets !== null && outcome.first !== null) {
    const settled = await settleBuckets(buckets, outcome, (map) => replay(phaseNs, none, true, map));
    if (settled !== null) {
      buckets = settled;
      outcome = await replay(phaseNs, none, false);
    }
  }
  let undecidable = 0;
  if (how.clock && outcome.first !== null) {
    const nudges = new Map<number, number>();
    let left = outcome;
    while (left.first !== null && nudges.size < mostUndecidable(outcome.departures)) {
      const at = left.first.after;
      let best: ExactOutcome | null = null;
      for (const nudge of [codelTick, -codelTick]) {
        const tried = await replay(phaseNs, new Map([...nudges, [at, nudge]]), true);
        if (tried.first === null || tried.first.after > at) {
          nudges.set(at, nudge);
          best = tried;
          break;
        }
      }
      if (best === null) break;
      left = best;
    }
    if (left.first === null) {
      outcome = await replay(phaseNs, nudges, false);
      undecidable = nudges.size;
    }
  }
  const verdict = agrees(outcome) ? 'agree' : 'disagree';
  const strangers = buckets?.strangers ?? 0;
  if (verdict === 'disagree' && strangers > 0) {
    return { ...base, verdict: 'not judged', reason: `${strangers} packets belong to no flow of the plan (iperf3's control connections, say), so their queue is not known, and the replay does not agree with them in one of their own; set "tool: builtin" for the traffic in the scenario` };
  }
  if (outcome.randomNumbers > 0) return { ...base, verdict: 'not judged', reason: `ours drew ${outcome.randomNumbers} random numbers` };
  return {
    ...base, verdict, method: 'exact', from: given.source.from, undecidable, phaseNs: how.clock ? phaseNs : null, outcome,
    buckets: buckets === null ? null : { queues: buckets.queues, collisions: buckets.collisions, strangers, rehash },
  };
}

/** Flows whose queue the record alone does not settle are put where the replay goes on furthest; null when that does not bring it to its end. */
async function settleBuckets(buckets: Buckets, outcome: ExactOutcome, replay: (map: Buckets) => Promise<ExactOutcome>): Promise<Buckets | null> {
  let [map, left] = [buckets, outcome];
  for (let moves = 0; left.first !== null && moves < mostMoves; moves++) {
    const { after, ours, kernel } = left.first;
    let best: { readonly map: Buckets; readonly outcome: ExactOutcome } | null = null;
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

const distance = (outcome: ExactOutcome): number => outcome.differentDepartures + outcome.differentFates + outcome.differentMarks + (outcome.samples?.different ?? 0);
const agrees = (outcome: ExactOutcome): boolean => distance(outcome) === 0;

async function judgeByChance(base: Judged, how: ChanceKind, given: Omit<ChanceRequest, 'startNs' | 'fates' | 'lateTicks'>): Promise<Verdict> {
  const fates = await kernelFates(given.source);
  const timer = how.timer?.(given.params) ?? null;
  let timerNs: number | null = null;
  let request: ChanceRequest = { ...given, fates, startNs: originNs, lateTicks: new Map() };
  if (timer !== null) {
    const at = (firstNs: number): ChanceRequest => ({ ...request, startNs: originNs + firstNs - timer.firstNs });
    timerNs = await findTimer(at, timer.periodNs, given);
    if (timerNs === null) return { ...base, verdict: 'not judged', reason: 'the samples do not show when its timer goes off; sample more often (collect: { queue: 1ms })' };
    request = at(timerNs);
  }
  let outcome = await replayByChance(request);
  let lateTicks = 0;
  if (timer !== null && timerNs !== null && outcome.samples?.first) {
    const late = await findLateTicks(request, outcome, timerNs, timer.periodNs);
    if (late !== null) {
      outcome = await replayByChance({ ...request, lateTicks: late });
      lateTicks = late.size;
    }
  }
  const agree = outcome.different === 0 && (outcome.samples?.different ?? 0) === 0 && Math.abs(outcome.z) <= zLimit && Math.abs(outcome.worstDecileZ) <= decileZLimit;
  return { ...base, verdict: agree ? 'agree' : 'disagree', method: 'chance', from: given.source.from, timerNs, lateTicks, outcome };
}

/**
 * When the kernel's timer goes off, ns of the run, before the first event: samples between which the probability changed
 * bracket it, all together closely; inside, where the fewest samples of the first seconds of traffic differ.
 */
async function findTimer(at: (firstNs: number) => ChanceRequest, periodNs: number, { samples, source, rateBps }: Pick<ChanceRequest, 'source' | 'samples' | 'rateBps'>): Promise<number | null> {
  const column = samples?.columns.indexOf('prob') ?? -1;
  if (samples === null || column < 0) return null;
  let begin = 0;
  for await (const chunk of source.chunks()) { begin = chunk.t[0]!; break; }
  let reference = NaN;
  const lows: number[] = [], highs: number[] = [];
  for (let i = 1; i < samples.rows.length; i++) {
    const [before, after] = [samples.rows[i - 1]!, samples.rows[i]!];
    if (before[column] === after[column]) continue;
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
    const { samples: judged, different } = await replayByChance({ ...at(Math.round(candidate - back)), untilNs: begin + 3e9 });
    const now = (judged?.different ?? 0) + different;
    if (now < least) [best, least] = [Math.round(candidate - back), now];
    if (now === 0) break;
  }
  return best;
}

/** Updates that came after the next events, where taking them so makes the samples agree further; null when that does not bring them to the end. */
async function findLateTicks(request: ChanceRequest, outcome: ChanceOutcome, timerNs: number, periodNs: number): Promise<Map<number, number> | null> {
  const late = new Map<number, number>();
  let first: SampleDifference | null = outcome.samples!.first;
  while (first !== null && late.size < mostLateTicks) {
    const at = first.tNs;
    const tick = Math.floor((at - timerNs) / periodNs);
    let next: SampleDifference | null | undefined;
    for (let events = 1; events <= 3 && next === undefined; events++) {
      const tried = await replayByChance({ ...request, lateTicks: new Map([...late, [tick, events]]) });
      const found = tried.samples?.first ?? null;
      if (found !== null && found.tNs <= at) continue;
      late.set(tick, events);
      next = found;
    }
    if (next === undefined) return null;
    first = next;
  }
  return first === null ? late : null;
}
