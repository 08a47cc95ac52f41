/**
 * Which links of a plan go through the userspace bottleneck (daemon/): those with a queue in it, and, once a plan has one at
 * all, every link whose wire does something. So such a plan asks its kernel neither for netem nor for the AQM.
 */

import type { Plan, PlanLink } from './plan.js';

const queuesInDaemon = (link: PlanLink): boolean => [link.forward, link.reverse].some((direction) => direction.rateBps !== null && direction.queue?.in === 'daemon');

/** Names of the links. Both directions of such a link pass the daemon; a queue of it that is in the kernel stays there. */
export function daemonLinks(plan: Plan): ReadonlySet<string> {
  const queueing = plan.links.filter(queuesInDaemon);
  if (queueing.length === 0) return new Set();
  const changed = new Set(plan.events.filter((event) => event.set.wire !== undefined).map((event) => event.direction));
  const wired = plan.links.filter((link) => [link.forward, link.reverse].some((direction) => direction.wire.length > 0 || changed.has(direction.name)));
  return new Set([...queueing, ...wired].map(({ name }) => name));
}
