/**
 * raw/ → the record tables, as Parquet. The same raw/ always gives the same bytes: rows in each table's order, one
 * DuckDB thread, no time and no path in the files. What a killed run left is readable: torn rows and lines are dropped,
 * missing or headless files give empty tables.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { dropReasons } from '../../aqm/aqm.js';
import type { Plan } from '../plan/plan.js';
import { UserError } from '../errors.js';
import { openDatabase, registerScan, sqlName, sqlText } from './database.js';
import type { Database, ScanColumn } from './database.js';
import { dropAccount } from './drop-account.js';
import { matchCaptures } from './match.js';
import type { BacklogSample, CaptureNote } from './match.js';
import { blockRows, ecnMask, ecnShift, noFlow, PacketColumns, packetFlag, reasonShift } from './packet-columns.js';
import { arrivalField, captureFields, dropReasonCode, dropReasonField, packetFields, probeFields, queueFields, socketFields } from './raw.js';
import type { CaptureDictionary, Finding, FlowRow } from './raw.js';
import { fieldOffsets, headerBytes, none, readRecordHeader, readRecords } from './record-file.js';
import type { Field, RecordHeader } from './record-file.js';
import { tables } from './tables.js';
import type { Table, TableName } from './tables.js';
import { sortByTime } from './time-order.js';

export interface IngestResult {
  /** Rows written, by table. */
  readonly rows: Readonly<Record<TableName, number>>;
  /** Kernel engine: what the captures of each bottleneck direction amount to. */
  readonly captures: readonly CaptureNote[];
  /** What ingest saw that bears on the figures: `capture-lost` (invalid), `record-unreadable`, `unmatched-packets`, `drops-disagree` (warnings). */
  readonly findings: readonly Finding[];
}

export const parquetOf = (runDir: string, table: TableName): string => path.join(runDir, `${table}.parquet`);

export function readPlan(runDir: string): Plan {
  const file = path.join(runDir, 'raw', 'plan.json');
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8')) as Plan;
  } catch (error) {
    throw new UserError(`${file}: cannot read the plan that ran (${error instanceof Error ? error.message : String(error)}). Is ${runDir} a run's folder?`);
  }
}

/**
 * @param runDir a run's folder; reads `raw/`, writes `<table>.parquet`
 * @throws UserError when there is no plan, or the disk is full
 */
export async function ingest(runDir: string): Promise<IngestResult> {
  const plan = readPlan(runDir);
  const raw = path.join(runDir, 'raw');
  const files = fs.readdirSync(raw).sort();
  const findings: Finding[] = [];
  const warn = (rule: string, message: string): void => { findings.push({ type: 'finding', level: 'warning', rule, message }); };

  const records = new Map<string, RecordFile>();
  for (const name of files.filter((file) => file.endsWith('.rec'))) {
    const file = openRecords(path.join(raw, name));
    if (typeof file === 'string') warn('record-unreadable', `raw/${name}: ${file}; its rows are missing from the tables`);
    else records.set(name, file);
  }
  const ofTable = (table: string): RecordFile[] => [...records.values()].filter((file) => file.header.table === table);

  const database = await openDatabase();
  database.views.of = null; // of these files as they were before
  try {
    const rows: Record<TableName, number> = { flows: 0, queue: 0, packets: 0, probes: 0, sockets: 0 };
    rows.flows = await writeFlows(database, runDir, plan, warn);
    const queueFiles = ofTable('queue');
    rows.queue = await writeQueue(database, runDir, queueFiles);
    const { captures, count } = await writePackets(database, runDir, plan, records, queueFiles, findings);
    rows.packets = count;
    rows.probes = await writeProbes(database, runDir, plan, ofTable('probes'));
    rows.sockets = await writeSockets(database, runDir, ofTable('sockets'));
    return { rows, captures, findings };
  } catch (error) {
    if (error instanceof Error && /No space left|ENOSPC/i.test(error.message)) {
      throw new UserError(`${runDir}: the disk is full; the records are kept in raw/. Free some space, or choose another folder (--out), then run again.`, 1, { cause: error });
    }
    throw error;
  } finally {
    database.close();
  }
}

