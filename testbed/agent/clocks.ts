/** How the clocks of a machine lie to each other. */

import { CLOCK_MONOTONIC, CLOCK_REALTIME, clockNs, clockNsBig, waitForNothing } from '../linux/libc.js';

/**
 * CLOCK_REALTIME at an instant of CLOCK_MONOTONIC, ns. Monotonic is read before and after and the closest of several tries kept.
 *
 * @param clock virtual: exact, as each reading moves the clock on by one step. There a reading is repeated until the thread has waited (kernel/thrifty.c), so it
 * waits: else both of monotonic are one, from some time before, and what comes out is a step (256 ns) or more off
 */
export function realtimeAt(monotonicNs: number, clock: 'virtual' | 'real'): bigint {
  const readAnew = clock === 'virtual' ? waitForNothing : (): void => undefined;
  let best = { width: Infinity, realtime: 0n };
  for (let i = 0; i < 8; i++) {
    readAnew();
    const before = clockNs(CLOCK_MONOTONIC);
    const realtime = clockNsBig(CLOCK_REALTIME);
    readAnew();
    const after = clockNs(CLOCK_MONOTONIC);
    const width = after - before;
    if (width < best.width) best = { width, realtime: realtime + BigInt(Math.round(monotonicNs - (before + after) / 2)) };
  }
  return best.realtime;
}
