/**
 * report.html of a run (or, through set-report.ts, of a folder of runs): one self-contained page with the figures,
 * the plots, what was run and on what. A run that does not count says so before anything else.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';
import type { Methods, Metrics } from '../analysis/metrics.js';
import type { Distribution } from '../analysis/distribution.js';
import { readMetrics, runsOf } from '../analysis/summary.js';
import { readPlan } from '../records/ingest.js';
import { readRunJson } from '../records/run-json.js';
import type { RunJson } from '../records/run-json.js';
import { eventList, eventMarks } from './events.js';
import { formatBps, counted, formatCount, formatMs, formatNumber, formatPercent, formatSeconds, formatVaried, machineText } from './format.js';
import { page, pairs, table } from './page.js';
import type { Cell } from './page.js';
import { cdfLevels, readSeries } from './series.js';
import type { RunSeries } from './series.js';
import { writeSetReport } from './set-report.js';
import { barPlot, boxPlot, colours, escapeHtml, linePlot, shortestShown } from './svg.js';
import type { Series } from './svg.js';
import { topologySketch } from './topology-sketch.js';

export const reportName = 'report.html';

/**
 * @param dir a run's folder (ingested; metrics.json if there is one), or a folder of runs with its summary.json
 * @returns the page's path
 * @throws UserError when the folder is neither
 */
export async function writeReport(dir: string): Promise<string> {
  const isRun = fs.existsSync(path.join(dir, 'raw', 'plan.json'));
  if (!isRun && runsOf(dir).length === 0) throw new UserError(`${dir}: neither a run (raw/plan.json) nor a folder of runs`);
  const html = isRun ? await runPage(dir) : await writeSetReport(dir);
  const file = path.join(dir, reportName);
  const temporary = `${file}.${process.pid}.tmp`;
  fs.writeFileSync(temporary, html);
  fs.renameSync(temporary, file);
  return file;
}

async function runPage(runDir: string): Promise<string> {
  const plan = readPlan(runDir);
  const run = readRunJson(runDir);
  const metrics = readMetrics(runDir);
  const series = await readSeries(runDir, plan, run?.status === 'complete');
  const title = plan.name + (Object.keys(plan.varied).length > 0 ? ` (${formatVaried(plan.varied)})` : '');
  return page(title, [
    header(plan, run, metrics),
    state(run, metrics),
    metrics === null ? '' : tiles(metrics),
    `<h2>Over time, and distributions</h2>${plots(plan, series, metrics)}`,
    metrics === null ? '' : `<h2>Figures</h2>${figures(metrics)}`,
    whatRan(plan, run),
    metrics === null ? '' : methods(metrics),
  ].filter((part) => part !== '').join('\n'));
}

const trim = (seconds: number): string => String(Number(seconds.toPrecision(4)));

function header(plan: Plan, run: RunJson | null, metrics: Metrics | null): string {
  const chips = [
    ...Object.entries(plan.varied).map(([key, value]) => `${key} = ${value}`),
    run === null ? null : `${machineText(run)} · ${run.clock} time`, `seed ${plan.seed}`,
    metrics === null ? null : `window ${trim(metrics.windowS[0])}–${trim(metrics.windowS[1])} s`,
  ].filter((chip) => chip !== null);
  return `<h1>${escapeHtml(plan.name)}</h1><ul class="chips">${chips.map((chip) => `<li>${escapeHtml(chip)}</li>`).join('')}</ul>`;
}

function state(run: RunJson | null, metrics: Metrics | null): string {
  const findings = run?.findings ?? [];
  const list = (level: string): string => {
    const found = findings.filter((finding) => finding.level === level);
    return found.length === 0 ? '' : `<ul>${found.map((finding) => `<li><b>${escapeHtml(finding.rule)}</b>: ${escapeHtml(finding.message)}</li>`).join('')}</ul>`;
  };
  const parts: string[] = [];
  if (run === null) parts.push('<div class="state warn"><strong>run.json is missing</strong>Whether this run may be counted is not known.</div>');
  else if (run.status === 'invalid') parts.push(`<div class="state bad" role="alert"><strong>Invalid: do not use these figures</strong>${list('invalid')}</div>`);
  else if (run.status === 'failed') parts.push(`<div class="state bad" role="alert"><strong>Failed</strong>${findings.some(({ message }) => message === run.error) ? '' : escapeHtml(run.error ?? '')}${list('failed')}${list('invalid')}</div>`);
  else if (run.status === 'incomplete' || run.status === 'running') {
    parts.push(`<div class="state bad" role="alert"><strong>Incomplete: this run did not reach its end and is not counted</strong>${escapeHtml(run.error ?? 'What was recorded until then is shown.')}${list('invalid')}</div>`);
  }
  if (metrics?.cut) parts.push(`<div class="state warn"><strong>Cut short</strong>The figures are of ${trim(metrics.windowS[0])} s to ${trim(metrics.windowS[1])} s of the run, as far as its records go.</div>`);
  const warnings = list('warning');
  if (warnings !== '') parts.push(`<div class="state warn"><strong>Warnings</strong>${warnings}</div>`);
  return parts.join('');
}

