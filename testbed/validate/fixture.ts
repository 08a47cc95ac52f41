/** Outcomes made by hand, for tests of what is made of them. */

import type { ComparedFigure } from './judge-cell.js';
import { compareFigure } from './compare-figure.js';
import type { ValidatedCell, Validation } from './validation.js';

export function figure(sim: number | null, kernel: number | null, more: Partial<ComparedFigure> = {}): ComparedFigure {
  const compared = compareFigure(sim === null ? [] : [sim], kernel === null ? [] : [kernel], { relative: 0.1, absolute: 1 });
  return { ...compared, path: 'bottlenecks.BL.queueDelayMs.p50', owner: 'BL', title: 'queueing, median', unit: 'ms', off: sim === null || kernel === null ? null : Math.abs(sim - kernel) / compared.limit, ...more };
}

export const cell = (more: Partial<ValidatedCell> = {}): ValidatedCell => ({
  title: 'grid (queue=codel)', file: 'scenarios/grid/aqms.yaml', scenario: 'grid', varied: { queue: 'codel' }, seeds: [1, 2], status: 'pass', problem: null,
  figures: [figure(5, 5.2)], lines: [], replay: null, runs: { kernel: [], sim: [] }, reports: [], tookS: 1.5, ...more,
});

export const validation = (cells: readonly ValidatedCell[], more: Partial<Validation> = {}): Validation =>
  ({ schema: 1, machine: 'uml:6.12', kernel: '6.12.117', tolerances: 'queueing, median 10 % or 1 ms', method: 'Medians.', cells, bad: [], interrupted: false, ...more });
