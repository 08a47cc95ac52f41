/** The simulator as an engine: each run in a worker thread of its own. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { Worker } from 'node:worker_threads';
import { compiledFile } from '../../kernel/project.js';
import type { SimulationReply, SimulationRequest } from '../../simulator/worker.js';
import { UserError } from '../errors.js';
import type { RunOutcome } from '../machines/machine.js';
import type { Plan } from '../plan/plan.js';
import type { AgentLine } from '../records/raw.js';
import type { Engine, EngineRequest } from './engine.js';
import { systemMessage } from './system-error.js';

export const simulatorEngine = (cores: number): Engine => ({
  name: 'sim',
  machine: 'sim',
  clock: 'virtual',
  parallel: cores,
  async execute(request) {
    const outcome = await simulateInWorker(request);
    // What the simulator has to say of the run it wrote itself; its progress was told as it went.
    for (const line of agentLines(path.join(request.runDir, 'raw', 'agent.jsonl'))) if (line.type !== 'progress') request.onLine(line);
    return outcome;
  },
});

function simulateInWorker({ plan, runDir, signal, onLine }: EngineRequest): Promise<RunOutcome> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(compiledFile('simulator/worker.js'));
    const end = (outcome: RunOutcome): void => {
      signal.removeEventListener('abort', abort);
      void worker.terminate();
      resolve(outcome);
    };
    const abort = (): void => end({ status: 'aborted' });
    signal.addEventListener('abort', abort, { once: true });
    worker.on('message', (reply: SimulationReply) => {
      if (reply.type === 'progress') onLine({ type: 'progress', phase: 'traffic', tNs: reply.tNs });
      else if (reply.type === 'done') end({ status: 'complete' });
      else if (reply.user) end({ status: 'failed', error: reply.message });
      else {
        signal.removeEventListener('abort', abort);
        void worker.terminate();
        const refused = systemMessage(new Error(reply.message));
        const bug = new Error(`the simulator failed: ${reply.message}`);
        // Where it failed, not where the failure was told.
        bug.stack = `the simulator failed: ${reply.stack}`;
        reject(refused === null ? bug : new UserError(refused));
      }
    });
    worker.on('error', (error) => {
      // A worker that ran out of memory is the plan's size, not a bug.
      if ((error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY') end({ status: 'failed', error: new UserError('the simulation needs more memory than Node allows: fewer flows, a lower rate, or NODE_OPTIONS=--max-old-space-size=8192').message });
      else reject(error);
    });
    const request: SimulationRequest = { plan, rawDir: path.join(runDir, 'raw'), records: recordsAnything(plan) };
    worker.postMessage(request);
  });
}

const recordsAnything = ({ collect }: Plan): boolean => collect.packets || collect.queueIntervalNs !== null || collect.socketIntervalNs !== null;

function agentLines(file: string): AgentLine[] {
  if (!fs.existsSync(file)) return [];
  return fs.readFileSync(file, 'utf8').split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line) as AgentLine];
    } catch {
      return []; // the last line of a run that was cut
    }
  });
}
