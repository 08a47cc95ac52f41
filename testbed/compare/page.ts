/** comparison.html: one self-contained page, the sides drawn together. */

import { counted, dash, formatCount, formatPercent, formatVaried } from '../report/format.js';
import { page, pairs, table } from '../report/page.js';
import type { Cell as TableCell } from '../report/page.js';
import { escapeHtml, intervalPlot, linePlot } from '../report/svg.js';
import type { Series } from '../report/svg.js';
import type { FigureDifference } from './compare.js';
import type { CellComparison, ComparedCell, Comparison } from './comparison.js';
import type { CdfCurve, Curve, Overlay } from './overlay.js';
import { pairingText, seedsText } from './text.js';
import { distributionName, figureName, formatDifference, formatDistance, formatInterval, formatP, formatRelative, formatValue, givenText, isEmpty, isHeadline, isMaterial, nothingDiffers, partOf, summary, verdictWords } from './wording.js';

/** Cells whose curves are drawn; figures of all cells are in tables. */
export const mostDrawn = 8;

/** @param overlays by cell; none where curves were not asked for or the cell is beyond `mostDrawn` */
export function comparisonPage(comparison: Comparison, overlays: readonly (Overlay | undefined)[]): string {
  const { sides, cells } = comparison;
  const labels = sides.map(({ label }) => label);
  const title = `${labels.slice(1).join(', ')} against ${labels[0]}`;
  const drawn = overlays.filter((overlay) => overlay !== undefined).length;
  return page(title, [
    header(comparison, title),
    state(comparison),
    cells.length > 1 ? cellsTable(comparison) : '',
    ...cells.map((cell, index) => cellSection(cell, index, labels, overlays[index], cells.length)),
    drawn > 0 && drawn < cells.length ? `<p class="dim">Curves are drawn of the first ${drawn} of ${cells.length} cells.</p>` : '',
    missingSides(comparison), whatDiffers(comparison), sidesSection(comparison), notMatched(comparison),
    `<h2>How it was judged</h2><ul class="dim">${comparison.assumptions.map((text) => `<li>${escapeHtml(text)}</li>`).join('')}</ul>`,
  ].filter((part) => part !== '').join('\n'));
}

function header({ sides, cells }: Comparison, title: string): string {
  const chips = [...sides.map(({ label, runs }, index) => `${index === 0 ? 'reference: ' : ''}${label} · ${counted(runs.length, 'run')} · seed${runs.length === 1 ? '' : 's'} ${seedsText([...new Set(runs.map(({ seed }) => seed))])}`),
    ...(cells.length > 1 ? [`${cells.length} cells`] : [])];
  return `<h1>${escapeHtml(title)}</h1><ul class="chips">${chips.map((chip) => `<li>${escapeHtml(chip)}</li>`).join('')}</ul>`;
}

function state(comparison: Comparison): string {
  const { counts, familyWise, allowed, sides } = comparison;
  const judged = counts.inside + counts.outside;
  const kind = judged === 0 || familyWise.outside.length > 0 || counts.outside > judged / 20 ? 'warn' : 'good';
  const heading = judged === 0 ? 'Differences only' : familyWise.outside.length > 0 ? 'They differ by more than seeds do' : counts.outside > judged / 20 ? 'More figures outside the noise than chance makes likely' : 'Inside the noise of seeds';
  const parts = [`<div class="state ${kind}"><strong>${heading}</strong>${escapeHtml(summary(comparison))}</div>`];
  if (allowed.length > 0) {
    parts.push(`<div class="state bad" role="alert"><strong>Not comparable as they are; compared because allowed</strong><ul>${allowed.slice(0, 20).map(({ category, where, reference, other, side }) =>
      `<li><b>${escapeHtml(category)}</b> ${escapeHtml(where)}: ${escapeHtml(reference)} → ${escapeHtml(other)} (${escapeHtml(sides[side]!.label)})</li>`).join('')}${allowed.length > 20 ? `<li>and ${allowed.length - 20} more</li>` : ''}</ul></div>`);
  }
  return parts.join('');
}

