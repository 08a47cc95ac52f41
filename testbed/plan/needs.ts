/** What a plan asks of the machine it runs on: qdiscs, congestion controls and programs, each once, sorted. */

import { daemonLinks } from './daemon.js';
import { testPrograms } from '../machines/needs.js';
import type { Plan } from './plan.js';

export interface PlanNeeds {
  /** tc's names, netem and shapers included. */
  readonly qdiscs: readonly string[];
  /** Linux's names. */
  readonly congestionControls: readonly string[];
  /** Programs that must be installed. */
  readonly tools: readonly string[];
}

export function planNeeds(plan: Plan): PlanNeeds {
  const qdiscs = new Set<string>();
  const daemon = daemonLinks(plan);
  for (const link of plan.links) {
    for (const direction of [link.forward, link.reverse]) {
      if (direction.shaper !== null && direction.queue?.in !== 'daemon') qdiscs.add(direction.shaper);
      if (direction.queue?.in === 'kernel') qdiscs.add(direction.queue.kind === 'raw' ? direction.queue.tc![0]! : direction.queue.kind);
      if (daemon.has(link.name)) continue;
      if (direction.wire.length > 0) qdiscs.add('netem');
      if (direction.wire.some((wire) => wire.to !== undefined)) qdiscs.add('prio');
    }
  }
  if (daemon.size === 0) for (const event of plan.events) if (event.set.wire) qdiscs.add('netem');
  const tools = new Set<string>();
  for (const flow of plan.flows) if (flow.tool !== 'builtin') tools.add(flow.tool);
  for (const probe of plan.probes) if (probe.tool !== 'builtin') tools.add(probe.tool);
  for (const test of plan.tests ?? []) for (const name of testPrograms(test)) tools.add(name);
  return {
    qdiscs: [...qdiscs].sort(),
    congestionControls: [...new Set(plan.flows.flatMap((flow) => (flow.cc === null ? [] : [flow.cc])))].sort(),
    tools: [...tools].sort(),
  };
}
