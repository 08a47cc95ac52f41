/**
 * What decision replay says of all cells together where chance decides: the kernel's drops and marks are independent given the
 * probabilities, so over all cells too they add up (testbed/replay/chance.ts). A probability that is off by little shows here first.
 */

import { zBound } from '../replay/chance.js';
import { formatCount } from '../report/format.js';
import type { ValidatedCell } from './validation.js';

export interface ChanceOfAll {
  /** Cells in which chance decides. */
  readonly cells: number;
  /** Drops and marks by chance in all of them, and what the probabilities add up to. */
  readonly happened: number;
  readonly expected: number;
  /** (happened − expected) / standard deviation, of all, and of the cell where it is largest. */
  readonly z: number;
  readonly furthestZ: number;
  /** Beyond it the former disagrees (by chance once in a thousand validations), and beyond `cellBound` a cell. */
  readonly bound: number;
  readonly cellBound: number;
  readonly agrees: boolean;
}

/** null: chance decides in none. */
export function chanceOfAll(cells: readonly ValidatedCell[]): ChanceOfAll | null {
  const own = cells.flatMap(({ replay }) => (replay === null || replay.chance === null ? [] : [replay.chance]));
  if (own.length === 0) return null;
  const sum = (of: (one: (typeof own)[number]) => number): number => own.reduce((total, one) => total + of(one), 0);
  const [happened, expected, deviation] = [sum((one) => one.happened), sum((one) => one.expected), Math.sqrt(sum((one) => one.deviation ** 2))];
  const zOf = (difference: number, by: number): number => (by > 0 ? difference / by : 0);
  const z = zOf(happened - expected, deviation), bound = zBound();
  const furthestZ = own.map((one) => zOf(one.happened - one.expected, one.deviation)).reduce((furthest, one) => (Math.abs(one) > Math.abs(furthest) ? one : furthest));
  return { cells: own.length, happened, expected, z, furthestZ, bound, cellBound: zBound(cells.length), agrees: Math.abs(z) <= bound };
}

/** A sentence. */
export const chanceText = ({ cells, happened, expected, z, furthestZ, bound, cellBound, agrees }: ChanceOfAll): string =>
  `In the ${cells} cell${cells === 1 ? '' : 's'} where chance decides the kernel dropped or marked ${formatCount(happened)} packets, where ${formatCount(expected)} are expected: z ${z.toFixed(1)}, ${agrees ? 'within' : 'beyond'} ${bound.toFixed(1)}; furthest in one cell ${furthestZ.toFixed(1)} of ${cellBound.toFixed(1)} (both bounds are passed by chance once in 1000 validations: two-sided normal, Bonferroni over the cells).`;