const verdictCell = (figure: Pick<FigureDifference, 'verdict'> & { readonly role?: FigureDifference['role'] }): TableCell =>
  figure.role === 'samples' ? '' : figure.verdict === 'outside' ? { html: '<b class="bad" style="background:none">outside</b>' } : verdictWords[figure.verdict];

const anchor = (index: number): string => `cell-${index}`;

function cellsTable({ cells, sides }: Comparison): string {
  const head: TableCell[] = ['Cell', ...sides.slice(1).flatMap(({ label }) => [`${label}: outside the noise`, 'largest KS distance'])];
  return `<h2>Cells</h2>${table(head, cells.map(({ varied, comparisons }, index): TableCell[] => [
    { html: `<a href="#${anchor(index)}">${escapeHtml(formatVaried(varied))}</a>` },
    ...sides.slice(1).flatMap((_, other): TableCell[] => {
      const one = comparisons.find(({ side }) => side === other + 1);
      if (one === undefined) return [dash, dash];
      const worst = [...one.distributions].sort((a, b) => b.ks - a.ks)[0];
      return [`${one.counts.outside} of ${one.counts.outside + one.counts.inside}`, worst === undefined ? dash : { html: `${formatDistance('ks', worst.unit, worst.ks)}<small>${escapeHtml(distributionName(worst))}</small>` }];
    }),
  ]))}`;
}

function cellSection({ varied, comparisons }: ComparedCell, index: number, labels: readonly string[], overlay: Overlay | undefined, cells: number): string {
  const parts = comparisons.map((one) => {
    const against = labels.length > 2 ? `<h3>${escapeHtml(`${labels[one.side]} against ${labels[0]}`)}</h3>` : '';
    return `${against}<p class="dim">${escapeHtml(pairingText(one))}</p>${figuresSection(one, [labels[0]!, labels[one.side]!])}`;
  });
  // The second are several times as high: in one row with the others they would stretch them.
  const plots = [overlay === undefined ? [] : overlayPlots(overlay, labels), comparisons.map((one) => forest(one, labels))]
    .map((group) => group.filter((svg) => svg !== '')).filter((group) => group.length > 0).map((group) => `<div class="plots">${group.join('\n')}</div>`);
  const heading = cells > 1 ? `<h2 id="${anchor(index)}">${escapeHtml(formatVaried(varied))}</h2>` : '';
  return `${heading}${plots.length > 0 ? `${cells > 1 ? '' : '<h2>Drawn together</h2>'}${plots.join('\n')}` : ''}${cells > 1 ? '' : '<h2>Figures</h2>'}${parts.join('\n')}`;
}

/** Smaller differences outside the noise are counted, and shown among all figures. */
const smallest = 0.001;

function figuresSection(one: CellComparison, names: readonly [string, string]): string {
  const shown = one.figures.filter((figure) => !isEmpty(figure) && (isHeadline(figure) || (figure.verdict === 'outside' && figure.role === 'figure' && isMaterial(smallest)(figure))));
  const small = one.figures.filter((figure) => figure.verdict === 'outside' && figure.role === 'figure' && !shown.includes(figure)).length;
  const note = small === 0 ? '' : `<p class="dim">${counted(small, 'more figure is', 'more figures are')} outside the noise, but with a difference below ${formatPercent(smallest)} of the reference: see every figure.</p>`;
  const all = one.figures.filter((figure) => !(figure.reference.n === 0 && figure.other.n === 0));
  const parts = [...new Set(all.map(({ figure }) => partOf(figure)))];
  const different = one.measuredDifferently.length === 0 ? '' : `<div class="state warn"><strong>Measured in different ways</strong><ul>${one.measuredDifferently.slice(0, 12).map(({ figure, reference, other }) => `<li>${escapeHtml(figureName(figure))}: ${escapeHtml(reference)} / ${escapeHtml(other)}</li>`).join('')}</ul></div>`;
  return [different, figureTable(shown, names), note, distributionTable(one, names),
    `<details><summary>Every figure (${formatCount(all.length)})</summary>${parts.map((part) => `<h3 style="margin-top:14px">${escapeHtml(part)}</h3>${figureTable(all.filter(({ figure }) => partOf(figure) === part), names)}`).join('')}</details>`].join('');
}

