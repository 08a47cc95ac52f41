/**
 * The noise floor of a figure: how far apart the means of two sets of runs that differ in nothing but their seeds would lie, 95 times in 100.
 * A difference between simulator and kernel counts only beyond it.
 *
 * Student's t with the spread over seeds pooled over both engines, as is right for two sets of the same distribution: n + m − 2
 * degrees of freedom. The kernel's spread alone is of n − 1 degrees: with two seeds, which often happen to lie close together,
 * the quantile is then 12.7 and a floor that is honest shows nothing; taken with the quantile of both sets it covers 85 in 100.
 */

import { mean, sampleVariance } from 'simple-statistics';
import { significantDigits } from '../analysis/round.js';
import { studentT } from '../compare/student-t.js';

/**
 * @param sim, kernel the figure of each seed
 * @returns half width in the figure's unit; null when the kernel has fewer than two seeds, or the simulator none
 */
export function noiseFloor(sim: readonly number[], kernel: readonly number[]): number | null {
  if (kernel.length < 2 || sim.length === 0) return null;
  const degreesOfFreedom = kernel.length + sim.length - 2;
  const squares = (values: readonly number[]): number => (values.length < 2 ? 0 : sampleVariance([...values]) * (values.length - 1));
  const variance = (squares(sim) + squares(kernel)) / degreesOfFreedom;
  // Figures are written with 7 significant digits; what rounding alone can do is never a difference.
  const resolution = 10 ** (1 - significantDigits) * Math.max(...[sim, kernel].map((values) => Math.abs(mean([...values]))));
  return Math.max(resolution, studentT.quantile(0.975, degreesOfFreedom) * Math.sqrt(variance * (1 / kernel.length + 1 / sim.length)));
}
