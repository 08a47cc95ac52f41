/**
 * Which flows share SFB's bins: it hashes flows with a secret of its own, so in each of its 8 levels some of them are in one of 16 bins. What a bin that some flows
 * share would hold, and BLUE's probability there, follow from the record alone. The kernel's samples show the longest bin, the largest probability
 * and the mean of all: a set of flows that would have made more than the largest shares no bin, one without which none would be as long as the longest does, and in how many levels each of the others does is what
 * comes closest to the mean at all samples, in whole numbers. Which levels those are makes no difference.
 */

import { sizes } from '../qdiscs/sfb.js';
import { PendingByKey } from '../records/match.js';
import type { EventSource } from './events.js';
import { SENT, type KernelFates } from './fates.js';
import type { Params } from './kinds.js';
import type { QueueSamples } from './samples.js';

const LEVELS = 8, BINS = 16, MAX_PROB = 0xffff;
/** Flows told apart, sets of them that are looked at, samples. */
const mostFlows = 15, mostSets = 400, mostSamples = 3000;
/** Part of the samples at which a set may exceed the largest: their values may be of different moments. */
const fewSamples = 0.01;
/** Of a probability, two increments of the default: the same. */
const fewUnits = 66;

/** Errors of a sample count for no more than this in the end; and by how much a sample may be off on average, as the mean is rounded down (1/3). */
const lastMost = 4, goodFit = 0.5;

/** Flows by number that may share a bin, and what it would hold at the samples. */
interface Shared { readonly flows: readonly number[]; readonly qlen: Float64Array; readonly prob: Float64Array }

/** For each flow, by `flow * 2 + forward`, the bin it is in at each level, 1 … 15; null: not found, or too many flows. */
export async function findBins(source: EventSource, samples: QueueSamples, fates: KernelFates, params: Params, untilNs: number): Promise<ReadonlyMap<number, readonly number[]> | null> {
  const column = (name: string): number => samples.columns.indexOf(name);
  const [longestAt, largestAt, meanAt] = [column('maxqlen'), column('maxprob'), column('avgprob')];
  const within = samples.rows.filter((row) => row[0]! > 0 && row[0]! < untilNs);
  const rows = within.filter((_, i) => i % Math.ceil(within.length / mostSamples) === 0);
  const numbers = await numbersOf(source, untilNs);
  const count = numbers.size;
  if (count > mostFlows || rows.length < 100) return null;

  const kept: Shared[] = [];
  for (let size = 1, candidates = Array.from({ length: count }, (_, flow) => [flow]); candidates.length > 0 && size <= count; size++) {
    if (kept.length + candidates.length > mostSets) return null;
    const found = await trace(source, fates, numbers, candidates, params, rows, untilNs);
    const exceeds = (values: Float64Array, column: number, scale: number, slack: number): boolean => size > 1 && rows.filter((row, i) => values[i]! > Math.round(row[column]! * scale) + slack).length > fewSamples * rows.length;
    const fitting = found.filter(({ qlen }) => !exceeds(qlen, longestAt, 1, 0));
    kept.push(...fitting.filter(({ prob }) => !exceeds(prob, largestAt, MAX_PROB, fewUnits)));
    const known = new Set(fitting.map(({ flows }) => flows.join()));
    // All of its parts must fit as to length; the probability of a part may be larger, as its bin is less often empty.
    candidates = fitting.flatMap(({ flows }) => Array.from({ length: count }, (_, flow) => flow).filter((flow) => flow > flows.at(-1)!).map((flow) => [...flows, flow]))
      .filter((flows) => flows.every((_, without) => known.has(flows.filter((__, i) => i !== without).join())));
  }
  const levels = solve(kept, count, rows.map((row) => ({ longest: row[longestAt]!, largest: Math.round(row[largestAt]! * MAX_PROB), sum: (Math.round(row[meanAt]! * MAX_PROB) + 0.5) * LEVELS * BINS })));
  const placed = place(kept, levels, count);
  return placed === null ? null : new Map([...numbers].map(([identity, flow]) => [identity, placed[flow]!]));
}

async function numbersOf(source: EventSource, untilNs: number): Promise<Map<number, number>> {
  const numbers = new Map<number, number>();
  for await (const { count, t, leaving, flow, forward } of source.chunks()) {
    for (let i = 0; i < count; i++) {
      if (t[i]! > untilNs) return numbers;
      const identity = flow[i]! * 2 + forward[i]!;
      if (leaving[i] === 0 && !numbers.has(identity)) numbers.set(identity, numbers.size);
    }
  }
  return numbers;
}

