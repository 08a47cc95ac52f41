/**
 * Parameters of qdiscs whose TCA_OPTIONS is a list of attributes, written once as a table: from it come both the
 * attributes iproute2 would send and the words that make it send them, so the two cannot say different things.
 * Units on the wire are iproute2's: times in µs (tc_util.c get_time), rates in bytes/s (get_rate), both cut, not rounded.
 */

import { attributeU8, attributeU32, attributeU64 } from '../linux/attributes.js';
import type { QueueParams } from './qdisc.js';

export interface Parameter {
  /** tc's word, the key in `params`. */
  readonly key: string;
  /** TCA_…: number of the attribute. */
  readonly type: number;
  /**
   * `number`: as it is; `time`: ns, sent as µs; `timeNs`: ns, sent as ns; `rate`: bits/s, sent as bytes/s in 32 bits; `rate64`: the same in 64;
   * `flag`: 1 or 0; `buckets`: log2, rounded up.
   */
  readonly as: 'number' | 'time' | 'timeNs' | 'rate' | 'rate64' | 'flag' | 'buckets';
  readonly bits?: 8 | 32;
  /** Word for `false` where it is not `no` + key. */
  readonly no?: string;
}

export const microseconds = (ns: number): number => Math.floor(ns / 1000);
export const bytesPerSecond = (bps: number): number => Math.floor(bps / 8);
/** tc takes a rate in bits as a whole number without loss: `20000000bit`. */
export const rateWord = (bps: number): string => `${Math.floor(bps)}bit`;
export const timeWord = (ns: number): string => `${microseconds(ns)}us`;
/** get_time64 (tc 6.1, tc_util.c) takes ns. */
export const timeNsWord = (ns: number): string => `${Math.round(ns)}ns`;
/** A probability as tc's `%lg` reads it back exactly. */
export const numberWord = (value: number): string => String(value);

const ceilLog2 = (value: number): number => (value <= 1 ? 0 : 32 - Math.clz32(value - 1));

export function encodeParameters(table: readonly Parameter[], params: QueueParams): Buffer {
  const out: Buffer[] = [];
  for (const { key, type, as, bits } of table) {
    const given = params[key];
    if (given === undefined) continue;
    const value = Number(given);
    if (as === 'rate64') out.push(attributeU64(type, BigInt(bytesPerSecond(value))));
    else if (as === 'flag') out.push(bits === 8 ? attributeU8(type, value) : attributeU32(type, value));
    else {
      const number = as === 'time' ? microseconds(value) : as === 'rate' ? Math.min(bytesPerSecond(value), 0xffffffff) : as === 'buckets' ? ceilLog2(value) : value;
      out.push(bits === 8 ? attributeU8(type, number) : attributeU32(type, number));
    }
  }
  return Buffer.concat(out);
}

export function parameterWords(table: readonly Parameter[], params: QueueParams): string[] {
  const out: string[] = [];
  for (const { key, as, no } of table) {
    const given = params[key];
    if (given === undefined) continue;
    if (as === 'flag') out.push(given ? key : (no ?? `no${key}`));
    else {
      const value = Number(given);
      out.push(key, as === 'time' ? timeWord(value) : as === 'timeNs' ? timeNsWord(value) : as === 'rate' || as === 'rate64' ? rateWord(value) : numberWord(value));
    }
  }
  return out;
}

/** Reads `fields` of 32 bits from `xstats`, in order, each times its factor; NaN where the kernel's struct is shorter. */
export function decodeU32s(xstats: Buffer | undefined, fields: readonly (readonly [offset: number, factor: number, signed?: 'signed'])[]): number[] {
  return fields.map(([offset, factor, signed]) => {
    if (xstats === undefined || offset + 4 > xstats.length) return Number.NaN;
    return (signed ? xstats.readInt32LE(offset) : xstats.readUInt32LE(offset)) * factor;
  });
}
export const u32At = (xstats: Buffer | undefined, offset: number): number =>
  xstats === undefined || offset + 4 > xstats.length ? Number.NaN : xstats.readUInt32LE(offset);
export const u64At = (xstats: Buffer | undefined, offset: number): number =>
  xstats === undefined || offset + 8 > xstats.length ? Number.NaN : Number(xstats.readBigUInt64LE(offset));
