/**
 * The results database: the runs of a results folder as a DuckDB of views, in memory, over the Parquet where it lies. The views
 * are made for one query, over the runs it can need (pruning.ts). Then the database is locked: it reads below the results
 * folder and nowhere else, writes nothing, and no setting can be changed. Only a SELECT gets as far as that.
 */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { openDatabase, sqlName, sqlPath, sqlText } from '../records/database.js';
import type { Database } from '../records/database.js';
import { tables } from '../records/tables.js';
import { updateSegments } from './metric-segments.js';
import { nearestWords } from './nearest.js';
import { references } from './pruning.js';
import type { Reference } from './pruning.js';
import { indexedRuns, indexName, scanRuns } from './run-index.js';
import type { Scan } from './run-index.js';
import type { RunRow } from './run-row.js';
import { ownColumns, recordViews, sharedColumns, variedColumns, viewNames } from './views.js';
import type { RecordView, ViewName } from './views.js';

export interface StoreOptions {
  readonly resultsDir: string;
  /** A look at the folder that was just taken; by default it is looked at anew. */
  readonly scan?: Scan;
  /** Rows of runs that are not complete too, not only in `runs`. Default false. */
  readonly allRuns?: boolean;
  /** Threads of DuckDB. With one, the default, the same query gives the same last digits. */
  readonly threads?: number;
  /** Told what goes on when that takes long. */
  readonly onProgress?: (text: string) => void;
  /** How to name a place in the query; lines and columns from 1. Default `query:line:column`. */
  readonly placeName?: (line: number, column: number) => string;
  /** What the user should know besides the rows: folders of another schema, damaged files. */
  readonly onWarning?: (text: string) => void;
}

export interface QueryRows {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** Rows in pieces, as DuckDB's values (bigint, DuckDB's date and list objects, …): nothing is held beyond a piece. */
  readonly pieces: AsyncIterable<readonly (readonly unknown[])[]>;
  /** Folders whose files the views were made of, by view. For tests and `--explain`. */
  readonly used: Readonly<Partial<Record<ViewName, number>>>;
  close(): void;
}

/**
 * Runs one SELECT (or DESCRIBE, SUMMARIZE, SHOW).
 * @throws UserError when it is not one, or DuckDB refuses it: with line and column, and near names for a mistyped one
 */
export async function query(sql: string, options: StoreOptions): Promise<QueryRows> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await queryOnce(sql, attempt === 1 ? options : lookingAnew(options), false);
    } catch (error) {
      if (error instanceof QueryError && error.kind === 'narrowed') return queryOnce(sql, options, true);
      // A run was removed, or an index replaced, between our look and DuckDB's: look again.
      if (attempt < 3 && error instanceof QueryError && error.kind === 'vanished') continue;
      throw error;
    }
  }
}

interface Origin { readonly sql: string; readonly placeName: (line: number, column: number) => string }

const lookingAnew = ({ scan: _scan, ...options }: StoreOptions): StoreOptions => options;

class QueryError extends UserError {
  constructor(message: string, readonly kind: 'sql' | 'vanished' | 'narrowed') {
    super(message, kind === 'sql' ? 2 : 1);
  }
}

