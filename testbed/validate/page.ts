/** The outcome of a validation as one self-contained page: a row a cell, what is off and by how much, links to the runs' pages. */

import { formatValue } from '../compare/wording.js';
import { counted, dash } from '../report/format.js';
import { page, table, type Cell as TableCell } from '../report/page.js';
import { escapeHtml } from '../report/svg.js';
import { byVaried, figureCounts, offText, variedText } from './text.js';
import { chanceOfAll, chanceText } from './chance-of-all.js';
import { worst } from './judge-cell.js';
import { countCells, type Validation, type ValidatedCell } from './validation.js';

/** Beside the pages' common style: verdicts in words, with colour only added. */
const style = '<style>.verdict{display:inline-block;border-radius:5px;padding:0 7px;font-weight:600}.cells th:nth-child(2),.cells td:nth-child(2),.cells th:nth-child(3),.cells td:nth-child(3),.cells th:last-child,.cells td:last-child,.lines th,.lines td{text-align:left}.cells td{min-width:72px}.cells thead th{white-space:normal;vertical-align:bottom}.replayed th:nth-last-child(2),.replayed td:nth-last-child(2){text-align:left}.cells td:nth-child(3){min-width:130px}.cells td small{white-space:normal}.off{font-weight:600;color:var(--bad)}.noise{color:var(--warn)}.cells .replay{min-width:170px}.links a{margin-right:8px;white-space:nowrap}</style>';
const tone = { pass: 'good', fail: 'bad', invalid: 'warn' } as const;

export function validationPage(validation: Validation): string {
  const { cells, bad } = validation;
  const { pass, fail, invalid, inside } = countCells(cells);
  const share = (part: number): string => (cells.length === 0 ? dash : `${Number(((100 * part) / cells.length).toFixed(1))} %`);
  const tile = (value: string, label: string): string => `<div class="tile"><b>${escapeHtml(value)}</b><span>${escapeHtml(label)}</span></div>`;
  const columns = [...new Set(cells.flatMap(({ figures }) => figures.map(({ owner, title }) => `${owner} ${title}`)))].slice(0, 12);
  const order = [...cells].sort((a, b) => rank(a) - rank(b)); // what needs a look comes first; else as given
  const hasReplay = cells.some(({ replay }) => replay !== null), chance = chanceOfAll(cells);
  const parts = [
    style,
    `<h1>Simulator against kernel</h1><p class="dim">${escapeHtml(`${validation.kernel === null ? '' : `Linux ${validation.kernel}, `}${validation.machine}; ${counted(cells.length, 'cell')}`)}</p>`,
    validation.interrupted ? '<div class="state warn"><strong>Interrupted</strong>Not every cell was judged: the same command goes on where it stopped.</div>' : '',
    bad.length > 0 ? `<div class="state bad"><strong>${bad.length === 1 ? 'One file' : `${bad.length} files`} could not be run</strong><ul>${bad.map(({ message }) => `<li>${escapeHtml(message).replaceAll('\n', '<br>')}</li>`).join('')}</ul></div>` : '',
    `<div class="tiles">${[tile(share(pass), `pass (${pass} of ${cells.length})`), tile(share(inside), 'inside every tolerance'), tile(share(pass - inside), 'beyond one, within the noise'), tile(String(fail), 'fail'), tile(String(invalid), 'could not be judged')].join('')}</div>`,
    `<h2>Cells</h2><div class="cells${hasReplay ? ' replayed' : ''}">${table(['Cell', 'Verdict', 'Furthest off', ...columns, ...(hasReplay ? ['Replay'] : []), 'Runs'], order.map((cell) => row(cell, columns, hasReplay)))}</div><p class="dim">Figures: simulator over kernel, medians over seeds. Red: differs. Amber: beyond the tolerance, within the spread over seeds.</p>`,
    figureCounts(cells).length > 0 ? `<h2>Figures</h2>${table(['Figure', 'Cells', 'Inside', 'Within noise', 'Differ'], figureCounts(cells).map(({ title, agrees, noise, differs }) => [title, String(agrees + noise + differs), String(agrees), String(noise), String(differs)]))}` : '',
    byVaried(cells).length > 0 ? `<h2>Where</h2>${table(['', 'Cells', 'Pass', 'Fail', 'Invalid'], byVaried(cells).map((group) => { const own = countCells(group.cells); return [`${group.key} ${group.value}`, String(group.cells.length), String(own.pass), String(own.fail), String(own.invalid)]; }))}` : '',
    expectations(cells),
    `<h2>How it is judged</h2>${chance === null ? '' : `<p>Decision replay: ${escapeHtml(chanceText(chance))}</p>`}<p>Tolerances: ${escapeHtml(validation.tolerances)}.</p><p class="dim">${escapeHtml(validation.method)}</p>`,
  ];
  return page('Simulator against kernel', parts.filter((part) => part !== '').join('\n'));
}

