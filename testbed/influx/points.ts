/**
 * A row of a record file, and a figure of metrics.json, as a point of InfluxDB. The same row always gives the same point (tags and
 * time stamp), so that one sent twice is there once. Fields have the names and units of the record tables (records/tables.ts); times are
 * absolute: the run's start on the wall clock plus the time in the run.
 */

import { Point } from '@influxdata/influxdb-client';
import type { Plan } from '../plan/plan.js';
import { fieldOffsets, none, type RecordHeader } from '../records/record-file.js';
import { tables } from '../records/tables.js';
import type { MetricRow } from '../store/metric-rows.js';

export interface RunTags {
  /** Folder below the results folder, `set/run` inside a set. */
  readonly run: string;
  readonly scenario: string;
  readonly seed: string;
  readonly engine: string;
  readonly machine: string;
  /** Release of the kernel that ran it; `simulator` where none did. */
  readonly kernel: string;
  /** `vary_<name>` for each varied parameter. */
  readonly [varied: `vary_${string}`]: string;
}

/** Tag of a varied parameter: `topology.links.BL.queue` → `vary_topology_links_BL_queue`. */
export const variedTag = (name: string): `vary_${string}` => `vary_${name.replace(/[^A-Za-z0-9_]/g, '_')}`;

/** Measurement of each record table that is sent. */
export const measurements = { queue: 'testbed_queue', probes: 'testbed_probe', sockets: 'testbed_socket', summary: 'testbed_summary' } as const;
export type SentTable = Exclude<keyof typeof measurements, 'summary'>;

/** Time stamps, ns since 1970, are of 64 bits; InfluxDB keeps the outermost for itself. */
const mostNs = 2n ** 63n - 2n;

/** Columns that become tags or the time stamp. */
const notFields: ReadonlySet<string> = new Set(['t', 'bottleneck', 'flow', 'probe_id', 'seq']);

type Read = (view: DataView, row: number) => number;

/** @returns what makes a line of a row, at an offset into a view; null for a row without a time or values */
export function rowLines(header: RecordHeader, plan: Plan, tags: RunTags, startNs: bigint): (view: DataView, row: number) => string | null {
  const table = header.table as SentTable;
  const offsets = fieldOffsets(header);
  const whole = new Set(tables[table].columns.filter(({ type }) => type !== 'DOUBLE').map(({ name }) => name));
  const readers = new Map(header.fields.map(({ name, type }): [string, Read] => {
    const at = offsets[name]!;
    switch (type) {
      case 'f64': return [name, (view, row) => view.getFloat64(row + at, true)];
      case 'i32': return [name, (view, row) => { const value = view.getInt32(row + at, true); return value === none.i32 ? NaN : value; }];
      case 'u32': return [name, (view, row) => { const value = view.getUint32(row + at, true); return value === none.u32 ? NaN : value; }];
      case 'u8': return [name, (view, row) => { const value = view.getUint8(row + at); return value === none.u8 ? NaN : value; }];
    }
  }));
  const time = readers.get('t');
  if (time === undefined) throw new Error(`record file of ${table} without times`);
  const fields = header.fields.filter(({ name }) => !notFields.has(name)).map(({ name }) => ({ name, whole: whole.has(name), read: readers.get(name)! }));
  const own = ownTags(table, header, plan, readers);
  return (view, row) => {
    const t = time(view, row);
    if (!Number.isFinite(t)) return null;
    const timestamp = startNs + BigInt(Math.round(t));
    if (timestamp < -mostNs || timestamp > mostNs) return null;
    const point = tagged(new Point(measurements[table]), tags);
    own(point, view, row);
    let empty = true;
    for (const { name, whole: isWhole, read } of fields) {
      const value = read(view, row);
      // As in the tables: what no column of its type holds is not there.
      if (!Number.isFinite(value) || (isWhole && Math.abs(value) >= 2 ** 63)) continue;
      empty = false;
      if (isWhole) point.intField(name, Math.round(value));
      else point.floatField(name, value);
    }
    // As a number: InfluxQL takes no mean of booleans.
    if (table === 'probes') point.intField('lost', empty ? 1 : 0);
    else if (empty) return null;
    return point.timestamp(String(timestamp)).toLineProtocol() ?? null;
  };
}

function ownTags(table: SentTable, header: RecordHeader, plan: Plan, readers: ReadonlyMap<string, Read>): (point: Point, view: DataView, row: number) => void {
  switch (table) {
    case 'queue': {
      const bottleneck = String(header.constants['bottleneck'] ?? '');
      const direction = plan.links.flatMap(({ forward, reverse }) => [forward, reverse]).find(({ name }) => name === bottleneck);
      const kind = direction?.queue?.kind ?? '';
      return (point) => { point.tag('bottleneck', bottleneck).tag('queue', kind); };
    }
    case 'probes': {
      const id = readers.get('probe_id')!;
      // Several hosts' probes have one name: without the number two of one instant would be one point.
      return (point, view, row) => { point.tag('probe', plan.probes[id(view, row)]?.name ?? '').tag('probe_id', String(id(view, row))); };
    }
    case 'sockets': {
      const id = readers.get('flow')!;
      return (point, view, row) => {
        const flow = plan.flows[id(view, row)];
        point.tag('flow', String(id(view, row))).tag('class', flow?.class ?? '').tag('cc', flow?.cc ?? '');
      };
    }
  }
}

/** Of one bottleneck, flow class or probe, all figures in one point, at the end of the measurement window. */
export function summaryLines(rows: readonly MetricRow[], status: string, windowEndNs: number, tags: RunTags, startNs: bigint): string[] {
  const points = new Map<string, Point>();
  for (const row of rows) {
    if (row.value === null || !Number.isFinite(row.value)) continue;
    const key = JSON.stringify([row.part, row.name, row.class]);
    let point = points.get(key);
    if (point === undefined) {
      const kind = { bottlenecks: 'bottleneck', classes: 'class', probes: 'probe' }[row.part] ?? row.part;
      point = tagged(new Point(measurements.summary), tags).tag('status', status).tag(kind, row.name).timestamp(String(startNs + BigInt(Math.round(windowEndNs))));
      if (row.class !== null) point.tag('class', row.class);
      points.set(key, point);
    }
    point.floatField([row.figure.replaceAll('.', '_'), ...(row.statistic === null ? [] : [row.statistic])].join('_'), row.value);
  }
  return [...points.values()].map((point) => point.toLineProtocol()!);
}

function tagged(point: Point, tags: RunTags): Point {
  // A backslash at a tag's end would escape what follows it in the line.
  for (const [name, value] of Object.entries(tags)) point.tag(name, value.replaceAll('\\', '/'));
  return point;
}
