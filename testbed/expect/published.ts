/**
 * Published figures: a JSON file of results/, each with its citation, in one of two forms:
 *
 *     { "source": "…", "figures": [{ "figure": "utilisation", "unit": "%", "published": 99, "tolerance": { "absolute": 1.5 }, "queue": "codel", … }] }
 *     { "source": "…", "runs": [{ "cc": "reno", "flows": 1, "goodputMbps": 15.85 }] }     (every number is a figure, its unit the end of its name)
 *
 * The other keys of an entry say which experiment it is of; `where` of an expectation and what a scenario varies choose by them.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { z } from 'zod';
import { projectFile } from '../../kernel/project.js';
import type { Unit } from '../compare/figures.js';
import type { Scenario } from '../scenario/scenario.js';
import type { Problem } from '../scenario/problem.js';
import type { Tolerance } from '../validate/tolerances.js';
import { expand } from '../scenario/expand.js';
import { parseExpectations, type Published } from './parse.js';

export interface PublishedFigure {
  /** The source's name of it. */
  readonly figure: string;
  readonly unit: string;
  readonly value: number;
  /** In the source's unit. */
  readonly tolerance: Tolerance | null;
  /** `below`: published as "less than". */
  readonly relation: 'equal' | 'below' | 'above';
  /** Why it is known not to be met; null: it should be. */
  readonly missed: string | null;
  readonly keys: Readonly<Record<string, string>>;
}

const zEntry = z.looseObject({
  figure: z.string(), unit: z.string().optional(), published: z.number(), relation: z.enum(['below', 'above']).optional(), missed: z.string().optional(),
  tolerance: z.object({ relative: z.number().optional(), absolute: z.number().optional() }).optional(),
});
const zSource = z.looseObject({ source: z.string(), figures: z.array(zEntry).optional(), runs: z.array(z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]))).optional() });

/** Units by the end of a name, as in `pingMeanMs`. */
const endings: readonly (readonly [RegExp, string])[] = [[/Mbps$/, 'Mbit/s'], [/Bps$/, 'bit/s'], [/Ms$/, 'ms'], [/S$/, 's'], [/(?:Percent|Pct)$/, '%']];