const rank = ({ status, replay }: ValidatedCell): number => (status === 'pass' && replay !== null && replay.status !== 'pass' ? 2 : ['fail', 'invalid', '', 'pass'].indexOf(status));
const verdict = (status: ValidatedCell['status']): string => `<span class="verdict ${tone[status]}">${status}</span>`;

function row(cell: ValidatedCell, columns: readonly string[], hasReplay: boolean): TableCell[] {
  const most = worst(cell);
  const unmet = cell.lines.filter(({ status }) => status === 'fail');
  const why = cell.status === 'invalid' ? escapeHtml(cell.problem ?? '')
    : [...(most === null ? [] : [`${escapeHtml(`${most.owner} ${most.title}`)}<small>${escapeHtml(offText(most))}</small>`]), ...unmet.map(({ text }) => `<small>not met: ${escapeHtml(text)}</small>`)].join('');
  return [
    { html: `${escapeHtml(cell.scenario)}${Object.keys(cell.varied).length > 0 ? `<br><small class="dim">${escapeHtml(variedText(cell))}</small>` : ''}` },
    { html: verdict(cell.status) }, { html: why },
    ...columns.map((column): TableCell => {
      const figure = cell.figures.find(({ owner, title }) => `${owner} ${title}` === column);
      if (figure === undefined) return dash;
      const text = `${escapeHtml(formatValue(figure.unit, figure.sim))}<small>${escapeHtml(formatValue(figure.unit, figure.kernel))}</small>`;
      return { html: figure.verdict === 'differs' ? `<span class="off">${text}</span>` : figure.verdict === 'noise' ? `<span class="noise">${text}</span>` : text };
    }),
    ...(hasReplay ? [cell.replay === null ? dash : { html: `${verdict(cell.replay.status)}<small class="replay">${escapeHtml(cell.replay.message)}</small>` }] : []),
    { html: `<span class="links">${cell.reports.map(({ title, href }) => `<a href="${escapeHtml(href.split('/').map(encodeURIComponent).join('/'))}">${escapeHtml(title)}</a>`).join('')}</span>` },
  ];
}

function expectations(cells: readonly ValidatedCell[]): string {
  const lines = cells.flatMap((cell) => cell.lines.map((line) => ({ cell, line })));
  if (lines.length === 0) return '';
  const words = { pass: ['pass', 'good'], fail: ['fail', 'bad'], unjudged: ['not judged', 'warn'], known: ['known', 'warn'], elsewhere: ['not here', 'warn'] } as const;
  const shown = (some: typeof lines): string => (some.length === 0 ? '' : `<div class="lines">${table(['Cell', 'Expected', '', 'Measured'], some.slice(0, mostLines).map(({ cell, line }) => [cell.title, line.text, { html: `<span class="verdict ${words[line.status][1]}">${words[line.status][0]}</span>` }, line.message]))}</div>${some.length > mostLines ? `<p class="dim">and ${some.length - mostLines} more in validation.json</p>` : ''}`);
  const met = lines.filter(({ line }) => line.status === 'pass');
  const others = lines.filter(({ line }) => line.status !== 'pass');
  return `<h2>Expectations</h2><p>${met.length} of ${lines.length} hold.</p>${shown(others)}${met.length === 0 ? '' : `<details><summary>Those that hold</summary>${shown(met)}</details>`}`;
}

const mostLines = 500;