/** What bins of these flows hold at each sample. */
async function trace(source: EventSource, { fates }: KernelFates, numbers: ReadonlyMap<number, number>, sets: readonly (readonly number[])[], params: Params, rows: readonly Float64Array[], untilNs: number): Promise<readonly Shared[]> {
  const units = (key: string, fallback: number): number => (params[key] === undefined ? fallback : Math.floor(Number(params[key]) * MAX_PROB + 0.5));
  const { target } = sizes(params), up = units('increment', 33), down = units('decrement', 3), limit = Number(params['limit'] ?? 1000);
  const qlen = new Float64Array(sets.length), prob = new Float64Array(sets.length);
  const traced = sets.map((flows) => ({ flows, qlen: new Float64Array(rows.length), prob: new Float64Array(rows.length) }));
  const setsOf = Array.from(numbers.values(), (flow) => sets.flatMap((flows, set) => (flows.includes(flow) ? [set] : [])));
  const pending = new PendingByKey();
  let next = 0, seq = 0, waiting = 0;
  for await (const { count, t, leaving, keyLo, keyHi, flow, forward } of source.chunks()) {
    for (let i = 0; i < count; i++) {
      if (t[i]! > untilNs) break;
      for (; next < rows.length && rows[next]![0]! <= t[i]!; next++) {
        for (let set = 0; set < sets.length; set++) [traced[set]!.qlen[next], traced[set]!.prob[next]] = [qlen[set]!, prob[set]!];
      }
      const own = setsOf[numbers.get(flow[i]! * 2 + forward[i]!) ?? -1] ?? [];
      if (leaving[i] === 1) {
        let sent = pending.shift(keyLo[i]!, keyHi[i]!);
        while (sent >= 0 && (fates.get(sent) & SENT) === 0) sent = pending.shift(keyLo[i]!, keyHi[i]!);
        if (sent < 0) continue;
        waiting--;
        for (const set of own) qlen[set]!--;
        continue;
      }
      const arrival = seq++;
      pending.push(keyLo[i]!, keyHi[i]!, arrival);
      if (waiting >= limit) continue; // the queue is full: the bins are not looked at
      for (const set of own) {
        if (qlen[set] === 0) prob[set] = Math.max(0, prob[set]! - down);
        else if (qlen[set]! >= target) prob[set] = Math.min(MAX_PROB, prob[set]! + up);
      }
      if ((fates.get(arrival) & SENT) === 0) continue;
      waiting++;
      for (const set of own) qlen[set]!++;
    }
  }
  return traced;
}

interface Shown { readonly longest: number; readonly largest: number; /** Of the probabilities of all bins. */ readonly sum: number }

/** In how many levels each set has a bin: steps of a level of one set or of two, as long as one brings it closer to what the samples show. */
function solve(sets: readonly Shared[], flows: number, shown: readonly Shown[]): readonly number[] {
  const levels: number[] = [], left: number[] = []; // `left`: levels in which a flow is alone
  const sum = new Float64Array(shown.length);
  const alone = sets.slice(0, flows);
  const gain = sets.map(({ flows: members, prob }) => prob.map((one, i) => one - members.reduce((total, flow) => total + alone[flow]!.prob[i]!, 0)));
  const change = (set: number, by: number): void => {
    levels[set]! += by;
    for (const flow of sets[set]!.flows) {
      left[flow]! -= by;
      levels[flow] = left[flow]!;
    }
    for (let i = 0; i < sum.length; i++) sum[i]! += by * gain[set]![i]!;
  };
  const shares = sets.map((_, set) => set).filter((set) => set >= flows);
  const least1 = needed(sets, shown);
  const possible = (): boolean => levels.every((n, set) => n >= (set >= flows && least1.has(set) ? 1 : 0));
  /** Squares of errors in parts of what the samples leave open, none counted for more than `most`. */
  const cost = (most: number): number => {
    let total = 0;
    for (let i = 0; i < shown.length; i++) {
      const { longest, largest, sum: wanted } = shown[i]!;
      total += Math.min(most, ((sum[i]! - wanted) / (LEVELS * BINS / 2)) ** 2);
      let [qlen, prob] = [0, 0];
      for (let set = 0; set < sets.length; set++) {
        if (levels[set] === 0) continue;
        qlen = Math.max(qlen, sets[set]!.qlen[i]!);
        prob = Math.max(prob, sets[set]!.prob[i]!);
      }
      total += Math.min(most, (qlen - longest) ** 2) + Math.min(most, ((prob - largest) / 33) ** 2);
    }
    return total;
  };
  const steps = shares.flatMap((set) => [[set, 1], [set, -1]] as const);
  const single = steps.map((step) => [step]), pairs = steps.flatMap((one) => steps.filter(([other]) => other > one[0]).map((other) => [one, other]));
  const descend = (most: number): number => {
    for (let least = cost(most); ;) {
      let best: readonly (readonly [number, number])[] | null = null;
      for (const moves of [single, pairs]) {
        for (const move of moves) {
          for (const [set, by] of move) change(set, by);
          const now = possible() ? cost(most) : Infinity;
          for (const [set, by] of move) change(set, -by);
          if (now < least) [least, best] = [now, move];
        }
        if (best !== null) break;
      }
      if (best === null) return least;
      for (const [set, by] of best) change(set, by);
    }
  };
  const reset = (to: readonly number[]): void => {
    for (let set = 0; set < sets.length; set++) levels[set] = set < flows ? LEVELS : 0;
    left.splice(0, flows, ...levels.slice(0, flows));
    for (let i = 0; i < sum.length; i++) sum[i] = LEVELS * alone.reduce((total, { prob }) => total + prob[i]!, 0);
    for (const [i, set] of shares.entries()) change(set, to[i]!);
  };
  reset(shares.map(() => 0));
  const lowest = shares.map((set) => (least1.has(set) ? 1 : 0));
  const start = wholeNumbers(shares.map((set) => gain[set]!), lowest, Float64Array.from(shown, ({ sum: wanted }, i) => wanted - sum[i]!));
  let least = Infinity, found: readonly number[] = [];
  // First where large errors count, which leads close to it; then where the few samples that are of another moment do not.
  for (const [from, most] of [[lowest, 100], [start, 100], [lowest, 25], [start, lastMost]] as const) {
    reset(from);
    if (!possible()) continue;
    descend(most);
    const now = descend(lastMost);
    if (now < least) [least, found] = [now, [...levels]];
    if (least <= goodFit * shown.length) break;
  }
  return found;
}