function figureTable(figures: readonly FigureDifference[], [a, b]: readonly [string, string]): string {
  const noise = figures.some((figure) => figure.noise !== null);
  const spread = (figure: FigureDifference, side: FigureDifference['reference']): TableCell =>
    side.sd === null || side.n < 2 ? formatValue(figure.unit, side.mean) : { html: `${escapeHtml(formatValue(figure.unit, side.mean))}<small>sd ${escapeHtml(formatDifference(figure.unit, side.sd, false))}, n ${side.n}</small>` };
  // What matters most comes first: a phone shows three columns, the rest is scrolled to.
  return table(['Figure', ...(noise ? ['Verdict'] : []), 'Difference', a, b, ...(noise ? ['95 % interval', 'Noise ±'] : [])], figures.map((figure): TableCell[] => [
    { html: breakable(figureName(figure.figure)) }, ...(noise ? [verdictCell(figure)] : []),
    figure.relative === null || figure.difference === 0 ? formatDifference(figure.unit, figure.difference) : { html: `${escapeHtml(formatDifference(figure.unit, figure.difference))}<small>${escapeHtml(formatRelative(figure.relative))}</small>` },
    spread(figure, figure.reference), spread(figure, figure.other),
    ...(noise ? [formatInterval(figure.unit, figure.ci95), figure.role === 'samples' ? '' : formatDifference(figure.unit, figure.noise, false)] : []),
  ]));
}

/** May break after a dot. */
const breakable = (name: string): string => escapeHtml(name).replaceAll('.', '.<wbr>');

function distributionTable({ distributions }: CellComparison, [a, b]: readonly [string, string]): string {
  if (distributions.length === 0) return '';
  const seeds = distributions.some(({ ksOverSeeds }) => ksOverSeeds.within !== null);
  const rows = distributions.flatMap((one) => (['ks', 'wasserstein'] as const).map((which): TableCell[] => {
    const noise = which === 'ks' ? one.ksOverSeeds : one.wassersteinOverSeeds;
    return [{ html: `${escapeHtml(distributionName(one))}<small style="display:block" class="dim">${which === 'ks' ? 'Kolmogorov–Smirnov' : 'Wasserstein-1'}</small>` }, ...(seeds ? [verdictCell(noise)] : []), formatDistance(which, one.unit, one[which]),
      ...(seeds ? [formatDistance(which, one.unit, noise.between), formatDistance(which, one.unit, noise.within?.p95 ?? null), formatP(noise)] : []), formatCount(one.samples.reference), formatCount(one.samples.other)];
  }));
  return `<h3 style="margin-top:14px">Distributions</h3>${table(['Distribution', ...(seeds ? ['Verdict'] : []), 'Distance', ...(seeds ? ['Between sides, run by run', 'Within a side, p95', 'p (smallest possible)'] : []), `n ${a}`, `n ${b}`], rows)}`;
}

// ---- Plots -----------------------------------------------------------------------------------------------------------

