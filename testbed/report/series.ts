/**
 * What the plots of one run show, downsampled by DuckDB: whatever the number of packets, a plot has a few hundred
 * points a curve, so a page of five million packets is as light as one of a thousand.
 */

import type { Plan } from '../plan/plan.js';
import { bottleneckDirections, measurementWindow, openTables } from '../analysis/metrics.js';
import type { Window } from '../analysis/metrics.js';
import { rateAtSql, rateSteps } from '../analysis/capacity.js';
import { openDatabase, sqlText } from '../records/database.js';

export interface DelayBin { readonly bottleneck: string; readonly t: number; readonly p5: number; readonly p50: number; readonly p95: number; readonly max: number }
export interface Cdf { readonly bottleneck: string; /** ms at `cdfLevels`. */ readonly ms: readonly number[]; readonly n: number }
export interface BacklogBin { readonly bottleneck: string; readonly t: number; readonly mean: number; readonly low: number; readonly high: number; readonly drops: number | null }
export interface FlowBin { readonly flow: number; readonly t: number; readonly value: number }
export interface ProbeBin { readonly probe: string; readonly t: number; readonly p50: number; readonly p95: number; readonly lost: number }

/** Times are s, bins are named by their start. */
export interface RunSeries {
  readonly window: Window;
  readonly endS: number;
  /** Delay curves are of every `stride`-th packet. */
  readonly stride: number;
  readonly delayBinS: number;
  readonly delays: readonly DelayBin[];
  readonly delaySource: 'packets' | 'backlog';
  readonly cdfs: readonly Cdf[];
  readonly backlogs: readonly BacklogBin[];
  readonly dropBins: readonly { readonly bottleneck: string; readonly t: number; readonly drops: number }[];
  readonly dropBinS: number;
  /** bits/s of each long flow at the last bottleneck on its way, or as acknowledged. */
  readonly throughputs: readonly FlowBin[];
  readonly throughputBinS: number;
  readonly throughputSource: 'packets' | 'sockets';
  readonly cwnds: readonly FlowBin[];
  readonly probes: readonly ProbeBin[];
}

