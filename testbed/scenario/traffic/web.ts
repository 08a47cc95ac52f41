/**
 * Web-like pages: a page is a number of objects, each a short TCP flow of its own; after a think time comes the
 * next page. The load is open (a page does not wait for the one before), so both engines are given the very same
 * flows whatever the queue does.
 */

import { z } from 'zod';
import { zCountDistribution, zDurationDistribution, zSizeDistribution, zTimeDistribution } from '../quantity.js';
import { commonFields, defineKind, span, tcpFields, type FlowDraft } from './kind.js';

export const web = defineKind({
  kind: 'web',
  transport: 'tcp',
  bulk: false,
  schema: z.strictObject({
    kind: z.literal('web').meta({ description: 'Web-like pages of several short TCP flows.' }),
    ...commonFields,
    ...tcpFields,
    think: zDurationDistribution.meta({ description: 'Time from the start of a page to the start of the next, or a distribution.' }),
    objects: zCountDistribution.optional().meta({ description: 'Flows a page, or a distribution. Default: 10.' }),
    size: zSizeDistribution.meta({ description: 'Payload bytes of an object, or a distribution.' }),
    spacing: zTimeDistribution.optional().meta({ description: 'Time from one object of a page to the next, or a distribution. Default: 0s.' }),
  }),
  draft(traffic, context) {
    const times = span(traffic, context);
    if (!times) return [];
    const flows: FlowDraft[] = [];
    const { random } = context;
    for (let page = times[0]; page < times[1]; page += Math.max(1, random.draw(traffic.think))) {
      const objects = traffic.objects === undefined ? 10 : Math.min(1000, Math.max(1, Math.round(random.draw(traffic.objects))));
      let t = page;
      for (let i = 0; i < objects; i++) {
        context.count();
        const bytes = Math.max(1, Math.round(random.draw(traffic.size)));
        if (t < times[1]) flows.push({ kind: 'short', startNs: Math.floor(t), stopNs: null, bytes, rateBps: null, packetBytes: null, bursts: null });
        if (traffic.spacing !== undefined) t += random.draw(traffic.spacing);
      }
    }
    return flows;
  },
});
