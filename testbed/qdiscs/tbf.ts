/** TBF as a bottleneck's shaper (net/sched/sch_tbf.c; iproute2 q_tbf.c): a token bucket of one packet (or what the plan says), and with a peak rate a second one; its inner queue (class :1) is the bottleneck's. */

import type { PlanQueue } from '../plan/plan.js';
import { attribute, attributeU32, attributeU64 } from '../linux/attributes.js';
import { bytesPerSecond, rateWord } from './parameters.js';
import { rateSpec, transmitTicks } from './psched.js';

/** Minor number of TBF's inner class. */
export const tbfClassMinor = 1;

/** Of a veth device: what a FIFO without a limit of its own has. */
const txQueueLength = 1000;

/**
 * TBF's own `limit`. At set-up it only sizes the bfifo that the leaf replaces at once; but each change hands it to the leaf where that is a FIFO
 * (sch_tbf.c tbf_change, sch_fifo.c fifo_set_limit), in that FIFO's unit: so it must be what the leaf has.
 */
export function tbfLimit(leaf: PlanQueue, mtuBytes: number, burstBytes: number): number {
  const [kind, ...words] = leaf.kind === 'raw' ? leaf.tc ?? [] : [leaf.kind];
  if (kind !== 'pfifo' && kind !== 'bfifo' && kind !== 'pfifo_head_drop') return burstBytes;
  const given = leaf.kind === 'raw' ? words[words.indexOf('limit') + 1] : leaf.params['limit'];
  const limit = Number(given);
  if (given !== undefined && Number.isInteger(limit) && limit > 0) return limit;
  return kind === 'bfifo' ? txQueueLength * (mtuBytes + 14) : txQueueLength;
}

/** The second bucket: bits/s, and its depth in bytes (tc: `peakrate`, `minburst`). */
export interface TbfPeak { readonly rateBps: number; readonly burstBytes: number }

/** @param limit see `tbfLimit` */
export function encodeTbf(rateBps: number, burstBytes: number, limit = burstBytes, peak: TbfPeak | null = null): Buffer {
  const rate = bytesPerSecond(rateBps);
  const { spec, table } = rateSpec(rate, peak?.burstBytes ?? 2047); // tc_calc_rtable with mtu 0 unless there is a minburst
  // struct tc_tbf_qopt
  const options = Buffer.alloc(36);
  spec.copy(options, 0);
  [limit, transmitTicks(Math.min(rate, 0xffffffff), burstBytes), 0].forEach((value, index) => options.writeUInt32LE(value, 24 + 4 * index));
  const second: Buffer[] = [];
  if (peak !== null) {
    const peakRate = bytesPerSecond(peak.rateBps);
    const { spec: peakSpec, table: peakTable } = rateSpec(peakRate, peak.burstBytes);
    peakSpec.copy(options, 12);
    options.writeUInt32LE(transmitTicks(Math.min(peakRate, 0xffffffff), peak.burstBytes), 32);
    second.push(...(peakRate >= 2 ** 32 ? [attributeU64(5, BigInt(peakRate))] : []), attributeU32(7, peak.burstBytes), attribute(3, peakTable));
  }
  return Buffer.concat([attribute(1, options), attributeU32(6, burstBytes), ...(rate >= 2 ** 32 ? [attributeU64(4, BigInt(rate))] : []), attribute(2, table), ...second]);
}
export const tbfWords = (rateBps: number, burstBytes: number, limit = burstBytes, peak: TbfPeak | null = null): string[] =>
  ['rate', rateWord(rateBps), 'burst', String(burstBytes), 'limit', String(limit), ...(peak === null ? [] : ['peakrate', rateWord(peak.rateBps), 'minburst', String(peak.burstBytes)])];
