/** Whether a run whose status is `running` still goes on: its run.json names the process that runs it, and the machine's boot. */

import { bootId } from '../journal/journal.js';
import { isAlive } from '../journal/processes.js';
import type { RunJson } from './run-json.js';

export type Liveness = 'ended' | 'running' | 'dead' | 'unknown';
export type RunOwner = NonNullable<RunJson['owner']>;

/** `dead`: its status says that it is running, but its process is gone; `unknown`: it does not say whose it is. */
export function liveness(run: Pick<RunJson, 'status' | 'owner'> | null): Liveness {
  if (run?.status !== 'running') return 'ended';
  if (run.owner === undefined) return 'unknown';
  return goesOn(run.owner) ? 'running' : 'dead';
}

export const goesOn = (owner: RunOwner): boolean => owner.bootId === bootId() && isAlive(owner);

/** What is said of a run whose process is gone: it is `incomplete`, as one that was interrupted, though nobody was left to write so. */
export const killed = ({ pid }: RunOwner): { readonly status: 'incomplete'; readonly error: string } =>
  ({ status: 'incomplete', error: `it was killed: its process (${pid}) is gone, and it had not ended` });

/** The run as it is now. */
export const asItIs = (run: RunJson): RunJson => (liveness(run) === 'dead' ? { ...run, ...killed(run.owner!) } : run);
