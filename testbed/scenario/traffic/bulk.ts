/** A TCP transfer as fast as congestion control lets it: of `bytes`, or until it is stopped. */

import { z } from 'zod';
import { zSizeDistribution } from '../quantity.js';
import { commonFields, defineKind, span, tcpFields } from './kind.js';

export const bulk = defineKind({
  kind: 'bulk',
  transport: 'tcp',
  bulk: true,
  schema: z.strictObject({
    kind: z.literal('bulk').meta({ description: 'A long TCP transfer.' }),
    ...commonFields,
    ...tcpFields,
    bytes: zSizeDistribution.optional().meta({ description: 'Payload bytes to send, or a distribution. Default: until stop.' }),
  }),
  draft(traffic, context) {
    const times = span(traffic, context);
    if (!times) return [];
    context.count();
    const bytes = traffic.bytes === undefined ? null : Math.max(1, Math.round(context.random.draw(traffic.bytes)));
    return [{ kind: 'bulk', startNs: times[0], stopNs: bytes === null ? times[1] : null, bytes, rateBps: null, packetBytes: null, bursts: null }];
  },
});