/** Sets without which no bin would be as long as the longest, at more than a few samples. */
function needed(sets: readonly Shared[], shown: readonly Shown[]): ReadonlySet<number> {
  const alone = sets.map(() => 0);
  for (const [i, { longest }] of shown.entries()) {
    const which = sets.flatMap(({ qlen }, set) => (qlen[i] === longest ? [set] : []));
    if (which.length === 1) alone[which[0]!]!++;
  }
  return new Set(alone.flatMap((count, set) => (count > fewSamples * shown.length ? [set] : [])));
}

/**
 * How many times each column goes into `wanted`, not below the lowest it can be, by least squares in which what is far off counts ever less; rounded.
 * Coordinate by coordinate: the problem is convex.
 */
function wholeNumbers(columns: readonly Float64Array[], lowest: readonly number[], wanted: Float64Array): readonly number[] {
  const x = columns.map(() => 0);
  const error = wanted.slice();
  for (let round = 0; round < 12; round++) {
    const weight = error.map((one) => (round === 0 ? 1 : 1 / (1 + (one / (LEVELS * BINS / 2)) ** 2)));
    const norms = columns.map((column) => column.reduce((total, one, i) => total + weight[i]! * one * one, 0));
    for (let sweep = 0; sweep < 40; sweep++) {
      for (const [k, column] of columns.entries()) {
        if (norms[k] === 0) continue;
        const step = column.reduce((total, one, i) => total + weight[i]! * one * error[i]!, 0) / norms[k]!;
        const next = Math.min(LEVELS, Math.max(lowest[k]!, x[k]! + step)), by = next - x[k]!;
        x[k] = next;
        for (let i = 0; i < error.length; i++) error[i]! -= by * column[i]!;
      }
    }
  }
  return x.map(Math.round);
}

/** A bin for each flow at each level, so that each set has one together in as many levels as it is to; null: not found. */
function place(sets: readonly Shared[], levels: readonly number[], flows: number): readonly (readonly number[])[] | null {
  const placed = Array.from({ length: flows }, (_, flow) => Array<number>(LEVELS).fill(flow + 1));
  const busy = Array.from({ length: LEVELS }, () => new Set<number>());
  const wanted = sets.flatMap(({ flows: members }, set) => (members.length === 1 ? [] : Array<readonly number[]>(levels[set]!).fill(members))).sort((a, b) => b.length - a.length);
  const put = (from: number): boolean => {
    const members = wanted[from];
    if (members === undefined) return true;
    for (let level = 0; level < LEVELS; level++) {
      if (members.some((flow) => busy[level]!.has(flow))) continue;
      for (const flow of members) {
        busy[level]!.add(flow);
        placed[flow]![level] = members[0]! + 1;
      }
      if (put(from + 1)) return true;
      for (const flow of members) {
        busy[level]!.delete(flow);
        placed[flow]![level] = flow + 1;
      }
    }
    return false;
  };
  return put(0) ? placed : null;
}
