/**
 * A record table of a run, row by row in pieces of 2048, so that five million rows take no more memory than a few thousand.
 * One DuckDB for a run; several tables can be read at once.
 */

import * as path from 'node:path';
import { UserError } from '../errors.js';
import { openDatabase, sqlPath, sqlText } from '../records/database.js';
import type { Database } from '../records/database.js';
import { parquetState } from '../store/store.js';
import type { RecordView } from '../store/views.js';

export interface RecordReader {
  /** Columns of a table as they are in the file; null when the run has no such table. @throws UserError when the file is damaged */
  columns(table: RecordView): Promise<readonly { readonly name: string; readonly type: string }[] | null>;
  /** Rows of these SQL expressions, in the file's order. BIGINT comes as bigint: CAST to DOUBLE what is used as a number. */
  rows(table: RecordView, expressions: readonly string[], where?: string): AsyncGenerator<readonly (readonly unknown[])[]>;
  /** Rows of any query over `name(table)`, small ones. */
  query<Row>(sql: string): Promise<Row[]>;
  source(table: RecordView): string;
  readonly database: Database;
  close(): void;
}

export async function openRecords(runDir: string): Promise<RecordReader> {
  const database = await openDatabase({ memory_limit: '512MB' });
  const fileOf = (table: RecordView): string => path.join(runDir, `${table}.parquet`);
  const source = (table: RecordView): string => `read_parquet(${sqlPath(fileOf(table))})`;
  return {
    database, source,
    async columns(table) {
      const state = parquetState(fileOf(table));
      if (state === 'absent') return null;
      if (state === 'damaged') throw new UserError(`${fileOf(table)} is half-written or damaged: nothing can be exported from it. Is its raw/ whole? Then run the analysis again`);
      const rows = await database.rows<{ column_name: string; column_type: string }>(`DESCRIBE SELECT * FROM ${source(table)}`);
      return rows.map(({ column_name, column_type }) => ({ name: column_name, type: column_type }));
    },
    async *rows(table, expressions, where) {
      const connection = await database.connect();
      const result = await connection.stream(`SELECT ${expressions.join(', ')} FROM ${source(table)}${where === undefined ? '' : ` WHERE ${where}`}`);
      for (;;) {
        const chunk = await result.fetchChunk();
        if (!chunk || chunk.rowCount === 0) return;
        yield chunk.getRows();
      }
    },
    query: (sql) => database.rows(sql),
    close: () => database.close(),
  };
}

export const ofBottleneck = (name: string): string => `bottleneck = ${sqlText(name)}`;
