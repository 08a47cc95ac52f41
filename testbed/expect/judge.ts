/**
 * Judges the lines of `expect:` by what was measured: for one combination of varied values the figures of every seed, of one
 * engine or both. Several seeds are judged by their median. A line that cannot be judged (no run complete, a figure
 * undefined) is never passed over as good.
 */

import { median } from 'simple-statistics';
import type { Metrics } from '../analysis/metrics.js';
import { figuresOf, type Unit } from '../compare/figures.js';
import { formatValue } from '../compare/wording.js';
import { compareFigure, type Compared } from '../validate/compare-figure.js';
import { formatTolerance, type Tolerance } from '../validate/tolerances.js';
import type { Bound, EngineName, Engines, Expectation, Published, Relation } from './parse.js';
import type { Figure } from './metric-names.js';
import { chosen, scaleTo, type PublishedFigure } from './published.js';

/** What one engine measured. */
export interface Evidence {
  /** Complete runs only, one a seed. */
  readonly metrics: readonly Metrics[];
  /** Why runs are missing; null: none is. */
  readonly missing: string | null;
}
export type LineStatus = 'pass' | 'fail' | 'unjudged'
  /** Not met, and the source says why. */
  | 'known'
  /** Needs the other engine: judged by `testbed validate`. */
  | 'elsewhere';

export interface JudgedLine {
  /** The line as written; with the figure it is about where the line has several. */
  readonly text: string;
  readonly status: LineStatus;
  /** What was measured against what was wanted, for people. */
  readonly message: string;
  /** The measured figure and what it is held against, in the figure's unit; null where undefined. */
  readonly measured: number | null;
  readonly wanted: number | null;
  /** Seeds the measured median is of. */
  readonly n: number;
}

export interface JudgeOptions {
  readonly expectations: readonly Expectation[];
  readonly varied: Readonly<Record<string, string>>;
  readonly evidence: Readonly<Partial<Record<EngineName, Evidence>>>;
  /** By `source` as written. */
  readonly sources: ReadonlyMap<string, readonly PublishedFigure[]>;
  /** Judges `sim ~ kernel` without figures; absent: lines that need both engines are `elsewhere`. */
  readonly byDefault?: () => readonly JudgedLine[];
}

export function judge(options: JudgeOptions): readonly JudgedLine[] {
  return options.expectations.flatMap((line): readonly JudgedLine[] => {
    if (line.kind === 'bound') return judgeBound(line, options);
    if (line.kind === 'engines') return judgeEngines(line, options);
    return judgePublished(line, options);
  });
}

const engineWords: Readonly<Record<EngineName, string>> = { sim: 'simulator', kernel: 'kernel' };

/** The figure of each seed in which it is defined. */
export function valuesOf(evidence: Evidence, figure: Pick<Figure, 'part' | 'owner' | 'field'>): number[] {
  const at = `${figure.part}.${figure.owner}.${figure.field}`;
  return evidence.metrics.flatMap((metrics) => figuresOf(metrics)[at] ?? []);
}

const overSeeds = (n: number): string => (n > 1 ? `, median of ${n} seeds` : '');

/** Why a figure has no value. */
const whyNone = (evidence: Evidence, figure: Figure, engine: EngineName): string =>
  (evidence.metrics.length === 0 ? evidence.missing ?? `no run of the ${engineWords[engine]} is complete` : `${figure.text} is undefined in the ${engineWords[engine]}'s runs: nothing was there to measure in the window`);

function judgeBound(line: Bound, { evidence }: JudgeOptions): JudgedLine[] {
  return (['kernel', 'sim'] as const).flatMap((engine): JudgedLine[] => {
    const own = evidence[engine];
    if (own === undefined) return [];
    const text = evidence.kernel !== undefined && evidence.sim !== undefined ? `${engine}: ${line.text}` : line.text;
    const values = valuesOf(own, line.figure);
    // A seed that is missing may be the one that would have failed.
    if (values.length === 0 || own.missing !== null) return [{ text, status: 'unjudged', message: own.missing ?? whyNone(own, line.figure, engine), measured: null, wanted: line.value, n: values.length }];
    const measured = median(values);
    const met = holds(measured, line.relation, line.value);
    return [{ text, status: met ? 'pass' : 'fail', message: `${formatValue(line.figure.unit, measured)}${overSeeds(values.length)}`, measured, wanted: line.value, n: values.length }];
  });
}

function holds(measured: number, relation: Relation, value: number): boolean {
  switch (relation) {
    case '>=': return measured >= value;
    case '<=': return measured <= value;
    case '>': return measured > value;
    case '<': return measured < value;
    case '=': return measured === value;
    case '!=': return measured !== value;
  }
}

