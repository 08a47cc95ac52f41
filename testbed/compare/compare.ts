/**
 * Two groups of runs, figure by figure: how far apart they are, and whether seeds alone could make them so.
 * Pure: figures in, differences out. What the statistics are and assume is in `assumptions` and in docs/compare.md.
 */

import { bootstrapDifference, sideOf, welchNoise } from './noise.js';
import type { Side } from './noise.js';
import { isSampleCount, unitOf } from './figures.js';
import type { Figures, Unit } from './figures.js';

export type { Side } from './noise.js';
export type { Figures, Unit } from './figures.js';
export { figuresOf } from './figures.js';

/** One run: its seed and every number of its metrics.json (`figuresOf(metrics)`). */
export interface RunFigures {
  readonly seed: number;
  readonly figures: Figures;
}

/**
 * - `inside`: the difference is no more than what other seeds alone would make of it (|difference| ≤ noise);
 * - `outside`: it is more;
 * - `unknown`: both sides have it, but no side has it from two seeds, so there is no noise to compare with;
 * - `undefined`: a side does not have it (null in all its runs, or not in its metrics.json).
 */
export type Verdict = 'inside' | 'outside' | 'unknown' | 'undefined';

export interface FigureDifference {
  /** Path in metrics.json: `bottlenecks.BL1.queueDelayMs.p50`. */
  readonly figure: string;
  /** Of `difference`, `noise`, `ci95` and the sides' figures. `ratio`: 0 … 1. */
  readonly unit: Unit;
  /** A sample count (`….n`) is told, not judged: its verdict is left out of the counts. */
  readonly role: 'figure' | 'samples';
  readonly reference: Side;
  readonly other: Side;
  /** other − reference: mean of the differences seed by seed if paired, else difference of the means. null if a side is undefined. */
  readonly difference: number | null;
  /** difference / |mean of the reference's runs used|; null where that is 0. */
  readonly relative: number | null;
  /** Whether the difference and its interval are of runs of the same seed. */
  readonly paired: boolean;
  /** Pairs if paired, else null. */
  readonly pairs: number | null;
  /** 95 % percentile bootstrap interval of `difference` over seeds; null with fewer than two seeds on a side (or two pairs). */
  readonly ci95: readonly [number, number] | null;
  /** The difference that seeds alone stay within 95 times in 100; null when no side has two seeds. */
  readonly noise: number | null;
  /** Two-sided p of the same test (Welch's t over seeds; a permutation of seeds where no value varies); null when `noise` is. */
  readonly p: number | null;
  readonly verdict: Verdict;
}

export interface RunsComparison {
  readonly referenceSeeds: readonly number[];
  readonly otherSeeds: readonly number[];
  /** Seeds both sides have, if runs are paired by them. */
  readonly pairedSeeds: readonly number[] | null;
  /** Every figure of either side, in the order of metrics.json. */
  readonly figures: readonly FigureDifference[];
  /** Of the figures (sample counts left out). */
  readonly counts: Readonly<Record<Verdict, number>>;
}

export interface CompareRunsOptions {
  /** Compare runs of one seed with one another. Default: when every seed of the smaller side is among the other's. */
  readonly pair?: boolean;
}

/** What the figures of a `RunsComparison` rest on; printed wherever they are. */
export const assumptions: readonly string[] = [
  'The unit is the run: one value of a figure a seed. Seeds are taken to be independent draws of the same workload.',
  'Difference: mean over seeds; of runs of the same seed (same start times, sizes and arrivals) where the seeds match, else of the two means.',
  '95 % interval: percentile bootstrap of that difference over seeds (2000 resamples, fixed generator). With fewer than about 8 seeds it is too narrow.',
  'Noise: 97.5 % quantile of Student’s t × standard error of the difference of two means, from the variation over seeds within each side (Welch; degrees of freedom rounded down). Assumes values over seeds near normal; a side with one seed takes the other’s variation. Where nothing varies within the sides, p is that of a permutation of seeds.',
  'Each figure is judged on its own at 95 %: of figures that do not differ, about one in twenty falls outside the noise by chance, and figures of one queue move together.',
];

