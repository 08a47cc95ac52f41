/** The views a query can read, with every column's meaning: docs/query.md is written from them (and tested against them). */

import { tables } from '../records/tables.js';
import type { RunRow } from './run-row.js';

export interface ViewColumn { readonly name: string; readonly type: string; readonly meaning: string }

const c = (name: string, type: string, meaning: string): ViewColumn => ({ name, type, meaning });

/** Columns that every view has; those of varied parameters follow them. */
export const sharedColumns: readonly ViewColumn[] = [
  c('run_id', 'VARCHAR', 'the folder below the results folder'),
  c('scenario', 'VARCHAR', "the scenario's name"),
  c('engine', 'VARCHAR', 'kernel or sim'),
  c('kernel', 'VARCHAR', "the kernel's release; null for the simulator"),
  c('seed', 'BIGINT', 'seed'),
  c('run_status', 'VARCHAR', 'complete, invalid, incomplete, failed, running or unreadable'),
];

/** Further columns of `runs`. */
export const runsColumns: readonly ViewColumn[] = [
  c('set_id', 'VARCHAR', "the set's folder; null for a run of its own"),
  c('machine', 'VARCHAR', 'local, uml:6.12, …; sim for the simulator'),
  c('clock', 'VARCHAR', 'virtual or real'),
  c('hosts', 'VARCHAR', 'how hosts were isolated; null for the simulator'),
  c('status', 'VARCHAR', 'the same as run_status'),
  c('started', 'TIMESTAMP', 'wall time, UTC'),
  c('ended', 'TIMESTAMP', 'wall time, UTC; null if it did not end'),
  c('wall_s', 'DOUBLE', 'ended − started, s'),
  c('tags', 'VARCHAR[]', 'given with testbed tag'),
  c('findings', 'VARCHAR[]', 'rules that were broken or warned of'),
  c('error', 'VARCHAR', 'why it failed, stopped or cannot be read'),
  c('varied', 'MAP(VARCHAR, VARCHAR)', 'every varied parameter with its value'),
  c('plan_hash', 'VARCHAR', 'two runs of one hash did the same thing'),
  c('git_commit', 'VARCHAR', 'of testbed'),
  c('schema', 'INTEGER', 'version of the run folder'),
];

export const metricsColumns: readonly ViewColumn[] = [
  c('metric', 'VARCHAR', 'path in metrics.json: bottlenecks.BL1.queueDelayMs.p50'),
  c('part', 'VARCHAR', 'bottlenecks, classes or probes'),
  c('name', 'VARCHAR', 'of the bottleneck direction, flow class or probe'),
  c('class', 'VARCHAR', "flow class, for a bottleneck's figures by class; else null"),
  c('figure', 'VARCHAR', 'queueDelayMs, goodputBps, …'),
  c('statistic', 'VARCHAR', 'mean, sd, p5, p25, p50, p75, p95, p99 or max of a distribution; null for a single figure'),
  c('value', 'DOUBLE', 'null where it is not defined'),
  c('unit', 'VARCHAR', 'bits/s, ms, s, bytes or packets; null for ratios and counts'),
  c('n', 'BIGINT', 'samples it stands on'),
  c('how', 'VARCHAR', 'how it was measured'),
];

export const recordViews = ['flows', 'queue', 'packets', 'probes', 'sockets'] as const;
export type RecordView = (typeof recordViews)[number];
export const viewNames = ['runs', 'metrics', ...recordViews] as const;
export type ViewName = (typeof viewNames)[number];

/** What a view has beside the shared columns and those of varied parameters. */
export function ownColumns(view: ViewName): readonly ViewColumn[] {
  if (view === 'runs') return runsColumns;
  if (view === 'metrics') return metricsColumns;
  return tables[view].columns;
}

const reserved = new Set([...sharedColumns, ...viewNames.flatMap((view) => ownColumns(view))].map(({ name }) => name.toLowerCase()));

/** Column of each varied parameter: its own name, or `varied_<name>` where a view has a column of that name. */
export function variedColumns(rows: Iterable<RunRow>): ReadonlyMap<string, string> {
  const names = new Set<string>();
  for (const row of rows) for (const name of Object.keys(row.varied)) names.add(name);
  const taken = new Set(reserved);
  return new Map([...names].sort().map((name) => {
    let column = taken.has(name.toLowerCase()) ? `varied_${name}` : name;
    for (let i = 2; taken.has(column.toLowerCase()); i++) column = `varied_${name}_${i}`;
    taken.add(column.toLowerCase());
    return [name, column];
  }));
}
