/** UDP that sends at a constant rate for a while, is silent for a while, and so on. */

import { z } from 'zod';
import { zDurationDistribution, zLinkRate } from '../quantity.js';
import { commonFields, defineKind, span, zPacket } from './kind.js';

export const onoff = defineKind({
  kind: 'onoff',
  transport: 'udp',
  bulk: false,
  schema: z.strictObject({
    kind: z.literal('onoff').meta({ description: 'UDP in bursts.' }),
    ...commonFields,
    rate: zLinkRate.meta({ description: 'Sending rate at the IP layer during a burst.' }),
    packet: zPacket.optional().meta({ description: 'IP packet size, from 64B. Default: 1000B.' }),
    on: zDurationDistribution.meta({ description: 'Length of a burst, or a distribution.' }),
    off: zDurationDistribution.meta({ description: 'Silence between two bursts, or a distribution.' }),
  }),
  draft(traffic, context) {
    const times = span(traffic, context);
    if (!times) return [];
    context.count();
    const bursts: (readonly [number, number])[] = [];
    for (let t = times[0]; t < times[1];) {
      context.count();
      const stop = t + Math.max(1, Math.round(context.random.draw(traffic.on)));
      bursts.push([t, Math.min(stop, times[1])]);
      t = stop + Math.max(1, Math.round(context.random.draw(traffic.off)));
    }
    return [{ kind: 'onoff', startNs: times[0], stopNs: times[1], bytes: null, rateBps: traffic.rate, packetBytes: traffic.packet ?? 1000, bursts }];
  },
});
