/**
 * Several runs side by side: those of one scenario (seeds × varied values), or any list. As many at once as the engine allows,
 * each guest on a core of its own, results independent of how many go on side by side. One failing run does not stop the others.
 */

import * as path from 'node:path';
import type { Plan } from '../plan/plan.js';
import type { Engine } from './engine.js';
import { execute, type ExecuteResult } from './execute.js';
import type { ProgressMeter } from './progress.js';
import { runFolderName } from './run-folder.js';

export interface Job {
  /** Read once, when the job starts: a thousand plans need not be in memory at once. */
  readonly plan: Plan;
  readonly engine: Engine;
  /** Made when the job starts. */
  readonly runDir: string;
  readonly scenario: unknown;
  readonly report: boolean;
}

export interface JobsOptions {
  readonly jobs: readonly Job[];
  /** Runs at once. */
  readonly workers: number;
  readonly gitCommit: string | null;
  readonly signal: AbortSignal;
  readonly onStart?: (index: number, runDir: string) => void;
  readonly onProgress?: (index: number, meter: ProgressMeter) => void;
  /** Before the worker takes its next job. */
  readonly onEnd?: (index: number, result: ExecuteResult) => void | Promise<void>;
}

/** @returns one result a job, in order; null for those never started because of an abort. */
export async function executeJobs({ jobs, workers, gitCommit, signal, onStart, onProgress, onEnd }: JobsOptions): Promise<readonly (ExecuteResult | null)[]> {
  const results: (ExecuteResult | null)[] = jobs.map(() => null);
  const sideBySide = Math.max(1, Math.min(workers, jobs.length));
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < jobs.length && !signal.aborted) {
      const index = next++;
      const { plan, engine, runDir, scenario, report } = jobs[index]!;
      onStart?.(index, runDir);
      const result = await execute({
        plan, engine, runDir, scenario, gitCommit, report, signal,
        besideOthers: sideBySide > 1,
        onProgress: (meter) => onProgress?.(index, meter),
      });
      results[index] = result;
      await onEnd?.(index, result);
    }
  };
  await Promise.all(Array.from({ length: sideBySide }, work));
  return results;
}

export interface RunSetOptions extends Omit<JobsOptions, 'jobs' | 'workers'> {
  readonly plans: readonly Plan[];
  readonly engine: Engine;
  /** The run's own folder when there is one plan, else the set's. */
  readonly topDir: string;
  readonly jobs: number;
  readonly scenario: unknown;
  readonly report: boolean;
}

/** The runs of one scenario. @returns as executeJobs */
export function executeSet({ plans, engine, topDir, jobs, scenario, report, ...rest }: RunSetOptions): Promise<readonly (ExecuteResult | null)[]> {
  return executeJobs({
    ...rest,
    workers: Math.min(jobs, engine.parallel),
    jobs: plans.map((plan) => ({ plan, engine, scenario, report, runDir: plans.length === 1 ? topDir : path.join(topDir, runFolderName(plan)) })),
  });
}
