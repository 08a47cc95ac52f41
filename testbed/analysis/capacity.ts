/** What a bottleneck could have carried: its rate over time, following the plan's events. */

import type { PlanDirection, PlanEvent } from '../plan/plan.js';

export interface RateStep { readonly fromNs: number; readonly rateBps: number }

/** The rate of a direction from run time 0 on, as steps; empty when it has no shaper. */
export function rateSteps(direction: PlanDirection, events: readonly PlanEvent[]): RateStep[] {
  if (direction.rateBps === null) return [];
  const steps: RateStep[] = [{ fromNs: 0, rateBps: direction.rateBps }];
  const changes = events.filter((event) => event.direction === direction.name && event.set.rateBps !== undefined);
  for (const event of [...changes].sort((a, b) => a.atNs - b.atNs)) steps.push({ fromNs: event.atNs, rateBps: event.set.rateBps! });
  return steps;
}

/** Bits the shaper lets through in [fromNs, toNs]; null without a shaper. */
export function capacityBits(steps: readonly RateStep[], fromNs: number, toNs: number): number | null {
  if (steps.length === 0) return null;
  let bits = 0;
  steps.forEach((step, index) => {
    const start = Math.max(fromNs, step.fromNs);
    const end = Math.min(toNs, steps[index + 1]?.fromNs ?? Infinity);
    if (end > start) bits += (step.rateBps * (end - start)) / 1e9;
  });
  return bits;
}

/** SQL for the rate in force at column `t`, bits/s. */
export const rateAtSql = (steps: readonly RateStep[], t: string): string =>
  steps.length === 1 ? `${steps[0]!.rateBps}.0` : `CASE ${[...steps].reverse().map((step) => `WHEN ${t} >= ${step.fromNs} THEN ${step.rateBps}.0`).join(' ')} ELSE ${steps[0]!.rateBps}.0 END`;