async function queryOnce(sql: string, options: StoreOptions, everyColumn: boolean): Promise<QueryRows> {
  const resultsDir = path.resolve(options.resultsDir);
  const scan = options.scan ?? scanRuns(resultsDir, (read) => options.onProgress?.(`${read} runs read for the index`));
  const database = await openDatabase({
    threads: String(options.threads ?? 1), errors_as_json: 'true', autoinstall_known_extensions: 'false', autoload_known_extensions: 'false',
  });
  let temporary: string | null = null;
  const close = (): void => {
    database.close();
    if (temporary !== null) fs.rmSync(temporary, { recursive: true, force: true });
  };
  try {
    const runs = indexedRuns(scan.index).map(({ row, entry }) => ({ row, entry }));
    const varied = variedColumns(runs.map(({ row }) => row));
    const origin: Origin = { sql, placeName: options.placeName ?? ((line, column) => `query:${line}:${column}`) };
    const tree = await parse(database, origin);
    const shared = new Set([...sharedColumns.map(({ name }) => name), ...varied.values()].map((name) => name.toLowerCase()));
    const used = references(tree, new Set(viewNames), shared, await volatileFunctions(database));
    const wanted = (view: ViewName): boolean => used.some((reference) => reference.view === view);
    const warned = new Set<string>();
    const warn = (text: string): void => { if (!warned.has(text)) { warned.add(text); options.onWarning?.(text); } };
    for (const [schema, count] of otherSchemas(runs.map(({ row }) => row))) warn(`${count} run folder${count === 1 ? ' is' : 's are'} of schema ${schema}, which this testbed does not read: shown in the view runs only`);

    if (wanted('metrics')) {
      const segments = await updateSegments(database, scan, () => (temporary ??= fs.mkdtempSync(path.join(os.tmpdir(), 'testbed-index-'))), (done, all) => options.onProgress?.(`figures of ${done} of ${all} runs read for the index`));
      await createRuns(database, runs, varied, options.allRuns ?? false);
      await database.run(`CREATE VIEW metrics AS SELECT ${sharedSql(varied)}, ${ownColumns('metrics').map(({ name }) => `m.${sqlName(name)}`).join(', ')} FROM `
        + (segments.files === null ? `(SELECT ${[...ownColumns('metrics'), { name: 'run_key', type: 'INTEGER' }].map(({ name, type }) => `CAST(NULL AS ${type}) AS ${sqlName(name)}`).join(', ')} WHERE false) m`
          : `read_parquet([${segments.files.map(sqlPath).join(', ')}]) m`) + ' JOIN store.runs r ON r.run_key = m.run_key WHERE r.counted');
    } else {
      await createRuns(database, runs, varied, options.allRuns ?? false);
    }
    await database.run(`CREATE VIEW runs AS SELECT ${sharedSql(varied)}, ${ownColumns('runs').map(({ name }) => `r.${sqlName(name)}`).join(', ')} FROM store.runs r`);

    const counts: Partial<Record<ViewName, number>> = {};
    let narrowed = false;
    for (const view of recordViews) {
      if (!wanted(view)) continue;
      const needed = everyColumn ? null : await neededRuns(database, used.filter((reference) => reference.view === view));
      const counted = runs.map(({ row }, index) => ({ row, index })).filter(({ row }) => row.status === 'complete' || (options.allRuns === true && row.status !== 'unreadable'));
      const chosen = needed === null ? counted : counted.filter(({ index }) => needed.has(index));
      narrowed ||= chosen.length < counted.length;
      counts[view] = await createRecordView(database, view, resultsDir, chosen, counted, varied, warn, origin);
    }
    await lock(database, temporary === null ? [resultsDir] : [resultsDir, temporary]);
    const result = await describing(origin, database, narrowed && wanted('queue'), () => database.connection.stream(sql));
    const columns = result.columnNames().map((name, index) => ({ name, type: String(result.columnType(index)) }));
    const pieces = (async function* (): AsyncGenerator<readonly (readonly unknown[])[]> {
      for (;;) {
        const chunk = await describing(origin, database, false, () => result.fetchChunk());
        if (!chunk || chunk.rowCount === 0) return;
        yield await describing(origin, database, false, () => Promise.resolve().then(() => chunk.getRows()));
      }
    })();
    return { columns, pieces, used: counts, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** @returns the syntax tree of the one statement */
async function parse(database: Database, origin: Origin): Promise<unknown> {
  const statement = await database.connection.prepare('SELECT json_serialize_sql(CAST($1 AS VARCHAR), skip_null := false) AS tree');
  statement.bindVarchar(1, origin.sql);
  const reader = await statement.runAndReadAll();
  const tree = JSON.parse(jsonNumbers(String(reader.getRows()[0]![0]))) as { error: boolean; error_type?: string; error_message?: string; position?: string; statements?: { node?: unknown }[] };
  if (tree.error) {
    if (tree.error_type === 'parser') throw new QueryError(`${placeOf(origin, tree.position)}: ${tree.error_message ?? 'it cannot be parsed'}`, 'sql');
    throw new QueryError('only a SELECT (or DESCRIBE, SUMMARIZE, SHOW) can be queried: the results database is read-only', 'sql');
  }
  const statements = tree.statements ?? [];
  if (statements.length !== 1) throw new QueryError(statements.length === 0 ? 'the query is empty; try: testbed query "select * from runs"' : `${statements.length} statements in one query; give one`, 'sql');
  return statements[0]!.node;
}

/** DuckDB writes a literal beyond a double's range as `Infinity` or `NaN`, which is not JSON; what the tree is asked for does not depend on it. */
const jsonNumbers = (text: string): string => text.replace(/"(?:[^"\\]|\\.)*"|-?\b(?:Infinity|NaN)\b/g, (token) => (token.startsWith('"') ? token : 'null'));

async function volatileFunctions(database: Database): Promise<ReadonlySet<string>> {
  const rows = await database.rows<{ name: string }>("SELECT DISTINCT function_name AS name FROM duckdb_functions() WHERE stability = 'VOLATILE'");
  return new Set(rows.map(({ name }) => name.toLowerCase()));
}

function otherSchemas(rows: readonly RunRow[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const { status, schema } of rows) if (status === 'unreadable' && schema !== null) counts.set(schema, (counts.get(schema) ?? 0) + 1);
  return counts;
}

const sharedSql = (varied: ReadonlyMap<string, string>): string =>
  [...sharedColumns.map(({ name }) => name), ...varied.values()].map((name) => `r.${sqlName(name)}`).join(', ');

/** `store.runs`: every column of the view `runs`, and the keys the other views are joined by. */
async function createRuns(database: Database, runs: readonly { readonly row: RunRow; readonly entry: { readonly metrics: number } }[], varied: ReadonlyMap<string, string>, allRuns: boolean): Promise<void> {
  const shared = new Set(sharedColumns.map(({ name }) => name));
  const columns = [
    ...sharedColumns, ...[...varied.values()].map((name) => ({ name, type: 'VARCHAR' })), ...ownColumns('runs').filter(({ name }) => !shared.has(name) && name !== 'status'),
  ].map(({ name, type }) => ({ name, type: type === 'TIMESTAMP' || type.endsWith('[]') || type.startsWith('MAP') ? 'VARCHAR' : type }));
  await database.run('CREATE SCHEMA store');
  await database.run(`CREATE TABLE store.loaded (run_key INTEGER, run_index INTEGER, ${columns.map(({ name, type }) => `${sqlName(name)} ${type}`).join(', ')})`);
  const appender = await database.connection.createAppender('loaded', 'store');
  const text = (value: string | null): void => { if (value === null) appender.appendNull(); else appender.appendVarchar(value); };
  runs.forEach(({ row, entry }, index) => {
    appender.appendInteger(entry.metrics);
    appender.appendInteger(index);
    text(row.run_id); text(row.scenario); text(row.engine); text(row.kernel);
    if (row.seed === null) appender.appendNull(); else appender.appendBigInt(BigInt(Math.trunc(row.seed)));
    text(row.status);
    for (const name of varied.keys()) text(row.varied[name] ?? null);
    text(row.set_id); text(row.machine); text(row.clock); text(row.hosts); text(row.started); text(row.ended);
    if (row.wall_s === null) appender.appendNull(); else appender.appendDouble(row.wall_s);
    text(JSON.stringify(row.tags)); text(JSON.stringify(row.findings)); text(row.error); text(JSON.stringify(row.varied)); text(row.plan_hash); text(row.git_commit);
    if (row.schema === null) appender.appendNull(); else appender.appendInteger(row.schema);
    appender.endRow();
  });
  appender.closeSync();
  const typed = ['started', 'ended'].map((name) => `TRY_CAST(${name} AS TIMESTAMPTZ) AT TIME ZONE 'UTC' AS ${name}`)
    .concat(['tags', 'findings'].map((name) => `CAST(CAST(${name} AS JSON) AS VARCHAR[]) AS ${name}`), ['CAST(CAST(varied AS JSON) AS MAP(VARCHAR, VARCHAR)) AS varied']);
  await database.run(`CREATE TABLE store.runs AS SELECT * REPLACE (${typed.join(', ')}), run_status AS status, ${allRuns ? "run_status <> 'unreadable'" : "run_status = 'complete'"} AS counted FROM store.loaded`);
  await database.run('DROP TABLE store.loaded');
}

/** @returns indices of the runs a view can need; null = all */
async function neededRuns(database: Database, used: readonly Reference[]): Promise<ReadonlySet<number> | null> {
  const needed = new Set<number>();
  for (const { conditions } of used) {
    if (conditions.length === 0) return null;
    const found = await runsThat(database, conditions);
    if (found === null) return null;
    for (const index of found) needed.add(index);
  }
  return needed;
}

/** Runs that conditions hold for; null where they cannot be asked (then the query itself says what is wrong). */
async function runsThat(database: Database, conditions: readonly unknown[]): Promise<readonly number[] | null> {
  const template = await database.rows<{ tree: string }>("SELECT CAST(json_serialize_sql('SELECT run_index FROM store.runs WHERE true', skip_null := false) AS VARCHAR) AS tree");
  const tree = JSON.parse(template[0]!.tree) as { statements: { node: { where_clause: unknown } }[] };
  const where = conditions.length === 1 ? conditions[0] : { class: 'CONJUNCTION', type: 'CONJUNCTION_AND', alias: '', query_location: 0, children: conditions };
  tree.statements[0]!.node.where_clause = where;
  try {
    const statement = await database.connection.prepare('SELECT json_deserialize_sql(CAST($1 AS JSON))');
    // query_location "none" is 2^64 − 1, which JSON.parse rounds to a number DuckDB does not take.
    statement.bindVarchar(1, JSON.stringify(tree, (key, value: unknown) => (key === 'query_location' ? 0 : value)));
    const sql = String((await statement.runAndReadAll()).getRows()[0]![0]);
    return (await database.rows<{ run_index: number }>(sql)).map(({ run_index }) => run_index);
  } catch {
    return null;
  }
}

/** @returns files it reads */
async function createRecordView(
  database: Database, view: RecordView, resultsDir: string, chosen: readonly { readonly row: RunRow; readonly index: number }[], all: readonly { readonly row: RunRow; readonly index: number }[],
  varied: ReadonlyMap<string, string>, warn: (text: string) => void, origin: Origin,
): Promise<number> {
  const usable = (runs: readonly { readonly row: RunRow; readonly index: number }[], limit = Infinity): { file: string; index: number }[] => {
    const found: { file: string; index: number }[] = [];
    for (const { row, index } of runs) {
      const file = path.join(resultsDir, row.run_id, `${view}.parquet`);
      const state = parquetState(file);
      if (state === 'damaged') warn(`${file} is half-written or damaged: left out`);
      if (state === 'whole' && found.push({ file, index }) >= limit) break;
    }
    return found;
  };
  const files = usable(chosen);
  const shape = files.length > 0 ? files : usable(all, 1);
  const source = shape.length === 0
    ? `(SELECT ${tables[view].columns.map(({ name, type }) => `CAST(NULL AS ${type}) AS ${sqlName(name)}`).join(', ')}, 0 AS file_index WHERE false)`
    : `(SELECT file_index, * FROM read_parquet([${shape.map(({ file }) => sqlPath(file)).join(', ')}], union_by_name = true))`;
  await database.run(`CREATE TABLE store.files_${view} (file_index INTEGER, run_index INTEGER)`);
  const appender = await database.connection.createAppender(`files_${view}`, 'store');
  files.forEach(({ index }, position) => {
    appender.appendInteger(position);
    appender.appendInteger(index);
    appender.endRow();
  });
  appender.closeSync();
  const create = (more: string): Promise<void> => describing({ ...origin, sql: '' }, database, false, () => database.run(`CREATE OR REPLACE VIEW ${view} AS SELECT ${sharedSql(varied)}, d.* EXCLUDE (file_index)${more} FROM ${source} d `
    + `JOIN store.files_${view} f ON f.file_index = d.file_index JOIN store.runs r ON r.run_index = f.run_index`));
  await create('');
  // Columns that tables were given since these runs were written.
  const there = new Set((await database.rows<{ name: string }>(`SELECT column_name AS name FROM duckdb_columns() WHERE table_name = ${sqlText(view)}`)).map(({ name }) => name));
  const later = tables[view].columns.filter(({ name }) => !there.has(name));
  if (later.length > 0) await create(later.map(({ name, type }) => `, CAST(NULL AS ${type}) AS ${sqlName(name)}`).join(''));
  return files.length;
}

/** A Parquet file ends in its footer's length and PAR1; one that was not written to its end does not. */
export function parquetState(file: string): 'whole' | 'damaged' | 'absent' {
  let fd: number;
  try {
    fd = fs.openSync(file, 'r');
  } catch {
    return 'absent';
  }
  try {
    const { size } = fs.fstatSync(fd);
    const end = Buffer.alloc(8);
    if (size < 12 || fs.readSync(fd, end, 0, 8, size - 8) !== 8) return 'damaged';
    const footer = end.readUInt32LE(0);
    return end.toString('latin1', 4) === 'PAR1' && footer > 0 && footer + 12 <= size ? 'whole' : 'damaged';
  } finally {
    fs.closeSync(fd);
  }
}

async function lock(database: Database, folders: readonly string[]): Promise<void> {
  await database.run(`SET allowed_directories = [${folders.map((folder) => sqlText(folder)).join(', ')}]`);
  await database.run('SET enable_external_access = false');
  await database.run('SET lock_configuration = true');
}

// ---- DuckDB's errors in our words

interface DuckError { readonly exception_type: string; readonly exception_message: string; readonly position?: string; readonly error_subtype?: string; readonly name?: string; readonly type?: string; readonly candidates?: string }

async function describing<T>(origin: Origin, database: Database, narrowed: boolean, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    const known = error instanceof Error ? duckError(error.message) : null;
    if (known === null) {
      // Some errors of DuckDB's come as plain text whatever was asked for, and Node's strings have an end.
      const text = error instanceof Error ? error.message : '';
      if (text.startsWith('Invalid Input Error: Values were not provided')) throw new QueryError('query: it has parameters ($1, ?), which nothing gives values to; write the values into it', 'sql');
      if (/^[A-Z]\w*(?: \w+)* Error: /.test(text) && !(error instanceof TypeError)) throw new QueryError(`query: ${text.split('\n')[0]!}`, 'sql');
      if (/string longer than/.test(text)) throw new QueryError('query: a value of the result is longer than 512 MB of text, which cannot be shown', 'sql');
      throw error;
    }
    throw await queryError(origin, database, narrowed, known);
  }
}

function duckError(message: string): DuckError | null {
  const start = message.indexOf('{');
  try {
    const value = JSON.parse(message.slice(Math.max(0, start))) as Partial<DuckError> | null;
    return typeof value?.exception_message === 'string' ? (value as DuckError) : null;
  } catch {
    return null;
  }
}

async function queryError(origin: Origin, database: Database, narrowed: boolean, error: DuckError): Promise<QueryError> {
  const message = error.exception_message;
  if (error.exception_type === 'IO' && /No files found|Cannot open file|No such file/i.test(message)) return new QueryError(`a file that the query reads is gone: ${message}`, 'vanished');
  if (error.exception_type === 'Out of Memory') return new QueryError(`query: it needs more memory than there is (${message.split('\n')[0]}); ask for less: fewer runs (where …), fewer columns, no order by`, 'sql');
  if (error.exception_type === 'Permission') return new QueryError(`${placeOf(origin, error.position)}: the results database reads the runs and nothing else (${message.split(' - ')[0]})`, 'sql');
  if (error.error_subtype === 'COLUMN_NOT_FOUND' && error.name !== undefined) {
    // Columns of a queue's own state are only in runs that have it: with all runs it may be there.
    if (narrowed) return new QueryError(message, 'narrowed');
    const column = error.name.split('.').at(-1)!;
    const columns = (await database.rows<{ name: string }>(`SELECT DISTINCT column_name AS name FROM duckdb_columns() WHERE schema_name = 'main' AND NOT internal`)).map(({ name }) => name);
    const offered = (error.candidates ?? '').split(',').map((candidate) => candidate.replaceAll('"', '').split('.').at(-1)!.trim()).filter((candidate) => candidate !== '');
    const words = nearestWords(column, columns);
    const near = words.length > 0 ? words : [...new Set(offered)].slice(0, 6);
    return new QueryError(`${placeOf(origin, error.position)}: no column ${column}${near.length > 0 ? `; near: ${near.map((name) => (/^[a-z_][a-z0-9_]*$/i.test(name) ? name : sqlName(name))).join(', ')}` : ''} (testbed query --views lists all)`, 'sql');
  }
  if (error.error_subtype === 'MISSING_ENTRY' && error.name !== undefined) {
    const what = (error.type ?? 'entry').toLowerCase();
    const near = what === 'table' ? [...new Set([...nearestWords(error.name, viewNames), ...viewNames])] : (error.candidates ?? '').split(',').filter((candidate) => candidate !== '');
    return new QueryError(`${placeOf(origin, error.position)}: no ${what === 'table' ? 'view' : what} ${error.name}${near.length > 0 ? `; ${what === 'table' ? 'the views are' : 'near:'} ${near.join(', ')}` : ''}`, 'sql');
  }
  if (message.includes(`${path.sep}${indexName}${path.sep}`)) return new QueryError(`the index of the results folder is damaged; remove the folder ${indexName} in it and ask again: it is made anew (${message})`, 'sql');
  return new QueryError(`${placeOf(origin, error.position)}: ${message.split('\n\nLINE ')[0]}`, 'sql');
}

/** Of a position in bytes from 0. */
function placeOf({ sql, placeName }: Origin, position: string | undefined): string {
  if (position === undefined || sql === '') return 'query';
  const before = Buffer.from(sql).subarray(0, Number(position)).toString('utf8');
  const lines = before.split('\n');
  return placeName(lines.length, lines.at(-1)!.length + 1);
}
