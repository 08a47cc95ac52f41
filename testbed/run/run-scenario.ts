/**
 * What `testbed run` and `testbed sim` do: load the scenario, compile its plans, find the engine, run them with
 * progress shown, and end with the table of figures and the scenario's expectations. Exit codes: 0 complete and as expected,
 * 1 a run failed or is invalid, or an expectation does not hold, 2 the scenario is wrong or an expectation could not be
 * judged, 3 the machine lacks something, 130 interrupted.
 */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import pc from 'picocolors';
import { UserError } from '../errors.js';
import { expandRuns } from '../plan/compile.js';
import type { Plan } from '../plan/plan.js';
import type { QueuePlacement } from '../plan/queue-place.js';
import type { HostsKind } from '../machines/machine.js';
import { readRunJson } from '../records/run-json.js';
import { counted, formatVaried } from '../report/format.js';
import { formatTime } from '../units.js';
import type { InfluxSettings } from '../influx/settings.js';
import type { InfluxSink } from '../influx/sink.js';
import { kernelRules } from '../scenario/engine-rules.js';
import { parsePath } from '../scenario/data.js';
import { load } from '../scenario/load.js';
import type { Scenario } from '../scenario/scenario.js';
import { analyseWarm } from './analysis.js';
import { type Engine, kernelEngine } from './engine.js';
import type { ExecuteResult } from './execute.js';
import { interruptible } from './interrupt.js';
import { clockTime } from './progress.js';
import { makeTopFolder, runFolderName } from './run-folder.js';
import { StatusLine } from './status-line.js';
import { executeSet } from './run-set.js';
import { gitCommit } from './git-commit.js';

export interface KernelChoice {
  readonly kind: 'kernel';
  readonly machine: string;
  readonly hosts: HostsKind;
  readonly memoryBytes?: number;
  readonly clock?: 'virtual' | 'real';
  /** Where queues are that the scenario does not place. Absent: the kernel, and for what a host's own kernel lacks the daemon. */
  readonly queues?: QueuePlacement;
}
export type EngineChoice = KernelChoice | { readonly kind: 'sim' };

export interface RunScenarioOptions {
  readonly file: string;
  readonly engine: EngineChoice;
  readonly set: readonly string[];
  readonly out: string;
  readonly seed?: number;
  readonly jobs?: number;
  readonly packets: boolean;
  readonly report: boolean;
  readonly dryRun: boolean;
  /** Where points are sent as they are recorded; absent: nowhere. */
  readonly influx?: InfluxSettings;
}

/** @returns the exit code. @throws UserError */
export async function runScenario(options: RunScenarioOptions): Promise<number> {
  return (await runPrepared(options, await prepare(options, await loadScenario(options)))).code;
}

/** @throws ScenarioError */
export async function loadScenario(options: Pick<RunScenarioOptions, 'file' | 'set' | 'packets' | 'engine'>): Promise<Scenario> {
  const rules = options.engine.kind === 'sim' ? (await import('../../simulator/rules.js')).simulatorRules : kernelRules;
  return load(options.file, { rules, set: options.packets ? options.set : [...options.set, 'collect.packets=false'] });
}

/** A scenario and the engine that is to run it, everything checked and nothing started. */
export interface PreparedSet {
  readonly scenario: Scenario;
  readonly engine: Engine;
  readonly plans: readonly Plan[];
  readonly commit: Promise<string | null>;
}
export interface SetOutcome {
  readonly code: number;
  /** Where the runs are; null when nothing was started. */
  readonly topDir: string | null;
  /** Runs that count. */
  readonly complete: number;
}

/** @throws UserError with what the machine lacks */
export async function prepare(options: RunScenarioOptions, scenario: Scenario): Promise<PreparedSet> {
  const commit = gitCommit(); // git answers meanwhile
  const plansFor: PlansFor = (clock, queues) =>
    expandRuns(scenario, { clock, queues, ...(options.seed === undefined ? {} : { seeds: [options.seed] }) }).map((run) => run.plan);
  const { engine, plans } = await chooseEngine(options.engine, plansFor, scenario);
  if (options.engine.kind === 'sim') {
    const { checkTests } = await import('../../simulator/tests.js');
    for (const plan of plans) checkTests(plan);
  }
  return { scenario, engine, plans, commit };
}

