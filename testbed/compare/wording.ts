/** Figures and verdicts in words, the same in the terminal and on the page. */

import { dash, formatBps, formatCount, formatMs, formatNumber, formatPercent, formatRange, formatSeconds } from '../report/format.js';
import type { FigureDifference, Unit, Verdict } from './compare.js';
import type { Comparison, DistributionComparison } from './comparison.js';
import type { SeedNoise } from './seed-permutation.js';

export function formatValue(unit: Unit, value: number | null): string {
  if (value === null) return dash;
  switch (unit) {
    case 'ms': return formatMs(value);
    case 's': return formatSeconds(value);
    case 'bit/s': return formatBps(value);
    case 'ratio': return formatPercent(value);
    case 'bytes': return `${Math.abs(value) < 1000 ? formatNumber(value) : formatCount(value)} B`;
    case 'packets': case 'count': return Math.abs(value) < 1000 ? formatNumber(value) : formatCount(value);
    case 'index': return String(Number(value.toPrecision(4)));
  }
}

/** A difference: of a ratio in percentage points; seconds stay seconds however small the difference. */
export function formatDifference(unit: Unit, value: number | null, sign = true): string {
  if (value === null) return dash;
  const text = unit === 'ratio' ? `${formatNumber(value * 100)} pp` : unit === 's' ? (Math.abs(value) < 1 ? shortTime(value * 1e3) : formatSeconds(value)) : unit === 'ms' ? shortTime(value) : unit === 'index' ? formatNumber(value) : formatValue(unit, value);
  return signed(text, value, sign);
}
function shortTime(ms: number): string {
  const size = Math.abs(ms);
  return size >= 0.1 || size === 0 ? formatMs(ms) : size >= 1e-3 ? `${formatNumber(ms * 1e3)} µs` : `${formatNumber(ms * 1e6)} ns`;
}
export const formatRelative = (value: number | null): string => (value === null ? dash : signed(formatPercent(value), value, true));
const signed = (text: string, value: number, sign: boolean): string => (sign && value > 0 ? `+${text}` : text).replace(/^-/, '−'); // the sign alone: an exponent keeps its hyphen, as in figures without a sign

export const formatInterval = (unit: Unit, interval: readonly [number, number] | null): string =>
  interval === null ? dash : formatRange(formatDifference(unit, interval[0]), formatDifference(unit, interval[1]));

/** As an `expect:` block names it: the path without its part of metrics.json. */
export const figureName = (path: string): string => path.slice(path.indexOf('.') + 1);
export const partOf = (path: string): string => path.slice(0, path.indexOf('.'));

export const verdictWords: Readonly<Record<Verdict, string>> = { inside: 'inside', outside: 'OUTSIDE', unknown: 'no noise', undefined: 'undefined' };

/** What is shown before anything else; everything is in comparison.json, on the page and with --all. Display only: nothing is judged by it. */
const headline = /(^|\.)(utilisation|throughputBps|goodputBps|lossRatio|markRatio|jain|retransmits|completed|failed|(queueDelayMs|fctS|rttMs)\.(mean|p50|p95|p99))$/;
export const isHeadline = ({ figure, role }: FigureDifference): boolean => role === 'figure' && headline.test(figure) && !figure.includes('.classes.');

/** Nothing to tell: undefined on both sides, or 0 on both. */
export const isEmpty = ({ reference, other, difference }: FigureDifference): boolean => (reference.n === 0 && other.n === 0) || (difference === 0 && reference.mean === 0 && other.mean === 0);

/** A difference of at least this share of the reference (or from 0) is worth a line; smaller ones outside the noise are only counted. */
export const isMaterial = (share: number) => ({ relative, difference }: FigureDifference): boolean => (relative === null ? difference !== 0 : Math.abs(relative) >= share);

/** What was given, without the folders before it. */
export function givenText(given: string): string {
  const names = given.split(',').map((name) => name.replace(/\/+$/, '').split('/').slice(-2).join('/'));
  return names.length > 2 ? `${names[0]} and ${names.length - 1} more` : names.join(', ');
}

/** Of a side that differs from the reference in nothing but, perhaps, seeds. */
export function nothingDiffers({ sides }: Comparison, side: number): string {
  const seeds = (at: number): string => JSON.stringify([...new Set(sides[at]!.runs.map(({ seed }) => seed))].sort((a, b) => a - b));
  return seeds(0) === seeds(side) ? 'nothing: the same plans on the same kernel or simulator' : 'nothing but the seeds';
}

/** One sentence: how many figures lie outside the noise, and how many would by chance. */
export function summary({ counts, familyWise, cells }: Comparison): string {
  const judged = counts.inside + counts.outside;
  const lone = counts.unknown;
  const parts: string[] = [];
  if (judged > 0) {
    parts.push(`${counts.outside} of ${judged} figures lie outside the noise of seeds (about ${Math.round(judged / 20)} would by chance); ${familyWise.outside.length === 0 ? 'none stays' : familyWise.outside.length === 1 ? '1 stays' : `${familyWise.outside.length} stay`} outside when all are judged together.`);
  }
  if (judged === 0) parts.push('No noise estimate: each side has one run (one seed), so what other seeds would change is not known. Only differences are given; run more seeds to judge them.');
  else if (lone > 0) parts.push(`${lone} figures have no noise estimate (one run a side).`);
  const few = Math.min(...cells.flatMap(({ runs }) => runs.flatMap((list) => list?.length ?? [])));
  if (judged > 0 && few < 5) parts.push(`${few === 1 ? 'One seed' : `${few} seeds`} on a side is few: the noise is then wide and the intervals rough.`);
  return parts.join(' ');
}

export const distributionName = ({ what, where, class: ofClass }: Pick<DistributionComparison, 'what' | 'where' | 'class'>): string => `${where} ${what}${ofClass === null ? '' : `, ${ofClass}`}`;

export const formatDistance = (which: 'ks' | 'wasserstein', unit: 'ms' | 's', value: number | null): string =>
  value === null ? dash : which === 'ks' ? String(Number(value.toPrecision(3))) : unit === 'ms' ? formatMs(value) : formatSeconds(value);

export const formatP = ({ permutation }: SeedNoise): string => (permutation === null ? dash : `${Number(permutation.p.toPrecision(2))} (≥ ${Number(permutation.smallestP.toPrecision(2))})`);
