/** TBF as a bottleneck's shaper (net/sched/sch_tbf.c; iproute2 q_tbf.c): a token bucket of one packet; its inner queue (class :1) is the bottleneck's. */

import { attribute, attributeU32, attributeU64 } from '../linux/attributes.js';
import { bytesPerSecond, rateWord } from './parameters.js';
import { rateSpec, transmitTicks } from './psched.js';

/** Minor number of TBF's inner class. */
export const tbfClassMinor = 1;

/** `limit` only sizes the bfifo that the leaf replaces at once. */
export function encodeTbf(rateBps: number, burstBytes: number): Buffer {
  const rate = bytesPerSecond(rateBps);
  const { spec, table } = rateSpec(rate, 2047); // tc_calc_rtable with mtu 0
  // struct tc_tbf_qopt
  const options = Buffer.alloc(36);
  spec.copy(options, 0);
  [burstBytes, transmitTicks(Math.min(rate, 0xffffffff), burstBytes), 0].forEach((value, index) => options.writeUInt32LE(value, 24 + 4 * index));
  return Buffer.concat([attribute(1, options), attributeU32(6, burstBytes), ...(rate >= 2 ** 32 ? [attributeU64(4, BigInt(rate))] : []), attribute(2, table)]);
}
export const tbfWords = (rateBps: number, burstBytes: number): string[] => ['rate', rateWord(rateBps), 'burst', String(burstBytes), 'limit', String(burstBytes)];
