/** What must fit together in one link: a queue needs a rate, jitter a delay, and the queue's parameters each other, the rate and the MTU. */

import { formatRate, formatTime } from '../units.js';
import type { EngineRules, QueuePlace } from './engine-rules.js';
import { defaultMtuBytes, defaultOverheadBytes, sideOf, sides, type LinkFields, type Side } from './link.js';
import type { Path } from './problem.js';
import type { ScenarioQueue } from './queue.js';
import type { Resolved } from './schema.js';

/** @param needs places the complaint relies on: it is not made when one of them could not be read */
export type Report = (path: Path, message: string, ...needs: readonly Path[]) => void;

export const mtuOf = (fields: LinkFields, topology: Resolved['topology']): number => fields.mtu ?? topology.mtu ?? defaultMtuBytes;
export const queuePlace = (fields: LinkFields, topology: Resolved['topology'], rateBps: number): QueuePlace =>
  ({ mtuBytes: mtuOf(fields, topology), overheadBytes: fields.overhead ?? defaultOverheadBytes, rateBps });

/** The part of a wire that must fit together. Times ns, reorder a fraction. */
export interface WireShape { readonly delay: number; readonly jitter: number; readonly reorder: number }
/** What is wrong between delay, jitter and reorder, by the key to blame. */
export function wireProblems({ delay, jitter, reorder }: WireShape): readonly { readonly key: 'jitter' | 'reorder'; readonly message: string }[] {
  return [
    ...(jitter > delay ? [{ key: 'jitter' as const, message: `a jitter of ${formatTime(jitter)} on a delay of ${formatTime(delay)} would need delays below 0; expected at most the delay` }] : []),
    ...(reorder > 0 && delay === 0 ? [{ key: 'reorder' as const, message: 'reordering lets packets overtake delayed ones; expected a delay beside it' }] : []),
  ];
}

/** TBF's depth is also told as the time that its bytes take at the rate, in 32 bits of 64 ns (struct tc_tbf_qopt, `buffer`). */
const longestBurstSeconds = Math.floor(2 ** 32 * 64e-9);
/** Why TBF cannot save this burst at this rate, or null. */
export function burstProblem({ burst }: LinkFields, rateBps: number): string | null {
  const most = Math.floor((longestBurstSeconds * rateBps) / 8);
  return burst === undefined || burst <= most ? null : `a burst of ${burst} bytes takes ${Math.ceil((8 * burst) / rateBps)} s at ${formatRate(rateBps)}, and TBF counts up to ${longestBurstSeconds} s; expected at most ${most}B`;
}

/** @param path of the link or the group of hosts */
export function checkLink(fields: LinkFields, topology: Resolved['topology'], path: Path, problem: Report, rules: EngineRules | undefined): void {
  const mtu = mtuOf(fields, topology);
  // RFC 8200 section 5: IPv6 needs 1280 bytes.
  if (topology.ip === 6 && mtu < 1280) problem([...path, ...(fields.mtu === undefined ? [] : ['mtu'])], `an MTU of ${mtu} is too small for IPv6; expected at least 1280`, ['topology', 'ip']);
  const rate: Path = [...path, 'rate'];
  const rated = sides.filter((side) => typeof sideOf(fields.rate, side) === 'number');
  const queue = fields.queue;
  if (queue !== undefined) {
    if (rated.length === 0) problem([...path, 'queue'], 'a queue needs a rate; expected a rate, such as rate: 20mbit, beside it', rate);
    else if (queue.forward !== queue.reverse) {
      for (const side of sides) if (queue[side] !== undefined && !rated.includes(side)) problem([...path, 'queue', side], `a queue needs a rate; expected a rate in the ${side} direction`, rate);
    }
  }
  for (const key of ['shaper', 'overhead'] as const) {
    if (fields[key] !== undefined && rated.length === 0) problem([...path, key], `${key} needs a rate; expected a rate, such as rate: 20mbit, beside it`, rate);
  }
  for (const key of ['burst', 'peakrate'] as const) {
    if (fields[key] !== undefined && fields.shaper !== 'tbf') problem([...path, key], `${key} belongs to TBF; expected shaper: tbf beside it`, [...path, 'shaper']);
  }
  const packet = mtu + (fields.overhead ?? defaultOverheadBytes);
  if (fields.burst !== undefined && fields.burst < packet) problem([...path, 'burst'], `a burst of ${fields.burst} bytes lets no full packet pass; expected at least ${packet}B (MTU and overhead)`, [...path, 'mtu'], [...path, 'overhead'], ['topology', 'mtu']);
  const fastest = Math.max(0, ...rated.map((side) => sideOf(fields.rate, side)!));
  if (fields.peakrate !== undefined && fields.peakrate <= fastest) problem([...path, 'peakrate'], `a peak rate of ${formatRate(fields.peakrate)} is not above the rate; expected more than ${formatRate(fastest)}`, rate);
  const tooLong = rated.length === 0 ? null : burstProblem(fields, Math.min(...rated.map((side) => sideOf(fields.rate, side)!)));
  if (tooLong !== null) problem([...path, 'burst'], tooLong, rate);
  const told = new Set<string>();
  for (const side of sides) {
    const shape: WireShape = { delay: sideOf(fields.delay, side) ?? 0, jitter: sideOf(fields.jitter, side) ?? 0, reorder: sideOf(fields.reorder, side) ?? 0 };
    for (const { key, message } of wireProblems(shape)) {
      if (told.has(message)) continue;
      told.add(message);
      problem([...path, key], message, [...path, 'delay']);
    }
  }
  if (rules === undefined) return;
  for (const side of rated) {
    const set = sideOf(queue, side);
    if (set === undefined) continue;
    const found = rules.queueProblem(set, queuePlace(fields, topology, sideOf(fields.rate, side)!));
    if (found === null) continue;
    const where = [...path, 'queue', ...(queue!.forward === queue!.reverse ? [] : [side])];
    if (told.has(found.message)) continue; // both directions alike
    told.add(found.message);
    problem([...where, ...(found.key === null ? [] : [found.key])], found.message, where, [...path, 'mtu'], [...path, 'overhead'], ['topology', 'mtu']);
  }
}

/** The queue of a direction that has a rate. */
export const queueOf = (fields: LinkFields, side: Side): ScenarioQueue => sideOf(fields.queue, side) ?? { kind: 'pfifo', in: 'kernel', params: {} };
