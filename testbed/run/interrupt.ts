/** Ctrl-C and SIGTERM: the first asks the runs to end and keeps what they recorded, the second ends the process at once. */

import { whenOutputCloses } from './closed-output.js';
import { endNow } from './end-now.js';

export interface Interrupt { readonly signal: AbortSignal; release(): void }

/**
 * @param message said at the first signal
 * @param outputIsResult whether what is printed is the result: then the process ends when no one reads it any more
 */
export function interruptible(message = 'Ending the run and keeping what was recorded … (again to stop at once)', outputIsResult = false): Interrupt {
  const controller = new AbortController();
  const onSignal = (): void => {
    if (controller.signal.aborted) endNow(130);
    controller.abort();
    process.stderr.write(`\n${message}\n`);
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal);
  const watchAgain = outputIsResult ? (): void => undefined : whenOutputCloses(() => undefined);
  return {
    signal: controller.signal,
    release: () => {
      watchAgain();
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(name, onSignal);
    },
  };
}
