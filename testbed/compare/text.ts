/** The comparison for a terminal. Colour only adds to what the words say. */

import pc from 'picocolors';
import { columnsText, wrap } from '../report/columns.js';
import { counted, dash, formatCount, formatPercent, formatVaried } from '../report/format.js';
import type { FigureDifference } from './compare.js';
import type { CellComparison, Comparison } from './comparison.js';
import { distributionName, figureName, formatDifference, formatDistance, formatInterval, formatP, formatRelative, formatValue, givenText, isEmpty, isHeadline, isMaterial, nothingDiffers, summary, verdictWords } from './wording.js';

export interface TextOptions {
  /** Every figure, not only the headline ones and those outside the noise. */
  readonly all: boolean;
  /** Of the terminal; the interval's column is left out where it does not fit, and what is still too wide is wrapped. Infinity: nothing is. */
  readonly columns: number;
  /** Figures outside the noise by less than this share of the reference are counted, not listed (headline ones are). */
  readonly atLeast: number;
}

const mostCells = 6;

export function comparisonText(comparison: Comparison, options: TextOptions): string {
  const { sides, differs, allowed, cells, unmatched, missing } = comparison;
  const { all, columns } = options;
  const labels = sides.map(({ label }) => label);
  const parts: string[] = [pc.bold(`${labels.slice(1).join(', ')} against ${labels[0]}`)];
  parts.push(sides.map(({ label, given, runs, notCompared }) => [`${label}: ${givenText(given)}, ${counted(runs.length, 'run')} (seed${new Set(runs.map(({ seed }) => seed)).size === 1 ? '' : 's'} ${seedsText(runs.map(({ seed }) => seed))})`,
    ...notCompared.slice(0, 5).map(({ id, reason }) => `  ${pc.yellow('left out')} ${id}: ${reason}`), ...(notCompared.length > 5 ? [`  and ${notCompared.length - 5} more left out`] : [])].join('\n')).join('\n'));
  if (missing.length > 0) parts.push(missing.map(({ label, reason }) => `${pc.yellow('missing')} ${label}: ${reason}`).join('\n'));
  for (const { side, differences } of differs) {
    const told = differences.filter(({ category }) => category !== 'addressing');
    const lines = told.slice(0, 12).map(({ category, where, count, reference, other }) => `  ${where === 'run.json' ? category : where}: ${reference} → ${other}${count > 1 ? ` (${count} places)` : ''}`);
    parts.push([`What differs, ${labels[0]} → ${labels[side]}:${lines.length === 0 ? ` ${nothingDiffers(comparison, side)}` : ''}`, ...lines, ...(told.length > 12 ? [`  and ${told.length - 12} more`] : [])].join('\n'));
  }
  if (allowed.length > 0) parts.push(pc.yellow(`Not comparable as they are, compared because allowed: ${[...new Set(allowed.map(({ category }) => category))].join(', ')}. What differs then may come from that.`));

  const many = cells.length > mostCells && !all;
  if (cells.length > 1) {
    parts.push(grid(['Cell', ...labels.slice(1).map((label) => `${short(label)} outside`), 'KS, largest', 'where'], cells.map(({ varied, comparisons }) => {
      const distributions = comparisons.flatMap((one) => one.distributions);
      const worst = distributions.reduce((most, one) => (one.ks > (most?.ks ?? -1) ? one : most), distributions[0]);
      return [formatVaried(varied), ...labels.slice(1).map((_, index) => { const one = comparisons.find(({ side }) => side === index + 1); return one === undefined ? dash : `${one.counts.outside} of ${one.counts.outside + one.counts.inside}`; }),
        worst === undefined ? dash : formatDistance('ks', 'ms', worst.ks), worst === undefined ? '' : distributionName(worst)];
    }), columns));
  }
  if (!many) {
    for (const { varied, comparisons } of cells) {
      for (const one of comparisons) {
        const name = [formatVaried(varied), sides.length > 2 ? `${labels[one.side]} against ${labels[0]}` : ''].filter((text) => text !== '').join(': ');
        if (name !== '') parts.push(pc.bold(name));
        parts.push(pairingText(one), figureTable(one, [labels[0]!, labels[one.side]!], options), distributionTable(one, columns), differentMeasure(one));
      }
    }
  } else parts.push(`Figures of each cell: --all, comparison.json, or the page.`);

  if (unmatched.length > 0) parts.push([`Not matched (no runs that varied so on the other side):`, ...unmatched.slice(0, 10).map(({ side, varied, runs }) => `  ${labels[side]}: ${formatVaried(varied) || 'nothing varied'} (${counted(runs.length, 'run')})`), ...(unmatched.length > 10 ? [`  and ${unmatched.length - 10} more`] : [])].join('\n'));
  parts.push(`Test: Welch’s t over seeds for the noise (95 %), percentile bootstrap over seeds for the interval, run-by-run distances for distributions.\nThey take seeds as independent and values over seeds as near normal; assumptions in full are in comparison.json and on the page.`);
  parts.push(pc.bold(summary(comparison)));
  return parts.filter((part) => part !== '').join('\n\n').split('\n').map((line) => wrapLine(line, columns)).join('\n');
}

export function seedsText(all: readonly number[]): string {
  const seeds = [...new Set(all)];
  return seeds.length > 8 ? `${seeds.slice(0, 6).join(', ')}, … ${seeds.at(-1)}` : seeds.join(', ');
}

