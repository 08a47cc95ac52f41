/** What can be judged, and how: one line a queue discipline of the kernel. */

import { perturbHash } from '../../aqm/integer.js';
import { timerNs } from '../../aqm/jiffies.js';
import type { Plan } from '../plan/plan.js';
import type { Steer } from './chance.js';
import { steerByProb, steerRed } from './steered.js';

type Params = Plan['links'][number]['forward']['queue'] extends infer Q ? NonNullable<Q> extends { readonly params: infer P } ? P : never : never;

/** ± ns: the agent asks for a sample, and the kernel reads its clock, a little after the time that it carries. */
const clockSteps = 100_000;

export interface ExactKind {
  readonly method: 'exact';
  /** CoDel counts time in 1024 ns: where the record's times lie in them matters. */
  readonly clock?: true;
  /** Columns of the algorithm's state that queue samples show, and by how much they may differ. */
  readonly tolerances: Readonly<Record<string, number>>;
  /**
   * Absent: one queue. Else a flow key for each of `count` queues, so that each has one of its own, and parameters that give
   * ours room for them: two flows that were never there together may have shared one in the kernel. null: there are too many.
   */
  readonly keys?: (count: number, params: Params) => { readonly keys: readonly number[]; readonly params: Params } | null;
  /** Other disciplines that must decide alike, with their parameters. */
  readonly twins?: (params: Params) => readonly { readonly kind: string; readonly params: Params }[];
  /** Parameters that a replay cannot follow, and why. */
  readonly refuse?: (params: Params) => string | null;
}
export interface ChanceKind {
  readonly method: 'chance';
  readonly steer: Steer;
  readonly tolerances: Readonly<Record<string, number>>;
  /** Its timer, ns, as the kernel runs it; the run's record does not show when it first went off, so that is searched for. */
  readonly timer?: (params: Params) => { readonly periodNs: number; /** From the creation of the queue to the first time. */ readonly firstNs: number };
  readonly refuse?: (params: Params) => string | null;
}
export interface UnjudgedKind { readonly method: 'none'; readonly why: string }

/** Keys in the middle of the ranges that scaleHash() maps to 0, 1, …: fq_codel and drr. */
const scaled = (most: number, fallback: number) => (count: number, params: Params) => {
  const flows = Math.max(count, Number(params['flows'] ?? fallback));
  return count > most ? null : { keys: Array.from({ length: count }, (_, bucket) => Math.floor(((bucket + 0.5) * 0x100000000) / flows)), params: { ...params, flows } };
};

/** Keys that SFQ's hash sends to slots of their own. Its perturbation is 0 in a replay (exact.ts). */
function sfqKeys(count: number, params: Params): { readonly keys: readonly number[]; readonly params: Params } | null {
  const divisor = 65536;
  if (count > divisor / 4) return null;
  const keys: number[] = [];
  const taken = new Set<number>();
  for (let key = 0; keys.length < count; key++) {
    const slot = perturbHash(key, 0) & (divisor - 1);
    if (taken.has(slot)) continue;
    taken.add(slot);
    keys.push(key);
  }
  // `divisor` also bounds the number of slots, where the user gave one.
  const flows = Math.min(Number(params['flows'] ?? 128), Number(params['divisor'] ?? 65536));
  return { keys, params: { ...params, flows, divisor } };
}


export const kinds: Readonly<Record<string, ExactKind | ChanceKind | UnjudgedKind>> = {
  pfifo: {
    method: 'exact', tolerances: {},
    // The threshold policy is in no kernel; a pfifo of that limit decides alike.
    twins: (params) => [{ kind: 'threshold', params: { qth: Number(params['limit'] ?? 1000), limit: Number(params['limit'] ?? 1000) + 1 } }],
  },
  bfifo: { method: 'exact', tolerances: {} },
  codel: {
    method: 'exact', clock: true,
    tolerances: { count: 0, lastcount: 0, ldelay: 0, dropping: 0, drop_next: clockSteps, drop_overlimit: 0, ce_mark: 0, maxpacket: 0 },
  },
  fq_codel: {
    method: 'exact', clock: true,
    tolerances: { new_flow_count: 0, new_flows_len: 0, old_flows_len: 0, drop_overlimit: 0, ce_mark: 0, maxpacket: 0 },
    keys: scaled(65536, 1024),
    refuse: (params) => (params['memory_limit'] === undefined ? null : 'memory_limit counts skb->truesize, which no record shows'),
  },
  sfq: {
    method: 'exact', tolerances: {}, keys: sfqKeys,
    refuse: (params) => (Number(params['perturb'] ?? 0) > 0 ? 'perturb draws a new hash at times no record shows' : params['redflowlimit'] !== undefined ? 'redflowlimit drops by chance' : null),
  },
  drr: { method: 'exact', tolerances: {}, keys: scaled(1024, 64) },
  red: {
    method: 'chance', steer: steerRed, tolerances: { early: 0, pdrop: 0 },
    refuse: (params) => (params['adaptive'] === true ? 'adaptive changes max_p at times no record shows' : params['nodrop'] === true ? 'nodrop makes chance invisible for packets without ECN' : null),
  },
  pie: {
    method: 'chance', steer: steerByProb, tolerances: { prob: 1e-9, delay: 1000, avg_dq_rate: 0, packets_in: 0, dropped: 0, overlimit: 0, maxq: 0 },
    // sch_pie.c: mod_timer() by `tupdate` in jiffies, the first time by HZ / 2.
    timer: (params) => ({ periodNs: timerNs(Number(params['tupdate'] ?? 15e6)), firstNs: timerNs(500e6) }),
    refuse: (params) => (params['bytemode'] === true ? 'bytemode: the state shows the probability before the packet size is counted in' : null),
  },
  sfb: { method: 'none', why: 'its Bloom filters hash with secrets that no record shows' },
  hhf: { method: 'none', why: 'its heavy-hitter filter hashes with secrets that no record shows' },
  choke: { method: 'none', why: 'it compares arrivals with a packet drawn at random from the queue, which no record shows' },
  fq: { method: 'none', why: 'it paces by a schedule of its own, and was made for hosts' },
  fq_pie: { method: 'none', why: 'it decides per flow with timers that no record shows' },
  dualpi2: { method: 'none', why: 'it decides by chance at departure' },
  cake: { method: 'none', why: 'it rounds the quantum of every turn at random, which no record shows' },
};