function overlayPlots(overlay: Overlay, labels: readonly string[]): string[] {
  const time = { label: 'time, s', min: 0, max: overlay.endS };
  const outside: [number, number][] = overlay.openS > 0 ? [[0, overlay.openS]] : [];
  const bands = overlay.seeds > 1 && labels.length <= 3;
  const over = overlay.seeds > 1 ? `Mean over seeds${bands ? '; band: their range' : ''}.` : '';
  const lines = (curves: readonly Curve[], scale: number): Series[] => curves.map(({ side, points }) => ({
    name: labels[side]!, colour: side, points: points.map(([t, mean]) => [t, mean * scale] as const),
    ...(bands ? { band: points.map(([t, , low, high]) => [t, low * scale, high * scale] as const) } : {}),
  }));
  const backlog = overlay.delayFromBacklog.length === 0 ? '' : `Of ${overlay.delayFromBacklog.map((side) => labels[side]).join(', ')}: the time the backlog needs to drain, at samples.`;
  const cumulative = (curves: readonly CdfCurve[]): { series: Series[]; tail: number } => {
    const tail = Math.max(0, ...curves.flatMap(({ points }) => points.filter(([, level]) => level <= 0.99).map(([value]) => value)));
    return { tail, series: curves.map(({ side, points }) => ({ name: labels[side]!, colour: side, points: points.filter(([value]) => value <= tail) })) };
  };
  return [
    ...[...overlay.delays].flatMap(([name, curves]) => {
      const plot = (title: string, from: number, drawn: readonly Curve[]): string => linePlot({
        title, caption: ['Median of each bin.', over, backlog].filter((text) => text !== '').join(' '), x: { ...time, min: from }, y: { label: 'queueing delay, ms', min: 0 }, outside: from > 0 ? [] : outside, series: lines(drawn, 1),
      });
      const highest = (drawn: readonly Curve[]): number => Math.max(0, ...drawn.flatMap(({ points }) => points.map(([, , , high]) => high)));
      const inWindow = curves.map(({ side, points }) => ({ side, points: points.filter(([t]) => t >= overlay.openS) }));
      // Slow start before the window can dwarf all that the figures are of.
      return [plot(`${name} queueing delay over time`, 0, curves), ...(highest(curves) > 2.5 * highest(inWindow) ? [plot(`${name} queueing delay, the window alone`, overlay.openS, inWindow)] : [])];
    }),
    ...[...overlay.cdfs].filter(([, { what }]) => what === 'queueing delay').map(([name, { curves }]) => cdfPlot(name, 'packets', 'ms', cumulative(curves))),
    ...[...overlay.throughputs].map(([name, curves]) => linePlot({ title: `${name} throughput over time`, ...(over === '' ? {} : { caption: over }), x: time, y: { label: 'Mbit/s', min: 0 }, outside, series: lines(curves, 1e-6) })),
    ...[...overlay.cdfs].filter(([, { what }]) => what !== 'queueing delay').map(([name, { unit, what, curves }]) => cdfPlot(name, what === 'flow completion time' ? 'flows' : 'probes', unit, cumulative(curves), what !== 'probe round trip')),
  ];
}

function cdfPlot(name: string, of: string, unit: string, { series, tail }: { readonly series: readonly Series[]; readonly tail: number }, fromZero = true): string {
  if (!(tail > 0)) return '';
  return linePlot({ title: `${name}, cumulative`, caption: `All seeds together, to the 99th percentile.`, x: { label: `${name.split(' ').slice(1).join(' ').replace(/,.*/, '') || name}, ${unit}`, ...(fromZero ? { min: 0 } : {}), max: tail }, y: { label: `share of ${of}`, min: 0, max: 1 }, series });
}

/** Relative differences of the headline figures: where they are, and where the noise is. */
function forest(one: CellComparison, labels: readonly string[]): string {
  const most = 1; // beyond ±100 % a row would flatten all others
  const percent = (figure: FigureDifference, value: number): number => (value / Math.abs(figure.difference! / figure.relative!)) * 100;
  const usable = one.figures.filter((figure) => isHeadline(figure) && !isEmpty(figure) && figure.relative !== null && figure.relative !== 0);
  const shown = usable.filter((figure) => Math.abs(figure.relative!) <= most).slice(0, 24);
  if (shown.length === 0) return '';
  const intervals = shown.map((figure) => ({
    name: figureName(figure.figure), colour: figure.verdict === 'outside' ? 1 : figure.verdict === 'inside' ? 2 : 0, median: figure.relative! * 100,
    ci: figure.ci95 === null ? null : [percent(figure, figure.ci95[0]), percent(figure, figure.ci95[1])] as const,
    values: figure.noise === null ? [] : [-percent(figure, figure.noise), percent(figure, figure.noise)].filter((value) => Math.abs(value) <= 100 * most),
    note: `${formatRelative(figure.relative)}${figure.noise === null ? '' : figure.verdict === 'outside' ? ', outside' : ', inside'}`,
  }));
  const clamp = (value: number): number => Math.max(-100 * most, Math.min(100 * most, value));
  const bounded = intervals.map((interval) => ({ ...interval, ci: interval.ci === null ? null : [clamp(interval.ci[0]), clamp(interval.ci[1])] as const }));
  const extent = bounded.flatMap(({ median, ci, values }) => [median, ...values, ...(ci ?? [])]);
  const noise = shown.some((figure) => figure.noise !== null);
  const left = usable.length - shown.length;
  return intervalPlot({
    title: `Relative difference${labels.length > 2 ? `, ${labels[one.side]}` : ''}`,
    caption: [`Filled: ${labels[one.side]} relative to ${labels[0]}.`, noise ? 'Bar: 95 % interval. Open: the noise on either side of 0.' : '', left > 0 ? `${counted(left, 'figure')} beyond ±100 % or further down the table.` : ''].filter((text) => text !== '').join(' '),
    x: { label: `difference, % of ${labels[0]}`, min: Math.min(0, ...extent), max: Math.max(0, ...extent) }, intervals: bounded,
  });
}

