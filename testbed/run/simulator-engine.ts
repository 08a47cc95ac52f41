/** The simulator as an engine: a run beside others, or a large one, in a worker thread of its own; one alone in this thread, which spares it the start of another. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { Worker } from 'node:worker_threads';
import { setImmediate as turn } from 'node:timers/promises';
import { compiledFile } from '../../kernel/project.js';
import { estimateMemory } from '../../simulator/memory.js';
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
    const outcome = await (request.besideOthers || estimateMemory(request.plan) > mostHereBytes ? simulateInWorker : simulateHere)(request);
    // What the simulator has to say of the run it wrote itself; its progress was told as it went.
    for (const line of agentLines(path.join(request.runDir, 'raw', 'agent.jsonl'))) if (line.type !== 'progress') request.onLine(line);
    return outcome;
  },
});

/** A thread that runs out of memory says so and leaves the others running; this one would take the whole command with it. */
const mostHereBytes = 256 * 2 ** 20;
/** How long this thread simulates before it looks after signals, progress and the loading of what comes next, ms. */
const turnMs = 20;

async function simulateHere({ plan, runDir, signal, onLine }: EngineRequest): Promise<RunOutcome> {
  const { simulateInSteps } = await import('../../simulator/simulate.js');
  try {
    const steps = simulateInSteps(plan, path.join(runDir, 'raw'), { records: recordsAnything(plan) });
    let turned = performance.now();
    for (let step = steps.next(); step.done !== true; step = steps.next()) {
      if (performance.now() - turned < turnMs) continue;
      onLine({ type: 'progress', phase: 'traffic', tNs: step.value });
      await turn();
      turned = performance.now();
      if (!signal.aborted) continue;
      steps.return(undefined as never); // closes the files
      return { status: 'aborted' };
    }
    return { status: 'complete' };
  } catch (error) {
    if (error instanceof UserError) return { status: 'failed', error: error.message };
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    throw failure(message, stack ?? message);
  }
}

/** What is thrown for an error in the simulation: a refusal of the system's, or a bug with where it failed. */
function failure(message: string, stack: string): Error {
  const refused = systemMessage(new Error(message));
  if (refused !== null) return new UserError(refused);
  const bug = new Error(`the simulator failed: ${message}`);
  // Where it failed, not where the failure was told.
  bug.stack = `the simulator failed: ${stack}`;
  return bug;
}

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
        reject(failure(reply.message, reply.stack));
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
