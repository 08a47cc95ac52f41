/**
 * The whole comparison of two or more sides, read from disk: `comparison.json`. The first side is the reference, each
 * other one is compared with it, cell by cell. The same folders give the same bytes.
 */

import { UserError } from '../errors.js';
import { rounded } from '../analysis/round.js';
import type { Plan } from '../plan/plan.js';
import { formatVaried } from '../report/format.js';
import { assumptions as figureAssumptions, compareRuns, pairedSeeds } from './compare.js';
import type { FigureDifference, RunsComparison, Verdict } from './compare.js';
import { distances, pooled } from './distance.js';
import { methodsOf } from './figures.js';
import { sideLabels } from './labels.js';
import { holm } from './noise.js';
import { allowedStatus, matchCells, planOf, readOperand } from './operand.js';
import type { Cell, ComparedRun, NotCompared, Operand } from './operand.js';
import { planDifferences, refusing } from './plan-difference.js';
import type { Difference } from './plan-difference.js';
import { sampleKey, readSamples } from './samples.js';
import type { Sample, SampleKind } from './samples.js';
import { seedNoise } from './seed-permutation.js';
import type { SeedNoise } from './seed-permutation.js';

export interface SideOfComparison {
  /** Short name, unique among the sides. */
  readonly label: string;
  readonly given: string;
  readonly runs: readonly {
    readonly id: string; readonly seed: number; readonly varied: Readonly<Record<string, string>>; readonly engine: string; readonly machine: string; readonly clock: string;
    readonly kernel: string | null; readonly status: string; readonly planHash: string; readonly gitCommit: string | null; readonly started: string;
  }[];
  /** Runs of it that are left out, each with its reason. */
  readonly notCompared: readonly NotCompared[];
}

/** Two distributions: the samples of all seeds together, and run against run. */
export interface DistributionComparison {
  readonly what: SampleKind;
  readonly where: string;
  /** Queueing delay of one flow class's data packets; null = of all. */
  readonly class: string | null;
  /** Of `wasserstein`. */
  readonly unit: 'ms' | 's';
  /** Samples, and the runs they are from. */
  readonly samples: { readonly reference: number; readonly other: number };
  readonly runs: { readonly reference: number; readonly other: number };
  /** Mean of the samples. */
  readonly means: { readonly reference: number; readonly other: number };
  /** Kolmogorov–Smirnov distance of the pooled samples, 0 … 1. */
  readonly ks: number;
  /** Wasserstein-1 distance of the pooled samples. */
  readonly wasserstein: number;
  readonly ksOverSeeds: SeedNoise;
  readonly wassersteinOverSeeds: SeedNoise;
}

export interface CellComparison extends RunsComparison {
  /** Which side is compared with side 0. */
  readonly side: number;
  readonly distributions: readonly DistributionComparison[];
  /** Figures that the two sides measured in different ways, by path. */
  readonly measuredDifferently: readonly { readonly figure: string; readonly reference: string; readonly other: string }[];
}
export interface ComparedCell {
  readonly varied: Readonly<Record<string, string>>;
  /** Ids of the runs of each side; null where a side has none. */
  readonly runs: readonly (readonly string[] | null)[];
  readonly comparisons: readonly CellComparison[];
}

export interface Comparison {
  readonly schema: 1;
  readonly sides: readonly SideOfComparison[];
  /** For each side but the reference. */
  readonly differs: readonly { readonly side: number; readonly differences: readonly Difference[] }[];
  /** What would have been refused, had it not been allowed. */
  readonly allowed: readonly Refusal[];
  readonly cells: readonly ComparedCell[];
  readonly unmatched: readonly { readonly side: number; readonly varied: Readonly<Record<string, string>>; readonly runs: readonly string[] }[];
  /** Of all figures of all cells and sides. */
  readonly counts: Readonly<Record<Verdict, number>>;
  /** Figures outside the noise even when judged together: Holm's correction over all figures judged, family-wise 5 %. */
  readonly familyWise: { readonly judged: number; readonly outside: readonly { readonly cell: number; readonly side: number; readonly figure: string }[] };
  readonly assumptions: readonly string[];
  /** What was to be compared and has no run that counts, each with the reason. */
  readonly missing: readonly MissingSide[];
}
export interface MissingSide { readonly label: string; readonly reason: string }
export interface Refusal extends Difference { readonly side: number }