/** Bottleneck directions that carried traffic, or all when none did. */
function busy(metrics: Metrics): [string, Metrics['bottlenecks'][string]][] {
  const all = Object.entries(metrics.bottlenecks);
  const used = all.filter(([, bottleneck]) => (bottleneck.throughputBps ?? 0) > 0);
  return used.length > 0 ? used : all;
}

function tiles(metrics: Metrics): string {
  const list: [string, string][] = [];
  for (const [name, bottleneck] of busy(metrics).filter(([, { utilisation }], index) => index < 4 && (index === 0 || (utilisation ?? 1) > 0.2))) {
    list.push([formatPercent(bottleneck.utilisation), `${name} utilisation`], [formatMs(bottleneck.queueDelayMs.p50), `${name} queueing, median`],
      [formatMs(bottleneck.queueDelayMs.p99), `${name} queueing, p99`], [formatPercent(bottleneck.lossRatio), `${name} loss`]);
  }
  for (const [name, flows] of Object.entries(metrics.classes).slice(0, 4)) {
    list.push(flows.fctS.n > 0 ? [formatSeconds(flows.fctS.p50), `${name} completion, median`] : [formatBps(flows.goodputBps), `${name} goodput, ${counted(flows.flows, 'flow')}`]);
  }
  return `<div class="tiles">${list.map(([value, label]) => `<div class="tile"><b>${escapeHtml(value)}</b><span>${escapeHtml(label)}</span></div>`).join('')}</div>`;
}

/** Class and sender; of several such, with their number. */
function flowName({ flows }: Plan, flow: number): string {
  const { class: ofClass, src } = flows[flow]!;
  const alike = flows.filter((other) => other.class === ofClass && other.src === src);
  return `${ofClass} ${src}${alike.length > 1 ? ` #${alike.indexOf(flows[flow]!) + 1}` : ''}`;
}

