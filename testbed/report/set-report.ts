/** The page of a varied or repeated run: figures by varied value with their intervals, delay distributions overlaid, a link to each run. */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { bottleneckDirections } from '../analysis/metrics.js';
import { summarise, summaryName } from '../analysis/summary.js';
import type { Summary, SummaryCombination, SummaryFigure } from '../analysis/summary.js';
import { openDatabase, sqlPath } from '../records/database.js';
import { parquetOf, readPlan } from '../records/ingest.js';
import { readRunJson } from '../records/run-json.js';
import { eventList, eventMarks } from './events.js';
import { counted, dash, formatBps, formatMs, formatNumber, formatPercent, formatRange, formatSeconds, formatVaried, machineText } from './format.js';
import { page, table } from './page.js';
import type { Cell } from './page.js';
import { cdfLevels, sampledPackets } from './series.js';
import { escapeHtml, farApart, intervalPlot, linePlot, shortestShown } from './svg.js';
import { topologySketch } from './topology-sketch.js';

interface Shown { readonly path: string; readonly title: string; readonly axis: string; readonly scale: number; readonly format: (value: number | null | undefined) => string }

/** The figures a comparison shows, in order; of every bottleneck, class and probe that has them. */
export function shownFigures(summary: Summary): Shown[] {
  const paths = new Set(summary.combinations.flatMap((combination) => Object.entries(combination.metrics).filter(([, figure]) => figure.n > 0).map(([key]) => key)));
  const carried = (name: string): boolean => summary.combinations.some((combination) => (combination.metrics[`bottlenecks.${name}.utilisation`]?.median ?? combination.metrics[`bottlenecks.${name}.throughputBps`]?.median ?? 0) > 0.1);
  const shown: Shown[] = [];
  const add = (key: string, title: string, axis: string, scale: number, format: Shown['format']): void => { if (paths.has(key)) shown.push({ path: key, title, axis, scale, format }); };
  const names = (part: string, figure: string): string[] => [...paths].filter((key) => key.startsWith(`${part}.`) && key.endsWith(`.${figure}`)).map((key) => key.slice(part.length + 1, -figure.length - 1));
  for (const name of names('bottlenecks', 'throughputBps').filter((candidate) => !candidate.includes('.classes.') && carried(candidate))) {
    const at = `bottlenecks.${name}`;
    add(`${at}.utilisation`, `${name} utilisation`, 'utilisation, %', 100, formatPercent);
    add(`${at}.queueDelayMs.p50`, `${name} queueing, median`, 'queueing delay, ms', 1, formatMs);
    add(`${at}.queueDelayMs.p95`, `${name} queueing, p95`, 'queueing delay, ms', 1, formatMs);
    add(`${at}.queueDelayMs.p99`, `${name} queueing, p99`, 'queueing delay, ms', 1, formatMs);
    add(`${at}.lossRatio`, `${name} loss`, 'loss, %', 100, formatPercent);
    add(`${at}.markRatio`, `${name} marks`, 'marks, %', 100, formatPercent);
  }
  for (const name of names('classes', 'goodputBps')) {
    const at = `classes.${name}`;
    add(`${at}.goodputBps`, `${name} goodput`, 'goodput, Mbit/s', 1e-6, formatBps);
    // Of a single flow it is 1 whatever happens.
    if (summary.combinations.some((combination) => (combination.metrics[`${at}.flows`]?.median ?? 0) > 1)) add(`${at}.jain`, `${name} Jain’s index`, 'Jain’s index', 1, formatNumber);
    add(`${at}.fctS.p50`, `${name} completion, median`, 'flow completion time, s', 1, formatSeconds);
    add(`${at}.fctS.p95`, `${name} completion, p95`, 'flow completion time, s', 1, formatSeconds);
  }
  for (const name of names('probes', 'rttMs.p50')) add(`probes.${name}.rttMs.p50`, `${name} round trip, median`, 'round-trip time, ms', 1, formatMs);
  return shown;
}

