/**
 * What happened at one bottleneck direction, in the kernel's own order: packets that entered the router on their way to
 * the queue, and packets that left it. From raw/captures-<router>.rec, whose rows stand in the order in which the
 * kernel's one processor met them (the ring of collectors/packets.ts sees both sides), so that order also decides
 * between equal times. Where raw/ is gone, from packets.parquet: there the order at equal times is lost, and arrivals
 * are taken to come first.
 *
 * Either way in chunks: a run of any length takes the same memory.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { openDatabase, sqlPath, sqlText } from '../records/database.js';
import { captureHashField, type CaptureDictionary } from '../records/raw.js';
import { fieldOffsets, none, readRecordHeader, readRecords, type RecordHeader } from '../records/record-file.js';

/** Rows 0 … count − 1, valid until the next step. A packet's key is the same on both sides; equal keys are packets that nothing tells apart. */
export interface EventChunk {
  count: number;
  /** ns from the start of the run. */
  readonly t: Float64Array;
  readonly keyLo: Uint32Array;
  readonly keyHi: Uint32Array;
  /** IP bytes. */
  readonly size: Uint32Array;
  /** Flow id, −1 − probe id, or `none.i32`. */
  readonly flow: Int32Array;
  /** 1: it left the queue; 0: it reached it. */
  readonly leaving: Uint8Array;
  /** ECN codepoint. */
  readonly ecn: Uint8Array;
  /** 1: the flow's data direction. */
  readonly forward: Uint8Array;
  /** skb_get_hash(); null where the record does not hold it. */
  readonly hash: Uint32Array | null;
}

export interface EventSource {
  /** Where the events come from, for the user. */
  readonly from: 'captures' | 'packets.parquet';
  readonly file: string;
  /** Packets that the capture's ring lost. */
  readonly lost: number;
  /** Chunks have `hash`. */
  readonly hashed: boolean;
  /** CLOCK_MONOTONIC at run time 0, ns; null: not recorded, and the times of packets may be a reading of the clock (256 ns) or more too early (CaptureDictionary). */
  readonly monotonicNs: number | null;
  /** From the first event; may be called again. */
  chunks(): AsyncIterable<EventChunk>;
}

const chunkRows = 32768;
const newChunk = (hashed: boolean): EventChunk => ({
  count: 0, t: new Float64Array(chunkRows), keyLo: new Uint32Array(chunkRows), keyHi: new Uint32Array(chunkRows), size: new Uint32Array(chunkRows),
  flow: new Int32Array(chunkRows), leaving: new Uint8Array(chunkRows), ecn: new Uint8Array(chunkRows), forward: new Uint8Array(chunkRows), hash: hashed ? new Uint32Array(chunkRows) : null,
});

/** A file of a run that is damaged: nothing is known of the kernel's decisions then. */
export class DamagedRecord extends UserError {
  constructor(file: string, what: string, options?: ErrorOptions) {
    super(`${path.basename(file)} ${what}: its run is to be made again`, 2, options);
  }
}
const unreadable = 'is cut off or damaged';

/** @throws DamagedRecord when the file is there but its beginning cannot be read */
export function headerOf(file: string): RecordHeader {
  try {
    return readRecordHeader(file);
  } catch (error) {
    throw new DamagedRecord(file, unreadable, { cause: error });
  }
}

/** @throws DamagedRecord */
function dictionaryOf(file: string): CaptureDictionary {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8')) as CaptureDictionary;
  } catch (error) {
    throw new DamagedRecord(file, unreadable, { cause: error });
  }
}

/**
 * Captures that end before packets.parquet does, which was made of them, have lost their end since. Where there is no packets.parquet, nothing can tell.
 * @throws DamagedRecord
 */
export async function checkWhole(runDir: string, direction: string, source: EventSource): Promise<void> {
  const parquet = path.join(runDir, 'packets.parquet');
  if (!fs.existsSync(parquet)) return;
  const database = await openDatabase();
  let recordedNs: number;
  try {
    const rows = await database.connection.runAndReadAll(`SELECT coalesce(CAST(max(greatest(t_enqueue, coalesce(t_dequeue, t_enqueue))) AS DOUBLE), 0) FROM read_parquet(${sqlPath(parquet)}) WHERE bottleneck = ${sqlText(direction)}`);
    recordedNs = rows.getRows()[0]![0] as number;
  } catch (error) {
    if (source.from === 'packets.parquet') throw new DamagedRecord(parquet, unreadable, { cause: error });
    return; // the captures do without it
  } finally {
    database.close();
  }
  if (source.from === 'packets.parquet') return;
  let lastNs = -Infinity;
  for await (const { count, t } of source.chunks()) lastNs = t[count - 1]!;
  if (lastNs < recordedNs) throw new DamagedRecord(source.file, `is cut off${lastNs === -Infinity ? '' : ` at ${(lastNs / 1e9).toFixed(3)} s`}, packets.parquet has ${direction} until ${(recordedNs / 1e9).toFixed(3)} s`);
}

