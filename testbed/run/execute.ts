/**
 * One run from Plan to report: makes its folder's run.json, lets the engine execute, then ingests, computes the
 * metrics and writes the report. run.json is written first (status `running`) and last; whatever happens in between,
 * what was recorded stays in the folder and the status says what it is worth.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { bootId } from '../journal/journal.js';
import { ownId } from '../journal/processes.js';
import type { RunOutcome } from '../machines/machine.js';
import { planHash } from '../plan/hash.js';
import type { Plan } from '../plan/plan.js';
import type { AgentLine, Finding } from '../records/raw.js';
import { sharedDatabase } from '../records/database.js';
import { readRunJson, type RunJson, type RunStatus, writeRunJson } from '../records/run-json.js';
import { analyse, analyseInThread, expectAnalysis } from './analysis.js';
import { markedWhenCutOff } from './cut-off.js';
import type { Engine } from './engine.js';
import { diskFullMessage, isDiskFull, releaseReserve, reserve } from './full-disk.js';
import { ProgressMeter } from './progress.js';
import { systemMessage } from './system-error.js';

export interface ExecuteOptions {
  readonly plan: Plan;
  readonly engine: Engine;
  /** Made here. */
  readonly runDir: string;
  readonly scenario: unknown;
  readonly gitCommit: string | null;
  readonly report: boolean;
  /** Other runs of a set go on meanwhile: analysis must not hold them up. */
  readonly besideOthers?: boolean;
  readonly signal: AbortSignal;
  readonly onProgress?: (meter: ProgressMeter) => void;
}

export interface ExecuteResult {
  readonly runDir: string;
  readonly status: RunStatus;
  readonly findings: readonly Finding[];
  readonly error: string | null;
}

export async function execute(options: ExecuteOptions): Promise<ExecuteResult> {
  const forget = markedWhenCutOff(options.runDir);
  try {
    return await executeInFolder(options);
  } finally {
    forget();
  }
}

async function executeInFolder(options: ExecuteOptions): Promise<ExecuteResult> {
  const { plan, engine, runDir } = options;
  const raw = path.join(runDir, 'raw');
  fs.mkdirSync(raw, { recursive: true });
  fs.writeFileSync(path.join(raw, 'plan.json'), `${JSON.stringify(plan)}\n`);
  const hash = planHash(plan);
  const started: RunJson = {
    schema: 1,
    name: plan.name,
    planHash: hash,
    engine: engine.name,
    machine: engine.machine,
    clock: engine.clock,
    ...(engine.hosts === undefined ? {} : { hosts: engine.hosts }),
    kernel: null,
    toolVersions: {},
    seed: plan.seed,
    varied: plan.varied,
    gitCommit: options.gitCommit,
    owner: { ...ownId(), bootId: bootId() },
    started: new Date().toISOString(),
    ended: null,
    status: 'running',
    findings: [],
    facts: {},
    counts: {},
    scenario: options.scenario,
  };
  writeRunJson(runDir, started);
  reserve(runDir);

  const findings: Finding[] = [];
  const facts: Record<string, unknown> = {};
  const meter = new ProgressMeter(plan);
  const { signal, release } = whileThere(raw, options.signal);
  // Only where that cannot make anything late.
  if (engine.clock === 'virtual' && options.besideOthers !== true) setImmediate(expectAnalysis, options.report);
  const outcome = await settle(engine, {
    plan, runDir, signal, besideOthers: options.besideOthers ?? false,
    // Names outside the folder derive from the plan in virtual time, so that they cannot change a result; in real time two runs of one plan may be on one machine.
    tag: engine.clock === 'virtual' ? hash.slice(0, 8) : hash.slice(0, 2) + path.basename(runDir).replace(/[^a-z0-9]/g, '').slice(-6).padStart(6, '0'),
    onLine: (line: AgentLine): void => {
      if (line.type === 'finding') findings.push(line);
      else if (line.type === 'facts') Object.assign(facts, line);
      else {
        meter.line(line);
        options.onProgress?.(meter);
      }
    },
  }).finally(release);
  if (!fs.existsSync(raw)) return removed(runDir, started, findings);

  meter.analysing();
  options.onProgress?.(meter);
  return finish({ started, runDir, outcome, findings, facts, report: options.report, besideOthers: options.besideOthers ?? false });
}

export interface FinishRequest {
  readonly runDir: string;
  /** run.json as it was written when the run began. */
  readonly started: RunJson;
  readonly outcome: RunOutcome;
  /** What the agent said. */
  readonly findings: readonly Finding[];
  readonly facts: Readonly<Record<string, unknown>>;
  readonly report: boolean;
  readonly besideOthers: boolean;
}

