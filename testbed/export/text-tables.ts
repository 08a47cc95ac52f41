/** A run's tables as CSV (RFC 4180 with \n; null is empty) or JSON (an array, a row a line): columns and units as in docs/results.md, `metrics` in long form. */

import { sqlName } from '../records/database.js';
import { readMetricRows } from '../store/metric-rows.js';
import { csvField, csvLine, jsonObject } from '../store/print-rows.js';
import { metricsColumns } from '../store/views.js';
import { UserError } from '../errors.js';
import { exportTables } from './format.js';
import type { ExportFormat, ExportRequest, ExportTable } from './format.js';
import { closing } from './closing.js';
import { openRecords } from './table-stream.js';
import type { RecordReader } from './table-stream.js';

interface TextForm { readonly extension: string; head(names: readonly string[]): string; row(names: readonly string[], row: readonly unknown[], first: boolean): string; foot(rows: number): string }

const csvForm: TextForm = { extension: '.csv', head: (names) => `${names.map(csvField).join(',')}\n`, row: (_names, row) => `${csvLine(row)}\n`, foot: () => '' };
const jsonForm: TextForm = { extension: '.json', head: () => '', row: (names, row, first) => `${first ? '[' : ','}\n${jsonObject(names, row)}`, foot: (rows) => (rows === 0 ? '[]\n' : '\n]\n') };

const formatOf = (form: TextForm, summary: string): ExportFormat => ({
  summary, tables: exportTables, files: 'table',
  async write(request) {
    const records = await openRecords(request.runDir);
    try {
      for (const table of request.table === null ? exportTables : [request.table]) await writeTable(request, records, table, form);
      return [];
    } finally {
      records.close();
    }
  },
});

export const csv = formatOf(csvForm, 'tables as CSV, a file each');
export const json = formatOf(jsonForm, 'tables as JSON arrays, a row a line, a file each');

async function writeTable(request: ExportRequest, records: RecordReader, table: ExportTable, form: TextForm): Promise<void> {
  const source = table === 'metrics' ? metricsSource(request) : await recordsSource(request, records, table);
  if (source === null) return;
  await closing(await request.output(table, form.extension), async (output) => {
    await output.write(form.head(source.names));
    let rows = 0;
    for await (const piece of source.pieces) {
      request.signal.throwIfAborted();
      let text = '';
      for (const row of piece) text += form.row(source.names, row, rows++ === 0);
      await output.write(text);
    }
    await output.write(form.foot(rows));
  });
}

interface Source { readonly names: readonly string[]; readonly pieces: AsyncIterable<readonly (readonly unknown[])[]> | Iterable<readonly (readonly unknown[])[]> }

async function recordsSource(request: ExportRequest, records: RecordReader, table: Exclude<ExportTable, 'metrics'>): Promise<Source | null> {
  const columns = await records.columns(table);
  if (columns === null) {
    missing(request, table, `${table}.parquet`);
    return null;
  }
  const names = columns.map(({ name }) => name);
  return { names, pieces: records.rows(table, names.map(sqlName)) };
}

function metricsSource(request: ExportRequest): Source | null {
  const rows = readMetricRows(request.runDir);
  if (typeof rows === 'string') {
    missing(request, 'metrics', rows);
    return null;
  }
  const names = metricsColumns.map(({ name }) => name);
  return { names, pieces: [rows.map((row) => names.map((name) => row[name as keyof typeof row]))] };
}

/** Asked for by name it is an error; among all tables it is said. */
export function missing(request: ExportRequest, table: ExportTable, what: string): void {
  const text = `${request.runId} has no ${table} (${what})`;
  if (request.table === table) throw new UserError(`${text}${table === 'packets' ? ': it was run without packet records (--no-packets)' : ''}`);
  request.onWarning(`${text}: left out`);
}
