/** Packet records of a run, by bottleneck direction, as plain rows for the formats that tell packets one by one. */

import { UserError } from '../errors.js';
import type { Plan, PlanDirection, PlanLink } from '../plan/plan.js';
import type { ExportRequest } from './format.js';
import { ofBottleneck } from './table-stream.js';
import type { RecordReader } from './table-stream.js';

export interface PacketRow {
  readonly seq: number;
  /** As in packets.parquet: a flow's id, −1 − a probe's, or null. */
  readonly flow: number | null;
  readonly forward: boolean;
  /** IP bytes. */
  readonly size: number;
  /** ns */
  readonly tEnqueue: number;
  /** ns; null: dropped, or still waiting when the record ended. */
  readonly tDequeue: number | null;
  readonly dropped: boolean;
  readonly marked: boolean;
  readonly ecn: number;
  /** What the queue gave as reason, where the record has it; else null. */
  readonly reason: string | null;
}

export interface Direction { readonly link: PlanLink; readonly direction: PlanDirection; readonly reverse: boolean }

/** Directions of bottlenecks that packets were recorded at, in the plan's order. @throws UserError when the run has no packets */
export async function recordedDirections(request: ExportRequest, records: RecordReader): Promise<readonly Direction[]> {
  const columns = await records.columns('packets');
  const [counted] = columns === null ? [{ n: 0 }] : await records.query<{ n: number }>(`SELECT count(*) AS n FROM ${records.source('packets')}`);
  if (columns === null || counted!.n === 0) throw new UserError(`${request.runId} has no packet records: it was run without them (--no-packets), or ended before any came`);
  const names = new Set((await records.query<{ bottleneck: string }>(`SELECT DISTINCT bottleneck FROM ${records.source('packets')}`)).map(({ bottleneck }) => bottleneck));
  return directionsOf(request.plan).filter(({ direction }) => names.has(direction.name) && (request.bottleneck === null || direction.name === request.bottleneck));
}

const directionsOf = (plan: Plan): Direction[] => plan.links.filter((link) => link.role === 'bottleneck')
  .flatMap((link) => [{ link, direction: link.forward, reverse: false }, { link, direction: link.reverse, reverse: true }]);

/** Rows of one direction, in order of arrival. @param condition further SQL condition */
export async function* packetRows(records: RecordReader, bottleneck: string, condition?: string): AsyncGenerator<readonly PacketRow[]> {
  const reasoned = (await records.columns('packets'))!.some(({ name }) => name === 'drop_reason');
  const expressions = ['CAST(seq AS DOUBLE)', 'CAST(flow AS DOUBLE)', 'forward', 'CAST(size AS DOUBLE)', 'CAST(t_enqueue AS DOUBLE)', 'CAST(t_dequeue AS DOUBLE)', 'dropped', 'marked', 'CAST(ecn AS DOUBLE)', reasoned ? 'drop_reason' : 'NULL'];
  for await (const piece of records.rows('packets', expressions, ofBottleneck(bottleneck) + (condition === undefined ? '' : ` AND (${condition})`))) {
    yield piece.map((row): PacketRow => ({
      seq: row[0] as number, flow: row[1] as number | null, forward: row[2] === true, size: row[3] as number, tEnqueue: row[4] as number, tDequeue: row[5] as number | null,
      dropped: row[6] === true, marked: row[7] === true, ecn: (row[8] as number | null) ?? 0, reason: row[9] as string | null,
    }));
  }
}

/** Why a packet was dropped, as far as the record tells. */
export const dropReason = (row: PacketRow, direction: PlanDirection): string => `dropped by ${direction.queue?.kind ?? 'the device'}${row.reason === null ? '' : ` (${row.reason})`}`;