/** The shortest interval a reader has a word for (1, 2 or 5 × a power of ten ms or s, or half and whole minutes) of at least `ns`. */
export function niceBin(ns: number): number {
  const ladder = [...[-3, -2, -1, 0].flatMap((power) => [1, 2, 5].map((factor) => factor * 10 ** power)), 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
  return Math.round((ladder.find((seconds) => seconds * 1e9 >= ns) ?? Math.ceil(ns / 3.6e12) * 3600) * 1e9);
}

/** Denser in the tail, where queues differ. */
export const cdfLevels: readonly number[] = [...Array.from({ length: 96 }, (_, i) => i / 100), 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.999, 1];
const mostFlows = 40;
/** Enough packets of a direction for a curve. */
export const sampledPackets = 400_000;

export async function readSeries(runDir: string, plan: Plan, complete: boolean): Promise<RunSeries> {
  const database = await openDatabase();
  try {
    await openTables(database, runDir);
    const window = await measurementWindow(database, runDir, plan, complete);
    const endNs = Math.max(1, window.close);
    const binNs = (bins: number): number => Math.max(1, Math.ceil(endNs / bins));
    const bin = (column: string, ns: number): string => `CAST(floor(${column} / ${ns}.0) AS INTEGER)`;
    const delayBin = binNs(180);
    const wide = niceBin(endNs / 90);
    const fine = binNs(240);

    const [packets] = await database.rowsOf<{ most: number | null }>('packets', 'SELECT max(seq) + 1 AS most FROM packets');
    const perPacket = (packets?.most ?? 0) > 0;
    // Enough for a curve: every n-th packet of a direction. The figures in metrics.json are of all of them.
    const stride = Math.max(1, Math.ceil((packets?.most ?? 0) / sampledPackets));
    const steps = bottleneckDirections(plan).flatMap((direction) => {
      const rates = rateSteps(direction, plan.events);
      return rates.length === 0 ? [] : [`WHEN ${sqlText(direction.name)} THEN ${rateAtSql(rates, 't')}`];
    });
    const delayView = perPacket ? 'packets' : 'queue';
    const delaySource = perPacket
      ? `SELECT bottleneck, t_enqueue AS t, (t_dequeue - t_enqueue) / 1e6 AS delay FROM packets WHERE t_dequeue IS NOT NULL AND t_enqueue < ${endNs}${stride > 1 ? ` AND seq % ${stride} = 0` : ''}`
      : steps.length === 0 ? "SELECT '' AS bottleneck, 0 AS t, 0.0 AS delay WHERE false"
        : `SELECT bottleneck, t, backlog_bytes * 8e3 / (CASE bottleneck ${steps.join(' ')} END) AS delay FROM queue WHERE t < ${endNs}`;
    const delays = await database.rowsOf<{ bottleneck: string; bin: number; q: number[]; max: number }>(delayView, `
      SELECT bottleneck, ${bin('t', delayBin)} AS bin, quantile_cont(delay, [0.05, 0.5, 0.95]) AS q, max(delay) AS max FROM (${delaySource}) WHERE delay IS NOT NULL GROUP BY ALL ORDER BY ALL`);
    const cdfs = await database.rowsOf<{ bottleneck: string; ms: number[]; n: number }>(delayView, `
      SELECT bottleneck, quantile_cont(delay, [${cdfLevels.join(', ')}]) AS ms, count(*) AS n FROM (${delaySource}) WHERE delay IS NOT NULL AND t >= ${window.open} GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL`);

    const backlogs = await database.rowsOf<{ bottleneck: string; bin: number; mean: number; low: number; high: number; drops: number }>('queue', `
      SELECT bottleneck, ${bin('t', delayBin)} AS bin, avg(backlog_packets) AS mean, min(backlog_packets) AS low, max(backlog_packets) AS high, max(drops) AS drops
      FROM queue WHERE t < ${endNs} GROUP BY ALL ORDER BY ALL`);
    const dropBins = perPacket
      ? await database.rows<{ bottleneck: string; bin: number; drops: number }>(`
        SELECT bottleneck, ${bin('t_enqueue', wide)} AS bin, count(*) AS drops FROM packets WHERE dropped AND t_enqueue < ${endNs} GROUP BY ALL ORDER BY ALL`)
      : await database.rowsOf<{ bottleneck: string; bin: number; drops: number }>('queue', `
        SELECT bottleneck, bin, drops - lag(drops, 1, 0) OVER (PARTITION BY bottleneck ORDER BY bin) AS drops
        FROM (SELECT bottleneck, ${bin('t', wide)} AS bin, max(drops) AS drops FROM queue WHERE t < ${endNs} GROUP BY ALL) ORDER BY bottleneck, bin`);

    const long = plan.flows.filter((flow) => flow.kind !== 'short').slice(0, mostFlows).map((flow) => flow.id);
    const inLong = long.length === 0 ? 'false' : `flow IN (${long.join(', ')})`;
    let throughputs = perPacket ? await database.rows<{ flow: number; bin: number; value: number }>(`
      WITH bins AS (SELECT flow, bottleneck, ${bin('t_dequeue', wide)} AS bin, sum(size) AS bytes FROM packets WHERE "forward" AND ${inLong} AND t_dequeue < ${endNs} GROUP BY ALL),
        last AS (SELECT flow, arg_min(bottleneck, total) AS bottleneck FROM (SELECT flow, bottleneck, sum(bytes) AS total FROM bins GROUP BY ALL ORDER BY bottleneck) GROUP BY flow)
      SELECT flow, bin, CAST(bytes AS DOUBLE) * 8e9 / ${wide} AS value FROM bins JOIN last USING (flow, bottleneck) ORDER BY flow, bin`) : [];
    const throughputSource = throughputs.length > 0 ? 'packets' : 'sockets';
    if (throughputs.length === 0) {
      throughputs = await database.rowsOf('sockets', `
        SELECT flow, bin, greatest(0, bytes - lag(bytes, 1, 0) OVER (PARTITION BY flow ORDER BY bin)) * 8e9 / ${wide} AS value
        FROM (SELECT flow, ${bin('t', wide)} AS bin, max(bytes_acked) AS bytes FROM sockets WHERE ${inLong} AND t < ${endNs} GROUP BY ALL) ORDER BY flow, bin`);
    }
    const cwnds = await database.rowsOf<{ flow: number; bin: number; value: number }>('sockets', `
      SELECT flow, ${bin('t', fine)} AS bin, arg_max(cwnd, t) AS value FROM sockets WHERE ${inLong} AND cwnd IS NOT NULL AND t < ${endNs} GROUP BY ALL ORDER BY flow, bin`);
    const probes = await database.rowsOf<{ probe: string; bin: number; q: number[] | null; lost: number }>('probes', `
      SELECT probe, ${bin('t', delayBin)} AS bin, quantile_cont(rtt / 1e6, [0.5, 0.95]) AS q, count(*) FILTER (lost) AS lost FROM probes WHERE probe IS NOT NULL AND t < ${endNs} GROUP BY ALL ORDER BY probe, bin`);

    const seconds = (index: number, ns: number): number => (index * ns) / 1e9;
    return {
      window, stride, endS: endNs / 1e9, delayBinS: delayBin / 1e9, delaySource: perPacket ? 'packets' : 'backlog', cdfs,
      delays: delays.map(({ bottleneck, bin: index, q, max }) => ({ bottleneck, t: seconds(index, delayBin), p5: q[0]!, p50: q[1]!, p95: q[2]!, max })),
      backlogs: backlogs.map(({ bin: index, ...row }) => ({ ...row, t: seconds(index, delayBin) })),
      dropBins: dropBins.map(({ bottleneck, bin: index, drops }) => ({ bottleneck, t: seconds(index, wide), drops })),
      dropBinS: wide / 1e9, throughputBinS: wide / 1e9, throughputSource,
      throughputs: throughputs.map(({ flow, bin: index, value }) => ({ flow, t: seconds(index, wide), value })),
      cwnds: cwnds.map(({ flow, bin: index, value }) => ({ flow, t: seconds(index, fine), value })),
      probes: probes.flatMap(({ probe, bin: index, q, lost }) => (q === null ? [] : [{ probe, t: seconds(index, delayBin), p50: q[0]!, p95: q[1]!, lost }])),
    };
  } finally {
    database.close();
  }
}