export const comparisonName = 'comparison.json';

const distributionAssumptions: readonly string[] = [
  'Distributions: exact Kolmogorov–Smirnov distance (max |F − G|) and Wasserstein-1 distance (∫ |F − G| dx) of all samples of all seeds of a side together.',
  'Packets of one queue follow one another and are not independent, nor are flows that share it: a Kolmogorov–Smirnov p over packets would be far too small, so there is none. The unit is the run: the mean distance between runs of the two sides (of different seeds) is set against the 95 % quantile of distances between runs of one side.',
  'p of a distribution: permutation of the sides’ labels over runs (within pairs of one seed where seeds match), one-sided, of (mean distance between sides − mean within). Assumes only that under no difference the labels may be exchanged. With few runs it cannot be small: the smallest it can be is given.',
  'Family-wise: Holm’s correction of the figures’ p over every figure judged.',
];

export interface CompareOptions {
  readonly resultsDir: string;
  /** Names of what may differ or be unfinished; `*` = anything. */
  readonly allow: readonly string[];
  readonly labels?: readonly string[];
  /** What was to be compared as well, and has no run that counts. */
  readonly missing?: readonly MissingSide[];
  /** False: figures only; nothing is read but JSON. */
  readonly distributions?: boolean;
  readonly onProgress?: (text: string) => void;
}

/** What --allow takes. */
export const allowable: readonly string[] = [...refusing, ...allowedStatus, 'mixed'];

export interface CompareResult { readonly comparison: Comparison; readonly cells: readonly Cell[]; readonly operands: readonly Operand[] }

/**
 * @param given at least two runs or sets, the reference first
 * @throws UserError when one cannot be found or read, nothing matches, or they are not comparable
 */
export async function compareFromDisk(given: readonly string[], options: CompareOptions): Promise<CompareResult> {
  const allow = new Set(options.allow.includes('*') ? allowable : options.allow);
  for (const name of allow) if (!allowable.includes(name)) throw new UserError(`--allow ${name}: expected one of ${allowable.join(', ')}`);
  if (given.length < 2) throw new UserError('expected at least two runs or sets to compare');
  const operands = given.map((one) => readOperand(one, options.resultsDir, allow));
  const labels = options.labels ?? sideLabels(operands);
  if (labels.length !== operands.length || new Set(labels).size < labels.length) throw new UserError(`--labels ${labels.join(',')}: expected ${operands.length} different names, one a side`);
  const { cells, unmatched } = matchCells(operands);
  if (cells.length === 0) throw new UserError(nothingMatches(operands, labels));

  const { differs, refusals } = allDifferences(operands, cells);
  const refused = refusals.filter(({ category }) => !allow.has(category));
  if (refused.length > 0) throw new UserError(refusalText(refused, labels));

  const compared: ComparedCell[] = [];
  for (const [index, cell] of cells.entries()) {
    options.onProgress?.(`${index + 1} of ${cells.length} cells`);
    compared.push(await compareCell(cell, options.distributions ?? true));
  }
  const counts: Record<Verdict, number> = { inside: 0, outside: 0, unknown: 0, undefined: 0 };
  for (const { comparisons } of compared) for (const one of comparisons) for (const verdict of Object.keys(counts) as Verdict[]) counts[verdict] += one.counts[verdict];
  const comparison: Comparison = rounded({
    schema: 1,
    sides: operands.map((operand, side) => sideOfComparison(operand, labels[side]!)),
    differs, allowed: refusals, cells: compared, unmatched: unmatched.map(({ operand, ...rest }) => ({ side: operand, ...rest })),
    counts, familyWise: familyWise(compared), assumptions: [...figureAssumptions, ...distributionAssumptions], missing: options.missing ?? [],
  } as const);
  return { comparison, cells, operands };
}

