/**
 * CAKE's tins: which DSCP goes where, and what share of rate and time each tin gets (cake_config_… of Linux 6.12's
 * net/sched/sch_cake.c).
 */

import { isolation, tins as tinModes } from '../testbed/qdiscs/cake.js';

/** DSCP by name (RFC 4594, RFC 8622 LE, RFC 5865 VA; TOS bits of RFC 1349 as DSCP). */
const LE = 1, TOS2 = 2, TOS4 = 4, VA = 44, EF = 46;
const CS = (n: number): number => n * 8;
const AF = (n: number): number[] => [1, 2, 3].map((precedence) => n * 8 + 2 * precedence);

export interface TinPlan {
  /** Tin by DSCP. */
  readonly index: Uint8Array;
  /** Share of the rate and weight, tin by tin. */
  readonly rates: (bytesPerSecond: number) => readonly number[];
  readonly quanta: readonly number[];
  /** Order of the tins in statistics: from bulk to latency-sensitive. */
  readonly order: readonly number[];
}

function byDscp(fallback: number, ...assigned: readonly (readonly [tin: number, codepoints: readonly number[]])[]): Uint8Array {
  const index = new Uint8Array(64).fill(fallback);
  for (const [tin, codepoints] of assigned) for (const dscp of codepoints) index[dscp] = tin;
  return index;
}

/** Eight tins, each with 7/8 of the one before, in rate and weight. */
const sevenEighths = (first: number): number[] => {
  const out: number[] = [];
  for (let value = first; out.length < 8; value = Math.floor((value * 7) / 8)) out.push(value);
  return out;
};
const shares = (...shifts: readonly number[]) => (value: number): number[] => shifts.map((shift) => Math.floor(value / 2 ** shift));
const eight = { rates: sevenEighths, quanta: sevenEighths(256).map((quantum) => Math.max(1, quantum)), order: [0, 1, 2, 3, 4, 5, 6, 7] };

const plans: Readonly<Record<string, TinPlan>> = {
  besteffort: { index: byDscp(0), rates: shares(0), quanta: [65535], order: [0] },
  precedence: { ...eight, index: Uint8Array.from({ length: 64 }, (_, dscp) => dscp >> 3) },
  diffserv8: {
    ...eight,
    index: byDscp(
      2, [0, [LE]], [1, [TOS2, CS(1), ...AF(1)]], [3, [CS(3), ...AF(3), ...AF(4)]], [4, [TOS4, ...AF(2)]],
      [5, [CS(2)]], [6, [CS(4), CS(5), VA, EF]], [7, [CS(6), CS(7)]],
    ),
  },
  diffserv4: {
    index: byDscp(
      0, [1, [LE, CS(1)]], [2, [TOS4, CS(2), ...AF(2), CS(3), ...AF(3), ...AF(4)]], [3, [CS(4), CS(5), VA, EF, CS(6), CS(7)]],
    ),
    rates: shares(0, 4, 1, 2), quanta: shares(0, 4, 1, 2)(1024), order: [1, 0, 2, 3],
  },
  diffserv3: {
    index: byDscp(0, [1, [LE, CS(1)]], [2, [TOS4, VA, EF, CS(6), CS(7)]]),
    rates: shares(0, 4, 2), quanta: shares(0, 4, 2)(1024), order: [1, 0, 2],
  },
};

/** @param mode one of the words of tc, undefined: diffserv3 */
export const tinPlan = (mode: string | undefined): TinPlan => plans[mode === 'diffserv' ? 'diffserv4' : (mode ?? 'diffserv3')]!;
export { isolation, tinModes };
