/** prio as a switch: filters choose the band, everything else goes to the last (net/sched/sch_prio.c; iproute2 q_prio.c). */

import { attribute } from '../linux/attributes.js';

/** TCQ_PRIO_BANDS (pkt_sched.h). */
export const maxBands = 16;

/** struct tc_prio_qopt: bands, then a map of 16 priorities, here all to `fallback`. */
export function encodePrio(bands: number, fallback: number): Buffer {
  const out = Buffer.alloc(20, fallback);
  out.writeInt32LE(bands, 0);
  return Buffer.concat([out, attribute(2, Buffer.alloc(0))]); // the empty nest iproute2's addattr_nest_compat leaves
}
export const prioWords = (bands: number, fallback: number): string[] => ['bands', String(bands), 'priomap', ...Array.from({ length: 16 }, () => String(fallback))];
