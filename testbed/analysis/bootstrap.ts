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

const indexTables = new Map<number, Uint32Array>();

/** Row r of n indices = resample r. */
function resampleIndices(n: number): Uint32Array {
  let table = indexTables.get(n);
  if (table === undefined) {
    const generator = xoroshiro128plus(generatorSeed);
    table = new Uint32Array(bootstrapResamples * n);
    for (let i = 0; i < table.length; i++) table[i] = uniformInt(generator, 0, n - 1);
    indexTables.set(n, table);
  }
  return table;
}

export interface MedianInterval { readonly median: number; /** null for a single value. */ readonly ci95: readonly [number, number] | null }

/** @param values at least one, finite */
export function medianInterval(values: readonly number[]): MedianInterval {
  const sorted = [...values].sort((a, b) => a - b);
  const n = sorted.length;
  const middle = median(sorted);
  if (n < 2) return { median: middle, ci95: null };
  if (sorted[0] === sorted[n - 1]) return { median: middle, ci95: [middle, middle] };
  const indices = resampleIndices(n);
  const medians = new Float64Array(bootstrapResamples);
  const picked = new Uint32Array(n);
  for (let r = 0; r < bootstrapResamples; r++) {
    picked.set(indices.subarray(r * n, (r + 1) * n));
    picked.sort(); // indices into sorted values: sorting them sorts the resample
    medians[r] = n % 2 === 1 ? sorted[picked[(n - 1) / 2]!]! : (sorted[picked[n / 2 - 1]!]! + sorted[picked[n / 2]!]!) / 2;
  }
  const ordered = [...medians.sort()];
  return { median: middle, ci95: [quantileSorted(ordered, 0.025), quantileSorted(ordered, 0.975)] };
}
