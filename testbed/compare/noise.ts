/**
 * How far two means over seeds may lie apart by chance. Welch's unequal-variances t (Welch 1947, Biometrika 34) for the
 * noise floor; percentile bootstrap (Efron & Tibshirani 1993, section 13.3) for the interval of the difference.
 */

import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { mean, quickselect, sampleStandardDeviation } from 'simple-statistics';
import { bootstrapResamples } from '../analysis/bootstrap.js';
import { significantDigits } from '../analysis/round.js';
import { studentT } from './student-t.js';

/** A figure over the seeds of one side. */
export interface Side {
  /** Runs in which it is defined. */
  readonly n: number;
  readonly mean: number | null;
  /** Sample standard deviation over seeds (n − 1); null with fewer than two. */
  readonly sd: number | null;
  readonly min: number | null;
  readonly max: number | null;
}

export function sideOf(values: readonly number[]): Side {
  if (values.length === 0) return { n: 0, mean: null, sd: null, min: null, max: null };
  return { n: values.length, mean: mean([...values]), sd: deviation(values), min: Math.min(...values), max: Math.max(...values) };
}

const constant = (values: readonly number[]): boolean => values.every((value) => value === values[0]);

/** null with fewer than two values. */
const deviation = (values: readonly number[]): number | null =>
  values.length < 2 ? null : constant(values) ? 0 : sampleStandardDeviation([...values]);

/** Which values each resample takes, by n and stream: the same for every figure, so that equal data give equal intervals. */
const resamplesOf = new Map<string, Uint32Array>();
function resamples(n: number, stream: number): Uint32Array {
  const key = `${n} ${stream}`;
  let picked = resamplesOf.get(key);
  if (picked === undefined) {
    const generator = xoroshiro128plus(7928 + stream);
    picked = Uint32Array.from({ length: n * bootstrapResamples }, () => uniformInt(generator, 0, n - 1));
    resamplesOf.set(key, picked);
  }
  return picked;
}

/**
 * Mean difference b − a and its 95 % interval.
 * @param paired a[i] and b[i] belong together and are resampled together
 */
export function bootstrapDifference(a: readonly number[], b: readonly number[], paired: boolean): { readonly difference: number; readonly ci95: readonly [number, number] | null } {
  const difference = paired ? mean(a.map((value, i) => b[i]! - value)) : mean([...b]) - mean([...a]);
  if (a.length < 2 || b.length < 2) return { difference, ci95: null };
  if (constant(a) && constant(b)) return { difference, ci95: [difference, difference] };
  const drawn = new Array<number>(bootstrapResamples).fill(0);
  const meansOf = (values: readonly number[], stream: number): Float64Array => {
    const n = values.length;
    const picked = resamples(n, stream);
    const means = new Float64Array(bootstrapResamples);
    for (let r = 0; r < bootstrapResamples; r++) {
      let sum = 0;
      for (let i = 0; i < n; i++) sum += values[picked[r * n + i]!]!;
      means[r] = sum / n;
    }
    return means;
  };
  const left = paired ? null : meansOf(a, 0);
  const right = paired ? meansOf(a.map((value, i) => b[i]! - value), 0) : meansOf(b, 1);
  for (let r = 0; r < bootstrapResamples; r++) drawn[r] = right[r]! - (left === null ? 0 : left[r]!);
  return { difference, ci95: [quantileOf(drawn, 0.025), quantileOf(drawn, 0.975)] };
}

/** As simple-statistics' quantile (the mean of two where the level falls between them), in place: sorting all resamples would take most of a comparison's time. */
function quantileOf(values: number[], level: number): number {
  const at = values.length * level;
  const nth = (k: number): number => { quickselect(values, k); return values[k]!; };
  return Number.isInteger(at) ? (nth(at - 1) + nth(at)) / 2 : nth(Math.ceil(at) - 1);
}

export interface Noise { /** 95 % of differences by seeds alone are no larger. */ readonly halfWidth: number; /** Two-sided. */ readonly p: number; readonly degreesOfFreedom: number }

/**
 * @param a, b every value over seeds of each side: where the variation comes from
 * @param usedA, usedB how many values each mean of `difference` is of
 * @returns null when no side has two values; p is the permutation test's where no value varies
 */
export function welchNoise(a: readonly number[], b: readonly number[], usedA: number, usedB: number, difference: number): Noise | null {
  const [sdA, sdB] = [deviation(a), deviation(b)];
  if (sdA === null && sdB === null) return null;
  const varianceA = (sdA ?? sdB!) ** 2 / usedA;
  const varianceB = (sdB ?? sdA!) ** 2 / usedB;
  const standardError = Math.sqrt(varianceA + varianceB);
  // Figures are written with 7 significant digits; what rounding alone can do is never a difference.
  const resolution = 10 ** (1 - significantDigits) * Math.max(Math.abs(mean([...a])), Math.abs(mean([...b])));
  const degreesOfFreedom = sdA === null ? b.length - 1 : sdB === null ? a.length - 1
    : standardError === 0 ? a.length + b.length - 2
      : Math.max(1, Math.floor(1e-9 + (varianceA + varianceB) ** 2 / (varianceA ** 2 / (a.length - 1) + varianceB ** 2 / (b.length - 1))));
  const halfWidth = Math.max(resolution, studentT.quantile(0.975, degreesOfFreedom) * standardError);
  const p = Math.abs(difference) <= resolution ? 1 : standardError === 0 ? smallestP(a.length, b.length) : studentT.twoSided(Math.abs(difference) / standardError, degreesOfFreedom);
  return { halfWidth, p, degreesOfFreedom };
}

/** Where nothing varies within the sides there is no t: all that is known is that of all ways to share out the seeds this is among the two extreme ones. */
function smallestP(a: number, b: number): number {
  let ways = 1;
  for (let i = 1; i <= Math.min(a, b); i++) ways = (ways * (Math.max(a, b) + i)) / i;
  return Math.min(1, (a === b ? 2 : 1) / ways);
}

/** Holm's step-down correction (Holm 1979, Scand. J. Statist. 6): adjusted p, in the order given. */
export function holm(ps: readonly number[]): number[] {
  const order = ps.map((_, index) => index).sort((x, y) => ps[x]! - ps[y]!);
  const adjusted = new Array<number>(ps.length).fill(1);
  let running = 0;
  order.forEach((index, rank) => {
    running = Math.max(running, Math.min(1, ps[index]! * (ps.length - rank)));
    adjusted[index] = running;
  });
  return adjusted;
}