function plots(plan: Plan, series: RunSeries, metrics: Metrics | null): string {
  const time = { label: 'time, s', min: 0, max: series.endS };
  const marks = eventMarks(plan).map(({ atS, short }) => ({ at: atS, label: short }));
  const outside: [number, number][] = series.window.open > 0 ? [[0, series.window.open / 1e9]] : [];
  const middle = (t: number, binS: number): number => Math.min(series.endS, t + binS / 2);
  const names = [...new Set([...series.delays.map((row) => row.bottleneck), ...series.backlogs.map((row) => row.bottleneck)])].sort();
  const order = [...names.filter((name) => !name.endsWith('.reverse')), ...names.filter((name) => name.endsWith('.reverse'))];
  const colourOf = (name: string): number => order.indexOf(name);
  // A direction that never queues would only hide the others' scale.
  const p99 = new Map(series.cdfs.map((cdf) => [cdf.bottleneck, cdf.ms[cdfLevels.indexOf(0.99)]!]));
  const worst = Math.max(0, ...p99.values());
  const idle = order.filter((name) => (p99.get(name) ?? Infinity) < 0.01 * worst);
  const idleCaption = idle.length === 0 ? '' : ` Not drawn: ${idle.join(', ')}, where 99 % of packets waited less than ${formatMs(0.01 * worst)}.`;
  const shownNames = order.filter((name) => !idle.includes(name));
  const queueing = shownNames.filter((name) => series.delays.some((row) => row.bottleneck === name));
  const cdfs = series.cdfs.filter((cdf) => shownNames.includes(cdf.bottleneck));
  const classNames = [...new Set(plan.flows.map((flow) => flow.class))];
  const classColour = (flow: number): number => classNames.indexOf(plan.flows[flow]!.class);
  const longFlows = plan.flows.filter((flow) => flow.kind !== 'short').length;
  const perFlowCaption = longFlows > 40 ? `The first 40 of ${longFlows} long flows, coloured by class.` : undefined;

  const made: [string, string][] = [];
  made.push(['queueing delay', linePlot({
    title: 'Queueing delay over time', x: time, y: { label: 'queueing delay, ms', min: 0 }, outside, marks,
    caption: series.delaySource === 'packets' ? `Median, band 5th to 95th percentile, of ${series.stride > 1 ? `every ${series.stride}th packet` : 'all packets'}.${idleCaption}` : `From the sampled backlog and the rate (no packet records).${idleCaption}`,
    series: queueing.map((name): Series => {
      const rows = series.delays.filter((row) => row.bottleneck === name);
      return { name, colour: colourOf(name), points: rows.map((row) => [middle(row.t, series.delayBinS), row.p50]), band: rows.map((row) => [middle(row.t, series.delayBinS), row.p5, row.p95]) };
    }),
  })]);
  const tail = Math.max(0, ...cdfs.map((cdf) => cdf.ms[cdfLevels.indexOf(0.999)]!));
  // Where the tail is far from the median, a linear axis shows the one or the other.
  const middles = cdfs.map((cdf) => cdf.ms[cdfLevels.indexOf(0.5)]!).filter((ms) => ms > 0);
  const log = middles.length > 0 && tail > 10 * Math.min(...middles);
  const [from, to] = [log ? Math.max(shortestShown, tail / 2000, Math.min(...middles) / 20) : 0, tail > 0 ? tail : 1];
  made.push(['its distribution', linePlot({
    title: 'Queueing delay, cumulative', x: { label: 'queueing delay, ms', min: from, max: to, log }, y: { label: 'share of packets', min: 0, max: 1 },
    caption: `Measurement window${series.stride > 1 ? `, every ${series.stride}th packet` : ''}: ${cdfs.map((cdf) => `${cdf.bottleneck} ${formatCount(cdf.n)}`).join(', ')} ${series.delaySource === 'packets' ? 'packets' : 'samples'}.${log ? ' Logarithmic.' : ''}`,
    series: cdfs.map((cdf) => ({ name: cdf.bottleneck, colour: colourOf(cdf.bottleneck), points: cdf.ms.map((ms, index) => [Math.min(Math.max(ms, from), to), cdfLevels[index]!] as const) })),
  })]);
  made.push(['backlog', linePlot({
    title: 'Backlog over time', x: time, y: { label: 'packets waiting', min: 0 }, outside, marks, caption: 'Mean of the samples, band least to most.',
    series: shownNames.filter((name) => series.backlogs.some((row) => row.bottleneck === name)).map((name): Series => {
      const rows = series.backlogs.filter((row) => row.bottleneck === name);
      return { name, colour: colourOf(name), points: rows.map((row) => [middle(row.t, series.delayBinS), row.mean]), band: rows.map((row) => [middle(row.t, series.delayBinS), row.low, row.high]) };
    }),
  })]);
  made.push(['drops', barPlot({
    title: 'Drops over time', x: time, y: { label: `drops in ${formatSeconds(series.dropBinS)}`, min: 0 }, outside, marks,
    series: order.map((name) => ({ name, colour: colourOf(name), bars: series.dropBins.filter((row) => row.bottleneck === name).map((row) => ({ x: row.t, width: series.dropBinS, value: row.drops })) })),
  })]);
  const perFlow = (rows: RunSeries['cwnds'], scale: number, binS: number): Series[] => [...new Set(rows.map((row) => row.flow))].map((flow, index, all) => ({
    ...(all.length <= colours ? { name: flowName(plan, flow), colour: index } : { name: plan.flows[flow]!.class, colour: classColour(flow) }), thin: true,
    points: rows.filter((row) => row.flow === flow).map((row) => [middle(row.t, binS), row.value / scale] as const),
  }));
  made.push(['throughput', linePlot({
    title: 'Throughput per flow', x: time, y: { label: 'Mbit/s', min: 0 }, outside, marks,
    caption: [series.throughputSource === 'packets' ? 'IP bytes that left the last bottleneck.' : 'Payload acknowledged.', perFlowCaption].filter(Boolean).join(' '),
    series: perFlow(series.throughputs, 1e6, series.throughputBinS),
  })]);
  const cwndFlows = [...new Set(series.cwnds.map((row) => row.flow))];
  made.push(['congestion window', linePlot({
    title: 'Congestion window', x: time, y: { label: 'cwnd, packets', min: 0 }, outside, marks,
    ...(cwndFlows.length > colours ? { caption: `The first ${colours} of ${cwndFlows.length} flows.` } : {}),
    series: perFlow(series.cwnds.filter((row) => cwndFlows.indexOf(row.flow) < colours), 1, 0).map((line) => ({ ...line, step: true })),
  })]);
  const boxes = metrics === null ? [] : Object.entries(metrics.classes).flatMap(([name, flows], index) => {
    const sizes = Object.entries(flows.fctBySizeS);
    return sizes.map(([size, fct]) => box(`${name} ${size}`, index, fct)).filter((entry) => entry !== null);
  });
  made.push(['flow completion time', boxPlot({ title: 'Flow completion time', x: { label: 'flow completion time, s' }, boxes, caption: 'Whiskers 5th to 95th percentile, box 25th to 75th, bar median.' })]);
  const probeNames = [...new Set(series.probes.map((row) => row.probe))];
  made.push(['probe delay', linePlot({
    title: 'Probe round trip', x: time, y: { label: 'round-trip time, ms', min: 0 }, outside, marks, caption: 'Median; band up to the 95th percentile.',
    series: probeNames.map((name, index): Series => {
      const rows = series.probes.filter((row) => row.probe === name);
      return { name, colour: index, points: rows.map((row) => [middle(row.t, series.delayBinS), row.p50]), band: rows.map((row) => [middle(row.t, series.delayBinS), row.p50, row.p95]) };
    }),
  })]);
  const empty = made.filter(([, svg]) => svg === '').map(([what]) => what);
  const note = empty.length === 0 ? '' : `<p class="dim">Nothing to show for: ${empty.join(', ')}.</p>`;
  return `<div class="plots">${made.map(([, svg]) => svg).join('\n')}</div>${note}`;
}

