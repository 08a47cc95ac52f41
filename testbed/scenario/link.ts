/**
 * `topology.links`: a cable between two routers. What a direction of any cable can have (rate, queue, delay, loss, …)
 * is shared with the hosts' access links. One value means both directions.
 */

import { z } from 'zod';
import { zProbability, zSize } from '../units.js';
import { zName } from './names.js';
import { perDirection, zDelay, zLinkRate, zRateOrNone, type PerDirection } from './quantity.js';
import { zQueue } from './queue.js';

const mtuWords = 'bytes from 576 to 9000, such as 1500';
export const zMtu = z.int({ error: `expected ${mtuWords}` }).min(576, { error: `expected ${mtuWords}` }).max(9000, { error: `expected ${mtuWords}` });

/** More than a GiB is a mistake. */
const zBurst = zSize.refine((bytes) => bytes <= 2 ** 30, { error: 'expected a size of at most 1GiB, such as 60kB' });

const overheadWords = 'link-layer bytes a packet from -64 to 256, such as 14';

/** @param direction which way `forward` is, for the descriptions */
export const linkFields = (direction: string) => ({
  rate: perDirection(zRateOrNone).optional().meta({ description: `Rate of the shaper, or none (as fast as the cable). ${direction}. Default: none.` }),
  queue: perDirection(zQueue).optional().meta({ description: 'Queue discipline before the shaper: a name, or { kind: …, parameters }. Needs a rate. Default: pfifo with its own default limit (1000 packets).' }),
  delay: perDirection(zDelay).optional().meta({ description: 'Propagation delay of each direction (so a round trip has twice this). Default: 0.' }),
  jitter: perDirection(zDelay).optional().meta({ description: 'Random variation of the delay, ±. Default: 0.' }),
  loss: perDirection(zProbability).optional().meta({ description: 'Probability that the wire loses a packet. Default: 0.' }),
  duplicate: perDirection(zProbability).optional().meta({ description: 'Probability that the wire doubles a packet. Default: 0.' }),
  reorder: perDirection(zProbability).optional().meta({ description: 'Fraction of packets sent at once, overtaking the delayed ones; needs a delay. Default: 0.' }),
  shaper: z.enum(['htb', 'tbf']).optional().meta({ description: 'Linux shaper that makes the rate. Default: htb.' }),
  burst: zBurst.optional().meta({ description: 'How many bytes TBF may save up while idle (its burst). Needs shaper: tbf. Default: one packet.' }),
  peakrate: zLinkRate.optional().meta({ description: "How fast what TBF saved may leave; above the rate. Needs shaper: tbf. Default: none (at once)." }),
  overhead: z.int({ error: `expected ${overheadWords}` }).min(-64, { error: `expected ${overheadWords}` }).max(256, { error: `expected ${overheadWords}` })
    .optional().meta({ description: 'Link-layer bytes the shaper counts with each packet. Default: 14 (Ethernet header).' }),
});

const betweenWords = 'two routers, such as [R1, R2]';
export const zLink = z.strictObject({
  between: z.array(zName, { error: `expected ${betweenWords}` }).length(2, { error: `expected ${betweenWords}` }).meta({ description: 'The two routers; forward is from the first to the second.' }),
  ...linkFields('between[0] → between[1] is forward'),
  mtu: zMtu.optional().meta({ description: 'IP MTU, bytes. Default: topology.mtu.' }),
});
export type Link = z.output<typeof zLink>;
/** What links and access links share. */
export type LinkFields = Omit<Link, 'between'>;

export type Side = 'forward' | 'reverse';
export const sides: readonly Side[] = ['forward', 'reverse'];
/** The value of a field in one direction. */
export function sideOf<T>(value: PerDirection<T> | undefined, side: Side): T | undefined {
  return value === undefined ? undefined : value[side];
}

export const defaultMtuBytes = 1500;
/** An Ethernet header. */
export const defaultOverheadBytes = 14;
