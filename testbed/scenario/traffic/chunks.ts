/**
 * One TCP connection on which something is sent now and then, as segments of a video or answers on a connection that is kept open: the sender is idle in between, and
 * congestion control meets what that does to its window (RFC 2861, RFC 7661). The load is open: a chunk does not wait for the one before, but follows it in the stream.
 */

import { z } from 'zod';
import { zDurationDistribution, zSizeDistribution } from '../quantity.js';
import { commonFields, defineKind, span, tcpFields } from './kind.js';

export const chunks = defineKind({
  kind: 'chunks',
  transport: 'tcp',
  bulk: false,
  schema: z.strictObject({
    kind: z.literal('chunks').meta({ description: 'A TCP connection that sends a chunk now and then and is idle in between.' }),
    ...commonFields,
    ...tcpFields,
    size: zSizeDistribution.meta({ description: 'Payload bytes of each chunk, or a distribution.' }),
    every: zDurationDistribution.meta({ description: 'Time from the start of a chunk to the start of the next, or a distribution.' }),
  }),
  draft(traffic, context) {
    const times = span(traffic, context);
    if (!times) return [];
    context.count();
    const { random } = context;
    const made: (readonly [number, number])[] = [];
    for (let t = times[0]; t < times[1]; t += Math.max(1, Math.round(random.draw(traffic.every)))) {
      context.count();
      made.push([t, Math.max(1, Math.round(random.draw(traffic.size)))]);
    }
    return [{ kind: 'chunks', startNs: times[0], stopNs: times[1], bytes: null, rateBps: null, packetBytes: null, bursts: null, chunks: made }];
  },
});
