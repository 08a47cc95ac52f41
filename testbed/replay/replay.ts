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
import type { Sharing } from './buckets.js';
import { agrees, type ReplayOutcome } from './decisions.js';
import { checkWhole, DamagedRecord, eventsOf, type EventSource } from './events.js';
import { kernelFates } from './fates.js';
import { kinds } from './kinds.js';
import { readQueueSamples, type QueueSamples } from './samples.js';
import { settle, type Settled } from './settle.js';

export const replayName = 'replay.json';

interface Judged {
  readonly bottleneck: string;
  /** The kernel's queue discipline. */
  readonly kind: string;
  readonly params: Readonly<Record<string, number | boolean | string>>;
  readonly shaper: PlanDirection['shaper'];
  /** The discipline of aqm/ that was judged against it: mostly the same. */
  readonly judged: string;
}
export interface NotJudged extends Judged { readonly verdict: 'not judged'; readonly reason: string }
export interface JudgedVerdict extends Judged {
  readonly verdict: 'agree' | 'disagree';
  /** `chance`: some of it is decided by chance, and only the number of such decisions can be judged. */
  readonly method: 'exact' | 'chance';
  readonly from: EventSource['from'];
  /** Departures that agree only when the clock is read a step sooner or later. */
  readonly undecidable: number;
  /** Updates of a timer of ns that the kernel's clock showed to be a step late. */
  readonly lateReadings: number;
  /** Where run time 0 lies in the unit that the discipline counts time in, ns; null where no clock matters. */
  readonly phaseNs: number | null;
  /** When the discipline's timer went off first after run time 0, as found, ns; null where it has none. */
  readonly timerNs: number | null;
  readonly buckets: Sharing & { /** A TCP socket that times out takes a new hash, and perhaps another queue: net.core.txrehash is not 0, and the queue is chosen by it. */ readonly rehash: boolean } | null;
  readonly outcome: ReplayOutcome;
}
export type Verdict = NotJudged | JudgedVerdict;

export interface ReplayResult {
  readonly run: string;
  /** Name of the scenario. */
  readonly scenario: string;
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
  const result: ReplayResult = { run: path.basename(path.resolve(runDir)), scenario: plan.name, machine: run.machine, release: run.kernel?.release ?? null, verdicts, exitCode };
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
  if (direction.shaper === null) return 'without a shaper the qdisc never waits; give the link a rate';
  return null;
}

async function judgeDirection(runDir: string, run: RunJson, plan: Plan, link: PlanLink, direction: PlanDirection, aqms: ReadonlyMap<string, AqmKind>): Promise<Verdict[]> {
  const { kind, params } = direction.queue!;
  const base = { bottleneck: direction.name, kind, params, shaper: direction.shaper };
  const not = (reason: string, judged = kind): Verdict[] => [{ ...base, judged, verdict: 'not judged', reason }];
  const reason = unfit(run, plan, direction);
  if (reason !== null) return not(reason);
  const how = kinds[kind];
  if (how === undefined) return not(`${kind} is not in aqm/`);
  const refused = how.refuse?.(params, direction) ?? null;
  if (refused !== null) return not(refused);
  let source: EventSource | null;
  let samples: QueueSamples | null;
  try {
    source = eventsOf(runDir, direction.name);
    samples = readQueueSamples(runDir, direction.name);
    if (source !== null) await checkWhole(runDir, direction.name, source);
  } catch (error) {
    if (error instanceof DamagedRecord) return not(error.message);
    throw error;
  }
  if (source === null) return not('no packet records; run with collect: { packets: true } and without --no-packets');
  if (source.lost > 0) return not(`the capture lost ${source.lost} packets`);
  const fates = how.chance === undefined ? null : await kernelFates(source, how.chance.fifo, source.hashed && how.hashed !== undefined, plan.warmupNs + plan.durationNs);
  const verdicts: Verdict[] = [];
  for (const one of [{ kind, params }, ...(how.twins?.(params) ?? [])]) {
    const judged = { ...base, judged: one.kind };
    const settled = await settle(how, plan, {
      source, kind: aqms.get(one.kind)!, params: one.params, mtuBytes: link.mtuBytes, rateBps: direction.rateBps, overheadBytes: direction.overheadBytes, samples,
      peeked: direction.shaper === 'tbf' && how.peeks === true, chance: fates === null ? null : { fates, scale: how.chance!.scale },
      tolerances: how.tolerances, untilNs: plan.warmupNs + plan.durationNs,
    });
    verdicts.push(typeof settled === 'string' ? { ...judged, verdict: 'not judged', reason: settled } : verdictOf(judged, settled, source, plan));
  }
  return verdicts;
}

function verdictOf(base: Judged, { outcome, sharing, secret, ...found }: Settled, source: EventSource, plan: Plan): Verdict {
  const verdict = agrees(outcome) ? 'agree' : 'disagree';
  const how = kinds[base.kind]!;
  const strangers = sharing?.from === 'order' ? sharing.strangers : 0;
  const not = (reason: string): Verdict => ({ ...base, verdict: 'not judged', reason });
  if (verdict === 'disagree' && strangers > 0) {
    return not(`${strangers} packets belong to no flow of the plan (iperf3's control connections, say), so their queue is not known, and the replay does not agree with them in one of their own; set "tool: builtin" for the traffic in the scenario`);
  }
  if (verdict === 'disagree' && source.from === 'captures' && source.monotonicNs === null) {
    return not('its packets are stamped 256 ns early or more, as those of all runs in virtual time once were, so events that close may have come in the other order; run it again');
  }
  if (verdict === 'disagree' && secret !== null) return not(`${secret}; without knowing it the replay does not agree`);
  if (outcome.randomNumbers > 0) return not(`ours drew ${outcome.randomNumbers} random numbers`);
  return {
    ...base, verdict, method: outcome.chance === null ? 'exact' : 'chance', from: source.from, ...found, outcome,
    buckets: sharing === null ? null : { from: sharing.from, queues: sharing.queues, collisions: sharing.collisions, strangers: sharing.strangers, moves: sharing.moves, rehash: how.hashed !== undefined && plan.tcp.hostSysctls['net.core.txrehash'] !== '0' },
  };
}