function box(name: string, colour: number, fct: Distribution): Parameters<typeof boxPlot>[0]['boxes'][number] | null {
  if (fct.n === 0 || fct.p5 === null) return null;
  return { name, colour: colour % colours, low: fct.p5, q1: fct.p25!, median: fct.p50!, q3: fct.p75!, high: fct.p95!, note: `n ${formatCount(fct.n)}, median ${formatSeconds(fct.p50)}` };
}

const spread = (distribution: Distribution, format: (value: number | null) => string): Cell =>
  distribution.n === 0 ? format(null) : { html: `${escapeHtml(format(distribution.p50))}<small>p95 ${escapeHtml(format(distribution.p95))}</small><small>p99 ${escapeHtml(format(distribution.p99))}</small>` };

function figures(metrics: Metrics): string {
  const bottlenecks = busy(metrics);
  const classes = Object.entries(metrics.classes);
  const probes = Object.entries(metrics.probes);
  const row = <T>(label: string, list: readonly [string, T][], value: (item: T) => Cell): Cell[] => [label, ...list.map(([, item]) => value(item))];
  const drawn = [
    bottlenecks.length === 0 ? '' : table(['Bottleneck', ...bottlenecks.map(([name]) => name)], [
      row('Throughput (IP)', bottlenecks, (b) => formatBps(b.throughputBps)),
      row('Utilisation', bottlenecks, (b) => formatPercent(b.utilisation)),
      row('Queueing delay, median', bottlenecks, (b) => spread(b.queueDelayMs, formatMs)),
      row('mean', bottlenecks, (b) => formatMs(b.queueDelayMs.mean)),
      row('sd', bottlenecks, (b) => formatMs(b.queueDelayMs.sd)),
      row('max', bottlenecks, (b) => formatMs(b.queueDelayMs.max)),
      row('Loss', bottlenecks, (b) => formatPercent(b.lossRatio)),
      row('Marks', bottlenecks, (b) => formatPercent(b.markRatio)),
      row('Backlog, median', bottlenecks, (b) => (b.backlogPackets.p50 === null ? '–' : `${formatNumber(b.backlogPackets.p50)} p`)),
      row('Packets arrived', bottlenecks, (b) => formatCount(b.packets.arrived)),
      row('Dropped', bottlenecks, (b) => formatCount(b.packets.dropped)),
      row('Loss synchronisation', bottlenecks, (b) => formatNumber(b.lossSynchronisation)),
    ]),
    classes.length === 0 ? '' : table(['Flow class', ...classes.map(([name]) => name)], [
      row('Flows', classes, (c) => formatCount(c.flows)),
      row('Completed', classes, (c) => formatCount(c.completed)),
      row('Failed', classes, (c) => formatCount(c.failed)),
      row('Goodput', classes, (c) => formatBps(c.goodputBps)),
      row('Throughput (IP)', classes, (c) => formatBps(c.throughputBps)),
      row('Jain’s index', classes, (c) => formatNumber(c.jain)),
      row('Loss', classes, (c) => formatPercent(c.lossRatio)),
      row('Retransmissions', classes, (c) => formatCount(c.retransmits)),
      row('Completion time, median', classes, (c) => spread(c.fctS, formatSeconds)),
      row('Start-up time, median', classes, (c) => formatSeconds(c.startupS.p50)),
      row('Smoothed RTT, median', classes, (c) => formatMs(c.srttMs.p50)),
      row('cwnd, median', classes, (c) => (c.cwndPackets.p50 === null ? '–' : `${formatNumber(c.cwndPackets.p50)} p`)),
    ]),
    probes.length === 0 ? '' : table(['Probe', ...probes.map(([name]) => name)], [
      row('Sent', probes, (p) => formatCount(p.sent)),
      row('Lost', probes, (p) => formatPercent(p.lossRatio)),
      row('Round trip, median', probes, (p) => spread(p.rttMs, formatMs)),
      row('One way there, median', probes, (p) => spread(p.owdForwardMs, formatMs)),
      row('One way back, median', probes, (p) => spread(p.owdReverseMs, formatMs)),
    ]),
  ];
  return `<div class="tables">${drawn.filter((part) => part !== '').map((part) => `<div>${part}</div>`).join('')}</div>`;
}

