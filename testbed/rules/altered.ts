/** Runs a scenario as `testbed run` does, from Plan to metrics, with the plan altered after it was compiled or the agent replaced: how a test breaks a rule that the compiler keeps. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Machine } from '../machines/machine.js';
import { openMachine, type MachineOptions } from '../machines/registry.js';
import { expandRuns } from '../plan/compile.js';
import type { Plan } from '../plan/plan.js';
import { kernelEngine } from '../run/engine.js';
import { execute, type ExecuteResult } from '../run/execute.js';
import { load } from '../scenario/load.js';
import type { Place } from '../testing/command.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

export const saboteur = fileURLToPath(new URL('./saboteur.js', import.meta.url));

export interface AlteredOptions extends MachineOptions {
  readonly machine?: string;
  /** In place of one by name. */
  readonly opened?: Machine;
  readonly clock?: 'virtual' | 'real';
  /** Told the folder once it is made, before the run. */
  readonly onFolder?: (runDir: string) => void;
  readonly onProgress?: () => void;
  readonly signal?: AbortSignal;
}

/** The first run of a scenario. */
export function compiled(place: Place, text: string, clock: 'virtual' | 'real' = 'virtual'): Plan {
  return expandRuns(load(place.write(`scenario-${Math.random().toString(36).slice(2)}.yaml`, text)), { clock })[0]!.plan;
}

export async function runPlan(place: Place, plan: Plan, { machine = 'uml', opened, clock = 'virtual', onFolder, onProgress, signal = new AbortController().signal, ...options }: AlteredOptions = {}): Promise<ExecuteResult> {
  const runDir = temporaryFolder(`${plan.name}-`, place.folder);
  fs.mkdirSync(path.join(runDir, 'raw'));
  onFolder?.(runDir);
  return execute({
    plan, engine: kernelEngine(opened ?? openMachine(machine, options), clock, 'netns', 1), runDir, scenario: {}, gitCommit: null, report: false, signal,
    ...(onProgress === undefined ? {} : { onProgress }),
  });
}

/** `rule: message` of the findings, worst level first in the name. */
export const told = (result: ExecuteResult): string[] => result.findings.map(({ level, rule, message }) => `${level} ${rule}: ${message}`);
