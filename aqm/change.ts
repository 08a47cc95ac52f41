/**
 * New parameters for a discipline that runs (an event of a scenario): in place where the kind knows how, as `tc qdisc change` does; else, as the kind is
 * not Linux's or Linux refuses to change it, a new one takes over what waits, in the order in which the old one would have sent it.
 */

import type { AqmContext, AqmKind, QueueDiscipline } from './aqm.js';
import type { Params } from './params.js';

/** @returns the discipline that goes on: the same one, or a new one. @throws UserError when the parameters cannot be */
export function changeQueue(queue: QueueDiscipline, kind: AqmKind, params: Params, context: AqmContext, nowNs: number): QueueDiscipline {
  if (queue.change !== undefined) {
    queue.change(params, nowNs);
    return queue;
  }
  const after = kind.create(params, context, nowNs);
  for (let packet = queue.dequeuePeeked(nowNs); packet !== null; packet = queue.dequeuePeeked(nowNs)) after.enqueue(packet, nowNs);
  return after;
}
