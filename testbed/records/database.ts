/**
 * DuckDB, in memory, one thread: with one thread and insertion order kept, the same rows give the same bytes of
 * Parquet and the same last digit of a sum. Loaded only when used (its binary takes a tenth of a second to load).
 */

import type * as DuckDB from '@duckdb/node-api';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';

export interface Database {
  readonly api: typeof DuckDB;
  readonly connection: DuckDBConnection;
  /** A further connection, for reading several results side by side; closed with the rest by `close`. */
  connect(): Promise<DuckDBConnection>;
  /** Rows of a query as plain objects; BIGINT and HUGEINT come as numbers (exact to 2^53). */
  rows<Row>(sql: string): Promise<Row[]>;
  /**
   * The same, of a view (openTables) that may be without rows, as where nothing was recorded: then none, and DuckDB is not asked. For
   * statements that would give no row, or a row that says nothing.
   */
  rowsOf<Row>(view: string, sql: string): Promise<Row[]>;
  /** What `openTables` made, until the next run's. */
  readonly views: { of: string | null; withoutRows: ReadonlySet<string> };
  run(sql: string): Promise<void>;
  /** The rows that COPY wrote, or a statement changed. */
  changed(sql: string): Promise<number>;
  /** What `registerScan` reads from, let go of as the database is closed or goes to the next (sharedDatabase). */
  readonly scans: Scan[];
  close(): void;
}

async function loadApi(): Promise<typeof DuckDB> {
  const loaded = await import('@duckdb/node-api') as typeof DuckDB & { default: typeof DuckDB };
  // Bundled, the CommonJS package is all in its default export.
  return 'DuckDBInstance' in loaded ? loaded : (loaded as { default: typeof DuckDB }).default;
}

const createInstance = async (settings: Readonly<Record<string, string>> = {}): Promise<DuckDBInstance> => (await loadApi()).DuckDBInstance.create(':memory:', {
  threads: '1', memory_limit: '3GB', preserve_insertion_order: 'true', temp_directory: '', ...settings,
});

/** An instance takes 15 to 30 ms of processor time to make; one that was made ahead, in a thread of its own beside other work. */
let ahead: Promise<DuckDBInstance> | null = null;
/** Makes the instance that the next `openDatabase` takes. What goes wrong is said there. */
export function prepareDatabase(): void {
  if (ahead !== null) return;
  ahead = createInstance();
  ahead.catch(() => undefined);
}

/** The databases that wait in a `sharedDatabase`; null outside of one. */
let waiting: Database[] | null = null;

/**
 * What `work` opens one after the other is one database, made once: what one of them creates in it, the next finds there.
 * A database of its own where one is open already, or settings are asked for.
 */
export async function sharedDatabase<Result>(work: () => Promise<Result>): Promise<Result> {
  if (waiting !== null) return work();
  const own: Database[] = waiting = [];
  try {
    return await work();
  } finally {
    waiting = null;
    for (const database of own) database.close();
  }
}

/** @param settings of DuckDB, besides and instead of ours */
export async function openDatabase(settings: Readonly<Record<string, string>> = {}): Promise<Database> {
  const plain = Object.keys(settings).length === 0;
  const pool = plain ? waiting : null;
  const shared = pool?.pop() ?? await openOwn(plain ? takeAhead() : createInstance(settings));
  if (pool === null) return shared;
  return {
    ...shared,
    close() {
      releaseScans(shared);
      if (waiting === pool) pool.push(shared); else shared.close();
    },
  };
}

/** DuckDB keeps a table function as long as the instance; the rows behind it may be millions. */
function releaseScans({ scans }: Database): void {
  for (const scan of scans) scan.fill = null;
  scans.length = 0;
}

function takeAhead(): Promise<DuckDBInstance> {
  const taken = ahead ?? createInstance();
  ahead = null;
  return taken;
}

async function openOwn(made: Promise<DuckDBInstance>): Promise<Database> {
  const api = await loadApi();
  const instance = await made;
  const connection = await instance.connect();
  const others: DuckDBConnection[] = [];
  const views: Database['views'] = { of: null, withoutRows: new Set() };
  const rows = async <Row>(sql: string): Promise<Row[]> => {
    const reader = await connection.runAndReadAll(sql);
    return reader.getRowObjects().map((row) => {
      for (const key of Object.keys(row)) row[key] = plain(row[key]) as never;
      return row as Row;
    });
  };
  return {
    api,
    connection,
    views,
    async connect() {
      const other = await instance.connect();
      others.push(other);
      return other;
    },
    rows,
    rowsOf: async <Row>(view: string, sql: string) => (views.withoutRows.has(view) ? [] : rows<Row>(sql)),
    async run(sql) { await connection.run(sql); },
    async changed(sql) { return (await connection.run(sql)).rowsChanged; },
    scans: [],
    close() {
      for (const other of others) other.closeSync();
      connection.closeSync();
      instance.closeSync();
    },
  };
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (value !== null && typeof value === 'object' && 'items' in value && Array.isArray(value.items)) return value.items.map(plain);
  return value;
}

export const sqlText = (text: string): string => `'${text.replaceAll("'", "''")}'`;
/** A file to read: DuckDB takes `*`, `?` and `[` in a path for a pattern, so they are put in brackets. */
export const sqlPath = (file: string): string => sqlText(file.replaceAll(/[[*?]/g, '[$&]'));
export const sqlName = (name: string): string => `"${name.replaceAll('"', '""')}"`;

export interface NumberVector { setItem(index: number, value: number): void }
type Fill = (vectors: readonly NumberVector[], from: number, count: number) => void;
interface Scan { fill: Fill | null }
export interface ScanColumn { readonly name: string; readonly type: 'DOUBLE' | 'INTEGER' | 'USMALLINT' }

/**
 * A table function `name()` over rows that live in JavaScript: DuckDB asks for 2048 rows at a time, so nothing is
 * held twice. `fill` writes rows from … from + count − 1 into the vectors, one a column, at 0 … count − 1; NaN stands
 * for null in DOUBLE columns (the SQL around it makes it one).
 */
export function registerScan({ api, connection, scans }: Database, name: string, columns: readonly ScanColumn[], rows: number, fill: Fill): void {
  const vectorRows = 2048;
  const scan: Scan = { fill };
  scans.push(scan);
  connection.registerTableFunction(api.DuckDBTableFunction.create({
    name,
    bindFunction: (bind) => {
      for (const column of columns) bind.addResultColumn(column.name, api[column.type]);
      bind.setCardinality(rows, true);
    },
    initFunction: (init) => {
      init.setMaxThreads(1);
      init.setInitData({ from: 0 });
    },
    mainFunction: (info, chunk) => {
      try {
        const state = info.getInitData() as { from: number };
        const count = Math.min(vectorRows, rows - state.from);
        chunk.rowCount = count;
        if (count === 0) return;
        const vectors = columns.map((_, index) => chunk.getColumnVector(index));
        scan.fill!(vectors as unknown as NumberVector[], state.from, count); // each is a vector of numbers: see ScanColumn
        for (const vector of vectors) vector.flush();
        state.from += count;
      } catch (error) {
        info.setError(error instanceof Error ? error.message : String(error));
      }
    },
  }));
}
