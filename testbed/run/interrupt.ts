/** Ctrl-C and SIGTERM: the first asks the runs to end and keeps what they recorded, the second ends the process at once. */

import { endNow } from './end-now.js';
import { keepGoing } from './closed-output.js';

export interface Interrupt { readonly signal: AbortSignal; release(): void }

/** @param message said at the first signal */
export function interruptible(message = 'Ending the run and keeping what was recorded … (again to stop at once)'): Interrupt {
  const controller = new AbortController();
  const onSignal = (): void => {
    if (controller.signal.aborted) endNow(130);
    controller.abort();
    process.stderr.write(`\n${message}\n`);
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal);
  const outputMatters = keepGoing();
  return {
    signal: controller.signal,
    release: () => {
      outputMatters();
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(name, onSignal);
    },
  };
}
