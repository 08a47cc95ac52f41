/** How much memory simulating a plan may take, so that one too large is refused before it starts. */

import { getHeapStatistics } from 'node:v8';
import type { Plan } from '../testbed/plan/plan.js';

/** Bytes of a Packet object, and of a TCP connection with an ordinary window: measured, rounded up. */
const packetBytes = 400;
const connectionBytes = 12_000;

/** What a run may need, bytes: every queue and wire full at once, every flow alive at once. */
export function estimateMemory(plan: Plan): number {
  let packets = 0;
  for (const link of plan.links) {
    for (const direction of [link.forward, link.reverse]) {
      const limit = direction.queue?.params['limit'];
      if (direction.queue !== null) packets += typeof limit === 'number' ? (direction.queue.kind === 'bfifo' || direction.queue.kind === 'red' ? limit / 500 : limit) : 1000;
      for (const wire of direction.wire) packets += Math.min(wire.limitPackets, (wire.delayNs / 8e9 / link.mtuBytes) * (direction.rateBps ?? 1e9));
    }
  }
  return packets * packetBytes + plan.flows.length * connectionBytes;
}

/** What is wrong with the size of a plan on this machine, with the estimate; or null. */
export function memoryProblem(plan: Plan): string | null {
  const estimate = estimateMemory(plan);
  const limit = getHeapStatistics().heap_size_limit;
  if (estimate <= 0.8 * limit) return null;
  return `simulating this may take ${Math.ceil(estimate / 2 ** 20)} MiB (every queue full, all ${plan.flows.length} flows at once), and Node may use ${Math.floor(limit / 2 ** 20)} MiB; `
    + 'use fewer flows or smaller queues, or allow more with NODE_OPTIONS=--max-old-space-size=<MiB>';
}
