/**
 * One cell judged: the simulator against the kernel by the default tolerances, and the scenario's own expectations. A cell in
 * which a run is not complete is invalid: it is never judged on what is left.
 */

import { unitOf, type Unit } from '../compare/figures.js';
import type { Metrics } from '../analysis/metrics.js';
import { judge, lineOf, unitName, valuesOf, type Evidence, type JudgedLine } from '../expect/judge.js';
import type { Part } from '../expect/metric-names.js';
import type { Cell } from './cells.js';
import { compareFigure, type Compared } from './compare-figure.js';
import { defaultTolerances, formatTolerance, leastUtilisation } from './tolerances.js';

export type CellStatus = 'pass' | 'fail' | 'invalid';

/** A figure of both engines, by a default tolerance. */
export interface ComparedFigure extends Compared {
  /** As in metrics.json: `bottlenecks.BL.utilisation`. */
  readonly path: string;
  readonly owner: string;
  readonly title: string;
  readonly unit: Unit;
  /** |sim − kernel| / limit: 1 is just inside. null where undefined; Infinity where nothing is allowed. */
  readonly off: number | null;
}

export interface CellVerdict {
  readonly status: CellStatus;
  /** Why it could not be judged; null: it was. */
  readonly problem: string | null;
  readonly figures: readonly ComparedFigure[];
  readonly lines: readonly JudgedLine[];
}

export function judgeCell(cell: Cell, evidence: { readonly kernel: Evidence; readonly sim: Evidence }): CellVerdict {
  const { kernel, sim } = evidence;
  const missing = [...(kernel.missing === null ? [] : [`kernel: ${kernel.missing}`]), ...(sim.missing === null ? [] : [`simulator: ${sim.missing}`])];
  if (missing.length > 0) return { status: 'invalid', problem: missing.join('; '), figures: [], lines: [] };
  const figures = compareByDefault(cell, kernel, sim);
  const lines = judge({
    expectations: cell.expectations, varied: cell.variant.varied, evidence, sources: cell.sources,
    byDefault: () => figures.map((figure) => lineOf(`sim ~ kernel: ${figure.owner} ${figure.title}`, figure, figure.unit)),
  });
  const unjudged = lines.filter(({ status }) => status === 'unjudged');
  const failed = figures.some(({ verdict }) => verdict === 'differs') || lines.some(({ status }) => status === 'fail');
  return {
    status: failed ? 'fail' : unjudged.length > 0 ? 'invalid' : 'pass',
    problem: unjudged.length > 0 ? unjudged.map(({ text, message }) => `${text}: ${message}`).join('; ') : null,
    figures, lines,
  };
}

function compareByDefault(cell: Cell, kernel: Evidence, sim: Evidence): ComparedFigure[] {
  // A tolerance written in the scenario replaces the default of that figure.
  const own = new Set(cell.expectations.flatMap((line) => (line.kind === 'engines' ? line.figures.map(({ figure }) => `${figure.part}.${figure.owner}.${figure.field}`) : [])));
  const ownersIn = (part: Part): string[] => [...new Set([...kernel.metrics, ...sim.metrics].flatMap((metrics) => Object.keys(metrics[part])))];
  return defaultTolerances.flatMap((tolerance) => ownersIn(tolerance.of).filter((owner) => tolerance.of !== 'bottlenecks' || carries(owner, [...kernel.metrics, ...sim.metrics])).flatMap((owner): ComparedFigure[] => {
    const path = `${tolerance.of}.${owner}.${tolerance.figure}`;
    if (own.has(path)) return [];
    const figure = { part: tolerance.of, owner, field: tolerance.figure };
    const compared = compareFigure(valuesOf(sim, figure), valuesOf(kernel, figure), tolerance);
    return compared.verdict === 'undefined' ? [] : [{ ...compared, path, owner, title: tolerance.title, unit: unitOf(path), off: off(compared) }];
  }));
}

/** Whether a bottleneck has traffic to speak of in any run. */
const carries = (owner: string, metrics: readonly Metrics[]): boolean => metrics.some(({ bottlenecks }) => (bottlenecks[owner]?.utilisation ?? 0) >= leastUtilisation);

function off({ sim, kernel, limit }: Compared): number | null {
  if (sim === null || kernel === null) return null;
  const difference = Math.abs(sim - kernel);
  return limit > 0 ? difference / limit : difference === 0 ? 0 : Infinity;
}

/** The figure that is furthest off among those that count; of a cell that passes, the furthest of all. */
export function worst({ figures }: CellVerdict): ComparedFigure | null {
  const counted = figures.some(({ verdict }) => verdict === 'differs') ? figures.filter(({ verdict }) => verdict === 'differs') : figures;
  return counted.reduce<ComparedFigure | null>((most, next) => (most === null || (next.off ?? Infinity) > (most.off ?? Infinity) ? next : most), null);
}

export const tolerancesText = (): string => defaultTolerances.map((tolerance) => `${tolerance.title} ${formatTolerance(tolerance, unitName(unitOf(tolerance.figure)))}`).join('; ');
