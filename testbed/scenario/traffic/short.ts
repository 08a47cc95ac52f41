/** Short TCP flows that arrive by a process (`poisson(4/s)`), each with a connection of its own. */

import { z } from 'zod';
import { zArrival, zSizeDistribution } from '../quantity.js';
import { commonFields, defineKind, span, tcpFields, type FlowDraft } from './kind.js';

export const short = defineKind({
  kind: 'short',
  transport: 'tcp',
  bulk: false,
  schema: z.strictObject({
    kind: z.literal('short').meta({ description: 'Short TCP flows that keep arriving.' }),
    ...commonFields,
    ...tcpFields,
    arrival: zArrival.meta({ description: 'Arrivals of each pair: poisson(4/s), every 250ms, or the gap as a distribution.' }),
    size: zSizeDistribution.meta({ description: 'Payload bytes of each flow, or a distribution.' }),
  }),
  draft(traffic, context) {
    const times = span(traffic, context);
    if (!times) return [];
    const flows: FlowDraft[] = [];
    const gap = (): number => context.random.draw(traffic.arrival.gap);
    for (let t = times[0] + (traffic.arrival.firstAtOnce ? 0 : gap()); t < times[1]; t += gap()) {
      context.count();
      flows.push({ kind: 'short', startNs: Math.floor(t), stopNs: null, bytes: Math.max(1, Math.round(context.random.draw(traffic.size))), rateBps: null, packetBytes: null, bursts: null });
    }
    return flows;
  },
});
