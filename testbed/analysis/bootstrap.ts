/**
 * Percentile bootstrap (Efron & Tibshirani 1993, section 13.3) of a median over seeds: resample the values with replacement
 * B times, take each resample's median, and report the 2.5 % and 97.5 % quantiles. The generator's seed is fixed and the
 * resamples depend on n alone, so the same values give the same interval in any order of computation.
 */

import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { median, quantileSorted } from 'simple-statistics';

export const bootstrapResamples = 2000;
const generatorSeed = 7928;

/** For n sorted values: which two of them are the middle of each resample (the same one twice when n is odd). */
interface Middles { readonly lower: Uint32Array; readonly upper: Uint32Array }
const middlesOf = new Map<number, Middles>();

function resampleMiddles(n: number): Middles {
  let middles = middlesOf.get(n);
  if (middles === undefined) {
    const generator = xoroshiro128plus(generatorSeed);
    const picked = new Uint32Array(n);
    middles = { lower: new Uint32Array(bootstrapResamples), upper: new Uint32Array(bootstrapResamples) };
    for (let r = 0; r < bootstrapResamples; r++) {
      for (let i = 0; i < n; i++) picked[i] = uniformInt(generator, 0, n - 1);
      picked.sort(); // the values are sorted, so sorting their indices sorts the resample
      middles.lower[r] = picked[(n - 1) >> 1]!;
      middles.upper[r] = picked[n >> 1]!;
    }
    middlesOf.set(n, middles);
  }
  return middles;
}

export interface MedianInterval { readonly median: number; /** null for a single value. */ readonly ci95: readonly [number, number] | null }

/** @param values at least one, finite */
export function medianInterval(values: readonly number[]): MedianInterval {
  const sorted = [...values].sort((a, b) => a - b);
  const n = sorted.length;
  const middle = median(sorted);
  if (n < 2) return { median: middle, ci95: null };
  if (sorted[0] === sorted[n - 1]) return { median: middle, ci95: [middle, middle] };
  const { lower, upper } = resampleMiddles(n);
  const medians = new Float64Array(bootstrapResamples);
  for (let r = 0; r < bootstrapResamples; r++) medians[r] = (sorted[lower[r]!]! + sorted[upper[r]!]!) / 2;
  const ordered = [...medians.sort()];
  return { median: middle, ci95: [quantileSorted(ordered, 0.025), quantileSorted(ordered, 0.975)] };
}
