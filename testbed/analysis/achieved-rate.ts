/**
 * The rate a bottleneck really let packets through at, from the records: not what its shaper was set to. While a packet waits,
 * a shaper that holds one packet sends one after the other, and the time between two departures is what the first (HTB, the simulator)
 * or the second (TBF) takes at the rate. Only departures between which the next packet was already waiting count, after the first two
 * packets' worth of a busy period, which the shaper may have saved up.
 *
 * Eight stretches of the run are looked at, so that a long run costs no more than a short one.
 */

import type { Plan, PlanDirection } from '../plan/plan.js';
import { sqlText } from '../records/database.js';
import type { Database } from '../records/database.js';
import type { Finding } from '../records/raw.js';
import { formatRate } from '../units.js';
import { capacityBits, rateSteps } from './capacity.js';

/** Achieved / set, less 1, that is borne. In virtual time the kernel's shapers were found exact to 6 ppm (33 bottlenecks of topologies/); in real time a late timer loses what the one packet of burst cannot save. */
const tolerance = { virtual: { fast: 0.005, slow: 0.005 }, real: { fast: 0.05, slow: 0.1 } } as const;
const stretches = 8;
const stretchPackets = 600;
/** Fewer say nothing. */
const fewestPackets = 100;

export interface AchievedRate { readonly fromNs: number; readonly toNs: number; readonly wantedBps: number; readonly achievedBps: number; readonly packets: number }

export interface Departure { readonly enqueued: number; readonly dequeued: number; readonly size: number }

/**
 * @param departures in order of departure, times in ns, sizes in IP bytes
 * @returns bits/s while packets waited, or null with too few of them
 */
export function busyRate(departures: readonly Departure[], direction: Pick<PlanDirection, 'overheadBytes' | 'shaper' | 'bucket' | 'rateBps'>, mtuBytes: number): { readonly bps: number; readonly packets: number } | null {
  const saved = 2 * (mtuBytes + direction.overheadBytes) + savedBytes(direction);
  let [busyBytes, bytes, ns, packets] = [0, 0, 0, 0];
  for (let k = 1; k < departures.length; k++) {
    const [before, now] = [departures[k - 1]!, departures[k]!];
    if (now.enqueued > before.dequeued) {
      busyBytes = 0;
      continue;
    }
    const counted = (direction.shaper === 'tbf' ? now : before).size + direction.overheadBytes;
    if (busyBytes > saved) {
      bytes += counted;
      ns += now.dequeued - before.dequeued;
      packets++;
    }
    busyBytes += counted;
  }
  return packets < fewestPackets || ns <= 0 ? null : { bps: (bytes * 8e9) / ns, packets };
}

/** Bytes that leave before a bucket that was deeper than a packet is empty: at the peak rate it fills while it empties. */
function savedBytes({ bucket, rateBps }: Pick<PlanDirection, 'bucket' | 'rateBps'>): number {
  if (bucket === undefined) return 0;
  return bucket.burstBytes / (1 - (bucket.peakRateBps === null ? 0 : (rateBps ?? 0) / bucket.peakRateBps));
}

/** What holds packets back on purpose may be slower than its shaper. */
const mayHoldBack = ({ queue }: PlanDirection): boolean =>
  queue !== null && (queue.kind === 'raw' || ['bandwidth', 'maxrate', 'rate', 'ceil'].some((name) => queue.params[name] !== undefined));

