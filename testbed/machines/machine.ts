/**
 * Whose kernel a Plan runs on. A machine is one file here and one line in registry.ts. It starts the agent
 * (testbed/agent/main.ts, bundled) where that kernel is, with the Plan, and brings raw/ back. How hosts are
 * isolated on the machine (netns, docker) is a separate choice made inside the agent.
 */

import type { Plan } from '../plan/plan.js';
import type { AgentLine } from '../records/raw.js';

export const hostsKinds = ['netns', 'docker'] as const;
export type HostsKind = (typeof hostsKinds)[number];

export interface RunRequest {
  readonly plan: Plan;
  /** The run folder on this host; the machine fills `<runDir>/raw`. It exists, with raw/plan.json in it. */
  readonly runDir: string;
  /** `virtual` only where the machine can. */
  readonly clock: 'virtual' | 'real';
  readonly hosts: HostsKind;
  /** Tag for everything the run creates, `[a-z0-9]{8}`; derived from plan and seed only in virtual time (it must not change results). */
  readonly tag: string;
  readonly signal: AbortSignal;
  /** The core to keep a UML guest on; absent: the machine chooses, another for each run at once. */
  readonly cpu?: number;
  /** Each line of raw/agent.jsonl as it appears. */
  readonly onLine: (line: AgentLine) => void;
}

export interface RunOutcome {
  /** `complete`: the agent went through to its end. `aborted`: by the signal. `failed`: see error. */
  readonly status: 'complete' | 'aborted' | 'failed';
  /** One message for the user: what, where, how to mend it, and the log's path. */
  readonly error?: string;
}

/** What the plan needs and this machine lacks, each with how to get it. Empty: it can run here. */
export interface Missing {
  readonly what: string;
  readonly fix: string;
  /** Where the scenario asks for it: `traffic.long.cc`, as a path. */
  readonly place?: readonly string[];
}

export interface MachineInfo {
  /** `local`, `uml:6.12`, … */
  readonly name: string;
  /** Kernel release; null if it cannot be known before it runs. */
  readonly kernel: string | null;
  readonly clocks: readonly ('virtual' | 'real')[];
  /** A host's own kernel, which is as it is: for the queues and delays it lacks the userspace bottleneck stands in. Absent: another kernel is a name away. */
  readonly givenKernel?: true;
}

export interface Machine {
  readonly info: MachineInfo;
  /** @param hosts how hosts are isolated; `netns` unless told */
  check(plan: Plan, clock: 'virtual' | 'real', hosts?: HostsKind): Promise<readonly Missing[]>;
  run(request: RunRequest): Promise<RunOutcome>;
}
