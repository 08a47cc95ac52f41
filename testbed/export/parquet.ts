/** A run's tables as Parquet: the record tables are copied as they are; `metrics` is made from metrics.json, in long form. */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { openDatabase, sqlText } from '../records/database.js';
import { readMetricRows } from '../store/metric-rows.js';
import { metricsColumns } from '../store/views.js';
import { closing } from './closing.js';
import { exportTables } from './format.js';
import type { ExportFormat, ExportRequest, ExportTable } from './format.js';
import { openRecords } from './table-stream.js';
import { missing } from './text-tables.js';

export const parquet: ExportFormat = {
  summary: 'tables as Parquet, a file each', tables: exportTables, files: 'table',
  async write(request) {
    const records = await openRecords(request.runDir);
    try {
      for (const table of request.table === null ? exportTables : [request.table]) {
        if (table === 'metrics') await writeMetrics(request);
        else if ((await records.columns(table)) === null) missing(request, table, `${table}.parquet`);
        else await copy(request, path.join(request.runDir, `${table}.parquet`), table);
      }
      return [];
    } finally {
      records.close();
    }
  },
};

async function copy(request: ExportRequest, file: string, table: ExportTable): Promise<void> {
  await closing(await request.output(table, '.parquet'), async (output) => {
    for await (const block of fs.createReadStream(file, { highWaterMark: 1 << 20 })) {
      request.signal.throwIfAborted();
      await output.write(block as Buffer);
    }
  });
}

async function writeMetrics(request: ExportRequest): Promise<void> {
  const rows = readMetricRows(request.runDir);
  if (typeof rows === 'string') {
    missing(request, 'metrics', rows);
    return;
  }
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'testbed-export-'));
  const database = await openDatabase();
  try {
    const [lines, file] = [path.join(folder, 'metrics.jsonl'), path.join(folder, 'metrics.parquet')];
    fs.writeFileSync(lines, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const columns = metricsColumns.map(({ name, type }) => `${name}: ${sqlText(type)}`).join(', ');
    await database.run(`COPY (SELECT * FROM read_json(${sqlText(lines)}, format = 'newline_delimited', columns = {${columns}})) TO ${sqlText(file)} (FORMAT parquet, COMPRESSION snappy)`);
    await copy(request, file, 'metrics');
  } finally {
    database.close();
    fs.rmSync(folder, { recursive: true, force: true });
  }
}
