/**
 * What iproute2 computes for RED and its relatives (tc_red.c): the averaging weight, the slope of the marking
 * probability, and the table of how the average decays while the link is idle.
 */

import { UserError } from '../errors.js';
import { transmitTicks } from './psched.js';

/** Plog: the smallest power of two by which probability / (max − min) exceeds 1. */
export function probabilityLog(kind: string, min: number, max: number, probability: number): number {
  const width = max - min;
  let value = width > 0 ? probability / width : Number.NaN;
  for (let log = 0; log < 32; log++) {
    if (value > 1) return log;
    value *= 2;
  }
  throw new UserError(`queue ${kind}: min (${min}) must be below max (${max}) and the probability (${probability}) above 0`);
}

/** Wlog: the smallest that satisfies burst + 1 − min/avpkt ≤ (1 − (1−W)^burst)/W, W = 2^−Wlog. */
export function averagingLog(kind: string, min: number, burst: number, avpkt: number): number {
  const wanted = burst + 1 - min / avpkt;
  if (wanted < 1) {
    throw new UserError(`queue ${kind}: burst of ${burst} packets is too small for min ${min} and avpkt ${avpkt} bytes; use a burst of at least ${1 + Math.floor(min / avpkt)}`);
  }
  let weight = 0.5;
  for (let log = 1; log < 32; log++, weight /= 2) {
    if (wanted <= (1 - (1 - weight) ** burst) / weight) return log;
  }
  throw new UserError(`queue ${kind}: no averaging weight fits burst ${burst}, min ${min} and avpkt ${avpkt}; use a smaller burst`);
}

/**
 * Scell_log and the 256-byte table. Below about 100 kbit/s tc's 32-bit `cell << cellLog` overflows and its table is
 * not monotonic; so is ours, for the kernel shall get what tc gives it.
 */
export function idleDamping(kind: string, averagingLogValue: number, avpkt: number, bytesPerSecond: number): { cellLog: number; table: Buffer } {
  const perTick = -Math.log(1 - 1 / (1 << averagingLogValue)) / transmitTicks(bytesPerSecond, avpkt);
  const longest = 31 / perTick;
  const table = Buffer.alloc(256);
  for (let cellLog = 0; cellLog < 32; cellLog++) {
    if (!(longest / 2 ** cellLog < 512)) continue;
    for (let cell = 1; cell < 255; cell++) table[cell] = Math.min(31, ((cell << cellLog) * perTick) & 0xff);
    table[255] = 31;
    return { cellLog, table };
  }
  throw new UserError(`queue ${kind}: the idle damping table cannot be made for avpkt ${avpkt} bytes at ${bytesPerSecond * 8} bit/s; set bandwidth to the link's rate`);
}

/** red_check_params (include/net/red.h): fls(threshold) + Wlog must stay below 32. */
export function checkThreshold(kind: string, name: string, threshold: number, averagingLogValue: number): void {
  if (threshold > 0 && 32 - Math.clz32(threshold) + averagingLogValue >= 32) {
    throw new UserError(`queue ${kind}: ${name} (${threshold}) is too large for the averaging weight 2^-${averagingLogValue}; use a smaller ${name} or burst`);
  }
}

export const probability32 = (probability: number): number => Math.min(Math.floor(probability * 2 ** 32), 0xffffffff);
