/** Rows of a query as text: table, csv, json (an array, a row a line) or markdown. All but `table` are written as they come. */

import Table from 'cli-table3';
import type { QueryRows } from './store.js';

export const rowFormats = ['table', 'csv', 'json', 'markdown'] as const;
export type RowFormat = (typeof rowFormats)[number];

/** Rows a table on a terminal is cut at: it is held whole to find the widths. */
const tableRows = 1000;

type Write = (text: string) => Promise<void>;

/** @returns rows, and how many of them were not printed (a table's) */
export async function printRows({ columns, pieces }: Pick<QueryRows, 'columns' | 'pieces'>, format: RowFormat, write: Write): Promise<{ readonly rows: number; readonly cut: number }> {
  const names = columns.map(({ name }) => name);
  let rows = 0;
  if (format === 'table') {
    const table = new Table({ head: names, chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' }, style: { head: [], border: [] }, colAligns: columns.map(({ type }) => (/INT|DOUBLE|FLOAT|DECIMAL/.test(type) && !type.includes('[') ? 'right' : 'left')) });
    for await (const piece of pieces) for (const row of piece) if (++rows <= tableRows) table.push(row.map((value) => tableCell(value)));
    await write(`${table.toString()}\n`);
    return { rows, cut: Math.max(0, rows - tableRows) };
  }
  if (format === 'csv') await write(`${names.map(csvField).join(',')}\n`);
  if (format === 'markdown') await write(`| ${names.map(markdownCell).join(' | ')} |\n|${names.map(() => ' --- |').join('')}\n`);
  for await (const piece of pieces) {
    let text = '';
    for (const row of piece) {
      if (format === 'csv') text += `${csvLine(row)}\n`;
      else if (format === 'markdown') text += `| ${row.map((value) => markdownCell(plainText(value))).join(' | ')} |\n`;
      else text += `${rows === 0 ? '[' : ','}\n${jsonObject(names, row)}`;
      rows += 1;
    }
    await write(text);
  }
  if (format === 'json') await write(rows === 0 ? '[]\n' : '\n]\n');
  return { rows, cut: 0 };
}

/** RFC 4180, with \n; null is empty, a text that is empty is "". */
export const csvLine = (row: readonly unknown[]): string => row.map((value) => (value === null ? '' : csvField(plainText(value)))).join(',');
export const csvField = (text: string): string => (text === '' || /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

export function jsonObject(names: readonly string[], row: readonly unknown[]): string {
  let text = '{';
  for (let i = 0; i < row.length; i++) text += `${i === 0 ? '' : ','}${JSON.stringify(names[i])}:${jsonValue(row[i])}`;
  return `${text}}`;
}

function jsonValue(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'bigint') return value.toString(); // JSON's numbers have no bound; all digits stay
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : 'null';
  if (typeof value === 'boolean') return value ? 'true' : 'false';
  if (typeof value === 'object') {
    if ('items' in value && Array.isArray(value.items)) return `[${value.items.map(jsonValue).join(',')}]`;
    const pairs = entriesOf(value);
    if (pairs !== null) return `{${pairs.map(([key, inner]) => `${JSON.stringify(plainText(key))}:${jsonValue(inner)}`).join(',')}}`;
    if (isDecimal(value)) return String(value);
  }
  return JSON.stringify(plainText(value));
}

/** A value as DuckDB writes it; lists and maps as JSON. */
export function plainText(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'object' && (('items' in value && Array.isArray(value.items)) || entriesOf(value) !== null)) return jsonValue(value);
  return String(value);
}

/** DuckDB's MAP and STRUCT values. */
function entriesOf(value: object): [unknown, unknown][] | null {
  if (!('entries' in value) || typeof value.entries !== 'object' || value.entries === null) return null;
  return Array.isArray(value.entries) ? (value.entries as { key: unknown; value: unknown }[]).map(({ key, value: inner }) => [key, inner]) : Object.entries(value.entries);
}
const isDecimal = (value: object): boolean => 'scale' in value && 'width' in value;

const tableCell = (value: unknown): string => (value === null ? '–' : typeof value === 'number' && !Number.isInteger(value) ? String(Number(value.toPrecision(7))) : plainText(value));
const markdownCell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
