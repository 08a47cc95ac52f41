/** `tcp`: settings of every host's TCP beside the congestion control: Linux sysctls, and the simulator's model. */

import { z } from 'zod';

const keyWords = 'a sysctl of TCP or IP, such as net.ipv4.tcp_slow_start_after_idle';
/** Set by the compiler because the test bed depends on them, or by another key of the scenario. */
const ours: ReadonlyMap<string, string> = new Map([
  ['net.ipv4.tcp_ecn', 'ecn: of each traffic class'],
  ['net.ipv4.ip_forward', 'nothing: testbed sets it'],
  ['net.ipv4.ip_local_port_range', 'nothing: testbed sets it'],
  ['net.ipv4.tcp_no_metrics_save', 'nothing: testbed sets it, so that one flow does not teach the next'],
  ['net.ipv4.tcp_congestion_control', 'cc: of each traffic class'],
]);
const zKey = z.string().regex(/^net\.(?:ipv4|ipv6|core)\.[a-z0-9_]+(?:\.[a-z0-9_]+)*$/, { error: `expected ${keyWords}` }).max(100)
  .superRefine((key, context) => {
    const instead = ours.get(key);
    if (instead !== undefined) context.addIssue({ code: 'custom', message: `expected ${instead}` });
  });
const valueWords = 'a number, or numbers separated by spaces';
const zValue = z.union([
  z.number().transform(String),
  z.string({ error: `expected ${valueWords}` }).regex(/^[A-Za-z0-9_.-]+(?:[ \t][A-Za-z0-9_.-]+)*$/, { error: `expected ${valueWords}` }).max(200),
]);

export const zTcp = z.strictObject({
  model: z.enum(['linux', 'classic']).optional().meta({ description: "The simulator's TCP: linux, or classic (NewReno-like, an ACK a packet). Default: linux." }),
  sysctls: z.record(zKey, zValue).optional().meta({ description: 'sysctls of every host, beside those testbed pins.' }),
});