export async function runPrepared(options: RunScenarioOptions, { scenario, engine, plans, commit }: PreparedSet): Promise<SetOutcome> {
  const expects = scenario.variants.some(({ expect = [] }) => expect.length > 0);
  const expectations = expects ? await import('../expect/expectations-json.js') : null;
  const sources = expectations?.prepare(scenario) ?? new Map<string, never>();
  const first = plans[0]!;
  const jobs = options.jobs ?? os.availableParallelism();
  const title = `${first.name}: ${plans.length === 1 ? 'one run' : `${plans.length} runs`} of ${formatTime(first.warmupNs + first.durationNs)} on ${engine.machine} (${engine.clock} time)`;
  if (options.dryRun) {
    process.stdout.write(`${title}\n${plans.map((plan) => `  ${runFolderName(plan)}: ${counted(plan.nodes.length, 'node')}, ${counted(plan.flows.length, 'flow')}, ${counted(plan.probes.length, 'probe')}\n`).join('')}Nothing was started (--dry-run).\n`);
    return { code: 0, topDir: null, complete: 0 };
  }

  const interrupt = interruptible(); // before there is anything to leave behind
  const topDir = makeTopFolder(options.out, first.name, new Date());
  const shown = path.relative(process.cwd(), topDir).startsWith('..') ? topDir : path.relative(process.cwd(), topDir);
  process.stderr.write(`${pc.bold(title)}\n${pc.dim(`→ ${shown}`)}\n`);
  let results: readonly (ExecuteResult | null)[];
  try {
    const status = new StatusLine(process.stderr);
    const sink = options.influx === undefined ? null
      : new (await import('../influx/sink.js')).InfluxSink(options.influx, (message) => { status.line(`${pc.yellow('warning')} influx: ${message}`); });
    let sent: string | null | undefined;
    try {
      results = await runWithProgress(plans, engine, jobs, topDir, scenario, await commit, options.report, interrupt.signal, status, sink);
    } finally {
      sent = await sink?.close(interrupt.signal, (message) => { process.stderr.write(`${pc.dim(message)}\n`); });
    }
    if (typeof sent === 'string') process.stderr.write(`${sent}\n`);
  } finally {
    interrupt.release();
  }

  if (results.every((result) => result === null)) {
    fs.rmSync(topDir, { recursive: true, force: true });
    process.stderr.write('Interrupted before anything was started.\n');
    return { code: 130, topDir: null, complete: 0 };
  }
  if (!fs.existsSync(topDir)) throw new UserError(`${shown} was removed while it was written: nothing is left of it. Run it again.`);
  const complete = results.filter((result) => result?.status === 'complete').length;
  process.stdout.write(`\n${await figures(topDir, plans.length, options.report)}\n`);
  for (const [index, result] of results.entries()) {
    if (result === null || result.status === 'complete') continue;
    const name = plans.length > 1 ? `${path.basename(result.runDir)}: ` : '';
    process.stderr.write(`${pc.red(`${name}${result.status}`)}${result.error ? `: ${withLine(result.error, scenario, plans[index]!)}` : ''}\n`);
    if (result.status === 'invalid') for (const finding of result.findings) if (finding.level === 'invalid') process.stderr.write(`  ${finding.rule}: ${finding.message}\n`);
  }
  for (const line of warnings(results, plans)) process.stderr.write(`${pc.yellow('warning')} ${line}\n`);
  const judged = expectations?.judgeRuns(scenario, engine.name, plans.map((plan, index) => {
    const result = results[index] ?? null;
    return { varied: plan.varied, seed: plan.seed, runDir: result?.runDir ?? '', status: result?.status ?? null, reason: result === null ? null : whyNotComplete(result) };
  }), sources) ?? null;
  if (expectations !== null && judged !== null) {
    expectations.writeExpectations(topDir, judged);
    process.stdout.write(`${expectations.expectationsText(judged)}\n`);
  }
  process.stdout.write(`${options.report && fs.existsSync(path.join(topDir, 'report.html')) ? `report: ${path.join(shown, 'report.html')}` : `results: ${shown}`}\n`);
  if (interrupt.signal.aborted) {
    process.stderr.write('Interrupted: what was recorded is kept, marked incomplete.\n');
    return { code: 130, topDir, complete };
  }
  const met = expectations === null || judged === null ? 0 : expectations.expectationsExitCode(judged.counts);
  return { code: met !== 0 ? met : complete === plans.length ? 0 : 1, topDir, complete };
}

