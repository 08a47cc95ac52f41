/** The simulator as an engine: each run in a worker thread of its own. */

import { Worker } from 'node:worker_threads';
import * as path from 'node:path';
import type { AgentLine } from '../records/raw.js';
import type { Engine } from './engine.js';

/** What simulator/worker.ts sends. */
type WorkerMessage = { readonly type: 'progress'; readonly tNs: number } | { readonly type: 'done' };

export const simulatorEngine = (cores: number): Engine => ({
  name: 'sim',
  machine: 'sim',
  clock: 'virtual',
  parallel: cores,
  execute: ({ plan, runDir, signal, onLine }) =>
    new Promise((resolve, reject) => {
      const worker = new Worker(new URL('../../simulator/worker.js', import.meta.url), {
        workerData: { plan, rawDir: path.join(runDir, 'raw'), records: plan.collect.packets },
      });
      const abort = (): void => { void worker.terminate(); };
      signal.addEventListener('abort', abort, { once: true });
      const end = (): void => signal.removeEventListener('abort', abort);
      worker.on('message', (message: WorkerMessage) => {
        const line: AgentLine = message.type === 'done' ? { type: 'progress', phase: 'done', tNs: plan.warmupNs + plan.durationNs } : { type: 'progress', phase: 'traffic', tNs: message.tNs };
        onLine(line);
      });
      worker.on('error', (error) => { end(); reject(error); });
      worker.on('exit', (code) => { end(); resolve({ status: signal.aborted ? 'aborted' : code === 0 ? 'complete' : 'failed' }); });
    }),
});
