/**
 * A worker thread that simulates one plan: for sweeps over cores. In: `{ plan, rawDir, records }`. Out:
 * `{ type: 'progress', tNs }` (about each simulated second), then `{ type: 'done', summary }` or `{ type: 'failed', … }`.
 */

import { parentPort } from 'node:worker_threads';
import { UserError } from '../testbed/errors.js';
import type { Plan } from '../testbed/plan/plan.js';
import { simulate, type SimulationSummary } from './simulate.js';

export interface SimulationRequest { readonly plan: Plan; readonly rawDir: string; readonly records: boolean }
export type SimulationReply =
  | { readonly type: 'progress'; readonly tNs: number }
  | { readonly type: 'done'; readonly summary: SimulationSummary }
  /** The plan is at fault (`user`), which its message says; or the simulator, and then the stack is needed. */
  | { readonly type: 'failed'; readonly message: string; readonly user: true }
  | { readonly type: 'failed'; readonly message: string; readonly user: false; readonly stack: string };

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
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    reply({ type: 'failed', message, ...(error instanceof UserError ? { user: true } : { user: false, stack: stack ?? message }) });
  }
});