// ---- Record files --------------------------------------------------------------------------------------------

interface RecordFile { readonly path: string; readonly header: RecordHeader; readonly rows: number }

/** Fields each table cannot do without. */
const required: Readonly<Record<string, readonly Field[]>> = {
  queue: queueFields, captures: captureFields, packets: packetFields.filter((field) => field !== dropReasonField && field !== arrivalField), probes: probeFields, sockets: socketFields,
};

function openRecords(file: string): RecordFile | string {
  let header: RecordHeader;
  try {
    header = readRecordHeader(file);
  } catch {
    return 'its header was never written whole';
  }
  const needs = required[header.table];
  if (needs === undefined) return `it holds an unknown table ${header.table}`;
  const missing = needs.filter((field) => !header.fields.some((have) => have.name === field.name && have.type === field.type));
  if (missing.length > 0) return `it lacks ${missing.map((field) => field.name).join(', ')}`;
  const bytes = fs.statSync(file).size - headerBytes;
  return { path: file, header, rows: Math.max(0, Math.floor(bytes / header.rowBytes)) };
}

/** Every field of a record file as a DOUBLE column, absent values as NaN. */
function scanRecords(database: Database, name: string, file: RecordFile): void {
  const { header } = file;
  const offsets = fieldOffsets(header);
  const columns = header.fields.map((field): ScanColumn => ({ name: field.name, type: 'DOUBLE' }));
  let view = new DataView(new ArrayBuffer(0));
  registerScan(database, name, columns, file.rows, (vectors, from, count) => {
    const bytes = count * header.rowBytes;
    if (view.byteLength < bytes) view = new DataView(new ArrayBuffer(bytes));
    const fd = fs.openSync(file.path, 'r');
    try {
      for (let got = 0; got < bytes;) {
        const n = fs.readSync(fd, view, got, bytes - got, headerBytes + from * header.rowBytes + got);
        if (n === 0) throw new Error(`${file.path} became shorter while it was read`);
        got += n;
      }
    } finally {
      fs.closeSync(fd);
    }
    header.fields.forEach((field, column) => {
      const vector = vectors[column]!;
      const absent = none[field.type];
      for (let i = 0, at = offsets[field.name]!; i < count; i++, at += header.rowBytes) {
        const value = field.type === 'f64' ? view.getFloat64(at, true) : field.type === 'i32' ? view.getInt32(at, true)
          : field.type === 'u32' ? view.getUint32(at, true) : view.getUint8(at);
        vector.setItem(i, value === absent ? NaN : value);
      }
    });
  });
}

/** NaN, infinities and what does not fit become null; times are whole ns. */
const whole = (column: string, type: string): string => `TRY_CAST(CASE WHEN isfinite(${column}) THEN round(${column}) END AS ${type})`;

async function writeParquet(database: Database, runDir: string, table: Table, select: string): Promise<number> {
  const file = parquetOf(runDir, table.name as TableName);
  const temporary = `${file}.tmp`;
  try {
    const rows = await database.changed(`COPY (${select}) TO ${sqlText(temporary)} (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 122880)`);
    fs.renameSync(temporary, file);
    return rows;
  } finally {
    fs.rmSync(temporary, { force: true });
  }
}

/** A table of no rows with the right columns. */
const emptySelect = (table: Table): string =>
  `SELECT ${table.columns.map((column) => `CAST(NULL AS ${column.type}) AS ${sqlName(column.name)}`).join(', ')} WHERE false`;

// ---- Flows ---------------------------------------------------------------------------------------------------