/** In one line, for those who count on the run. */
export const whyNotComplete = ({ status, findings, error }: ExecuteResult): string | null =>
  (status === 'complete' ? null : error ?? findings.find((finding) => finding.level === status)?.message ?? null);

/** Each warning once; of several runs, with how many it is of, and the varied values where it is not of all. */
export function warnings(results: readonly (Pick<ExecuteResult, 'findings'> | null)[], plans: readonly Pick<Plan, 'varied'>[]): string[] {
  const runsOf = new Map<string, number[]>();
  for (const [index, result] of results.entries()) {
    for (const { level, rule, message } of result?.findings ?? []) {
      if (level !== 'warning') continue;
      const text = `${rule}: ${message}`;
      const runs = runsOf.get(text) ?? [];
      if (runs.at(-1) !== index) runs.push(index);
      runsOf.set(text, runs);
    }
  }
  return [...runsOf].map(([text, runs]) => {
    if (plans.length === 1) return text;
    if (runs.length === plans.length) return `${text} (in all ${plans.length} runs)`;
    const varied = [...new Set(runs.map((index) => formatVaried(plans[index]!.varied)))].filter((values) => values !== '');
    return `${text} (in ${runs.length} of ${plans.length} runs${varied.length > 0 && varied.length <= 3 ? `: ${varied.join('; ')}` : ''})`;
  });
}

/** An error that ends with the place of the scenario it is about, with file and line there. */
function withLine(error: string, scenario: Scenario, plan: Plan): string {
  const field = /\((topology\.[\w.-]+)\)/.exec(error)?.[1];
  const path = field === undefined ? undefined : parsePath(field);
  return path === undefined ? error : error.replace(`(${field!})`, `(${scenario.where(path, plan.varied).replace(/: $/, '')})`);
}

/** The table for the terminal; a set gets its summary.json and comparison page on the way. */
async function figures(topDir: string, runs: number, report: boolean): Promise<string> {
  const { runTable, summaryTable } = await import('../report/terminal.js');
  if (runs === 1) {
    const { readMetrics } = await import('../analysis/summary.js');
    return runTable(readMetrics(topDir), readRunJson(topDir), false);
  }
  const { summarise } = await import('../analysis/summary.js');
  const summary = await summarise(topDir);
  if (report) await analyseWarm({ task: 'report', runDir: topDir });
  return summaryTable(summary, false);
}

type PlansFor = (clock: 'virtual' | 'real', queues: QueuePlacement) => readonly Plan[];