export function pairingText({ pairedSeeds, referenceSeeds, otherSeeds }: CellComparison): string {
  const [a, b] = [referenceSeeds.length, otherSeeds.length];
  if (a === 1 && b === 1) return pairedSeeds === null ? 'One run a side, of different seeds.' : `One run a side, both of seed ${pairedSeeds[0]}.`;
  return pairedSeeds === null ? `Not paired: ${counted(a, 'seed')} against ${counted(b, 'other', 'others')}.` : `Paired by seed: ${counted(pairedSeeds.length, 'pair')} (seeds ${seedsText(pairedSeeds)}).`;
}

const short = (label: string): string => (label.length > 18 ? `${label.slice(0, 17)}…` : label);

function figureTable(one: CellComparison, [a, b]: readonly [string, string], { all, columns, atLeast }: TextOptions): string {
  const told = one.figures.filter((figure) => !isEmpty(figure));
  const outside = told.filter((figure) => figure.verdict === 'outside' && figure.role === 'figure');
  const shown = all ? told : told.filter((figure) => isHeadline(figure) || (outside.includes(figure) && isMaterial(atLeast)(figure)));
  const noise = told.some((figure) => figure.noise !== null);
  const interval = told.some((figure) => figure.ci95 !== null);
  const build = (withInterval: boolean, withNoise: boolean, most = Infinity): string => grid(
    ['Figure', short(a), short(b), 'Difference', 'Relative', ...(withInterval ? ['95 % interval'] : []), ...(withNoise ? ['Noise ±'] : []), ...(noise ? ['Verdict'] : [])],
    shown.map((figure) => [figureName(figure.figure), formatValue(figure.unit, figure.reference.mean), formatValue(figure.unit, figure.other.mean), formatDifference(figure.unit, figure.difference), formatRelative(figure.relative),
      ...(withInterval ? [formatInterval(figure.unit, figure.ci95)] : []), ...(withNoise ? [figure.role === 'samples' ? dash : formatDifference(figure.unit, figure.noise, false)] : []), ...(noise ? [verdictText(figure)] : [])]),
    most,
  );
  const fits = (table: string): boolean => widthOf(table) <= columns;
  const table = [build(interval, noise), build(false, noise)].find(fits) ?? build(false, false, columns);
  const hidden = told.length - shown.length;
  const small = outside.filter((figure) => !shown.includes(figure)).length;
  const about = !noise ? '' : small === 0 ? ', none outside the noise' : `, ${small} of them outside the noise, but with a difference below ${formatPercent(atLeast)}`;
  return [table, hidden > 0 ? pc.dim(`${formatCount(hidden)} more figures${about}: --all`) : ''].filter((part) => part !== '').join('\n');
}

const verdictText = (figure: FigureDifference): string => (figure.role === 'samples' ? '' : verdictWords[figure.verdict]);

function distributionTable({ distributions }: CellComparison, columns: number): string {
  if (distributions.length === 0) return '';
  const overSeeds = distributions.some(({ ksOverSeeds }) => ksOverSeeds.within !== null);
  return grid(
    ['Distribution, n / n', 'Distance', ...(overSeeds ? ['Between runs', 'Within, p95', 'p (smallest)', 'Verdict'] : [])],
    distributions.flatMap((one) => (['ks', 'wasserstein'] as const).map((which, index) => {
      const seeds = which === 'ks' ? one.ksOverSeeds : one.wassersteinOverSeeds;
      return [index === 0 ? distributionName(one) : `  ${formatCount(one.samples.reference)} / ${formatCount(one.samples.other)}`, `${which === 'ks' ? 'KS' : 'W1'} ${formatDistance(which, one.unit, one[which])}`,
        ...(overSeeds ? [formatDistance(which, one.unit, seeds.between), formatDistance(which, one.unit, seeds.within?.p95 ?? null), formatP(seeds), verdictWords[seeds.verdict]] : [])];
    })),
    columns,
  );
}

function differentMeasure({ measuredDifferently }: CellComparison): string {
  if (measuredDifferently.length === 0) return '';
  return [pc.yellow('Measured in different ways:'), ...measuredDifferently.slice(0, 6).map(({ figure, reference, other }) => `  ${figureName(figure)}: ${reference} / ${other}`), ...(measuredDifferently.length > 6 ? [`  and ${measuredDifferently.length - 6} more in comparison.json`] : [])].join('\n');
}

/** Columns under one another, verdicts in colour; too wide ones go on in the next line. @returns '' for no rows */
function grid(head: readonly string[], body: readonly (readonly string[])[], columns: number): string {
  if (body.length === 0) return '';
  const { head: titles, rule, rows } = columnsText(head, body, columns);
  return [pc.bold(titles), pc.dim(rule), ...rows.map((row, index) => (body[index]!.includes(verdictWords.outside) ? pc.yellow(row) : row))].join('\n');
}

/** A line of words that is too long goes on in the next, under its own beginning. */
function wrapLine(line: string, columns: number): string {
  if (widthOf(line) <= columns || /\S {2,}\S/.test(line)) return line; // a row of a table stays one
  const indent = / */.exec(line)![0];
  return wrap(line.trim(), columns - indent.length - 2).map((part, index) => `${indent}${index === 0 ? '' : '  '}${part}`).join('\n');
}

const widthOf = (text: string): number => Math.max(...text.split('\n').map((line) => line.replaceAll(/\u001b\[\d+m/g, '').length));