async function writeFlows(database: Database, runDir: string, plan: Plan, warn: (rule: string, message: string) => void): Promise<number> {
  const ended = new Map<number, FlowRow>();
  let torn = 0;
  for (const line of readLines(path.join(runDir, 'raw', 'flows.jsonl'))) {
    try {
      const row = JSON.parse(line) as FlowRow | null;
      if (row !== null && typeof row === 'object' && Number.isInteger(row.id)) ended.set(row.id, row);
      else torn++;
    } catch {
      torn++;
    }
  }
  if (torn > 0) warn('record-unreadable', `raw/flows.jsonl: ${torn} line${torn === 1 ? '' : 's'} that cannot be read (the run was cut short while writing?)`);
  const unknown = [...ended.keys()].filter((id) => plan.flows[id] === undefined);
  if (unknown.length > 0) warn('record-unreadable', `raw/flows.jsonl: ${unknown.length} row(s) of flows that the plan does not have (first: ${unknown[0]})`);

  const table = tables.flows;
  await database.run(`CREATE TABLE flows (${table.columns.map((column) => `${sqlName(column.name)} ${column.type}`).join(', ')})`);
  const appender = await database.connection.createAppender('flows');
  const text = (value: string | null | undefined): void => { if (typeof value === 'string') appender.appendVarchar(value); else appender.appendNull(); };
  const count = (value: number | null | undefined): void => {
    if (typeof value === 'number' && Number.isFinite(value)) appender.appendBigInt(BigInt(Math.round(value)));
    else appender.appendNull();
  };
  for (const flow of plan.flows) {
    const row = ended.get(flow.id);
    const ownEnd = flow.bytes !== null && row?.status === 'complete' && row.t_start !== null && row.t_end !== null;
    appender.appendInteger(flow.id);
    text(flow.class); text(flow.kind); text(flow.tool); text(flow.transport); text(flow.src); text(flow.dst); text(flow.cc);
    appender.appendBoolean(flow.ecn);
    count(flow.baseRttNs); count(row?.t_start); count(row?.t_connected); count(row?.t_end);
    count(row?.bytes); count(row?.bytes_sent); count(row?.packets_sent); count(row?.packets_lost); count(row?.packets_duplicated);
    count(ownEnd ? row.t_end! - row.t_start! : null);
    count(row?.bytes_at_warmup); count(row?.bytes_at_end);
    count(row?.retransmits); count(row?.retransmits_at_warmup); count(row?.retransmits_at_end);
    text(row?.status ?? 'not-started'); text(row?.error);
    appender.endRow();
  }
  appender.closeSync();
  const rows = await writeParquet(database, runDir, table, 'SELECT * FROM flows ORDER BY id');
  await database.run('DROP TABLE flows'); // analysis has a view of that name, maybe in the same database
  return rows;
}

function readLines(file: string): string[] {
  try {
    return fs.readFileSync(file, 'utf8').split('\n').filter((line) => line.trim() !== '');
  } catch {
    return [];
  }
}

// ---- Queue ---------------------------------------------------------------------------------------------------

async function writeQueue(database: Database, runDir: string, files: readonly RecordFile[]): Promise<number> {
  const fixed = tables.queue.columns.filter((column) => column.name !== 'bottleneck').map((column) => column.name);
  const state = [...new Set(files.flatMap((file) => file.header.fields.map((field) => field.name)))]
    .filter((name) => name !== 'bottleneck' && !fixed.includes(name)).sort();
  if (files.length === 0) return writeParquet(database, runDir, tables.queue, emptySelect(tables.queue));
  const parts = files.map((file, index) => {
    scanRecords(database, `queue_${index}`, file);
    const has = new Set(file.header.fields.map((field) => field.name));
    const columns = tables.queue.columns.map((column) => column.name === 'bottleneck'
      ? `${sqlText(String(file.header.constants['bottleneck'] ?? ''))} AS bottleneck`
      : `${whole(sqlName(column.name), column.type)} AS ${sqlName(column.name)}`);
    const own = state.map((name) => has.has(name)
      ? `CASE WHEN isfinite(${sqlName(name)}) THEN ${sqlName(name)} END AS ${sqlName(name)}` : `CAST(NULL AS DOUBLE) AS ${sqlName(name)}`);
    return `SELECT ${[...columns, ...own].join(', ')} FROM queue_${index}() WHERE isfinite(t)`;
  });
  return writeParquet(database, runDir, tables.queue, `SELECT * FROM (${parts.join(' UNION ALL ')}) ORDER BY ${tables.queue.orderBy}`);
}