/** The events of a direction; null when the run recorded no packets there. @throws DamagedRecord */
export function eventsOf(runDir: string, direction: string): EventSource | null {
  const raw = path.join(runDir, 'raw');
  const names = fs.existsSync(raw) ? fs.readdirSync(raw).filter((name) => /^captures-.*\.json$/.test(name)) : [];
  let monotonicNs: number | null = null;
  for (const name of names) {
    const file = path.join(raw, name.replace(/\.json$/, '.rec'));
    const dictionary = dictionaryOf(path.join(raw, name));
    const index = dictionary.directions.indexOf(direction);
    if (index < 0) continue;
    monotonicNs = dictionary.monotonicNs ?? null;
    if (fs.existsSync(file)) return { from: 'captures', file, lost: dictionary.lost, hashed: captureHashField.name in fieldOffsets(headerOf(file)), monotonicNs, chunks: () => captured(file, index) };
  }
  const parquet = path.join(runDir, 'packets.parquet');
  return fs.existsSync(parquet) ? { from: 'packets.parquet', file: parquet, lost: 0, hashed: false, monotonicNs, chunks: () => recorded(parquet, direction) } : null;
}

async function* captured(file: string, direction: number): AsyncGenerator<EventChunk> {
  const header = readRecordHeader(file);
  const at = fieldOffsets(header);
  const { rowBytes } = header;
  const [tAt, loAt, hiAt, sizeAt, flowAt] = [at['t']!, at['key_lo']!, at['key_hi']!, at['size']!, at['flow']!];
  const [directionAt, leavingAt, ecnAt, forwardAt] = [at['direction']!, at['leaving']!, at['ecn']!, at['forward']!];
  const hashAt = at[captureHashField.name];
  const chunk = newChunk(hashAt !== undefined);
  for (const { view, rows } of readRecords(file, chunkRows)) {
    let n = 0;
    for (let i = 0, row = 0; i < rows; i++, row += rowBytes) {
      if (view.getUint8(row + directionAt) !== direction) continue;
      chunk.t[n] = view.getFloat64(row + tAt, true);
      chunk.keyLo[n] = view.getUint32(row + loAt, true);
      chunk.keyHi[n] = view.getUint32(row + hiAt, true);
      chunk.size[n] = view.getUint32(row + sizeAt, true);
      chunk.flow[n] = view.getInt32(row + flowAt, true);
      chunk.leaving[n] = view.getUint8(row + leavingAt);
      chunk.ecn[n] = view.getUint8(row + ecnAt);
      chunk.forward[n] = view.getUint8(row + forwardAt);
      if (hashAt !== undefined) chunk.hash![n] = view.getUint32(row + hashAt, true);
      n++;
    }
    chunk.count = n;
    if (n > 0) yield chunk;
  }
}

/** Each row of packets.parquet is an arrival and, if it was sent, a departure. Its key is its number. */
async function* recorded(parquet: string, direction: string): AsyncGenerator<EventChunk> {
  const database = await openDatabase();
  try {
    const here = `FROM read_parquet(${sqlPath(parquet)}) WHERE bottleneck = ${sqlText(direction)}`;
    const side = (t: string, leaving: number, ecn: string, where: string): string =>
      `SELECT CAST(${t} AS DOUBLE) AS t, seq, size, coalesce(flow, ${none.i32}) AS flow, CAST(${leaving} AS UTINYINT) AS leaving, ${ecn} AS ecn, "forward" ${here} ${where}`;
    // A packet that only left (the router's own) has equal times and was never in the queue: it stands in both, as the record has it.
    const result = await database.connection.stream(
      `${side('t_enqueue', 0, 'ecn', '')} UNION ALL ${side('t_dequeue', 1, 'CASE WHEN marked THEN 3 ELSE ecn END', 'AND t_dequeue IS NOT NULL')} ORDER BY t, leaving, seq`,
    );
    const chunk = newChunk(false);
    for (;;) {
      const rows = await result.fetchChunk();
      if (rows === null || rows.rowCount === 0) break;
      const [t, seq, size, flow, leaving, ecn, forward] = rows.getColumns() as unknown as readonly [number[], number[], number[], number[], number[], number[], boolean[]]; // the columns of `side`
      for (let i = 0; i < rows.rowCount; i++) {
        chunk.t[i] = t[i]!;
        chunk.keyLo[i] = seq[i]!;
        chunk.keyHi[i] = 0;
        chunk.size[i] = size[i]!;
        chunk.flow[i] = flow[i]!;
        chunk.leaving[i] = leaving[i]!;
        chunk.ecn[i] = ecn[i]!;
        chunk.forward[i] = forward[i] ? 1 : 0;
      }
      chunk.count = rows.rowCount;
      yield chunk;
    }
  } finally {
    database.close();
  }
}