const sideOfComparison = ({ given, runs, notCompared }: Operand, label: string): SideOfComparison => ({
  label, given, notCompared,
  runs: runs.map(({ id, run }) => ({
    id, seed: run.seed, varied: run.varied, engine: run.engine, machine: run.machine, clock: run.clock, kernel: run.kernel?.release ?? null, status: run.status,
    planHash: run.planHash, gitCommit: run.gitCommit, started: run.started,
  })),
});

function nothingMatches(operands: readonly Operand[], labels: readonly string[]): string {
  const of = ({ runs }: Operand): string => {
    const all = [...new Set(runs.map(({ run }) => formatVaried(run.varied) || 'nothing varied'))];
    return all.slice(0, 6).join('; ') + (all.length > 6 ? `; and ${all.length - 6} more` : '');
  };
  return [`no run of ${labels[0]} varied as one of ${labels.slice(1).join(' or ')} did, so there is nothing to set side by side:`, ...operands.map((operand, side) => `  ${labels[side]}: ${of(operand)}`),
    'Choose the runs to compare with SET:key=value, e.g. SET:queue=codel.'].join('\n');
}

// ---- Comparable? ---------------------------------------------------------------------------------------------------

function allDifferences(operands: readonly Operand[], cells: readonly Cell[]): { differs: { side: number; differences: Difference[] }[]; refusals: Refusal[] } {
  const refusals: Refusal[] = mixtures(operands, cells);
  const differs = operands.slice(1).map((operand, index) => {
    const side = index + 1;
    const found = new Map<string, Difference>();
    const note = (difference: Difference): void => {
      const key = JSON.stringify([difference.category, difference.where, difference.reference, difference.other]);
      if (!found.has(key)) found.set(key, difference);
    };
    const matched = cells.filter(({ runs }) => (runs[side] ?? null) !== null);
    if (matched.length > 0) for (const difference of runDifferences(operands[0]!.runs, operand.runs)) note(difference);
    for (const { runs } of matched) {
      const [a, b] = sameSeed(runs[0]!, runs[side]!);
      for (const difference of planDifferences(planOf(a), planOf(b), [variantOf(a), variantOf(b)])) note(difference);
      for (const difference of windowDifferences(runs[0]!, runs[side]!)) note(difference);
    }
    for (const difference of found.values()) if ((refusing as readonly string[]).includes(difference.category)) refusals.push({ ...difference, side });
    return { side, differences: [...found.values()] };
  });
  for (const [side, { runs }] of operands.entries()) for (const { id, run } of runs) if (run.status !== 'complete') refusals.push({ side, category: run.status === 'running' ? 'incomplete' : run.status, where: id, count: 1, reference: 'complete', other: run.status });
  return { differs, refusals };
}

/** Two runs of one seed where there are any: their plans share every draw. */
function sameSeed(a: readonly ComparedRun[], b: readonly ComparedRun[]): readonly [ComparedRun, ComparedRun] {
  for (const run of a) {
    const match = b.find(({ seed }) => seed === run.seed);
    if (match !== undefined) return [run, match];
  }
  return [a[0]!, b[0]!];
}

function variantOf({ run }: ComparedRun): unknown {
  const variants = (run.scenario as { readonly variants?: readonly { readonly varied?: unknown }[] } | undefined)?.variants;
  return Array.isArray(variants) ? variants.find((variant) => JSON.stringify(variant?.varied ?? {}) === JSON.stringify(run.varied)) : undefined;
}

