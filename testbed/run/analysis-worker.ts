/** A worker thread that analyses one run: its records to tables, figures and, later, the report. Keeps the other runs of a set going meanwhile. */

import { parentPort } from 'node:worker_threads';
import { UserError } from '../errors.js';
import { analyse, type AnalysisReply, type AnalysisRequest } from './analysis.js';

parentPort?.on('message', ({ task, runDir }: AnalysisRequest) => {
  const reply = (message: AnalysisReply): void => parentPort!.postMessage(message);
  analyse({ task, runDir }).then(reply, (error: unknown) => reply({
    type: 'failed', user: error instanceof UserError, message: error instanceof Error ? (error instanceof UserError ? error.message : error.stack ?? error.message) : String(error),
    code: (error as NodeJS.ErrnoException | null)?.code ?? null,
  }));
});
