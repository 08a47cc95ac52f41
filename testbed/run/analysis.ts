/** Analysis of one run: its records to tables and figures, and its report; here, or in a thread of its own beside other runs. */

import { Worker } from 'node:worker_threads';
import { compiledFile } from '../../kernel/project.js';
import { UserError } from '../errors.js';
import { prepareDatabase, sharedDatabase } from '../records/database.js';
import type { Finding } from '../records/raw.js';

/** A report can be of a set's folder, too. */
export interface AnalysisRequest { readonly task: 'tables' | 'report'; readonly runDir: string }
export type AnalysisReply =
  | { readonly type: 'done'; readonly rows: Readonly<Record<string, number>>; readonly findings: readonly Finding[] }
  /** `user`: something a user can mend (a full disk). */
  | { readonly type: 'failed'; readonly user: boolean; readonly message: string; readonly code: string | null };

export type Analysed = Extract<AnalysisReply, { type: 'done' }>;

/** Heavy libraries are loaded when they are needed: a run starts without them. */
export const analyse = (request: AnalysisRequest): Promise<Analysed> => sharedDatabase(() => analyseShared(request));

async function analyseShared({ task, runDir }: AnalysisRequest): Promise<Analysed> {
  if (task === 'report') {
    await (await import('../report/report.js')).writeReport(runDir);
    return { type: 'done', rows: {}, findings: [] };
  }
  const { rows, findings } = await (await import('../records/ingest.js')).ingest(runDir);
  const measured = await (await import('../analysis/metrics.js')).measureRun(runDir);
  return { type: 'done', rows, findings: [...findings, ...measured.findings] };
}

/** Threads without work: one has its libraries loaded and its code compiled, which is half of what a short run's analysis takes. At most as many as runs were analysed at once. */
const idle: Worker[] = [];
/** Loads those libraries, and makes a database, while the engine works elsewhere; what cannot be loaded is said where it is used. */
export function expectAnalysis(report: boolean): void {
  prepareDatabase();
  const loading: Promise<unknown>[] = [import('../records/ingest.js'), import('../analysis/metrics.js')];
  if (report) loading.push(import('../report/report.js'));
  for (const each of loading) each.catch(() => undefined);
}

/** Where the libraries are loaded already. @throws as the one it takes */
export const analyseWarm = (request: AnalysisRequest): Promise<Analysed> => (idle.length > 0 ? analyseInThread : analyse)(request);

/** @throws UserError, or Error with the worker's stack */
export function analyseInThread(request: AnalysisRequest): Promise<Analysed> {
  return new Promise((resolve, reject) => {
    const worker = idle.pop() ?? new Worker(compiledFile('testbed/run/analysis-worker.js'));
    worker.ref();
    const fail = (error: Error): void => { reject(error); };
    worker.once('error', fail);
    worker.once('message', (reply: AnalysisReply) => {
      worker.off('error', fail);
      if (reply.type === 'done') {
        worker.unref(); // does not keep the process alive
        idle.push(worker);
        resolve(reply);
        return;
      }
      void worker.terminate();
      if (reply.user) reject(new UserError(reply.message));
      else reject(Object.assign(new Error(reply.message), reply.code === null ? {} : { code: reply.code }));
    });
    worker.postMessage(request);
  });
}