export function readSummary(setDir: string): Summary | null {
  try {
    const summary = JSON.parse(fs.readFileSync(path.join(setDir, summaryName), 'utf8')) as Summary | null;
    return summary !== null && Array.isArray(summary.combinations) && Array.isArray(summary.notCounted) ? summary : null;
  } catch {
    return null;
  }
}

/** `codel` where one thing varies, `queue=codel, rtt=50ms` where several do. */
function nameOf(combination: SummaryCombination): string {
  const values = Object.values(combination.varied);
  return values.length === 0 ? 'all runs' : values.length === 1 ? values[0]! : formatVaried(combination.varied);
}

/** @returns the page; summarises the set first if it has no summary.json */
export async function writeSetReport(setDir: string): Promise<string> {
  const summary = readSummary(setDir) ?? await summarise(setDir);
  const shown = shownFigures(summary);
  const runs = summary.combinations.flatMap((combination) => combination.runs);
  const seeds = [...new Set(summary.combinations.flatMap((combination) => combination.seeds))];
  const chips = [`${counted(runs.length, 'run')} counted`, ...(seeds.length === 0 ? [] : [`seed${seeds.length === 1 ? '' : 's'} ${seeds.length > 12 ? `${seeds.slice(0, 12).join(', ')} …` : seeds.join(', ')}`]), ...machines(setDir, summary),
    ...summary.varies.map((key) => `${key}: ${[...new Set(summary.combinations.map(({ varied }) => varied[key] ?? dash))].join(', ')}`)];
  const parts: string[] = [`<h1>${escapeHtml(summary.name)}</h1><ul class="chips">${chips.map((chip) => `<li>${escapeHtml(chip)}</li>`).join('')}</ul>`];
  if (summary.notCounted.length > 0) {
    const first = summary.notCounted.slice(0, 50);
    const rest = summary.notCounted.length - first.length;
    parts.push(`<div class="state ${runs.length === 0 ? 'bad' : 'warn'}"><strong>${summary.notCounted.length} run${summary.notCounted.length === 1 ? ' is' : 's are'} not counted</strong><ul>${
      first.map((run) => `<li><a href="${link(run.run)}">${escapeHtml(run.run)}</a>${Object.keys(run.varied).length > 0 ? ` (${escapeHtml(formatVaried(run.varied))}, seed ${run.seed})` : ''}: <b>${escapeHtml(run.status)}</b>: ${escapeHtml(run.reason)}</li>`).join('')}${rest > 0 ? `<li>and ${rest} more in summary.json</li>` : ''}</ul></div>`);
  }
  // A figure that is 0 everywhere (marks without ECN) is in the table only.
  const plotted = shown.filter((figure) => summary.combinations.some((combination) => (combination.metrics[figure.path]?.values ?? []).some((value) => value !== null && value !== 0)));
  const medians = (figure: Shown): number[] => summary.combinations.flatMap((combination) => combination.metrics[figure.path]?.values.filter((value) => value !== null) ?? []);
  const isTime = (figure: Shown): boolean => /, (?:ms|s)$/.test(figure.axis);
  const distributions = await delayPlots(setDir, summary);
  const plots = plotted.map((figure) => intervalPlot({
    title: figure.title, x: { label: figure.axis, log: isTime(figure) && farApart(medians(figure)) },
    intervals: summary.combinations.flatMap((combination, index) => {
      const values = combination.metrics[figure.path];
      if (values === undefined || values.median === null) return [];
      const scaled = (value: number): number => value * figure.scale;
      return [{ name: nameOf(combination), colour: index, median: scaled(values.median), ci: values.ci95 === null ? null : [scaled(values.ci95[0]), scaled(values.ci95[1])] as const,
        values: values.values.flatMap((value) => (value === null ? [] : [scaled(value)])), note: figure.format(values.median) }];
    }),
  })).filter((svg) => svg !== '');
  if (distributions.length > 0) parts.push(`<h2>Queueing delay</h2><div class="plots wide">${distributions.join('\n')}</div>`);
  if (plots.length > 0) parts.push(`<h2>Compared</h2><p class="dim">${seeds.length > 1 ? 'Filled: median over seeds. Bar: 95 % bootstrap interval of the median. Open: each seed.' : 'One seed: no intervals.'}</p><div class="plots">${plots.join('\n')}</div>`);
  if (shown.length > 0) {
    const head: Cell[] = ['Figure', ...summary.combinations.map(nameOf)];
    parts.push(`<h2>Figures</h2>${table(head, shown.map((figure) => [figure.title, ...summary.combinations.map((combination) => withInterval(combination.metrics[figure.path], figure.format))]))}`);
  }
  if (runs.length > 0) parts.push(`<h2>Runs</h2>${table(['Run', 'Seed', 'Status', 'Varied'], summary.combinations.flatMap((combination) => combination.runs.map((run, index): Cell[] =>
    [{ html: `<a href="${link(run)}">${escapeHtml(run)}</a>` }, String(combination.seeds[index]), readRunJson(path.join(setDir, run))?.status ?? 'unknown', formatVaried(combination.varied) || dash])), true)}`);
  if (runs.length > 0) {
    const plan = readPlan(path.join(setDir, runs[0]!));
    parts.push(`<h2>Topology</h2>${topologySketch(plan, !summary.varies.some((key) => /queue/i.test(key)))}${eventList(eventMarks(plan))}`);
  }
  if (runs.length > 0) parts.push(`<p class="dim">${escapeHtml(capital(summary.method))}.</p>`);
  return page(summary.name, parts.join('\n'));
}

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

