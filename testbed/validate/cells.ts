/** What is to be validated: scenario files found, loaded, and taken apart into cells, one a combination of varied values. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { ScenarioError, UserError } from '../errors.js';
import { parseExpectations, type Expectation } from '../expect/parse.js';
import { readSources, type PublishedFigure } from '../expect/published.js';
import { layoutOf } from '../network/steps.js';
import { compile } from '../plan/compile.js';
import type { Plan } from '../plan/plan.js';
import { formatVaried } from '../report/format.js';
import { expand } from '../scenario/expand.js';
import { load } from '../scenario/load.js';
import type { Scenario, Variant } from '../scenario/scenario.js';

export interface Cell {
  readonly file: string;
  readonly scenario: Scenario;
  readonly variant: Variant;
  /** `dumbbell (queue=codel, rtt=50ms)`. */
  readonly title: string;
  readonly expectations: readonly Expectation[];
  readonly sources: ReadonlyMap<string, readonly PublishedFigure[]>;
}
export interface BadFile { readonly file: string; readonly message: string }

/** @throws UserError when a path is not there, or a folder holds no scenario */
export function findFiles(paths: readonly string[]): string[] {
  const found = paths.flatMap((given) => {
    const stat = fs.statSync(given, { throwIfNoEntry: false });
    if (stat === undefined) throw new UserError(`${given}: there is no such file or folder; expected scenario files or folders of them, such as scenarios/smoke`, 2);
    if (!stat.isDirectory()) return [given];
    const inside = (fs.readdirSync(given, { recursive: true }) as string[]).filter((name) => /\.ya?ml$/.test(name)).sort().map((name) => path.join(given, name));
    if (inside.length === 0) throw new UserError(`${given}: there is no scenario (*.yaml) in this folder`, 2);
    return inside;
  });
  return [...new Set(found)];
}

/** Loads each file; those that are wrong are told and do not stop the others. */
export function loadCells(files: readonly string[], set: readonly string[]): { readonly cells: readonly Cell[]; readonly bad: readonly BadFile[] } {
  const cells: Cell[] = [];
  const bad: BadFile[] = [];
  for (const file of files) {
    try {
      const scenario = load(file, { set });
      const sources = readSources(scenario);
      const own = scenario.variants.map((variant): Cell => ({
        file, scenario, variant, sources,
        title: Object.keys(variant.varied).length === 0 ? scenario.name : `${scenario.name} (${cellLabel(variant.varied)})`,
        expectations: parseExpectations(variant.expect ?? [], expand(variant).expanded).expectations,
      }));
      // What the kernel's network cannot be made of (queues only the simulator has, contradicting parameters) is found now.
      for (const cell of own) layoutOf(planOf(cell, scenario.seeds[0]!));
      cells.push(...own);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      bad.push({ file, message: error instanceof ScenarioError ? error.message : `${file}: ${error.message}` });
    }
  }
  return { cells, bad };
}

export const planOf = (cell: Cell, seed: number): Plan => compile(cell.scenario, { seed, variant: cell.variant, clock: 'virtual' });

/** What is varied, without how long it was measured: that a slow path has a longer window is not what tells cells apart. */
export function cellVaried(varied: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const telling = Object.fromEntries(Object.entries(varied).filter(([key]) => !key.startsWith('measure.')));
  return Object.keys(telling).length > 0 ? telling : varied;
}

/** `queue=codel, rate=5mbit`: `rate.forward` is called rate. */
export const cellLabel = (varied: Readonly<Record<string, string>>): string =>
  formatVaried(Object.fromEntries(Object.entries(cellVaried(varied)).map(([key, value]) => [key.replace(/\.forward$/, ''), value])));

/** `--only TEXT`: cells whose title has every one of its words: `codel,rtt=50ms`, `smoke`. A word with = must be a whole setting. */
export function only(cells: readonly Cell[], words: readonly string[]): readonly Cell[] {
  if (words.length === 0) return cells;
  const chosen = cells.filter((cell) => words.some((text) => text.split(',').map((word) => word.trim()).every((word) => matches(cell, word))));
  if (chosen.length === 0) throw new UserError(`--only ${words.join(' ')}: no cell is called that; there are ${cells.slice(0, 5).map(({ title }) => title).join('; ')}${cells.length > 5 ? `; … (${cells.length} in all)` : ''}`, 2);
  return chosen;
}

const matches = (cell: Cell, word: string): boolean =>
  (word.includes('=') ? cellLabel(cell.variant.varied).split(', ').includes(word) : cell.title.includes(word) || cell.file.includes(word));
