/**
 * The figures at the end of a run or a set, for a terminal of 80 columns. Colour only adds to what the words say,
 * and is left out when NO_COLOR is set, or when the output is no terminal and CI is not set (picocolors decides).
 */

import Table from 'cli-table3';
import pc from 'picocolors';
import type { Metrics } from '../analysis/metrics.js';
import type { Summary } from '../analysis/summary.js';
import type { RunJson } from '../records/run-json.js';
import { wrap } from './columns.js';
import { counted, dash, formatBps, formatCount, formatMs, formatNumber, formatPercent, formatSeconds, formatVaried, machineText } from './format.js';
import { shownFigures } from './set-report.js';

const columns = 80;

/** A table no wider than 80 columns: the widest columns give way. @returns '' for no rows */
export function textTable(head: readonly string[], body: readonly (readonly string[])[]): string {
  if (body.length === 0) return '';
  const widths = head.map((title, column) => Math.max(title.length, ...body.map((row) => (row[column] ?? '').length)));
  const fixed = 2 * (head.length - 1);
  const total = (list: readonly number[]): number => list.reduce((sum, width) => sum + width, fixed);
  const most = [...widths];
  while (total(most) > columns && most.some((width) => width > 8)) most[most.indexOf(Math.max(...most))]!--;
  const fit = (text: string, width: number): string => (text.length <= width ? text : `${text.slice(0, width - 1)}…`);
  const drawn = new Table({
    head: head.map((title, column) => fit(title, most[column]!)), style: { 'head': [], 'border': [], 'compact': true, 'padding-left': 0, 'padding-right': 0 },
    colAligns: head.map((_, column) => (column === 0 ? 'left' : 'right')),
    chars: { 'top': '', 'top-left': '', 'top-right': '', 'top-mid': '', 'bottom': '', 'bottom-left': '', 'bottom-right': '', 'bottom-mid': '', 'left': '', 'left-mid': '', 'mid': '─', 'mid-mid': '──', 'right': '', 'right-mid': '', 'middle': '  ' },
  });
  for (const row of body) drawn.push(row.map((value, column) => fit(value, most[column]!)));
  const lines = drawn.toString().split('\n').map((line) => line.trimEnd());
  return [pc.bold(lines[0]!), pc.dim(lines[1]!), ...lines.slice(2)].join('\n');
}

/**
 * @param run null when there is no run.json
 * @param findings false where they are told elsewhere
 */
export function runTable(metrics: Metrics | null, run: RunJson | null, findings = true): string {
  const parts: string[] = [];
  if (run !== null) parts.push(statusLine(run, findings));
  if (metrics === null) return parts.join('\n');
  if (metrics.cut && metrics.windowS[1] <= metrics.windowS[0]) return [...parts, 'Nothing was recorded in the measurement window.'].join('\n\n');
  const all = Object.entries(metrics.bottlenecks);
  const used = all.filter(([, bottleneck]) => (bottleneck.throughputBps ?? 0) > 0);
  parts.push(textTable(['Bottleneck', 'Use', 'Delay p50', 'p95', 'p99', 'Loss', 'Marks', 'Packets'], (used.length > 0 ? used : all).map(([name, b]) =>
    [name, formatPercent(b.utilisation), formatMs(b.queueDelayMs.p50), formatMs(b.queueDelayMs.p95), formatMs(b.queueDelayMs.p99), formatPercent(b.lossRatio), formatPercent(b.markRatio), formatCount(b.packets.arrived)])));
  parts.push(textTable(['Class', 'Flows', 'Goodput', 'Jain', 'Retrans', 'Done', 'FCT p50', 'FCT p95'], Object.entries(metrics.classes).map(([name, c]) =>
    [name, formatCount(c.flows), formatBps(c.goodputBps), formatNumber(c.jain), formatCount(c.retransmits), formatCount(c.completed), formatSeconds(c.fctS.p50), formatSeconds(c.fctS.p95)])));
  parts.push(textTable(['Probe', 'Sent', 'Lost', 'RTT p50', 'p95', 'p99', 'There p50', 'Back p50'], Object.entries(metrics.probes).map(([name, p]) =>
    [name, formatCount(p.sent), formatPercent(p.lossRatio), formatMs(p.rttMs.p50), formatMs(p.rttMs.p95), formatMs(p.rttMs.p99), formatMs(p.owdForwardMs.p50), formatMs(p.owdReverseMs.p50)])));
  if (metrics.cut) parts.push(`Cut short: figures are of ${metrics.windowS[0]} s to ${metrics.windowS[1]} s.`);
  return parts.filter((part) => part !== '').join('\n\n');
}

