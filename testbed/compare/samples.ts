/**
 * The samples of a run whose distributions are compared, sorted, straight from its Parquet: queueing delay of each packet
 * (per bottleneck, and per flow class where there are several), flow completion times by class, probe round trips. The
 * same packets, flows and probes that metrics.json counts: what arrived, started or was sent in the measurement window.
 */

import type { Plan } from '../plan/plan.js';
import { openTables } from '../analysis/metrics.js';
import { UserError } from '../errors.js';
import { openDatabase } from '../records/database.js';
import type { Database } from '../records/database.js';

export type SampleKind = 'queueing delay' | 'flow completion time' | 'probe round trip';
export interface SampleName {
  readonly what: SampleKind;
  /** Bottleneck direction, flow class or probe. */
  readonly where: string;
  /** Queueing delay of one flow class's data packets; null = of all packets. */
  readonly class: string | null;
  readonly unit: 'ms' | 's';
}
export interface Sample extends SampleName {
  /** Ascending, in `unit`. */
  readonly values: Float64Array;
}

export const sampleKey = ({ what, where, class: ofClass }: SampleName): string => JSON.stringify([what, where, ofClass]);

/** @param windowS of metrics.json @returns only those with at least one value @throws UserError when a record table cannot be read */
export async function readSamples(runDir: string, plan: Plan, windowS: readonly [number, number]): Promise<Sample[]> {
  const database = await openDatabase();
  try {
    await openTables(database, runDir);
    const [open, close] = windowS.map((s) => Math.round(s * 1e9)) as [number, number];
    const within = (column: string): string => `${column} >= ${open} AND ${column} < ${close}`;
    return [
      ...await queueingDelays(database, plan, within('t_enqueue')),
      ...await named(database, 'flow completion time', 's', 1e9, `SELECT class AS name, fct AS value FROM flows WHERE fct IS NOT NULL AND ${within('t_start')}`),
      ...await named(database, 'probe round trip', 'ms', 1e6, `SELECT probe AS name, rtt AS value FROM probes WHERE rtt IS NOT NULL AND ${within('t')}`),
    ];
  } catch (error) {
    throw unreadable(runDir, error);
  } finally {
    database.close();
  }
}

/** A Parquet file that is none, or lacks a column. */
export function unreadable(runDir: string, error: unknown): Error {
  return error instanceof UserError ? error : new UserError(`${runDir}: its records cannot be read (${error instanceof Error ? error.message.split('\n')[0] : String(error)}); --figures-only compares metrics.json alone`);
}

async function queueingDelays(database: Database, plan: Plan, within: string): Promise<Sample[]> {
  const classes = [...new Set(plan.flows.map((flow) => flow.class))];
  const classOf = new Map(plan.flows.map((flow) => [flow.id, classes.indexOf(flow.class)]));
  const where = `WHERE NOT dropped AND t_dequeue IS NOT NULL AND ${within}`;
  const counts = await database.rows<{ bottleneck: string; n: number }>(`SELECT bottleneck, count(*) AS n FROM packets ${where} GROUP BY bottleneck ORDER BY bottleneck`);
  const samples: Sample[] = [];
  for (const { bottleneck, n } of counts) {
    const all = new Float64Array(n);
    const code = new Int32Array(n);
    let at = 0;
    const result = await database.connection.stream(
      `SELECT CAST(t_dequeue - t_enqueue AS DOUBLE) AS delay, CASE WHEN "forward" AND flow >= 0 THEN flow ELSE -1 END AS flow FROM packets ${where} AND bottleneck = $bottleneck ORDER BY delay`, { bottleneck });
    for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
      const [delays, flows] = [chunk.getColumnValues(0), chunk.getColumnValues(1)];
      for (let i = 0; i < delays.length; i++, at++) {
        all[at] = (delays[i] as number) / 1e6;
        code[at] = classOf.get(flows[i] as number) ?? -1;
      }
    }
    samples.push({ what: 'queueing delay', where: bottleneck, class: null, unit: 'ms', values: all });
    if (classes.length < 2) continue;
    for (const [index, name] of classes.entries()) {
      const values = all.filter((_, i) => code[i] === index);
      if (values.length > 0) samples.push({ what: 'queueing delay', where: bottleneck, class: name, unit: 'ms', values });
    }
  }
  return samples;
}

async function named(database: Database, what: SampleKind, unit: 'ms' | 's', divisor: number, sql: string): Promise<Sample[]> {
  const rows = await database.rows<{ name: string; values: number[] }>(`SELECT name, list(CAST(value AS DOUBLE) ORDER BY value) AS "values" FROM (${sql}) GROUP BY name ORDER BY name`);
  return rows.map(({ name, values }) => ({ what, where: name, class: null, unit, values: Float64Array.from(values, (value) => value / divisor) }));
}