/** What ran it, where the sides differ in it. */
function runDifferences(a: readonly ComparedRun[], b: readonly ComparedRun[]): Difference[] {
  const facts: readonly (readonly [string, (run: ComparedRun) => string | null | undefined])[] = [
    ['engine', ({ run }) => run.engine], ['machine', ({ run }) => run.machine], ['kernel', ({ run }) => run.kernel?.release], ['kernel configuration', ({ run }) => run.kernel?.config],
    ['clock', ({ run }) => run.clock], ['hosts', ({ run }) => run.hosts], ['code', ({ run }) => run.gitCommit?.slice(0, 12)],
    ['tools', ({ run }) => Object.entries(run.toolVersions ?? {}).map(([name, version]) => `${name} ${version}`).sort().join(', ')],
  ];
  return facts.flatMap(([category, of]): Difference[] => {
    const text = (runs: readonly ComparedRun[]): string => [...new Set(runs.map((run) => of(run) || 'none'))].sort().join(', ');
    const [reference, other] = [text(a), text(b)];
    return reference === other ? [] : [{ category, where: 'run.json', count: 1, reference, other }];
  });
}

/** A run cut short (allowed) was measured over less than its plan says. */
function windowDifferences(a: readonly ComparedRun[], b: readonly ComparedRun[]): Difference[] {
  const text = (runs: readonly ComparedRun[]): string => [...new Set(runs.map(({ metrics }) => `${metrics.windowS[0]} … ${metrics.windowS[1]} s${metrics.cut ? ' (cut short)' : ''}`))].sort().join(', ');
  return text(a) === text(b) ? [] : [{ category: 'window', where: 'metrics.json windowS', count: 1, reference: text(a), other: text(b) }];
}

/** Runs of one side's cell must be repeats of one another: same engine and kernel, plans that differ by seed only. */
function mixtures(operands: readonly Operand[], cells: readonly Cell[]): Refusal[] {
  const refusals: Refusal[] = [];
  for (const [side] of operands.entries()) {
    for (const { runs } of cells) {
      const [first, ...rest] = runs[side] ?? [];
      if (first === undefined) continue;
      const plan = rest.length === 0 ? null : planOf(first);
      for (const run of rest) {
        const own = [...runDifferences([first], [run]).filter(({ category }) => !['code', 'tools', 'clock'].includes(category)),
          ...planDifferences(plan as Plan, planOf(run), [variantOf(first), variantOf(run)]).filter(({ category }) => ![...drawnFrom, 'name', 'collect', 'addressing'].includes(category))];
        if (own.length > 0) {
          const { where, reference, other, category } = own[0]!;
          refusals.push({ side, category: 'mixed', where: `${first.id}, ${run.id}: ${where === 'run.json' ? category : where}`, count: own.length, reference, other });
          break;
        }
      }
    }
  }
  return refusals;
}
/** Buffer sizes in sysctls follow from drawn RTTs. */
const drawnFrom: readonly string[] = ['tcp'];

function refusalText(refused: readonly Refusal[], labels: readonly string[]): string {
  const names = [...new Set(refused.map(({ category }) => category))];
  const lines = refused.slice(0, 20).map(({ side, category, where, count, reference, other }) => {
    const places = count > 1 ? ` (${count} places)` : '';
    if (category === 'mixed') return `  mixed: ${labels[side]} is not repeats of one run: ${where}: ${reference} / ${other}`;
    if ((allowedStatus as readonly string[]).includes(category)) return `  ${category}: ${where} is ${other}`;
    return `  ${category}: ${where}: ${reference} in ${labels[0]}, ${other} in ${labels[side]}${places}`;
  });
  return ['These cannot be compared as they are:', ...lines, ...(refused.length > 20 ? [`  and ${refused.length - 20} more`] : []),
    `Their figures are of different experiments. To compare all the same: ${names.map((name) => `--allow ${name}`).join(' ')} (or --anyway for all).`].join('\n');
}

// ---- Cells ---------------------------------------------------------------------------------------------------------