/** @returns the figures, or a message that says what is wrong with the file */
export function readPublished(file: string): readonly PublishedFigure[] | string {
  let data: unknown;
  try {
    data = JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch (error) {
    return `${file}: cannot be read as JSON (${error instanceof Error ? error.message : String(error)})`;
  }
  const parsed = zSource.safeParse(data);
  if (!parsed.success) return `${file}: is not a file of published figures: ${parsed.error.issues.slice(0, 3).map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ')}`;
  const { figures = [], runs = [] } = parsed.data;
  const asText = (entry: Readonly<Record<string, unknown>>, without: readonly string[]): Record<string, string> =>
    Object.fromEntries(Object.entries(entry).flatMap(([key, value]) => (without.includes(key) || typeof value === 'object' ? [] : [[key, String(value)]])));
  return [
    ...figures.map((entry): PublishedFigure => ({
      figure: entry.figure, unit: entry.unit ?? '', value: entry.published, relation: entry.relation ?? 'equal', missed: entry.missed ?? null,
      tolerance: entry.tolerance === undefined ? null : { relative: entry.tolerance.relative ?? null, absolute: entry.tolerance.absolute ?? null },
      keys: asText(entry, ['figure', 'unit', 'published', 'relation', 'missed', 'tolerance']),
    })),
    ...runs.flatMap((run) => Object.entries(run).flatMap(([figure, value]): PublishedFigure[] => (typeof value !== 'number' ? [] : [{
      figure, unit: endings.find(([ending]) => ending.test(figure))?.[1] ?? '', value, relation: 'equal', missed: null, tolerance: null, keys: asText(run, [figure]),
    }]))),
  ];
}

const toBase: Readonly<Record<string, readonly [number, readonly Unit[]]>> = {
  'ns': [1e-9, ['ms', 's']], 'us': [1e-6, ['ms', 's']], 'ms': [1e-3, ['ms', 's']], 's': [1, ['ms', 's']],
  '%': [0.01, ['ratio']], '': [1, ['ratio', 'index', 'count', 'packets', 'bytes']], 'packets': [1, ['packets', 'count']],
  'bit/s': [1, ['bit/s']], 'kbit/s': [1e3, ['bit/s']], 'Mbit/s': [1e6, ['bit/s']], 'Gbit/s': [1e9, ['bit/s']], 'B': [1, ['bytes']], 'kB': [1e3, ['bytes']],
};

/** How many of our unit one of the source's is; null: not the same kind of quantity. */
export function scaleTo(unit: string, ours: Unit): number | null {
  const base = Object.hasOwn(toBase, unit) ? toBase[unit]! : undefined;
  if (base === undefined || !base[1].includes(ours)) return null;
  return ours === 'ms' ? base[0] * 1e3 : base[0];
}

/** The source's figures that an expectation is about, for one combination of varied values. */
export function chosen(all: readonly PublishedFigure[], { where, figures, names }: Published, varied: Readonly<Record<string, string>>): readonly PublishedFigure[] {
  return all.filter((entry) => {
    if (!Object.hasOwn(figures, entry.figure)) return false;
    for (const [key, value] of Object.entries(where)) if (entry.keys[key] !== value) return false;
    for (const [key, label] of Object.entries(varied)) {
      const last = key.split('.').at(-1)!;
      if (Object.hasOwn(where, last) || !Object.hasOwn(entry.keys, last)) continue;
      if (entry.keys[last] !== (Object.hasOwn(names, label) ? names[label] : label)) return false;
    }
    return true;
  });
}

/** Where `source` may be: beside the scenario, in the working folder, in testbed's own. */
export function sourceFile(source: string, scenarioFile: string): string | null {
  const places = path.isAbsolute(source) ? [source] : [path.resolve(path.dirname(scenarioFile), source), path.resolve(source), projectFile(source)];
  return places.find((file) => fs.existsSync(file)) ?? null;
}

/**
 * Every source a scenario's expectations name, read.
 * @throws ScenarioError with the line, when one is not there, cannot be read, has another kind of quantity, or nothing for this scenario
 */
export function readSources(scenario: Scenario): ReadonlyMap<string, readonly PublishedFigure[]> {
  const read = new Map<string, readonly PublishedFigure[]>();
  const problems: Problem[] = [];
  const first = scenario.variants[0]!;
  const { expectations } = parseExpectations(first.expect ?? [], expand(first).expanded);
  for (const line of expectations) {
    if (line.kind !== 'published') continue;
    const at = ['expect', line.index, line.text, 'source'];
    const file = sourceFile(line.source, scenario.file);
    if (file === null) { problems.push({ path: at, message: `there is no file "${line.source}"; expected it beside the scenario, in the working folder or in testbed's results/` }); continue; }
    const entries = read.get(line.source) ?? readPublished(file);
    if (typeof entries === 'string') { problems.push({ path: at, message: entries }); continue; }
    read.set(line.source, entries);
    const picked = scenario.variants.flatMap((variant) => chosen(entries, line, variant.varied));
    if (picked.length === 0) problems.push({ path: at, message: `${line.source} has no figure for this scenario: ${Object.keys(line.figures).join(', ')}${Object.keys(line.where).length > 0 ? ` where ${Object.entries(line.where).map(([k, v]) => `${k} is ${v}`).join(', ')}` : ''}; it has ${[...new Set(entries.map((entry) => entry.figure))].join(', ')}` });
    for (const entry of picked) {
      if (scaleTo(entry.unit, line.figures[entry.figure]!.unit) === null) { problems.push({ path: [...at.slice(0, 3), 'figures', entry.figure], message: `${entry.figure} is in ${entry.unit || 'no unit'} there, ${line.figures[entry.figure]!.text} in ${line.figures[entry.figure]!.unit}; expected a figure of the same kind` }); break; }
    }
  }
  if (problems.length > 0) throw scenario.error(problems);
  return read;
}
