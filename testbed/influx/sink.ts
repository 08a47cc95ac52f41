/**
 * `--influx` of a command: tells the sending thread which runs begin and end, and waits for it at the end, not for ever. Nothing
 * that happens there can slow or fail a run.
 */

import { Worker } from 'node:worker_threads';
import { compiledFile } from '../../kernel/project.js';
import type { SenderTotals } from './sender.js';
import { type InfluxSettings, redact, targetOf } from './settings.js';
import type { SinkReply, SinkRequest } from './worker.js';

/** A UML guest writes its files back each second (agent/run.ts); a multiple of that. */
const umlSettleMs = 4000;

export class InfluxSink {
  private readonly worker: Worker;
  private readonly done: Promise<SenderTotals | null>;

  /** @param onWarning called once at most */
  constructor(private readonly settings: InfluxSettings, onWarning: (message: string) => void) {
    this.worker = new Worker(compiledFile('testbed/influx/worker.js'), { workerData: settings });
    let warned = false;
    const warn = (message: string): void => {
      if (!warned) onWarning(message);
      warned = true;
    };
    this.done = new Promise((resolve) => {
      this.worker.on('message', (reply: SinkReply) => {
        if (reply.type === 'done') resolve(reply.totals);
        else warn(`${reply.message}. What is not sent stays in the run's folder; send it later with: testbed export RUN --format influx`);
      });
      // A fault of ours, or of a disk: the run has nothing to do with it.
      this.worker.on('error', (error) => {
        warn(redact(`sending to InfluxDB ended: ${error.message}. The records are in the run's folder; send them with: testbed export RUN --format influx`, settings));
        resolve(null);
      });
      this.worker.on('exit', () => { resolve(null); });
    });
  }

  /** @param clock of a run in virtual time the points are sent when it ends. @param machine as Engine.machine; of a remote one the records come at the end, and are checked then */
  begin(runDir: string, clock: 'virtual' | 'real', machine: string): void {
    this.tell({ type: 'begin', runDir, live: clock === 'real' && !machine.startsWith('ssh:'), settleMs: machine.startsWith('uml') ? umlSettleMs : 0 });
  }

  /** The run's records are whole, and its figures computed. */
  end(runDir: string): void {
    this.tell({ type: 'end', runDir });
  }

  /**
   * @param signal the user is in a hurry
   * @param onWaiting called when it takes a while
   * @returns a line for the user; null when the warning said it all
   */
  async close(signal: AbortSignal, onWaiting: (message: string) => void): Promise<string | null> {
    const hurry = (): void => { this.tell({ type: 'close', patienceMs: 0, closeMs: 5000, briskPerSecond: Infinity }); };
    if (signal.aborted) hurry();
    else this.tell({ type: 'close' });
    signal.addEventListener('abort', hurry);
    const waiting = setTimeout(() => { onWaiting('influx: the last points are being sent … (Ctrl-C leaves them in the run folders)'); }, 3000);
    try {
      const totals = await this.done;
      if (totals === null) return null;
      return `influx: ${totals.sent} points sent to ${targetOf(this.settings)}${totals.pending > 0 ? `, ${totals.pending} left in ${totals.left.length === 1 ? totals.left[0]! : `${totals.left.length} run folders`}` : ''}`;
    } finally {
      clearTimeout(waiting);
      signal.removeEventListener('abort', hurry);
      await this.worker.terminate();
    }
  }

  private tell(request: SinkRequest): void {
    this.worker.postMessage(request);
  }
}
