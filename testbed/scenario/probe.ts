/** `probes`: small packets at a fixed interval whose delay is measured, by testbed's own prober or the system's ping. */

import { z } from 'zod';
import { zTime } from '../units.js';
import { zHostList } from './hosts.js';
import { zRtt } from './quantity.js';
import { zPacket } from './traffic/kind.js';

const intervalWords = 'an interval from 100us to 1h, such as 10ms';
export const zProbe = z.strictObject({
  from: zHostList.meta({ description: 'Probing hosts.' }),
  to: zHostList.meta({ description: 'Answering hosts. Paired with from as in traffic.' }),
  interval: zTime.refine((ns) => ns >= 1e5 && ns <= 3600e9, { error: `expected ${intervalWords}` }).optional().meta({ description: 'Time between two probes. Default: 10ms.' }),
  size: zPacket.optional().meta({ description: 'IP packet size, from 64B. Default: 100B.' }),
  rtt: zRtt.optional().meta({ description: 'Round-trip time of the pair, as in traffic.' }),
  tool: z.enum(['builtin', 'ping']).optional().meta({ description: "builtin (one-way delay and RTT) or ping (the system's). Default: builtin." }),
  start: zTime.optional().meta({ description: 'First probe, plus a random part of one interval. Default: 0s.' }),
  stop: zTime.optional().meta({ description: 'Last probe. Default: the end of the measurement window.' }),
});
export type Probe = z.output<typeof zProbe>;