async function compareCell(cell: Cell, withDistributions: boolean): Promise<ComparedCell> {
  const samples = withDistributions ? await Promise.all(cell.runs.map(async (runs) => {
    const list: ReadonlyMap<string, Sample>[] = [];
    for (const run of runs ?? []) list.push(new Map((await readSamples(run.dir, planOf(run), run.metrics.windowS)).map((sample) => [sampleKey(sample), sample])));
    return list;
  })) : null;
  const comparisons = cell.runs.flatMap((runs, side): CellComparison[] => {
    if (side === 0 || runs === null) return [];
    const reference = cell.runs[0]!;
    return [{
      side, ...compareRuns(reference, runs),
      distributions: samples === null ? [] : compareSamples(samples[0]!, samples[side]!, pairing(reference, runs)),
      measuredDifferently: measuredDifferently(reference[0]!, runs[0]!),
    }];
  });
  return { varied: cell.varied, runs: cell.runs.map((runs) => runs?.map(({ id }) => id) ?? null), comparisons };
}

/** Indices of runs of one seed, where runs are paired. */
function pairing(a: readonly ComparedRun[], b: readonly ComparedRun[]): readonly (readonly [number, number])[] | null {
  const seeds = pairedSeeds(a, b);
  return seeds?.map((seed) => [a.findIndex((run) => run.seed === seed), b.findIndex((run) => run.seed === seed)] as const) ?? null;
}

function compareSamples(a: readonly ReadonlyMap<string, Sample>[], b: readonly ReadonlyMap<string, Sample>[], pairs: readonly (readonly [number, number])[] | null): DistributionComparison[] {
  const keys = [...new Set([...a, ...b].flatMap((run) => [...run.keys()]))];
  return keys.flatMap((key): DistributionComparison[] => {
    const valuesOf = (runs: readonly ReadonlyMap<string, Sample>[]): Float64Array[] => runs.flatMap((run) => run.get(key)?.values ?? []);
    const [left, right] = [valuesOf(a), valuesOf(b)];
    if (left.length === 0 || right.length === 0) return [];
    // Labels are shuffled within pairs only where every run has its pair and each has samples.
    const paired = pairs !== null && pairs.length === a.length && pairs.length === b.length && left.length === a.length && right.length === b.length;
    const ordered = paired ? [...pairs.map(([i]) => left[i]!), ...pairs.map(([, j]) => right[j]!)] : [...left, ...right];
    const between = ordered.map((one, i) => ordered.map((two, j) => (j > i ? distances(one, two) : null)));
    const matrix = (which: 'ks' | 'wasserstein'): number[][] => ordered.map((_, i) => ordered.map((__, j) => (i === j ? 0 : (i < j ? between[i]![j] : between[j]![i])![which])));
    const { what, where, class: ofClass, unit } = [...a, ...b].find((run) => run.has(key))!.get(key)!;
    const [all, others] = [pooled(left), pooled(right)];
    return [{
      what, where, class: ofClass, unit, samples: { reference: all.length, other: others.length }, runs: { reference: left.length, other: right.length },
      means: { reference: average(all), other: average(others) }, ...distances(all, others),
      ksOverSeeds: seedNoise(matrix('ks'), left.length, paired), wassersteinOverSeeds: seedNoise(matrix('wasserstein'), left.length, paired),
    }];
  });
}

const average = (values: Float64Array): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function measuredDifferently(a: ComparedRun, b: ComparedRun): CellComparison['measuredDifferently'] {
  const [left, right] = [methodsOf(a.metrics), methodsOf(b.metrics)];
  return Object.keys(left).flatMap((figure) => (right[figure] !== undefined && right[figure] !== left[figure] ? [{ figure, reference: left[figure]!, other: right[figure] }] : []));
}

function familyWise(cells: readonly ComparedCell[]): Comparison['familyWise'] {
  const judged: { cell: number; side: number; figure: FigureDifference }[] = [];
  cells.forEach(({ comparisons }, cell) => {
    for (const { side, figures } of comparisons) for (const figure of figures) if (figure.role === 'figure' && figure.p !== null) judged.push({ cell, side, figure });
  });
  const adjusted = holm(judged.map(({ figure }) => figure.p!));
  return { judged: judged.length, outside: judged.flatMap(({ cell, side, figure }, index) => (adjusted[index]! <= 0.05 ? [{ cell, side, figure: figure.figure }] : [])) };
}