function judgeEngines(line: Engines, { evidence, byDefault }: JudgeOptions): readonly JudgedLine[] {
  const { sim, kernel } = evidence;
  if (sim === undefined || kernel === undefined) return [{ text: line.text, status: 'elsewhere', message: 'needs both engines: testbed validate', measured: null, wanted: null, n: 0 }];
  if (line.figures.length === 0) return byDefault?.() ?? [];
  return line.figures.map(({ figure, tolerance }) => {
    const text = `${line.text}: ${figure.text} within ${formatTolerance(tolerance, unitName(figure.unit))}`;
    const missing = kernel.missing ?? sim.missing;
    if (missing !== null) return { text, status: 'unjudged' as const, message: missing, measured: null, wanted: null, n: 0 };
    return lineOf(text, compareFigure(valuesOf(sim, figure), valuesOf(kernel, figure), tolerance), figure.unit);
  });
}

/** A unit as written after a number; ratios and counts have none. */
export const unitName = (unit: Unit): string => (unit === 'ratio' || unit === 'index' || unit === 'count' ? '' : unit);

/** A comparison of both engines as a line. */
export function lineOf(text: string, compared: Compared, unit: Unit): JudgedLine {
  const { sim, kernel, verdict, noise } = compared;
  const said = `simulator ${formatValue(unit, sim)}, kernel ${formatValue(unit, kernel)}`;
  const message = verdict === 'undefined' ? 'neither side has the figure'
    : `${said}${verdict === 'noise' ? `, within the spread over seeds (${formatValue(unit, noise)})` : verdict === 'differs' ? `: ${describeExcess(compared)}` : ''}${overSeeds(compared.n)}`;
  return { text, status: verdict === 'undefined' ? 'unjudged' : verdict === 'differs' ? 'fail' : 'pass', message, measured: sim, wanted: kernel, n: compared.n };
}

export function describeExcess({ sim, kernel, limit }: Compared): string {
  if (sim === null || kernel === null) return 'only one side has it';
  const difference = Math.abs(sim - kernel);
  const relative = kernel === 0 ? null : ((sim - kernel) / Math.abs(kernel)) * 100;
  return `${relative === null ? '' : `${relative > 0 ? '+' : '−'}${Math.abs(relative).toPrecision(2)} %, `}${limit > 0 ? `${(difference / limit).toPrecision(2)} times what is allowed` : 'nothing is allowed'}`;
}

function judgePublished(line: Published, { evidence, sources, varied }: JudgeOptions): JudgedLine[] {
  const own = evidence[line.engine];
  return chosen(sources.get(line.source) ?? [], line, varied).map((entry): JudgedLine => {
    const figure = line.figures[entry.figure]!;
    const text = `${line.text}: ${figure.text}, ${line.source} has ${entry.relation === 'below' ? 'below ' : entry.relation === 'above' ? 'above ' : ''}${entry.value}${entry.unit === '' ? '' : ` ${entry.unit}`}`;
    const scale = scaleTo(entry.unit, figure.unit)!;
    const wanted = entry.value * scale;
    if (own === undefined) return { text, status: 'elsewhere', message: `is about the ${engineWords[line.engine]}: testbed ${line.engine === 'sim' ? 'sim' : 'run'}, or testbed validate`, measured: null, wanted, n: 0 };
    const values = valuesOf(own, figure);
    if (values.length === 0 || own.missing !== null) return { text, status: 'unjudged', message: own.missing ?? whyNone(own, figure, line.engine), measured: null, wanted, n: values.length };
    const measured = median(values);
    const tolerance = inOurs(line.tolerance ?? entry.tolerance ?? { relative: 0.1, absolute: null }, line.tolerance === null ? scale : 1);
    const limit = Math.max((tolerance.relative ?? 0) * Math.abs(wanted), tolerance.absolute ?? 0);
    const met = entry.relation === 'below' ? measured < wanted + limit : entry.relation === 'above' ? measured > wanted - limit : Math.abs(measured - wanted) <= limit;
    const message = `${formatValue(figure.unit, measured)}${overSeeds(values.length)}, allowed ±${formatValue(figure.unit, limit)}${!met && entry.missed !== null ? `; known: ${entry.missed}` : ''}`;
    return { text, status: met ? 'pass' : entry.missed !== null ? 'known' : 'fail', message, measured, wanted, n: values.length };
  });
}

const inOurs = ({ relative, absolute }: Tolerance, scale: number): Tolerance => ({ relative, absolute: absolute === null ? null : absolute * scale });
