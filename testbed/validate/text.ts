/** The outcome of a validation for a terminal, and as a Markdown table for the documentation. */

import pc from 'picocolors';
import { formatValue } from '../compare/wording.js';
import { counted, formatVaried } from '../report/format.js';
import { textTable } from '../report/terminal.js';
import { chanceOfAll, chanceText } from './chance-of-all.js';
import { worst, type ComparedFigure } from './judge-cell.js';
import { countCells, type Validation, type ValidatedCell } from './validation.js';

const marks = { pass: '✓', fail: '✗', invalid: '?' } as const;
const paint = (cell: ValidatedCell, text: string): string => (cell.status === 'pass' ? pc.green(text) : cell.status === 'fail' ? pc.red(text) : pc.yellow(text));

/** `+12 % (2.3 times what is allowed)`; how far off the worst figure is. */
export function offText(figure: ComparedFigure): string {
  const { sim, kernel, off } = figure;
  if (sim === null || kernel === null) return 'one side only';
  // Of next to nothing any difference is many percent; the tolerance's absolute part decides there.
  const relative = kernel === 0 || Math.abs(sim - kernel) > 10 * Math.abs(kernel) ? '' : `${sim >= kernel ? '+' : '−'}${Number((Math.abs((sim - kernel) / kernel) * 100).toPrecision(2))} %`;
  return `${relative}${relative && off !== null ? ', ' : ''}${off === null ? '' : off === Infinity ? 'none allowed' : `${Number(off.toPrecision(2))} × tolerance`}`;
}

const describe = (figure: ComparedFigure): string => `${figure.owner} ${figure.title} ${formatValue(figure.unit, figure.sim)} / ${formatValue(figure.unit, figure.kernel)} (${offText(figure)}${figure.verdict === 'noise' ? ', within noise' : ''})`;

/** One line as a cell is judged. */
export function cellLine(cell: ValidatedCell): string {
  const most = worst(cell);
  const unmet = cell.lines.filter(({ status }) => status === 'fail');
  const why = cell.status === 'invalid' ? cell.problem ?? 'could not be judged'
    : [...(most === null || (cell.status === 'fail' && most.verdict !== 'differs') ? [] : [`${cell.status === 'fail' ? '' : 'worst: '}${describe(most)}`]), ...unmet.slice(0, 3).map(({ text, message }) => `${text}: ${message}`), ...(unmet.length > 3 ? [`and ${unmet.length - 3} more`] : [])].join('; ');
  return `${paint(cell, `${marks[cell.status]} ${cell.title}: ${cell.status}`)}${why === '' ? '' : `, ${why}`}${cell.replay === null ? '' : `; replay ${cell.replay.status}: ${cell.replay.message}`}`;
}

export function summaryLines(validation: Validation): string[] {
  const { cells, bad } = validation;
  const { pass, fail, invalid, inside } = countCells(cells);
  const total = cells.length;
  const lines = [pc.bold(`${counted(total, 'cell')}: ${pass} pass, ${fail} fail, ${invalid} invalid${bad.length > 0 ? `; ${bad.length} file${bad.length === 1 ? '' : 's'} could not be run` : ''}`)];
  if (total > 0) lines.push(`${percent(inside, total)} inside every tolerance, ${percent(pass - inside, total)} more within the spread over seeds`);
  const replayed = cells.flatMap(({ replay }) => replay ?? []);
  if (replayed.length > 0) lines.push(`decision replay: ${replayed.filter(({ status }) => status === 'pass').length} of ${replayed.length} cells agree`);
  const chance = chanceOfAll(cells);
  if (chance !== null) lines.push(chanceText(chance));
  lines.push(pc.dim(`tolerances: ${validation.tolerances}`));
  const byTitle = figureCounts(cells);
  if (byTitle.length > 0) lines.push('', textTable(['Figure', 'cells', 'inside', 'noise', 'differ'], byTitle.map(({ title, agrees, noise, differs }) => [title, String(agrees + noise + differs), String(agrees), String(noise), String(differs)])));
  return lines;
}

const percent = (part: number, whole: number): string => `${Number(((100 * part) / whole).toFixed(1))} %`;

interface FigureCount { readonly title: string; readonly agrees: number; readonly noise: number; readonly differs: number }
export function figureCounts(cells: readonly ValidatedCell[]): FigureCount[] {
  const titles = [...new Set(cells.flatMap(({ figures }) => figures.map(({ title }) => title)))];
  return titles.map((title) => {
    const own = cells.flatMap(({ figures }) => figures.filter((figure) => figure.title === title));
    const of = (verdict: ComparedFigure['verdict']): number => own.filter((figure) => figure.verdict === verdict).length;
    return { title, agrees: of('agrees'), noise: of('noise'), differs: of('differs') };
  });
}

/** Cells grouped by each value of each thing that varies: where the differences are. */
export function byVaried(cells: readonly ValidatedCell[]): { readonly key: string; readonly value: string; readonly cells: readonly ValidatedCell[] }[] {
  const keys = [...new Set(cells.flatMap(({ varied }) => Object.keys(varied)))];
  return keys.flatMap((key) => {
    const values = [...new Set(cells.flatMap(({ varied }) => varied[key] ?? []))];
    return values.length < 2 ? [] : values.map((value) => ({ key: shortKey(key), value, cells: cells.filter(({ varied }) => varied[key] === value) }));
  });
}
export const shortKey = (key: string): string => key.replace(/\.forward$/, '').split('.').at(-1)!;

