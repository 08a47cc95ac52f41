/** The thread that sends points while runs go on: at the lowest priority, so that a run in real time does not feel it. */

import * as os from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { RunPoints } from './run-points.js';
import { Sender, type SenderTotals } from './sender.js';
import { type InfluxSettings, targetOf } from './settings.js';

export type SinkRequest =
  /** `settleMs`: as RunPointsOptions; `live`: while it goes on, else at its end. */
  | { readonly type: 'begin'; readonly runDir: string; readonly live: boolean; readonly settleMs: number }
  | { readonly type: 'end'; readonly runDir: string }
  | { readonly type: 'close'; readonly patienceMs?: number; readonly closeMs?: number; readonly briskPerSecond?: number };
export type SinkReply =
  | { readonly type: 'warning'; readonly message: string }
  | { readonly type: 'done'; readonly totals: SenderTotals };

const port = parentPort;
if (port !== null) {
  try {
    os.setPriority(19); // Linux: of this thread alone
  } catch {
    // not allowed: then at the priority of the rest
  }
  const settings = workerData as InfluxSettings;
  const reply = (message: SinkReply): void => { port.postMessage(message); };
  const sender = new Sender(settings, (message) => { reply({ type: 'warning', message }); });
  const atEnd = new Set<string>();
  port.on('message', (request: SinkRequest) => {
    switch (request.type) {
      case 'begin':
        if (request.live) sender.add(new RunPoints(request.runDir, { target: targetOf(settings), settleMs: request.settleMs }));
        else atEnd.add(request.runDir);
        break;
      case 'end':
        if (atEnd.delete(request.runDir)) sender.add(new RunPoints(request.runDir, { target: targetOf(settings) }));
        sender.end(request.runDir);
        break;
      case 'close':
        sender.close(request);
        break;
    }
  });
  void sender.work().then((totals) => { reply({ type: 'done', totals }); });
}
