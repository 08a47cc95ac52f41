/** HTB as a bottleneck's shaper (net/sched/sch_htb.c; iproute2 q_htb.c): a root that sends everything to class 1 and that class. */

import { attribute, attributeU64 } from '../linux/attributes.js';
import { bytesPerSecond, rateWord } from './parameters.js';
import { rateSpec, transmitTicks } from './psched.js';

/** Minor number of the only class. */
export const htbClassMinor = 1;

/** struct tc_htb_glob in TCA_HTB_INIT: version 3, r2q 10 (not used: the class has its own quantum), default class. */
export function encodeHtb(): Buffer {
  const out = Buffer.alloc(20);
  [3, 10, htbClassMinor, 0, 0].forEach((value, index) => out.writeUInt32LE(value, 4 * index));
  return attribute(2, out);
}
export const htbWords: readonly string[] = ['default', String(htbClassMinor)];

/** Class with rate = ceil and bursts of one packet: the shaper holds no more than that of its own. `burstBytes` counts the link layer's bytes. */
export function encodeHtbClass(rateBps: number, burstBytes: number): Buffer {
  const rate = bytesPerSecond(rateBps);
  const { spec, table } = rateSpec(rate, 1600); // q_htb.c: mtu of the rate table unless told
  const burst = transmitTicks(rate, burstBytes);
  // struct tc_htb_opt
  const options = Buffer.alloc(44);
  spec.copy(options, 0);
  spec.copy(options, 12);
  [burst, burst, burstBytes, 0, 0].forEach((value, index) => options.writeUInt32LE(value, 24 + 4 * index));
  const wide = rate >= 2 ** 32 ? [attributeU64(6, BigInt(rate)), attributeU64(7, BigInt(rate))] : [];
  return Buffer.concat([...wide, attribute(1, options), attribute(4, table), attribute(3, table)]);
}
export const htbClassWords = (rateBps: number, burstBytes: number): string[] =>
  ['rate', rateWord(rateBps), 'ceil', rateWord(rateBps), 'burst', String(burstBytes), 'cburst', String(burstBytes), 'quantum', String(burstBytes)];