/** From the records in raw/ to the end of a run: tables, metrics, report, run.json's last word. */
export const finish = (request: FinishRequest): Promise<ExecuteResult> => (request.besideOthers ? finishShared(request) : sharedDatabase(() => finishShared(request)));

async function finishShared({ runDir, started, outcome, findings: told, facts, report, besideOthers }: FinishRequest): Promise<ExecuteResult> {
  const findings = [...told];
  const { kernel, toolVersions, ...others } = facts as { readonly kernel?: string; readonly toolVersions?: Readonly<Record<string, string>> };
  delete (others as { type?: string }).type;
  let error = outcome.error ?? findings.find((finding) => finding.level === 'failed')?.message ?? null;
  let counts: Readonly<Record<string, number>> = {};
  let analysed = false;
  try {
    const { rows, findings: seen } = await (besideOthers ? analyseInThread : analyse)({ task: 'tables', runDir });
    findings.push(...seen);
    counts = rows;
    analysed = true;
  } catch (problem) {
    if (!fs.existsSync(path.join(runDir, 'raw'))) return removed(runDir, started, findings);
    // The records are still in raw/; what cannot be read of a run that failed is no second failure.
    if (outcome.status === 'complete' && !(problem instanceof UserError) && !isDiskFull(problem)) throw problem;
    if (isDiskFull(problem)) error = diskFullMessage(runDir);
    error ??= problem instanceof Error ? problem.message : String(problem);
  }

  if (releaseReserve(runDir) && (outcome.status === 'failed' || !analysed)) error = diskFullMessage(runDir);
  const status: RunStatus =
    outcome.status === 'aborted' ? 'incomplete'
    : outcome.status === 'failed' || !analysed || findings.some((finding) => finding.level === 'failed') ? 'failed'
    : findings.some((finding) => finding.level === 'invalid') ? 'invalid'
    : 'complete';
  const { owner: _owner, ...start } = started;
  const ended: RunJson = {
    ...start,
    kernel: kernel === undefined ? null : { release: kernel },
    toolVersions: toolVersions ?? {},
    facts: others,
    findings: findings.map(({ type: _type, ...finding }) => finding),
    counts,
    status,
    ended: new Date().toISOString(),
    ...(error === null ? {} : { error }),
  };
  try {
    writeRunJson(runDir, ended);
    if (report && analysed) await (besideOthers ? analyseInThread : analyse)({ task: 'report', runDir });
  } catch (problem) {
    if (!fs.existsSync(path.join(runDir, 'raw'))) return removed(runDir, started, findings);
    throw problem;
  }
  return { runDir, status, findings, error };
}

/** How often a run looks whether its folder is still there, ms. */
const lookMs = 1000;

/** Aborted with `signal`, and when the folder is gone: what is recorded after that is lost. */
function whileThere(folder: string, signal: AbortSignal): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const abort = (): void => { controller.abort(); };
  signal.addEventListener('abort', abort);
  if (signal.aborted) abort();
  const timer = setInterval(() => { if (!fs.existsSync(folder)) abort(); }, lookMs);
  return {
    signal: controller.signal,
    release: () => {
      clearInterval(timer);
      signal.removeEventListener('abort', abort);
    },
  };
}

/** The end of a run whose folder, or raw/ in it, was removed while it went on: no records, and what is left of the folder says why. */
function removed(runDir: string, started: RunJson, findings: readonly Finding[]): ExecuteResult {
  const error = `${runDir} was removed, or its raw/ was, while the run went on: nothing can be said of it. Run it again`;
  const { owner: _owner, ...start } = started;
  try {
    releaseReserve(runDir);
    writeRunJson(runDir, { ...start, status: 'failed', ended: new Date().toISOString(), error });
  } catch {
    // The folder itself is gone.
  }
  return { runDir, status: 'failed', findings, error };
}

/** The engine's outcome; an error a user can mend becomes a failed outcome, a bug is recorded in the folder and thrown on. */
async function settle(engine: Engine, request: Parameters<Engine['execute']>[0]): Promise<RunOutcome> {
  try {
    return await engine.execute(request);
  } catch (error) {
    if (error instanceof UserError) return { status: 'failed', error: error.message };
    if (!fs.existsSync(path.join(request.runDir, 'raw'))) return { status: 'failed' }; // removed: that is said where it ends
    const refused = systemMessage(error);
    if (refused !== null) return { status: 'failed', error: refused };
    const run = readRunJson(request.runDir);
    releaseReserve(request.runDir);
    if (run) writeRunJson(request.runDir, { ...run, status: 'failed', ended: new Date().toISOString(), error: String(error) });
    throw error;
  }
}
