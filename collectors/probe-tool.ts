/** What a probe tool is: probe.ts and ping.ts are, probes.ts runs them. */

import type { AgentContext } from '../testbed/agent/context.js';
import type { PlanProbe } from '../testbed/plan/plan.js';

export interface ProbeTool {
  start(): void;
  stop(): void;
}
/** @param record a row of probeFields: probe, seq, sent (ns), RTT and one-way delays there and back (ns or NaN) */
export type ProbeToolFactory = (context: AgentContext, probes: readonly PlanProbe[], record: ProbeRecord) => ProbeTool;
export type ProbeRecord = (probe: number, seq: number, sentNs: number, rttNs: number, forwardNs: number, reverseNs: number) => void;

/**
 * Whether a probe without an answer is lost, rather than on its way when the run ended: sent longer ago than twice
 * the longest round trip seen. Those on their way are left out, or a full queue at the end would look like loss.
 */
export const isLost = (sentNs: number, endedNs: number, longestRttNs: number): boolean => endedNs - sentNs > 2 * longestRttNs;