/** @returns the stretches in which the rate was not the one asked for, worst first; from packet records, or without them from the queue's counters */
export async function wrongRates(database: Database, plan: Plan, direction: PlanDirection, endNs: number, clock: 'virtual' | 'real', perPacket: boolean): Promise<AchievedRate[]> {
  const steps = rateSteps(direction, plan.events);
  const mtuBytes = plan.links.find((link) => link.forward === direction || link.reverse === direction)?.mtuBytes ?? 1500;
  const borne = tolerance[clock];
  const wrong: AchievedRate[] = [];
  const judge = (found: AchievedRate, mayBeSlow: boolean): void => {
    const off = found.achievedBps / found.wantedBps - 1;
    if (off > borne.fast || (off < -borne.slow && !mayBeSlow)) wrong.push(found);
  };
  for (const [index, { fromNs, rateBps }] of steps.entries()) {
    const toNs = Math.min(endNs, steps[index + 1]?.fromNs ?? Infinity);
    if (toNs <= fromNs) continue;
    if (!perPacket) {
      const counted = await busyCounters(database, direction, fromNs, toNs, rateBps, mtuBytes);
      for (const found of counted) judge(found, mayHoldBack(direction));
      continue;
    }
    const lengthNs = Math.min(toNs - fromNs, (stretchPackets * (mtuBytes + direction.overheadBytes) * 8e9) / rateBps);
    const count = Math.min(stretches, Math.ceil((toNs - fromNs) / lengthNs)); // a short run is covered whole, stretches overlapping
    for (let i = 0; i < count; i++) {
      const start = Math.round(count === 1 ? fromNs : fromNs + ((toNs - fromNs - lengthNs) * i) / (count - 1));
      const end = Math.round(Math.min(toNs, start + lengthNs));
      const departures = await database.rows<Departure>(`SELECT t_enqueue AS enqueued, t_dequeue AS dequeued, size FROM packets
        WHERE bottleneck = ${sqlText(direction.name)} AND t_dequeue >= ${start} AND t_dequeue < ${end} ORDER BY t_dequeue, seq`);
      const busy = busyRate(departures, direction, mtuBytes);
      if (busy !== null) judge({ fromNs: start, toNs: end, wantedBps: rateBps, achievedBps: busy.bps, packets: busy.packets }, mayHoldBack(direction));
    }
  }
  const off = ({ achievedBps, wantedBps }: AchievedRate): number => Math.abs(achievedBps / wantedBps - 1);
  return wrong.sort((a, b) => off(b) - off(a));
}

/**
 * Without packet records: what left between samples when the first found more waiting than could leave until the second, and nothing was
 * dropped meanwhile; and what left in all, which can be no more than the rate allows.
 */
async function busyCounters(database: Database, direction: PlanDirection, fromNs: number, toNs: number, rateBps: number, mtuBytes: number): Promise<AchievedRate[]> {
  const samples = await database.rowsOf<{ t: number; backlog_bytes: number; sent_bytes: number; sent_packets: number; drops: number }>('queue', `
    SELECT t, backlog_bytes, sent_bytes, sent_packets, drops FROM queue WHERE bottleneck = ${sqlText(direction.name)} AND t >= ${fromNs} AND t <= ${toNs} ORDER BY t`);
  const slack = 2 * (mtuBytes + direction.overheadBytes) + (direction.bucket?.burstBytes ?? 0);
  let [bytes, ns, packets] = [0, 0, 0];
  for (let i = 1; i < samples.length; i++) {
    const [before, now] = [samples[i - 1]!, samples[i]!];
    const span = now.t - before.t;
    if (now.drops !== before.drops || before.backlog_bytes * 8e9 < rateBps * span + slack * 8e9) continue;
    bytes += now.sent_bytes - before.sent_bytes;
    ns += span;
    packets += now.sent_packets - before.sent_packets;
  }
  const found: AchievedRate[] = packets < fewestPackets || ns <= 0 ? [] : [{ fromNs, toNs, wantedBps: rateBps, achievedBps: (bytes * 8e9) / ns, packets }];
  const [first, last] = [samples[0], samples.at(-1)];
  if (first !== undefined && last !== undefined && last.t > first.t) {
    const [sent, most] = [(last.sent_bytes - first.sent_bytes - slack) * 8, capacityBits([{ fromNs: 0, rateBps }], first.t, last.t)!];
    const all = last.sent_packets - first.sent_packets;
    if (sent > most && all >= fewestPackets) found.push({ fromNs: first.t, toNs: last.t, wantedBps: rateBps, achievedBps: (sent * 1e9) / (last.t - first.t), packets: all });
  }
  return found;
}

/** To 3 digits: what is measured is no whole number of bits/s. */
const rateText = (bps: number): string => formatRate(Number(bps.toPrecision(3)));

export function rateFinding(direction: string, wrong: readonly AchievedRate[]): Finding {
  const [worst] = wrong as [AchievedRate, ...AchievedRate[]];
  const seconds = (ns: number): string => String(Number((ns / 1e9).toFixed(3)));
  return {
    type: 'finding', level: 'invalid', rule: 'rate-not-achieved',
    message: `link ${direction}: ${worst.packets} packets that others waited behind left it at ${rateText(worst.achievedBps)} instead of ${rateText(worst.wantedBps)} (${seconds(worst.fromNs)} s to ${seconds(worst.toNs)} s of the run). `
      + 'Something changed or passed by its shaper, or the machine was too loaded to keep its times: use virtual time.',
  };
}