function whatRan(plan: Plan, run: RunJson | null): string {
  const list: [string, Cell][] = [['Scenario', plan.name]];
  if (Object.keys(plan.varied).length > 0) list.push(['Varied', formatVaried(plan.varied)]);
  list.push(['Seed', String(plan.seed)], ['Warm-up, window', `${trim(plan.warmupNs / 1e9)} s, ${trim(plan.durationNs / 1e9)} s`]);
  const kinds = [...new Set(plan.flows.map((flow) => flow.class))].map((name) => {
    const flows = plan.flows.filter((flow) => flow.class === name);
    return `${name}: ${flows.length} × ${flows[0]!.kind}${flows[0]!.cc === null ? '' : ` ${flows[0]!.cc}`} (${flows[0]!.tool})`;
  });
  if (kinds.length > 0) list.push(['Traffic', kinds.join('; ')]);
  if (run !== null) {
    list.push(['Machine', `${machineText(run)}, ${run.clock} time${run.hosts === undefined ? '' : `, hosts: ${run.hosts}`}`]);
    if (run.kernel !== null) list.push(['Kernel', `${run.kernel.release ?? 'unknown'}${run.kernel.config === undefined ? '' : ` (config ${run.kernel.config})`}`]);
    list.push(['Plan', run.planHash.slice(0, 16)], ['Code', run.gitCommit?.slice(0, 12) ?? 'unknown'], ['Started', run.started], ['Ended', run.ended ?? '–'], ['Status', run.status]);
    const tools = Object.entries(run.toolVersions);
    if (tools.length > 0) list.push(['Tools', tools.map(([name, version]) => `${name} ${version}`).join(', ')]);
    const counts = Object.entries(run.counts);
    if (counts.length > 0) list.push(['Records', counts.map(([name, count]) => `${name} ${formatCount(count)}`).join(', ')]);
  }
  const events = eventMarks(plan);
  const facts = Object.keys(run?.facts ?? {}).length === 0 ? '' : `<details><summary>Facts recorded by the engine</summary><pre>${escapeHtml(JSON.stringify(run!.facts, null, 2).slice(0, 60000))}</pre></details>`;
  const queues = plan.links.filter((link) => link.role === 'bottleneck').slice(0, 16).flatMap((link) => [link.forward, link.reverse]).filter((direction) => direction.queue !== null).map((direction) => {
    const params = Object.entries(direction.queue!.params).map(([key, value]) => `${key} ${value}`);
    return [direction.name, direction.rateBps === null ? '–' : formatBps(direction.rateBps), [direction.queue!.kind, ...params].join(', ')];
  });
  return `<h2>What ran, and on what</h2><div class="columns"><div>${topologySketch(plan)}${table(['Queue', 'Rate', 'Discipline'], queues, true)}${eventList(events)}</div><div>${pairs(list)}${facts}</div></div>`;
}

function methods(metrics: Metrics): string {
  const rows: string[][] = [];
  for (const part of ['bottlenecks', 'classes', 'probes'] as const) {
    for (const [name, entry] of Object.entries<{ readonly methods: Methods }>(metrics[part])) {
      for (const [figure, method] of Object.entries(entry.methods)) rows.push([`${name} ${figure}`, `${method.how} (n ${formatCount(method.n)})`]);
    }
  }
  return `<details><summary>How each figure was measured</summary>${pairs(rows.map(([key, value]) => [key!, value!] as const))}</details>`;
}