/** docs/validation.md and the like. @param command what was asked, for the reader to repeat */
export function markdownTable(validation: Validation, { paths, set, only }: { readonly paths: readonly string[]; readonly set: readonly string[]; readonly only: readonly string[] }): string {
  const { cells } = validation;
  const { pass, fail, invalid, inside } = countCells(cells);
  const row = (values: readonly string[]): string => `| ${values.map((value) => value.replaceAll('|', '\\|')).join(' | ')} |`;
  const table = (head: readonly string[], body: readonly (readonly string[])[]): string[] => [row(head), `|${head.map((_, i) => (i === 0 ? '---|' : '---:|')).join('')}`, ...body.map(row), ''];
  const words = [...paths, ...set.flatMap((value) => ['--set', value]), ...only.flatMap((value) => ['--only', value])].map((word) => (/^[\w./=,:-]+$/.test(word) ? word : `'${word}'`));
  const keys = [...new Set(cells.flatMap(({ varied }) => Object.keys(varied)))];
  const titles = [...new Set(cells.flatMap(({ figures }) => figures.map(({ owner, title }) => `${owner} ${title}`)))];
  const several = new Set(cells.map(({ scenario }) => scenario)).size > 1;
  const seeds = [...new Set(cells.map((cell) => cell.seeds.length))];
  const replayed = cells.some(({ replay }) => replay !== null), chance = chanceOfAll(cells);
  return [
    '# Simulator against kernel', '',
    `Made by \`testbed validate ${words.join(' ')} --table FILE\`; do not edit.`, '',
    `Linux ${validation.kernel ?? 'unknown'} (${validation.machine}, virtual time) against the simulator, ${counted(cells.length, 'cell')}, ${seeds.length === 1 ? `${seeds[0]} seed${seeds[0] === 1 ? '' : 's'}` : `${Math.min(...seeds)} to ${Math.max(...seeds)} seeds`} each. ${validation.method}`, '',
    `Tolerances (the larger of the two where there are two): ${validation.tolerances}.`, '',
    `**${percent(pass, cells.length || 1)} of the cells pass** (${pass} of ${cells.length}): ${inside} inside every tolerance, ${pass - inside} more within the noise; ${fail} fail, ${invalid} could not be judged.`, '',
    ...(replayed ? [`Decision replay (layer 2: our queue fed the arrivals and departures of the kernel's first seed) agrees in ${cells.filter(({ replay }) => replay?.status === 'pass').length} of the ${cells.filter(({ replay }) => replay !== null).length} cells whose queue can be judged so.${chance === null ? '' : ` ${chanceText(chance)}`}`, ''] : []),
    ...table(['figure', 'cells', 'inside', 'within noise', 'differ'], figureCounts(cells).map(({ title, agrees, noise, differs }) => [title, String(agrees + noise + differs), String(agrees), String(noise), String(differs)])),
    ...(byVaried(cells).length > 0 ? ['## Where', '', ...table(['', 'cells', 'pass', 'fail', 'invalid'], byVaried(cells).map((group) => { const own = countCells(group.cells); return [`${group.key} ${group.value}`, String(group.cells.length), String(own.pass), String(own.fail), String(own.invalid)]; }))] : []),
    '## Every cell', '', 'Each figure: simulator / kernel, medians over seeds. **Bold**: differs. *Italics*: beyond the tolerance, within the noise.', '',
    ...table([...(several ? ['scenario'] : []), ...(keys.length > 0 ? keys.map(shortKey) : several ? [] : ['scenario']), 'verdict', ...titles, ...(replayed ? ['replay'] : [])], cells.map((cell) => [
      ...(several || keys.length === 0 ? [cell.scenario] : []), ...keys.map((key) => cell.varied[key] ?? ''), cell.status,
      ...titles.map((title) => {
        const figure = cell.figures.find((one) => `${one.owner} ${one.title}` === title);
        if (figure === undefined) return '';
        const text = `${formatValue(figure.unit, figure.sim)} / ${formatValue(figure.unit, figure.kernel)}`;
        return figure.verdict === 'differs' ? `**${text}**` : figure.verdict === 'noise' ? `*${text}*` : text;
      }),
      ...(replayed ? [cell.replay?.status ?? ''] : []),
    ])),
    ...unmetLines(cells), ...(validation.bad.length > 0 ? ['## Not run', '', ...validation.bad.map(({ message }) => `- ${message.replaceAll('\n', ' ')}`), ''] : []),
  ].join('\n');
}

function unmetLines(cells: readonly ValidatedCell[]): string[] {
  const told = cells.flatMap((cell) => [
    ...(cell.problem === null ? [] : [`- ${cell.title}: could not be judged: ${cell.problem.replaceAll('\n', ' ')}`]),
    ...cell.lines.filter(({ status }) => status === 'fail' || status === 'known').map(({ text, status, message }) => `- ${cell.title}: ${status === 'known' ? 'known: ' : ''}${text}: ${message.replaceAll('\n', ' ')}`),
  ]);
  return told.length === 0 ? [] : ['## Expectations not met', '', ...told, ''];
}

export const variedText = (cell: ValidatedCell): string => formatVaried(Object.fromEntries(Object.entries(cell.varied).map(([key, value]) => [key.replace(/\.forward$/, ''), value])));
