/**
 * Several runs of one scenario (seeds × varied values): as many at once as the engine allows, each guest on a core of
 * its own, results independent of how many go on side by side. One failing run does not stop the others.
 */

import * as path from 'node:path';
import type { Plan } from '../plan/plan.js';
import type { Engine } from './engine.js';
import { execute, type ExecuteResult } from './execute.js';
import type { ProgressMeter } from './progress.js';
import { runFolderName } from './run-folder.js';

export interface RunSetOptions {
  readonly plans: readonly Plan[];
  readonly engine: Engine;
  /** The run's own folder when there is one plan, else the set's. */
  readonly topDir: string;
  readonly jobs: number;
  readonly scenario: unknown;
  readonly gitCommit: string | null;
  readonly report: boolean;
  readonly signal: AbortSignal;
  readonly onStart?: (index: number, runDir: string) => void;
  readonly onProgress?: (index: number, meter: ProgressMeter) => void;
  readonly onEnd?: (index: number, result: ExecuteResult) => void;
}

/** @returns one result a plan, in order; null for those never started because of an abort. */
export async function executeSet(options: RunSetOptions): Promise<readonly (ExecuteResult | null)[]> {
  const { plans, engine } = options;
  const results: (ExecuteResult | null)[] = plans.map(() => null);
  const workers = Math.max(1, Math.min(options.jobs, engine.parallel, plans.length));
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < plans.length && !options.signal.aborted) {
      const index = next++;
      const plan = plans[index]!;
      const runDir = plans.length === 1 ? options.topDir : path.join(options.topDir, runFolderName(plan));
      options.onStart?.(index, runDir);
      const result = await execute({
        plan,
        engine,
        runDir,
        scenario: options.scenario,
        gitCommit: options.gitCommit,
        report: options.report,
        besideOthers: workers > 1,
        signal: options.signal,
        onProgress: (meter) => options.onProgress?.(index, meter),
      });
      results[index] = result;
      options.onEnd?.(index, result);
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  return results;
}
