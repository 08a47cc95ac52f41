/**
 * Whether distributions of two sides lie farther apart than those of different seeds of one side: distances between runs,
 * and a permutation test (Good 2005, Permutation, Parametric and Bootstrap Tests) with the run as the unit. Packets of a queue follow one another
 * and are anything but independent, so the textbook p of a Kolmogorov–Smirnov test over packets would be far too small.
 */

import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { mean, quantileSorted } from 'simple-statistics';

export interface SeedNoise {
  /** Mean distance between a run of the reference and one of the other side (of another seed, where seeds are paired). */
  readonly between: number | null;
  /** Distances between runs of one side: the noise. */
  readonly within: { readonly pairs: number; readonly mean: number; /** 95 % quantile. */ readonly p95: number } | null;
  /** `between` against `within.p95`; unknown when no side has two runs. */
  readonly verdict: 'inside' | 'outside' | 'unknown';
  /** One-sided; null where there are too few runs to shuffle. */
  readonly permutation: { readonly p: number; /** No p can be smaller with so few runs. */ readonly smallestP: number; readonly relabellings: number; readonly exact: boolean } | null;
}

const mostRelabellings = 5000;

/**
 * @param distance between runs i and j, the reference's first: a symmetric matrix
 * @param paired run i of the reference and run i of the other side have one seed: labels are swapped within pairs only
 */
export function seedNoise(distance: readonly (readonly number[])[], referenceRuns: number, paired: boolean): SeedNoise {
  const total = distance.length;
  const otherRuns = total - referenceRuns;
  const sameSeed = (i: number, j: number): boolean => paired && Math.abs(i - j) === referenceRuns;
  const ofReference = Array.from({ length: total }, (_, i) => i < referenceRuns);
  const split = (labels: readonly boolean[]): { between: number[]; within: number[] } => {
    const between: number[] = [];
    const within: number[] = [];
    for (let i = 0; i < total; i++) for (let j = i + 1; j < total; j++) if (!sameSeed(i, j)) (labels[i] === labels[j] ? within : between).push(distance[i]![j]!);
    return { between, within };
  };
  const { between, within } = split(ofReference);
  const lone = paired && referenceRuns === 1 ? distance[0]![1]! : null;
  const middle = between.length > 0 ? mean(between) : lone;
  if (within.length === 0 || middle === null) return { between: middle, within: null, verdict: 'unknown', permutation: null };
  const p95 = quantileSorted([...within].sort((x, y) => x - y), 0.95);
  return {
    between: middle, within: { pairs: within.length, mean: mean(within), p95 }, verdict: middle <= p95 ? 'inside' : 'outside',
    permutation: permutationTest((labels) => { const parts = split(labels); return parts.within.length === 0 ? -Infinity : mean(parts.between) - mean(parts.within); }, ofReference, referenceRuns, otherRuns, paired),
  };
}

function permutationTest(statistic: (labels: readonly boolean[]) => number, observed: readonly boolean[], referenceRuns: number, otherRuns: number, paired: boolean): SeedNoise['permutation'] {
  const all = paired ? 2 ** referenceRuns : binomial(referenceRuns + otherRuns, referenceRuns);
  const exact = all <= mostRelabellings;
  const labelings = exact ? (paired ? everySwap(observed, referenceRuns) : everyChoice(referenceRuns + otherRuns, referenceRuns)) : drawn(observed, referenceRuns, paired);
  const seen = statistic(observed);
  let count = 0;
  let reached = 0;
  for (const labels of labelings) {
    count++;
    if (statistic(labels) >= seen - 1e-12 * Math.abs(seen)) reached++;
  }
  // Swapping all labels gives the same distances, so with sides of one size no labelling is alone.
  const mirrored = referenceRuns === otherRuns ? 2 : 1;
  return exact ? { p: reached / count, smallestP: mirrored / all, relabellings: count, exact }
    : { p: (reached + 1) / (count + 1), smallestP: 1 / (count + 1), relabellings: count, exact };
}

function binomial(n: number, k: number): number {
  let value = 1;
  for (let i = 1; i <= k; i++) value = (value * (n - k + i)) / i;
  return Math.round(value);
}

function* everySwap(observed: readonly boolean[], pairs: number): Generator<readonly boolean[]> {
  for (let bits = 0; bits < 2 ** pairs; bits++) yield observed.map((label, i) => (Math.floor(bits / 2 ** (i % pairs)) % 2 === 1 ? !label : label));
}

function* everyChoice(total: number, chosen: number): Generator<readonly boolean[]> {
  const labels = new Array<boolean>(total).fill(false);
  function* choose(from: number, left: number): Generator<readonly boolean[]> {
    if (left === 0) { yield labels; return; }
    for (let i = from; i <= total - left; i++) {
      labels[i] = true;
      yield* choose(i + 1, left - 1);
      labels[i] = false;
    }
  }
  yield* choose(0, chosen);
}

function* drawn(observed: readonly boolean[], referenceRuns: number, paired: boolean): Generator<readonly boolean[]> {
  const generator = xoroshiro128plus(7928);
  for (let r = 0; r < mostRelabellings; r++) {
    const labels = [...observed];
    if (paired) {
      for (let i = 0; i < referenceRuns; i++) if (uniformInt(generator, 0, 1) === 1) [labels[i], labels[i + referenceRuns]] = [labels[i + referenceRuns]!, labels[i]!];
    } else {
      for (let i = labels.length - 1; i > 0; i--) {
        const j = uniformInt(generator, 0, i);
        [labels[i], labels[j]] = [labels[j]!, labels[i]!];
      }
    }
    yield labels;
  }
}
