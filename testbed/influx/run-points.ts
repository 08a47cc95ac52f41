/**
 * The points of one run, in batches, from its record files: while the run goes on and they grow, or after it. The files are
 * the buffer: what is not sent yet takes no memory, however long the server is away.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { createHash } from 'node:crypto';
import { metricsName, type Metrics } from '../analysis/metrics.js';
import { readPlan } from '../records/ingest.js';
import { headerBytes, readRecordHeader, type RecordHeader } from '../records/record-file.js';
import { readRunJson } from '../records/run-json.js';
import type { Plan } from '../plan/plan.js';
import { readMetricRows } from '../store/metric-rows.js';
import { type Ledger, type Positions, readLedger, writeLedger } from './ledger.js';
import { measurements, rowLines, type RunTags, summaryLines, variedTag } from './points.js';

export interface Batch {
  readonly lines: readonly string[];
  /** Where the run stands once these are acknowledged. */
  readonly after: Positions;
}

export interface RunPointsOptions {
  /** `targetOf` the server. */
  readonly target: string;
  /**
   * While the run goes on: rows count only when the file has had them for so long, ms. A UML guest's file pages reach the
   * host in any order, within its write-back interval of a second.
   */
  readonly settleMs?: number;
}

interface OpenFile {
  readonly header: RecordHeader;
  readonly line: (view: DataView, row: number) => string | null;
  /** Sizes seen lately, oldest first, while the run goes on. */
  readonly seen: { readonly atMs: number; readonly rows: number }[];
}

/** Bytes read at once; a batch is put together of several such pieces. */
const pieceRows = 1024;

export class RunPoints {
  /** Its records are whole, and the figures computed. */
  ended = false;
  private positions: Positions = {};
  private ledger: Ledger | null = null;
  private plan: Plan | null = null;
  private readonly files = new Map<string, OpenFile>();
  private summary: { readonly name: string; readonly lines: readonly string[] } | null = null;
  /** Acknowledged states with their times, oldest first: where to go back to when the server may have lost something. */
  private readonly history: { readonly atMs: number; readonly positions: Positions }[] = [];

  constructor(readonly runDir: string, private readonly options: RunPointsOptions) {}

  /** The next points that are not acknowledged; null when there are none now. @throws UserError when the folder cannot be read */
  next(limit: number): Batch | null {
    const ledger = this.ready();
    if (ledger === null) return null;
    const lines: string[] = [];
    const after: Record<string, number> = { ...this.positions };
    for (const name of recordFiles(this.runDir)) {
      if (lines.length >= limit) break;
      const file = this.open(name, ledger);
      if (file === null) continue;
      const from = after[name] ?? 0;
      const to = Math.min(this.rowsOf(name, file), from + limit - lines.length);
      if (to <= from) continue;
      readRows(path.join(this.runDir, 'raw', name), file, from, to, lines);
      after[name] = to;
    }
    if (this.ended && lines.length < limit) {
      const { name, lines: summary } = this.summaryOf(ledger);
      const from = after[name] ?? 0;
      const some = summary.slice(from, from + limit - lines.length);
      if (some.length > 0) {
        lines.push(...some);
        after[name] = from + some.length;
      }
    }
    if (lines.length > 0) return { lines, after };
    this.positions = after; // rows without values
    return null;
  }

  acknowledged({ after }: Batch, keepMs: number): void {
    this.positions = after;
    const now = performance.now();
    this.history.push({ atMs: now, positions: after });
    while (this.history.length > 1 && this.history[1]!.atMs <= now - keepMs) this.history.shift();
    this.save();
  }

  /** Back to what was acknowledged before `atMs` (performance.now()); what came after is sent again. */
  rewind(atMs: number): void {
    if (this.ledger === null || this.history.length === 0) return;
    while (this.history.length > 0 && this.history.at(-1)!.atMs > atMs) this.history.pop();
    this.positions = this.history.at(-1)?.positions ?? this.before;
    this.save();
  }
  /** As the ledger said when this began. */
  private before: Positions = {};

  /** Points acknowledged so far, those of earlier sendings included. */
  get sent(): number {
    this.ready();
    return Object.values(this.positions).reduce((sum, rows) => sum + rows, 0);
  }

  /** Points there are and that are not acknowledged. */
  get pending(): number {
    const ledger = this.ready();
    if (ledger === null) return 0;
    let rows = 0;
    for (const name of recordFiles(this.runDir)) {
      const file = this.open(name, ledger);
      if (file !== null) rows += Math.max(0, this.rowsOf(name, file) - (this.positions[name] ?? 0));
    }
    if (this.ended) {
      const { name, lines } = this.summaryOf(ledger);
      rows += Math.max(0, lines.length - (this.positions[name] ?? 0));
    }
    return rows;
  }

  /** Writes the ledger. What is not acknowledged is then marked as such also when nothing was. */
  save(): void {
    const ledger = this.ready();
    if (ledger === null) return;
    this.ledger = { ...ledger, acknowledged: { ...ledger.acknowledged, [this.options.target]: this.positions } };
    writeLedger(this.runDir, this.ledger);
  }