/** The last sample of a direction at or before `end`, ns. */
function lastSample(file: RecordFile, end: number): BacklogSample | null {
  const offsets = fieldOffsets(file.header);
  let last: BacklogSample | null = null;
  for (const { view, rows } of readRecords(file.path)) {
    for (let i = rows - 1; i >= 0; i--) {
      const row = i * file.header.rowBytes;
      const t = view.getFloat64(row + offsets['t']!, true);
      if (!(t <= end)) continue;
      last = { t, backlogPackets: view.getFloat64(row + offsets['backlog_packets']!, true) };
      break;
    }
  }
  return last;
}

// ---- Packets -------------------------------------------------------------------------------------------------

const staleSampleNs = 1e9;

async function writePackets(
  database: Database, runDir: string, plan: Plan, records: ReadonlyMap<string, RecordFile>, queueFiles: readonly RecordFile[], findings: Finding[],
): Promise<{ captures: CaptureNote[]; count: number }> {
  const raw = path.join(runDir, 'raw');
  const directions: { name: string; packets: PacketColumns }[] = [];
  const captures: CaptureNote[] = [];
  for (const file of records.values()) {
    if (file.header.table !== 'packets') continue;
    directions.push({ name: String(file.header.constants['bottleneck'] ?? ''), packets: readPackets(file) });
  }
  const recorded = new Set(directions.map((direction) => direction.name));
  const backlogs = new Map(queueFiles.map((file) => [String(file.header.constants['bottleneck'] ?? ''), file] as const));
  const lastBacklog = (direction: string, t: number): BacklogSample | null => {
    const file = backlogs.get(direction);
    const sample = file === undefined || !Number.isFinite(t) ? null : lastSample(file, t);
    return sample !== null && t - sample.t <= staleSampleNs && sample.backlogPackets >= 0 ? sample : null;
  };
  // The engine says so itself, if it came to that.
  const said = readLines(path.join(raw, 'agent.jsonl')).some((line) => line.includes('"capture-lost"'));
  for (const [name, file] of records) {
    if (file.header.table !== 'captures') continue;
    const dictionary = readDictionary(path.join(raw, name.replace(/\.rec$/, '.json')));
    if (dictionary === null) {
      findings.push({ type: 'finding', level: 'warning', rule: 'record-unreadable', message: `raw/${name}: its dictionary (${name.replace(/\.rec$/, '.json')}) is missing, so its packets cannot be told apart` });
      continue;
    }
    if (dictionary.lost > 0 && !said) {
      findings.push({ type: 'finding', level: 'invalid', rule: 'capture-lost', message: `raw/${name}: the capture ring lost ${dictionary.lost} packets, so the packet records have holes. Use virtual time, or a less loaded machine.` });
    }
    for (const matched of matchCaptures(file.path, dictionary.directions, lastBacklog, recorded)) {
      directions.push(matched);
      captures.push(matched.note);
      const { direction, own, left } = matched.note;
      const queueFile = backlogs.get(direction);
      const changes = plan.events.filter((event) => event.direction === direction && event.set.queue !== undefined).map(({ atNs }) => atNs).sort((a, b) => a - b);
      const account = queueFile === undefined ? null : dropAccount(queueFile.path, matched.packets, changes);
      if (account !== null) {
        const { t, drops, missing, purged } = account;
        if (Math.abs(missing - purged - drops) > Math.max(5, 0.02 * drops)) {
          const thrown = purged > 0 ? `, ${purged} of them thrown away uncounted by a change of its parameters` : '';
          findings.push({ type: 'finding', level: 'warning', rule: 'drops-disagree', message: `${direction}: by ${(t / 1e9).toFixed(3)} s the queue had counted ${drops} drops, the captures show ${missing}${thrown}; loss figures come from the captures` });
        }
      }
      if (own > 10 && own > 0.001 * left) {
        findings.push({ type: 'finding', level: 'warning', rule: 'unmatched-packets', message: `${direction}: ${own} of ${left} packets left without having been seen entering; their queueing delay is recorded as 0` });
      }
    }
  }
  captures.sort((a, b) => (a.direction < b.direction ? -1 : 1));
  directions.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));

  const columns: readonly ScanColumn[] = [
    { name: 'seq', type: 'INTEGER' }, { name: 'flow', type: 'INTEGER' }, { name: 'size', type: 'INTEGER' },
    { name: 't_enqueue', type: 'DOUBLE' }, { name: 't_dequeue', type: 'DOUBLE' }, { name: 'flags', type: 'USMALLINT' },
  ];
  const reasons = dropReasons.map((reason) => `WHEN ${dropReasonCode(reason)} THEN ${sqlText(reason)}`).join(' ');
  const parts = directions.map(({ name, packets }, index) => {
    registerScan(database, `packets_${index}`, columns, packets.length, ([seq, flow, size, tEnqueue, tDequeue, flags], from, count) => {
      const block = packets.block(from); // 2048 divides blockRows, so a step never crosses a block
      for (let i = 0, at = from & (blockRows - 1); i < count; i++, at++) {
        seq!.setItem(i, from + i);
        flow!.setItem(i, block.flow[at]!);
        size!.setItem(i, block.size[at]!);
        tEnqueue!.setItem(i, block.tEnqueue[at]!);
        tDequeue!.setItem(i, block.tDequeue[at]!);
        flags!.setItem(i, block.flags[at]!);
      }
    });
    return `SELECT ${sqlText(name)} AS bottleneck, seq, nullif(flow, ${noFlow}) AS flow, flags & ${packetFlag.forward} <> 0 AS "forward", size, `
      + `${whole('t_enqueue', 'BIGINT')} AS t_enqueue, ${whole('t_dequeue', 'BIGINT')} AS t_dequeue, flags & ${packetFlag.dropped} <> 0 AS dropped, `
      + `flags & ${packetFlag.marked} <> 0 AS marked, CAST((flags >> ${ecnShift}) & ${ecnMask} AS UTINYINT) AS ecn, CASE flags >> ${reasonShift} ${reasons} END AS drop_reason FROM packets_${index}()`;
  });
  // Already in order: directions by name, packets by arrival.
  const count = await writeParquet(database, runDir, tables.packets, parts.length === 0 ? emptySelect(tables.packets) : parts.join(' UNION ALL '));
  return { captures, count };
}

