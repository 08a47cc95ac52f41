/**
 * A worker thread that simulates one plan: for sweeps over cores. In: `{ plan, rawDir, records }`. Out:
 * `{ type: 'progress', tNs }` (about each simulated second), then `{ type: 'done', summary }` or `{ type: 'failed', message, user }`.
 */

import { parentPort } from 'node:worker_threads';
import { UserError } from '../testbed/errors.js';
import type { Plan } from '../testbed/plan/plan.js';
import { simulate, type SimulationSummary } from './simulate.js';

export interface SimulationRequest { readonly plan: Plan; readonly rawDir: string; readonly records: boolean }
export type SimulationReply =
  | { readonly type: 'progress'; readonly tNs: number }
  | { readonly type: 'done'; readonly summary: SimulationSummary }
  /** `user`: the plan is at fault, not the simulator. */
  | { readonly type: 'failed'; readonly message: string; readonly user: boolean };

parentPort?.on('message', ({ plan, rawDir, records }: SimulationRequest) => {
  const reply = (message: SimulationReply): void => parentPort!.postMessage(message);
  let reported = 0;
  try {
    const summary = simulate(plan, rawDir, {
      records,
      onProgress(tNs) {
        if (tNs - reported < 1e9) return;
        reported = tNs;
        reply({ type: 'progress', tNs });
      },
    });
    reply({ type: 'done', summary });
  } catch (error) {
    reply({ type: 'failed', message: error instanceof Error ? error.message : String(error), user: error instanceof UserError });
  }
});
