/** The outcome of a validation as data, `validation.json`: what the page, the JUnit file, the tables and the exit code are made of. */

import type { JudgedLine } from '../expect/judge.js';
import { chanceOfAll } from './chance-of-all.js';
import type { CellStatus, ComparedFigure } from './judge-cell.js';

export interface ValidatedCell {
  readonly title: string;
  readonly file: string;
  readonly scenario: string;
  /** What tells it from the file's other cells; empty when nothing varies. */
  readonly varied: Readonly<Record<string, string>>;
  readonly seeds: readonly number[];
  readonly status: CellStatus;
  readonly problem: string | null;
  readonly figures: readonly ComparedFigure[];
  readonly lines: readonly JudgedLine[];
  /** Decision replay of the kernel's runs (layer 2), where their queue can be judged so; null: not judged. */
  readonly replay: ReplayVerdict | null;
  /** Folders of its runs below the results folder, in the order of seeds. */
  readonly runs: { readonly kernel: readonly string[]; readonly sim: readonly string[] };
  /** Pages below the results folder that exist, with what to call them. */
  readonly reports: readonly { readonly title: string; readonly href: string }[];
  /** Wall time of its runs, s, whenever they were made. */
  readonly tookS: number;
}

export interface ReplayVerdict {
  readonly status: 'pass' | 'fail' | 'invalid';
  /** `68 782 decisions, 0 differ`. */
  readonly message: string;
  /** Drops and marks that chance decided: the kernel's, and what the probabilities add up to. null: it decides none. */
  readonly chance: { readonly happened: number; readonly expected: number; readonly deviation: number } | null;
}

export interface Validation {
  readonly schema: 1;
  readonly machine: string;
  /** Kernel release, null if no run says. */
  readonly kernel: string | null;
  readonly tolerances: string;
  readonly method: string;
  readonly cells: readonly ValidatedCell[];
  /** Files that could not be run at all. */
  readonly bad: readonly { readonly file: string; readonly message: string }[];
  readonly interrupted: boolean;
}

export interface Counts {
  readonly pass: number; readonly fail: number; readonly invalid: number;
  /** Of the cells that pass: those with every figure inside its tolerance without the noise floor. */
  readonly inside: number;
}
export function countCells(cells: readonly ValidatedCell[]): Counts {
  const of = (status: CellStatus): number => cells.filter((cell) => cell.status === status).length;
  return { pass: of('pass'), fail: of('fail'), invalid: of('invalid'), inside: cells.filter((cell) => cell.status === 'pass' && cell.figures.every(({ verdict }) => verdict === 'agrees')).length };
}

/** 0: every cell passes. 1: one does not, or its replay does not, or the replays together. 2: something could not be judged. 130: interrupted. */
export function exitCode({ cells, bad, interrupted }: Validation): number {
  if (interrupted) return 130;
  const { fail, invalid } = countCells(cells);
  return invalid > 0 || bad.length > 0 || cells.some(({ replay }) => replay?.status === 'invalid') ? 2 : fail > 0 || cells.some(({ replay }) => replay?.status === 'fail') || chanceOfAll(cells)?.agrees === false ? 1 : 0;
}
