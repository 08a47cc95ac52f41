/** One figure of the simulator against the kernel's: medians over seeds, a tolerance, and the spread over seeds. */

import { mean, median } from 'simple-statistics';
import { noiseFloor } from './noise.js';
import { allowed, type Tolerance } from './tolerances.js';

/**
 * `agrees`: inside the tolerance. `noise`: outside, but the means, which the noise floor is of, are no further apart than those of two
 * sets of runs that differ in nothing but their seeds: the median of a few counts of one or two losses jumps from one to the other.
 * `differs`: beyond both, or only one side has the figure. `undefined`: neither has it.
 */
export type Verdict = 'agrees' | 'noise' | 'differs' | 'undefined';

export interface Compared {
  /** Medians; null: undefined in every run. */
  readonly sim: number | null;
  readonly kernel: number | null;
  /** The largest difference the tolerance allows, in the figure's unit. */
  readonly limit: number;
  /** null with fewer than two seeds of the kernel. */
  readonly noise: number | null;
  readonly verdict: Verdict;
  /** Seeds on the side that has fewer. */
  readonly n: number;
}

/** @param sim @param kernel the figure of each seed in which it is defined */
export function compareFigure(sim: readonly number[], kernel: readonly number[], tolerance: Tolerance): Compared {
  const [s, k] = [sim.length > 0 ? median([...sim]) : null, kernel.length > 0 ? median([...kernel]) : null];
  const n = Math.min(sim.length, kernel.length);
  const noise = noiseFloor(sim, kernel);
  if (s === null || k === null) return { sim: s, kernel: k, limit: 0, noise, verdict: s === null && k === null ? 'undefined' : 'differs', n };
  const limit = allowed(tolerance, k);
  const difference = Math.abs(s - k);
  // Figures carry seven digits: the last may not decide.
  const slack = 1e-6 * Math.max(Math.abs(s), Math.abs(k));
  return { sim: s, kernel: k, limit, noise, n, verdict: difference <= limit + slack ? 'agrees' : noise !== null && Math.abs(mean([...sim]) - mean([...kernel])) <= noise + slack ? 'noise' : 'differs' };
}