/** What the counted runs ran on: one chip each, mostly one. */
function machines(setDir: string, summary: Summary): string[] {
  const runs = summary.combinations.flatMap((combination) => combination.runs).map((run) => readRunJson(path.join(setDir, run)));
  return [...new Set(runs.flatMap((run) => (run === null ? [] : [`${machineText(run)} · ${run.clock} time`])))];
}

const link = (run: string): string => `${encodeURIComponent(run)}/report.html`;

function withInterval(figure: SummaryFigure | undefined, format: Shown['format']): Cell {
  if (figure === undefined || figure.median === null) return dash;
  return figure.ci95 === null ? format(figure.median) : { html: `${escapeHtml(format(figure.median))}<small>${escapeHtml(formatRange(format(figure.ci95[0]), format(figure.ci95[1])))}</small>` };
}

const pooledRuns = 3;
const mostCurves = 16;

interface Curve { readonly combination: number; readonly bottleneck: string; readonly ms: readonly number[] }
interface Course { readonly combination: number; readonly bottleneck: string; readonly points: readonly (readonly [number, number])[] }

/** Two plots a bottleneck, a curve a combination in each: the distribution of its first runs' packets, and the first run's delay over time. */
async function delayPlots(setDir: string, summary: Summary): Promise<string[]> {
  const combinations = summary.combinations.slice(0, mostCurves).filter((combination) => combination.runs.length > 0);
  if (combinations.length === 0) return [];
  const plan = readPlan(path.join(setDir, combinations[0]!.runs[0]!));
  const [open, end] = [plan.warmupNs, plan.warmupNs + plan.durationNs];
  const binNs = Math.max(1, Math.ceil(end / 120));
  const pooled = Math.min(pooledRuns, Math.max(...combinations.map(({ runs }) => runs.length)));
  const curves: Curve[] = [];
  const courses: Course[] = [];
  // All runs have ended: their cores are free.
  const database = await openDatabase({ threads: String(os.availableParallelism()) });
  try {
    for (const { runs } of combinations) {
      const combination = summary.combinations.findIndex((other) => other.runs === runs);
      const files = runs.slice(0, pooledRuns).map((run) => parquetOf(path.join(setDir, run), 'packets')).filter((file) => fs.existsSync(file));
      if (files.length === 0) continue;
      // Enough for a curve: every n-th packet of a direction. The figures in summary.json are of all of them.
      const [packets] = await database.rows<{ most: number | null }>(`SELECT max(seq) + 1 AS most FROM read_parquet([${files.map(sqlPath).join(', ')}])`);
      const every = (runs: number): number => Math.max(1, Math.ceil(((packets!.most ?? 0) * runs) / sampledPackets));
      const rows = await database.rows<{ bottleneck: string; ms: number[] }>(`
        SELECT bottleneck, quantile_cont((t_dequeue - t_enqueue) / 1e6, [${cdfLevels.join(', ')}]) AS ms
        FROM read_parquet([${files.map(sqlPath).join(', ')}]) WHERE t_dequeue IS NOT NULL AND t_enqueue >= ${open} AND t_enqueue < ${end} AND seq % ${every(files.length)} = 0 GROUP BY ALL`);
      curves.push(...rows.map((row) => ({ ...row, combination })));
      const bins = await database.rows<{ bottleneck: string; bin: number; ms: number }>(`
        SELECT bottleneck, CAST(floor(t_enqueue / ${binNs}.0) AS INTEGER) AS bin, median((t_dequeue - t_enqueue) / 1e6) AS ms
        FROM read_parquet(${sqlPath(files[0]!)}) WHERE t_dequeue IS NOT NULL AND t_enqueue < ${end} AND seq % ${every(1)} = 0 GROUP BY ALL ORDER BY ALL`);
      for (const bottleneck of new Set(bins.map((row) => row.bottleneck))) {
        courses.push({ combination, bottleneck, points: bins.filter((row) => row.bottleneck === bottleneck).map(({ bin, ms }) => [Math.min(end, (bin + 0.5) * binNs) / 1e9, ms] as const) });
      }
    }
  } finally {
    database.close();
  }
  const name = (combination: number): string => nameOf(summary.combinations[combination]!);
  const marks = eventMarks(plan).map(({ atS, short }) => ({ at: atS, label: short }));
  return bottleneckDirections(plan).flatMap(({ name: bottleneck }) => {
    const here = curves.filter((curve) => curve.bottleneck === bottleneck);
    const limits = here.map((curve) => curve.ms[cdfLevels.indexOf(0.99)]!);
    const tail = Math.max(0, ...limits);
    if (!(tail > 0)) return [];
    // Delays a factor of ten apart: a linear axis shows the longest only.
    const middles = here.map((curve) => Math.max(curve.ms[cdfLevels.indexOf(0.5)]!, shortestShown));
    const log = farApart(middles) || farApart(limits.map((ms) => Math.max(ms, shortestShown)));
    const from = log ? Math.max(shortestShown, tail / 2000, Math.min(...middles) / 10) : 0;
    return [linePlot({
      title: `${bottleneck} queueing delay, cumulative`, caption: `Packets of ${pooled === 1 ? 'one seed' : `${pooled} seeds`}, to the 99th percentile.${log ? ' Logarithmic.' : ''}`,
      x: { label: 'queueing delay, ms', min: from, max: tail, log }, y: { label: 'share of packets', min: 0, max: 1 },
      series: here.map((curve) => ({ name: name(curve.combination), colour: curve.combination, points: curve.ms.flatMap((ms, index) => (ms <= tail ? [[Math.max(ms, from), cdfLevels[index]!] as const] : [])) })),
    }), linePlot({
      title: `${bottleneck} queueing delay over time`, caption: `Median of each ${formatSeconds(binNs / 1e9)}, first seed.${log ? ' Logarithmic.' : ''}`,
      x: { label: 'time, s', min: 0, max: end / 1e9 }, y: { label: 'queueing delay, ms', min: from, log }, marks, outside: open > 0 ? [[0, open / 1e9]] : [],
      series: courses.filter((course) => course.bottleneck === bottleneck).map((course) => ({ name: name(course.combination), colour: course.combination, points: course.points.map(([at, ms]) => [at, Math.max(ms, from)] as const) })),
    })].filter((svg) => svg !== '');
  });
}
