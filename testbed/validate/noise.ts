/**
 * The noise floor of a figure: how far apart two sets of kernel runs that differ in nothing but their seeds would lie, 95 times
 * in 100 (Welch's t over seeds, testbed/compare/noise.ts). A difference between simulator and kernel counts only beyond it.
 */

import { welchNoise } from '../compare/noise.js';

/** @param values the kernel's figure of each seed @returns null when there are fewer than two */
export function noiseFloor(values: readonly number[]): number | null {
  return values.length < 2 ? null : welchNoise(values, values, values.length, values.length, 0)!.halfWidth;
}
