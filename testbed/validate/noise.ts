/**
 * The noise floor of a figure: how far apart two sets of kernel runs that differ in nothing but their seeds would lie.
 * A difference between simulator and kernel counts only beyond it.
 *
 * With n seeds: the 95 % quantile of |median(A) − median(B)|, A and B drawn with replacement from the kernel's n values.
 * With two or three seeds that is their range. With one there is none, and none is assumed: 0.
 */

import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { median, quantileSorted } from 'simple-statistics';

const resamples = 1000;
const generatorSeed = 4;

/** @param values the kernel's figure of each seed @returns null when there are fewer than two */
export function noiseFloor(values: readonly number[]): number | null {
  if (values.length < 2) return null;
  if (values.length <= 3) return Math.max(...values) - Math.min(...values);
  const generator = xoroshiro128plus(generatorSeed);
  const draw = (): number => median(Array.from(values, () => values[uniformInt(generator, 0, values.length - 1)]!));
  const apart = Array.from({ length: resamples }, () => Math.abs(draw() - draw())).sort((a, b) => a - b);
  return quantileSorted(apart, 0.95);
}
