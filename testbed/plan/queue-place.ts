/**
 * Where a queue of a scenario's links is: in the kernel, or in the userspace bottleneck (daemon/). A scenario may place each
 * with `in:`; those it does not place go where the run wants them, so that one file runs with the kernel's queues and with the daemon's.
 */

import { aqms } from '../../aqm/registry.js';
import { kernelRules, type QueuePlace } from '../scenario/engine-rules.js';
import type { ScenarioQueue } from '../scenario/queue.js';
import type { PlanQueue } from './plan.js';

/** `kernel`: the kernel's where it has the kind; `daemon`: the userspace bottleneck's where that has it. */
export const queuePlacements = ['kernel', 'daemon'] as const;
export type QueuePlacement = (typeof queuePlacements)[number];

/** Access links keep theirs: a sender's TCP waits for the queue of its own device, which no process beside it can stand for. */
export function placed({ keptInKernel, ...queue }: ScenarioQueue, placement: QueuePlacement, at: QueuePlace): PlanQueue {
  if (placement === 'kernel' || keptInKernel === true || queue.in === 'daemon' || !aqms.has(queue.kind)) return queue;
  const moved: PlanQueue = { ...queue, in: 'daemon' };
  return kernelRules.queueProblem(moved, at) === null ? moved : queue;
}
