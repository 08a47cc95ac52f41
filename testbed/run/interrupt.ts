/** Ctrl-C and SIGTERM: the first asks the runs to end and keeps what they recorded, the second ends the process at once. */

export interface Interrupt { readonly signal: AbortSignal; release(): void }

/** @param message said at the first signal */
export function interruptible(message = 'Ending the run and keeping what was recorded … (again to stop at once)'): Interrupt {
  const controller = new AbortController();
  const onSignal = (): void => {
    if (controller.signal.aborted) process.exit(130);
    process.stderr.write(`\n${message}\n`);
    controller.abort();
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal);
  return {
    signal: controller.signal,
    release: () => { for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(name, onSignal); },
  };
}