// ---- What was compared ---------------------------------------------------------------------------------------------

function whatDiffers(comparison: Comparison): string {
  const { differs, sides } = comparison;
  const rows = differs.flatMap(({ side, differences }) => differences.map(({ category, where, count, reference, other }): TableCell[] =>
    [category, ...(sides.length > 2 ? [sides[side]!.label] : []), where === 'run.json' ? '' : where, reference, other, count > 1 ? formatCount(count) : '']));
  if (rows.length === 0) return `<h2>What differs</h2><p>Of ${escapeHtml(sides.slice(1).map(({ label }, index) => `${label}: ${nothingDiffers(comparison, index + 1)}`).join('; '))}.</p>`;
  return `<h2>What differs</h2>${table(['Of', ...(sides.length > 2 ? ['Side'] : []), 'Where in the plan', sides[0]!.label, sides.length > 2 ? 'There' : sides[1]!.label, 'Places'], rows)}`;
}

function sidesSection({ sides }: Comparison): string {
  const text = (values: readonly string[]): string => { const all = [...new Set(values)]; return all.slice(0, 4).join(', ') + (all.length > 4 ? `, and ${all.length - 4} more` : ''); };
  return `<h2>What was compared</h2><div class="columns">${sides.map(({ label, given, runs, notCompared }) => `<div><h3>${escapeHtml(label)}</h3>${pairs([
    ['Given', givenText(given)], ['Engine', text(runs.map(({ engine, machine, kernel }) => `${engine}, ${machine}${kernel === null ? '' : `, Linux ${kernel}`}`))], ['Clock', text(runs.map(({ clock }) => `${clock} time`))],
    ['Seeds', seedsText([...new Set(runs.map(({ seed }) => seed))])], ['Code', text(runs.map(({ gitCommit }) => gitCommit?.slice(0, 12) ?? 'unknown'))], ['Runs', text(runs.map(({ id }) => id))],
    ...(notCompared.length === 0 ? [] : [['Left out', notCompared.slice(0, 10).map(({ id, reason }) => `${id}: ${reason}`).join('; ') + (notCompared.length > 10 ? `; and ${notCompared.length - 10} more` : '')] as const]),
  ])}</div>`).join('')}</div>`;
}

function missingSides({ missing }: Comparison): string {
  return missing.length === 0 ? '' : `<h2>Missing</h2><p class="dim">To be compared as well, without a run that counts.</p>${table(['Side', 'Reason'], missing.map(({ label, reason }): TableCell[] => [label, reason]))}`;
}

function notMatched({ unmatched, sides }: Comparison): string {
  return unmatched.length === 0 ? '' : `<h2>Not matched</h2><p class="dim">No runs that varied so on the other side.</p>${table(['Side', 'Varied', 'Runs'], unmatched.map(({ side, varied, runs }): TableCell[] => [sides[side]!.label, formatVaried(varied) || dash, String(runs.length)]))}`;
}
