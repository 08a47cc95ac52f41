/** UDP at a constant rate: a packet of fixed size at fixed intervals. */

import { z } from 'zod';
import { zLinkRate } from '../quantity.js';
import { commonFields, defineKind, span, zPacket } from './kind.js';

export const cbr = defineKind({
  kind: 'cbr',
  transport: 'udp',
  bulk: false,
  schema: z.strictObject({
    kind: z.literal('cbr').meta({ description: 'UDP at a constant rate.' }),
    ...commonFields,
    rate: zLinkRate.meta({ description: 'Sending rate at the IP layer.' }),
    packet: zPacket.optional().meta({ description: 'IP packet size, from 64B. Default: 1000B.' }),
  }),
  draft(traffic, context) {
    const times = span(traffic, context);
    if (!times) return [];
    context.count();
    return [{ kind: 'cbr', startNs: times[0], stopNs: times[1], bytes: null, rateBps: traffic.rate, packetBytes: traffic.packet ?? 1000, bursts: null }];
  },
});