function readDictionary(file: string): CaptureDictionary | null {
  try {
    const dictionary = JSON.parse(fs.readFileSync(file, 'utf8')) as Partial<CaptureDictionary>;
    return Array.isArray(dictionary.directions) ? { directions: dictionary.directions, lost: Number(dictionary.lost ?? 0) } : null;
  } catch {
    return null;
  }
}

/** Packets an engine recorded itself, in the order it finished with them → order of arrival. */
function readPackets(file: RecordFile): PacketColumns {
  const at = fieldOffsets(file.header);
  const { rowBytes } = file.header;
  const [enqueueAt, dequeueAt, sizeAt, flowAt] = [at['t_enqueue']!, at['t_dequeue']!, at['size']!, at['flow']!];
  const [forwardAt, droppedAt, markedAt, ecnAt] = [at['forward']!, at['dropped']!, at['marked']!, at['ecn']!];
  const [reasonAt, arrivalAt] = [at[dropReasonField.name], at[arrivalField.name]];
  const columns = new PacketColumns();
  const arrivals = new Uint32Array(file.rows);
  for (const { view, rows } of readRecords(file.path)) {
    for (let i = 0, row = 0; i < rows; i++, row += rowBytes) {
      const flags = (view.getUint8(row + forwardAt) === 1 ? packetFlag.forward : 0) | (view.getUint8(row + droppedAt) === 1 ? packetFlag.dropped : 0)
        | (view.getUint8(row + markedAt) === 1 ? packetFlag.marked : 0) | ((view.getUint8(row + ecnAt) & ecnMask) << ecnShift)
        | (reasonAt === undefined ? 0 : view.getUint8(row + reasonAt) << reasonShift);
      if (arrivalAt !== undefined) arrivals[columns.length] = view.getUint32(row + arrivalAt, true);
      columns.push(view.getFloat64(row + enqueueAt, true), view.getFloat64(row + dequeueAt, true), view.getUint32(row + sizeAt, true), view.getInt32(row + flowAt, true), flags);
    }
  }
  const times = new Float64Array(columns.length);
  let sorted = true;
  for (let i = 0; i < columns.length; i++) {
    times[i] = columns.tEnqueue(i);
    sorted &&= i === 0 || times[i - 1]! < times[i]! || (times[i - 1] === times[i] && arrivals[i - 1]! <= arrivals[i]!);
  }
  if (sorted) return columns;
  const order = sortByTime(times, arrivals, columns.length);
  const inOrder = new PacketColumns();
  for (let i = 0; i < columns.length; i++) {
    const from = order[i]!;
    inOrder.push(columns.tEnqueue(from), columns.tDequeue(from), columns.size(from), columns.flow(from), columns.flags(from));
  }
  return inOrder;
}