/**
 * Compares every figure of two groups of runs.
 * @param reference at least one run
 * @param other at least one run
 * @throws RangeError when a side has no run
 */
export function compareRuns(reference: readonly RunFigures[], other: readonly RunFigures[], options: CompareRunsOptions = {}): RunsComparison {
  if (reference.length === 0 || other.length === 0) throw new RangeError('a side without runs cannot be compared');
  const seeds = pairedSeeds(reference, other, options.pair);
  const paths = mergedPaths([...reference, ...other].map(({ figures }) => figures));
  const figures = paths.map((path) => compareFigure(path, reference, other, seeds));
  const counts: Record<Verdict, number> = { inside: 0, outside: 0, unknown: 0, undefined: 0 };
  for (const { role, verdict } of figures) if (role === 'figure') counts[verdict]++;
  return { referenceSeeds: reference.map(({ seed }) => seed), otherSeeds: other.map(({ seed }) => seed), pairedSeeds: seeds, figures, counts };
}

/** @returns the seeds runs are paired by, ascending; null when they are not */
export function pairedSeeds(reference: readonly { readonly seed: number }[], other: readonly { readonly seed: number }[], pair?: boolean): readonly number[] | null {
  const [a, b] = [reference.map(({ seed }) => seed), other.map(({ seed }) => seed)];
  if (pair === false || new Set(a).size < a.length || new Set(b).size < b.length) return null; // a seed run twice has no one partner
  const common = a.filter((seed) => b.includes(seed)).sort((x, y) => x - y);
  const enough = pair === true ? common.length > 0 : common.length === Math.min(a.length, b.length);
  return enough ? common : null;
}

/** The first run's order, with what others have beside it put after its neighbour. */
function mergedPaths(runs: readonly Figures[]): string[] {
  const order: string[] = [];
  const known = new Set<string>();
  for (const figures of runs) {
    let after = -1;
    for (const path of Object.keys(figures)) {
      if (known.has(path)) {
        if (order[after + 1] === path) after++;
        else after = order.indexOf(path);
      } else {
        known.add(path);
        order.splice(++after, 0, path);
      }
    }
  }
  return order;
}

const valueOf = (run: RunFigures, path: string): number | null => {
  const value = Object.hasOwn(run.figures, path) ? run.figures[path] : null;
  return value === null || value === undefined || !Number.isFinite(value) ? null : value;
};

function compareFigure(figure: string, reference: readonly RunFigures[], other: readonly RunFigures[], seeds: readonly number[] | null): FigureDifference {
  const defined = (runs: readonly RunFigures[]): number[] => runs.flatMap((run) => valueOf(run, figure) ?? []);
  const [a, b] = [defined(reference), defined(other)];
  const bySeed = (runs: readonly RunFigures[], seed: number): number | null => valueOf(runs.find((run) => run.seed === seed)!, figure);
  const pairs = seeds?.flatMap((seed): [number, number][] => {
    const [x, y] = [bySeed(reference, seed), bySeed(other, seed)];
    return x === null || y === null ? [] : [[x, y]];
  }) ?? [];
  const head = { figure, unit: unitOf(figure), role: isSampleCount(figure) ? 'samples' : 'figure', reference: sideOf(a), other: sideOf(b) } as const;
  if (a.length === 0 || b.length === 0) {
    return { ...head, difference: null, relative: null, paired: false, pairs: null, ci95: null, noise: null, p: null, verdict: 'undefined' };
  }
  // A figure undefined in the runs of every common seed is compared without pairs.
  const paired = pairs.length > 0;
  const [used, against] = paired ? [pairs.map(([x]) => x), pairs.map(([, y]) => y)] : [a, b];
  const { difference, ci95 } = bootstrapDifference(used, against, paired);
  const base = Math.abs(mean(used));
  const noise = welchNoise(a, b, used.length, against.length, difference);
  return {
    ...head, difference, relative: base === 0 ? null : difference / base, paired, pairs: paired ? pairs.length : null, ci95,
    noise: noise?.halfWidth ?? null, p: noise?.p ?? null,
    verdict: noise === null ? 'unknown' : Math.abs(difference) <= noise.halfWidth ? 'inside' : 'outside',
  };
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
