/** Who executes a Plan: a kernel on some machine, or the simulator. The rest of a run is the same for all. */

import type { HostsKind, Machine, RunOutcome } from '../machines/machine.js';
import type { Plan } from '../plan/plan.js';
import type { AgentLine } from '../records/raw.js';

export interface EngineRequest {
  readonly plan: Plan;
  /** The run folder, with raw/plan.json in it. */
  readonly runDir: string;
  /** Tag of everything the run creates outside its folder. */
  readonly tag: string;
  /** Other runs of a set go on meanwhile. */
  readonly besideOthers: boolean;
  readonly signal: AbortSignal;
  readonly onLine: (line: AgentLine) => void;
}

export interface Engine {
  /** As in metrics.json and run.json. */
  readonly name: 'kernel' | 'sim';
  /** `local`, `uml:6.12`; the simulator's is `sim`. */
  readonly machine: string;
  readonly clock: 'virtual' | 'real';
  /** How hosts are isolated; absent for the simulator. */
  readonly hosts?: string;
  /** How many runs may go on at once without disturbing each other. */
  readonly parallel: number;
  execute(request: EngineRequest): Promise<RunOutcome>;
}

/** The kernel engine: the Plan on a machine's kernel. */
export const kernelEngine = (machine: Machine, clock: 'virtual' | 'real', hosts: HostsKind, cores: number): Engine => ({
  name: 'kernel',
  machine: machine.info.name,
  clock,
  // In real time two runs would take each other's processor time: one after the other.
  parallel: clock === 'virtual' ? cores : 1,
  hosts,
  execute: (request) => machine.run({ ...request, clock, hosts }),
});