// ---- Probes and sockets --------------------------------------------------------------------------------------

async function writeProbes(database: Database, runDir: string, plan: Plan, files: readonly RecordFile[]): Promise<number> {
  if (files.length === 0) return writeParquet(database, runDir, tables.probes, emptySelect(tables.probes));
  const names = plan.probes.map((probe) => `WHEN ${probe.id} THEN ${sqlText(probe.name)}`).join(' ');
  const name = names === '' ? 'CAST(NULL AS VARCHAR)' : `CASE CAST(probe_id AS INTEGER) ${names} END`;
  const parts = files.map((file, index) => {
    scanRecords(database, `probes_${index}`, file);
    return `SELECT ${name} AS probe, ${whole('probe_id', 'INTEGER')} AS probe_id, ${whole('seq', 'INTEGER')} AS seq, ${whole('t', 'BIGINT')} AS t, `
      + `${whole('rtt', 'BIGINT')} AS rtt, ${whole('owd_forward', 'BIGINT')} AS owd_forward, ${whole('owd_reverse', 'BIGINT')} AS owd_reverse, `
      + `NOT isfinite(rtt) AS lost FROM probes_${index}() WHERE isfinite(t)`;
  });
  return writeParquet(database, runDir, tables.probes, `SELECT * FROM (${parts.join(' UNION ALL ')}) ORDER BY ${tables.probes.orderBy}`);
}

async function writeSockets(database: Database, runDir: string, files: readonly RecordFile[]): Promise<number> {
  if (files.length === 0) return writeParquet(database, runDir, tables.sockets, emptySelect(tables.sockets));
  const parts = files.map((file, index) => {
    scanRecords(database, `sockets_${index}`, file);
    return `SELECT ${tables.sockets.columns.map((column) => `${whole(column.name, column.type)} AS ${column.name}`).join(', ')} FROM sockets_${index}() WHERE isfinite(t)`;
  });
  return writeParquet(database, runDir, tables.sockets, `SELECT * FROM (${parts.join(' UNION ALL ')}) ORDER BY ${tables.sockets.orderBy}`);
}
