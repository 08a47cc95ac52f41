/** When samplers sample: on a fixed schedule, and exactly when the measurement window opens and closes. */

import type { AgentContext } from '../testbed/agent/context.js';

/**
 * Calls at 0, interval, … up to the end of the window, and at both its edges; once where they coincide.
 * Edges are set first and singly: what others set later for the end of the window (closing sockets) comes after them.
 */
export function sampleAt(context: AgentContext, intervalNs: number | null, sample: (nowNs: number) => void): void {
  const { loop, plan, endNs } = context;
  let last = NaN;
  const once = (nowNs: number): void => {
    if (nowNs === last) return;
    last = nowNs;
    sample(nowNs);
  };
  loop.at(plan.warmupNs, once);
  loop.at(endNs, once);
  if (intervalNs !== null) loop.every(0, intervalNs, endNs, once);
}