function statusLine(run: RunJson, findings: boolean): string {
  const what = [run.name, formatVaried(run.varied), `seed ${run.seed}`, machineText(run), `${run.clock} time`].filter((part) => part !== '').join(', ');
  const lines = [`${statusText(run.status)}: ${what}`];
  if (!findings) return lines[0]!;
  if (run.error !== undefined && run.status !== 'complete' && !run.findings.some(({ message }) => message === run.error)) lines.push(...wrap(run.error, columns - 2).map((line) => `  ${line}`));
  for (const finding of run.findings) {
    const label = finding.level === 'warning' ? pc.yellow('warning') : pc.red(finding.level);
    lines.push(...wrap(`${finding.rule}: ${finding.message}`, columns - 4 - finding.level.length).map((line, index) => (index === 0 ? `  ${label}: ${line}` : `    ${line}`)));
  }
  return lines.join('\n');
}

export function statusText(status: string): string {
  return status === 'complete' ? pc.green(status) : status === 'running' ? pc.cyan(status) : status === 'incomplete' ? pc.yellow(status) : pc.red(status);
}


/** `154 [93.7 193] ms`: the unit once when it is the same. */
function withInterval(median: string, low: string, high: string): string {
  const split = (text: string): [string, string] => { const at = text.indexOf(' '); return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at)]; };
  const [[m, unit], [l, lowUnit], [h, highUnit]] = [split(median), split(low), split(high)];
  return unit === lowUnit && unit === highUnit ? `${m} [${l} ${h}]${unit}` : `${median} [${low} ${high}]`;
}

/**
 * Up to four combinations beside each other in a table; medians, and the interval where there are several seeds.
 * @param reasons false where it is told elsewhere why runs are not counted
 */
export function summaryTable(summary: Summary, reasons = true): string {
  const figures = shownFigures(summary);
  const parts: string[] = [];
  const runs = summary.combinations.reduce((sum, combination) => sum + combination.runs.length, 0);
  parts.push(`${summary.name}: ${counted(runs, 'run')} counted; median over seeds [95 % interval]`);
  const label = (index: number): string => Object.values(summary.combinations[index]!.varied).join(', ') || 'all';
  const several = summary.combinations.some((combination) => combination.seeds.length > 1);
  const beside = several ? 2 : 4; // what 80 columns hold
  for (let from = 0; from < summary.combinations.length; from += beside) {
    const group = summary.combinations.slice(from, from + beside);
    parts.push(textTable(['Figure', ...group.map((_, index) => label(from + index))], figures.map((figure) => [figure.title, ...group.map((combination) => {
      const value = combination.metrics[figure.path];
      if (value === undefined || value.median === null) return dash;
      return value.ci95 === null ? figure.format(value.median) : withInterval(figure.format(value.median), figure.format(value.ci95[0]), figure.format(value.ci95[1]));
    })])));
  }
  if (summary.notCounted.length > 0 && !reasons) parts.push(`${summary.notCounted.length} not counted (below).`);
  else if (summary.notCounted.length > 0) {
    parts.push([`${summary.notCounted.length} not counted:`, ...summary.notCounted.slice(0, 20).flatMap((run) =>
      wrap(`${run.run}: ${run.status}. ${run.reason}`, columns - 4).map((line, index) => `${index === 0 ? '  ' : '    '}${line}`)), ...(summary.notCounted.length > 20 ? [`  and ${summary.notCounted.length - 20} more (summary.json)`] : [])].join('\n'));
  }
  return parts.filter((part) => part !== '').join('\n\n');
}
