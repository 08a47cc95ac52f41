/**
 * Record files: what engines append to while a run goes on. A header line of JSON (padded to `headerBytes`),
 * then rows of fixed width, little-endian. A torn last row (killed writer, full disk) is ignored by the reader,
 * so nothing recorded before a crash is lost. Absent values: the column's `none` value below.
 */

import * as fs from 'node:fs';

export type FieldType = 'f64' | 'i32' | 'u32' | 'u8';
export interface Field { readonly name: string; readonly type: FieldType }
export interface RecordHeader {
  readonly format: 'testbed-records-1';
  /** What the rows are: a table's name (`queue`, `packets`, `probes`, `sockets`) or `captures`. */
  readonly table: string;
  /** Values constant over the file, added to every row: e.g. `{ bottleneck: "BL1" }`. */
  readonly constants: Readonly<Record<string, string | number>>;
  readonly fields: readonly Field[];
  readonly rowBytes: number;
}

export const headerBytes = 4096;
const width: Readonly<Record<FieldType, number>> = { f64: 8, i32: 4, u32: 4, u8: 1 };
/** Absent: NaN for f64 (times are f64: exact to 2^53 ns = 104 days), −2^31 for i32, 2^32−1 for u32, 255 for u8. */
export const none = { f64: NaN, i32: -0x80000000, u32: 0xffffffff, u8: 255 } as const;

export class RecordWriter {
  private readonly fd: number;
  private readonly buffer: Buffer;
  private readonly view: DataView;
  private readonly types: readonly FieldType[];
  private readonly rowBytes: number;
  private used = 0;
  /** Bytes after which the buffer is written: few at first, so that V8 has seen that happen when it compiles what writes rows. */
  private room: number;

  constructor(path: string, table: string, constants: RecordHeader['constants'], fields: readonly Field[], bufferBytes = 256 * 1024) {
    this.types = fields.map((field) => field.type);
    this.rowBytes = this.types.reduce((sum, type) => sum + width[type], 0);
    const header: RecordHeader = { format: 'testbed-records-1', table, constants, fields, rowBytes: this.rowBytes };
    this.fd = fs.openSync(path, 'w');
    const line = Buffer.alloc(headerBytes, ' ');
    if (line.write(`${JSON.stringify(header)}\n`) > headerBytes - 1) throw new Error('record header too long');
    fs.writeSync(this.fd, line);
    const memory = new ArrayBuffer(Math.max(1, Math.floor(bufferBytes / this.rowBytes)) * this.rowBytes);
    this.buffer = Buffer.from(memory);
    this.room = Math.min(16 * this.rowBytes, memory.byteLength);
    this.view = new DataView(memory);
  }

  /** Append one row; values in field order. */
  row(...values: readonly number[]): void {
    let at = this.used;
    for (let i = 0; i < this.types.length; i++) {
      const value = values[i]!;
      switch (this.types[i]) {
        case 'f64': this.view.setFloat64(at, value, true); at += 8; break;
        case 'i32': this.view.setInt32(at, value, true); at += 4; break;
        case 'u32': this.view.setUint32(at, value, true); at += 4; break;
        default: this.view.setUint8(at, value); at += 1;
      }
    }
    this.used = at;
    if (this.used >= this.room) this.flush();
  }

  /**
   * Space for one row, for callers that write fields themselves (per-packet code): returns the offset into `data`.
   */
  claim(): number {
    if (this.used >= this.room) this.flush();
    const at = this.used;
    this.used += this.rowBytes;
    return at;
  }
  get data(): DataView { return this.view; }

  /** Write what is buffered to the file. @throws the file system's error (ENOSPC …) */
  flush(): void {
    let from = 0;
    while (from < this.used) from += fs.writeSync(this.fd, this.buffer, from, this.used - from);
    this.used = 0;
    this.room = Math.min(this.room * 2, this.buffer.length);
  }

  close(): void {
    this.flush();
    fs.closeSync(this.fd);
  }
}

export function readRecordHeader(path: string): RecordHeader {
  const fd = fs.openSync(path, 'r');
  try {
    const line = Buffer.alloc(headerBytes);
    const bytes = fs.readSync(fd, line, 0, headerBytes, 0);
    const header = JSON.parse(line.toString('utf8', 0, bytes)) as RecordHeader;
    if (header.format !== 'testbed-records-1') throw new Error(`${path}: not a record file of this version`);
    return header;
  } finally {
    fs.closeSync(fd);
  }
}

/** Rows in chunks: `view` holds `rows` whole rows of `header.rowBytes`, valid until the next step. */
export function* readRecords(path: string, chunkRows = 65536): Generator<{ readonly view: DataView; readonly bytes: Uint8Array; readonly rows: number }> {
  const { rowBytes } = readRecordHeader(path);
  const fd = fs.openSync(path, 'r');
  try {
    const bytes = new Uint8Array(new ArrayBuffer(chunkRows * rowBytes));
    const view = new DataView(bytes.buffer);
    let position = headerBytes;
    for (;;) {
      let got = 0;
      while (got < bytes.length) {
        const n = fs.readSync(fd, bytes, got, bytes.length - got, position + got);
        if (n === 0) break;
        got += n;
      }
      const rows = Math.floor(got / rowBytes);
      if (rows === 0) return;
      yield { view, bytes, rows };
      if (got < bytes.length) return;
      position += got;
    }
  } finally {
    fs.closeSync(fd);
  }
}

export const fieldOffsets = (header: RecordHeader): Readonly<Record<string, number>> => {
  let at = 0;
  return Object.fromEntries(header.fields.map((field) => { const entry = [field.name, at] as const; at += width[field.type]; return entry; }));
};
