/**
 * Time as the packet scheduler counts it in the parameters of HTB, TBF, netem and RED: ticks, 64 ns each on every
 * kernel since 2.6.31, whose length /proc/net/psched states. Arithmetic as iproute2's tc_core.c: a time is cut to whole µs,
 * then to whole ticks.
 */

import { readFileSync } from 'node:fs';

function readTicks(): number {
  try {
    const [t2us = 0, us2t = 0, resolution = 0] = readFileSync('/proc/net/psched', 'latin1').trim().split(/\s+/).map((word) => Number.parseInt(word, 16));
    // tc_core_init: a clock of 1 ns resolution states a multiplier for old programs only.
    const ticks = (resolution === 1e9 ? 1 : t2us / us2t) * (resolution / 1e6);
    if (Number.isFinite(ticks) && ticks > 0) return ticks;
  } catch { /* No such file outside Linux or before /proc is mounted: the value of all kernels of today. */ }
  return 1000 / 64;
}
let cached: number | undefined;
export const ticksPerMicrosecond = (): number => (cached ??= readTicks());

export const ticksOfMicroseconds = (us: number): number => Math.floor(Math.floor(us) * ticksPerMicrosecond());
export const ticksOfNs = (ns: number): number => ticksOfMicroseconds(ns / 1000);
/** tc_calc_xmittime: ticks to send `bytes` at `bytesPerSecond`. */
export const transmitTicks = (bytesPerSecond: number, bytes: number): number => ticksOfMicroseconds(1e6 * (bytes / bytesPerSecond));

/** struct tc_ratespec, 12 bytes, for Ethernet, with its table of 256 transmission times (tc_calc_rtable). */
export function rateSpec(bytesPerSecond: number, mtuBytes: number, overheadBytes = 0): { spec: Buffer; table: Buffer } {
  let cellLog = 0;
  while (mtuBytes >> cellLog > 255) cellLog++;
  const spec = Buffer.alloc(12);
  spec.writeUInt8(cellLog, 0);
  spec.writeUInt8(1, 1); // TC_LINKLAYER_ETHERNET
  spec.writeUInt16LE(overheadBytes, 2);
  spec.writeInt16LE(-1, 4);
  spec.writeUInt32LE(Math.min(bytesPerSecond, 0xffffffff), 8);
  const table = Buffer.alloc(1024);
  const rate = Math.min(bytesPerSecond, 0xffffffff);
  for (let cell = 0; cell < 256; cell++) table.writeUInt32LE(transmitTicks(rate, (cell + 1) << cellLog) >>> 0, 4 * cell);
  return { spec, table };
}