async function chooseEngine(choice: EngineChoice, plansFor: PlansFor, scenario: Scenario): Promise<{ readonly engine: Engine; readonly plans: readonly Plan[] }> {
  if (choice.kind === 'sim') {
    const { simulatorEngine } = await import('./simulator-engine.js');
    const { memoryProblem } = await import('../../simulator/memory.js');
    const plans = plansFor('virtual', 'kernel');
    for (const plan of plans) {
      const tooLarge = memoryProblem(plan);
      if (tooLarge !== null) throw new UserError(`${scenario.file}: ${plan.name}: ${tooLarge}`, 2);
    }
    return { engine: simulatorEngine(os.availableParallelism()), plans };
  }
  const { chooseMachine } = await import('../machines/registry.js');
  // What a kernel must have does not depend on the clock, so any plan set serves to choose the machine.
  const wantedClock = choice.clock ?? 'virtual';
  const queues = choice.queues ?? 'kernel';
  const wanted = plansFor(wantedClock, queues);
  await tryLayouts(wanted);
  const { machine, clock, notLocal, stoodInFor } = await chooseMachine(choice.machine, wanted, choice.clock, {
    hosts: choice.hosts, locate: (place, plan) => scenario.where(place, plan.varied), ...(choice.memoryBytes === undefined ? {} : { memoryBytes: choice.memoryBytes }),
    ...(choice.queues === undefined ? { standIn: () => plansFor(wantedClock, 'daemon') } : {}),
  });
  if (choice.machine === 'auto' && notLocal.length > 0) {
    process.stderr.write(pc.dim(`Not on this host's own kernel, which lacks ${notLocal.map(({ what }) => what).join(', ')}.`) + '\n');
  }
  if (stoodInFor.length > 0) {
    process.stderr.write(`${pc.yellow('in user space')}: queues and delays come from the daemon, as ${machine.info.name} lacks ${stoodInFor.map(({ what }) => what).join(', ')}\n`);
  }
  const used = stoodInFor.length > 0 ? 'daemon' : queues;
  const plans = clock === wantedClock && used === queues ? wanted : plansFor(clock, used);
  if (used !== queues) await tryLayouts(plans);
  return { engine: kernelEngine(machine, clock, choice.hosts, os.availableParallelism()), plans };
}

/** What cannot be set up is found now: parameters that contradict each other, queues only the simulator has. @throws UserError */
async function tryLayouts(plans: readonly Plan[]): Promise<void> {
  const { layoutOf } = await import('../network/steps.js');
  for (const plan of plans) {
    try {
      layoutOf(plan);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      throw new UserError(`${plan.name}${Object.keys(plan.varied).length > 0 ? ` (${Object.entries(plan.varied).map(([key, value]) => `${key} ${value}`).join(', ')})` : ''}: ${error.message}`, 2);
    }
  }
}

async function runWithProgress(plans: readonly Plan[], engine: Engine, jobs: number, topDir: string, scenario: unknown, commit: string | null, report: boolean, signal: AbortSignal, status: StatusLine, sink: InfluxSink | null): Promise<readonly (ExecuteResult | null)[]> {
  const title = (plan: Plan): string => [...Object.entries(plan.varied).map(([key, value]) => `${key.split('.').at(-1)} ${value}`), `seed ${plan.seed}`].join(', ');
  const fractions: number[] = plans.map(() => 0);
  const active = new Map<number, string>();
  const startedMs: number[] = plans.map(() => 0);
  const beganMs = performance.now();
  let done = 0;
  const show = (): void => {
    const fraction = fractions.reduce((sum, value) => sum + value, 0) / plans.length;
    const spentS = (performance.now() - beganMs) / 1000;
    const left = fraction > 0.02 && fraction < 1 ? `${clockTime((spentS / fraction) * (1 - fraction))} left` : null;
    status.set([plans.length > 1 ? `${done} of ${plans.length} done` : null, ...[...active].map(([index, text]) => (plans.length > 1 ? `${title(plans[index]!)}: ${text}` : text)), left].filter((part) => part !== null).join(' · '));
  };
  const timer = setInterval(show, 1000);
  try {
    return await executeSet({
      plans, engine, topDir, jobs, scenario, gitCommit: commit, report, signal,
      onStart: (index, runDir) => {
        startedMs[index] = performance.now();
        active.set(index, 'starting');
        sink?.begin(runDir, engine.clock, engine.machine);
        show();
      },
      onProgress: (index, meter) => {
        const { phase, fraction } = meter.read();
        fractions[index] = fraction;
        active.set(index, phase === 'traffic' ? `${Math.floor(fraction * 100)} %` : phase);
        show();
      },
      onEnd: (index, result) => {
        fractions[index] = 1;
        active.delete(index);
        done += 1;
        sink?.end(result.runDir);
        const wallS = (performance.now() - startedMs[index]!) / 1000;
        status.line(`${result.status === 'complete' ? pc.green('✓') : pc.red('✗')} ${title(plans[index]!)}: ${result.status}, ${wallS.toFixed(1)} s`);
        show();
      },
    });
  } finally {
    clearInterval(timer);
    status.clear();
  }
}