  /** What every point of the run carries; null as long as the kernel is not known. */
  private ready(): Ledger | null {
    if (this.ledger !== null) return this.ledger;
    const run = readRunJson(this.runDir);
    if (run === null) return null;
    const known = readLedger(this.runDir);
    if (known === null) {
      const kernel = run.engine === 'sim' ? 'simulator' : run.kernel?.release ?? kernelOf(this.runDir) ?? (this.ended ? 'unknown' : null);
      const startMs = Date.parse(run.started);
      if (kernel === null || !Number.isFinite(startMs)) return null;
      const tags: RunTags = {
        run: runTag(this.runDir), scenario: run.name, seed: String(run.seed), engine: run.engine, machine: run.machine, kernel,
        ...Object.fromEntries(Object.entries(run.varied).map(([name, value]) => [variedTag(name), value] as const)),
      };
      this.ledger = { schema: 1, tags, startNs: String(BigInt(startMs) * 1_000_000n), acknowledged: {} };
    } else {
      this.ledger = known;
    }
    this.positions = this.before = this.ledger.acknowledged[this.options.target] ?? {};
    return this.ledger;
  }

  private open(name: string, { tags, startNs }: Ledger): OpenFile | null {
    const known = this.files.get(name);
    if (known !== undefined) return known;
    let header: RecordHeader;
    try {
      header = readRecordHeader(path.join(this.runDir, 'raw', name));
    } catch {
      return null; // not written whole (yet)
    }
    if (!(header.table in measurements)) return null;
    this.plan ??= readPlan(this.runDir);
    const file: OpenFile = { header, line: rowLines(header, this.plan, tags, BigInt(startNs)), seen: [] };
    this.files.set(name, file);
    return file;
  }

  /** Whole rows that may be read. */
  private rowsOf(name: string, { header, seen }: OpenFile): number {
    const rows = Math.max(0, Math.floor((fs.statSync(path.join(this.runDir, 'raw', name)).size - headerBytes) / header.rowBytes));
    const settleMs = this.options.settleMs ?? 0;
    if (this.ended || settleMs === 0) return rows;
    const now = performance.now();
    if (seen.at(-1)?.rows !== rows) seen.push({ atMs: now, rows });
    while (seen.length > 1 && seen[1]!.atMs <= now - settleMs) seen.shift();
    return seen[0]!.atMs <= now - settleMs ? seen[0]!.rows : 0;
  }

  private summaryOf({ tags, startNs }: Ledger): { readonly name: string; readonly lines: readonly string[] } {
    if (this.summary !== null) return this.summary;
    const rows = readMetricRows(this.runDir);
    if (typeof rows === 'string') return this.summary = { name: metricsName, lines: [] }; // no figures: the run failed
    const text = fs.readFileSync(path.join(this.runDir, metricsName), 'utf8');
    const { windowS } = JSON.parse(text) as Metrics;
    // Figures computed anew are sent anew.
    const name = `${metricsName} ${createHash('sha256').update(text).digest('hex').slice(0, 12)}`;
    return this.summary = { name, lines: summaryLines(rows, readRunJson(this.runDir)?.status ?? 'unknown', windowS[1] * 1e9, tags, BigInt(startNs)) };
  }
}

const recordFiles = (runDir: string): string[] => {
  try {
    return fs.readdirSync(path.join(runDir, 'raw')).filter((name) => /^(queue-.*|probes|sockets)\.rec$/.test(name)).sort();
  } catch {
    return []; // the run has only just begun
  }
};

function readRows(path: string, { header, line }: OpenFile, from: number, to: number, into: string[]): void {
  const { rowBytes } = header;
  const bytes = new Uint8Array(pieceRows * rowBytes);
  const view = new DataView(bytes.buffer);
  const fd = fs.openSync(path, 'r');
  try {
    for (let row = from; row < to; row += pieceRows) {
      const count = Math.min(pieceRows, to - row);
      for (let got = 0; got < count * rowBytes;) {
        const n = fs.readSync(fd, bytes, got, count * rowBytes - got, headerBytes + row * rowBytes + got);
        if (n === 0) throw new Error(`${path} became shorter while it was read`);
        got += n;
      }
      for (let i = 0; i < count; i++) {
        const text = line(view, i * rowBytes);
        if (text !== null) into.push(text);
      }
    }
  } finally {
    fs.closeSync(fd);
  }
}

/** The folder below the results folder: a run of its own has its time and id in the folder's name (run/run-folder.ts), one of a set has not. */
function runTag(runDir: string): string {
  const dir = path.resolve(runDir);
  const own = path.basename(dir);
  return /-\d{8}-\d{6}-[0-9a-f]{6}$/.test(own) ? own : `${path.basename(path.dirname(dir))}/${own}`;
}

/** Release of the kernel, as the agent told it first of all (agent/run.ts). */
function kernelOf(runDir: string): string | null {
  let text: string;
  try {
    text = fs.readFileSync(path.join(runDir, 'raw', 'agent.jsonl'), 'utf8');
  } catch {
    return null;
  }
  for (const line of text.split('\n', 50)) {
    try {
      const { type, kernel } = JSON.parse(line) as { readonly type?: string; readonly kernel?: unknown };
      if (type === 'facts' && typeof kernel === 'string') return kernel;
    } catch {
      return null; // half a line: the next reading has it whole
    }
  }
  return null;
}
