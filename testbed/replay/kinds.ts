/** What can be judged, and how: one line a queue discipline of the kernel. */

import { perturbHash, scaleHash } from '../../aqm/integer.js';
import { JIFFY_NS, timerNs } from '../../aqm/jiffies.js';
import type { Plan, PlanDirection } from '../plan/plan.js';
import { none } from '../records/record-file.js';
import { findBins } from './bins.js';
import type { ReplayRequest, SetKeys } from './decisions.js';

export type Params = NonNullable<PlanDirection['queue']>['params'];

/** ± ns: the agent asks for a sample, and the kernel reads its clock, a little after the time that it carries. */
const clockSteps = 100_000;

export interface JudgedKind {
  readonly method: 'judge';
  /** Columns of the algorithm's state that queue samples show, and by how much they may differ. */
  readonly tolerances: Readonly<Record<string, number>>;
  /** Where the record's times lie in the units that it counts time in matters: the phases to try, ns, and what may be undecidable for it. */
  readonly clock?: { readonly phasesNs: readonly number[]; /** Reading the clock one unit sooner or later may decide. */ readonly stepNs?: number };
  /** Chance decides some of it. `fifo`: the whole is one queue. `scale`: probabilities are mostly below. */
  readonly chance?: { readonly fifo: boolean; readonly scale: number };
  /**
   * Flows share queues by a hash: a flow key for each of `count` queues, so that each has one of its own, and parameters that give
   * ours room for them: two flows that were never there together may have shared one in the kernel. null: there are too many.
   */
  readonly shared?: (count: number, params: Params) => { readonly keys: readonly number[]; readonly params: Params } | null;
  /** The queue it gives a packet of that skb_get_hash(): taken where the record holds hashes, in place of `shared` or of `apart`'s flow keys. */
  readonly hashed?: (hash: number, params: Params) => number;
  /** Every flow is told from every other: keys. `hashed`: flow keys are there already. */
  readonly apart?: (plan: Plan, hashed: boolean) => SetKeys;
  /** Which flows its secret hash keeps together, found from the record: keys to try where those of `apart` do not agree; null: not found. */
  readonly together?: (record: Pick<ReplayRequest, 'source' | 'samples' | 'chance' | 'params' | 'untilNs'>) => Promise<SetKeys | null>;
  /** A difference may lie in what no record shows: why; null where it may not. */
  readonly secret?: (plan: Plan, params: Params) => string | null;
  /** It drops what waits together with what comes, so that only samples no further apart tell what became of which, ns: matches.ts. */
  readonly matchesNs?: number;
  /** Under TBF it decides when a packet is looked at (its `peek` takes the packet out). */
  readonly peeks?: true;
  /** Its timer, ns, as the kernel runs it; the run's record does not show when it first went off, so that is searched for. */
  readonly timer?: (params: Params) => Timer;
  /** Other disciplines that must decide alike, with their parameters. */
  readonly twins?: (params: Params) => readonly { readonly kind: string; readonly params: Params }[];
  /** Parameters that a replay cannot follow, and why. */
  readonly refuse?: (params: Params, direction: PlanDirection) => string | null;
}
export interface Timer {
  readonly periodNs: number;
  /** From the creation of the queue to the first time. */
  readonly firstNs: number;
  /** Column of the samples that changes with each update; null: none. */
  readonly column: string | null;
  /** The column is larger the later an update comes, and so finely that it shows when it came. */
  readonly rises?: true;
  /** It counts jiffies. */
  readonly jiffies: boolean;
}

/** Keys in the middle of the ranges that scaleHash() maps to 0, 1, …: fq_codel, fq_pie and drr. */
const scaled = (most: number, fallback: number) => (count: number, params: Params) => {
  const flows = Math.max(count, Number(params['flows'] ?? fallback));
  return count > most ? null : { keys: Array.from({ length: count }, (_, bucket) => Math.floor(((bucket + 0.5) * 0x100000000) / flows)), params: { ...params, flows } };
};

/** fq_codel_hash(), fq_pie_hash(): reciprocal_scale(skb_get_hash(skb), flows) */
const scaledHash = (hash: number, params: Params): number => scaleHash(hash, Number(params['flows'] ?? 1024));

/** Keys that SFQ's hash sends to slots of their own. Its perturbation is 0 in a replay (decisions.ts). */
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

/** FQ: masked by `orphan_mask`, which may leave fewer keys than there are queues. */
function fqKeys(count: number, params: Params): { readonly keys: readonly number[]; readonly params: Params } | null {
  return count > 1024 ? null : { keys: Array.from({ length: count }, (_, bucket) => bucket), params: { ...params, orphan_mask: 1023 } };
}

/** A number from 0 for each flow and direction, as they appear. */
function numbered(): (flow: number, forward: boolean) => number {
  const numbers = new Map<number, number>();
  return (flow, forward) => {
    const identity = flow === none.i32 ? none.i32 : flow * 2 + (forward ? 1 : 0);
    const known = numbers.get(identity);
    if (known !== undefined) return known;
    numbers.set(identity, numbers.size);
    return numbers.size - 1;
  };
}

/** The key that perturbHash() without a perturbation maps to `hash`. */
function keyOf(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x7ed1b41d);
  h ^= (h >>> 13) ^ (h >>> 26);
  h = Math.imul(h, 0xa5cb9243);
  return (h ^ (h >>> 16)) >>> 0;
}
const byNumber = (key: (number: number) => number) => (): SetKeys => {
  const numberOf = numbered();
  return (packet) => { packet.flowHash = key(numberOf(packet.flow, packet.forward)); };
};

/** SFB: a level's bin is four bits. */
async function sfbTogether({ source, samples, chance, params, untilNs }: Pick<ReplayRequest, 'source' | 'samples' | 'chance' | 'params' | 'untilNs'>): Promise<SetKeys | null> {
  const bins = samples === null || chance === null ? null : await findBins(source, samples, chance.fates, params, untilNs);
  if (bins === null) return null;
  const keys = new Map([...bins].map(([identity, levels]) => [identity, keyOf(levels.reduce((hash, bin, level) => (hash | (bin << (4 * level))) >>> 0, 0))]));
  return (packet) => { packet.flowHash = keys.get(packet.flow * 2 + (packet.forward ? 1 : 0)) ?? 0; };
}

/** CAKE: a queue for every flow (two share one only where eight of its set are busy) unless the record holds hashes, and hosts. */
function cakeKeys(plan: Plan, hashed: boolean): SetKeys {
  const numberOf = numbered();
  const hosts = new Map<string, number>();
  const host = (name: string): number => {
    if (!hosts.has(name)) hosts.set(name, hosts.size + 1);
    return hosts.get(name)!;
  };
  const ends = new Map<number, readonly [number, number]>([
    ...plan.flows.map(({ id, src, dst }) => [id, [host(src), host(dst)]] as const),
    ...plan.probes.map(({ id, src, dst }) => [-1 - id, [host(src), host(dst)]] as const),
  ]);
  const datagrams = new Set([...plan.flows.filter(({ transport }) => transport === 'udp').map(({ id }) => id), ...plan.probes.map(({ id }) => -1 - id)]);
  return (packet) => {
    if (!hashed) packet.flowHash = numberOf(packet.flow, packet.forward) + 1;
    packet.datagram = datagrams.has(packet.flow);
    const [src, dst] = ends.get(packet.flow) ?? [0, 0];
    [packet.srcHash, packet.dstHash] = packet.forward ? [src, dst] : [dst, src];
  };
}

const severalFlows = (why: string, most = 1) => (plan: Plan): string | null => (plan.flows.length + plan.probes.length > most ? why : null);

function mostFlowsOfAHost(plan: Plan): number {
  const flows = new Map<string, number>();
  for (const { src, dst } of plan.flows) for (const host of [`from ${src}`, `to ${dst}`]) flows.set(host, (flows.get(host) ?? 0) + 1);
  return Math.max(0, ...flows.values());
}

/** CoDel counts time in 1024 ns; the virtual clock steps by 256 ns. */
const codelClock = { phasesNs: [0, 256, 512, 768], stepNs: 1024 };
/** A clock of ns that steps by 256 ns when read. */
const nsClock = { phasesNs: [0], stepNs: 256 };
/** Jiffies. Every run so far began with one (PIE's timer shows it), but nothing makes it so. */
const jiffyClock = { phasesNs: Array.from({ length: 20 }, (_, i) => (i * JIFFY_NS) / 20) };
/** And whether that one is even. */
const oddJiffyClock = { phasesNs: jiffyClock.phasesNs.flatMap((phase) => [phase, phase + JIFFY_NS]) };
/** mod_timer() by `tupdate` in jiffies, the first time by HZ / 2 (sch_pie.c, sch_fq_pie.c). */
const pieTimer = (column: string | null) => (params: Params): Timer => ({ periodNs: timerNs(Number(params['tupdate'] ?? 15e6)), firstNs: timerNs(500e6), column, jiffies: true });
const tins = (...columns: readonly (readonly [string, number])[]): Readonly<Record<string, number>> =>
  Object.fromEntries(Array.from({ length: 8 }, (_, tin) => columns.map(([name, tolerance]) => [`tin${tin}_${name}`, tolerance] as const)).flat());

export const kinds: Readonly<Record<string, JudgedKind>> = {
  pfifo: {
    method: 'judge', tolerances: {},
    // The threshold policy is in no kernel; a pfifo of that limit decides alike.
    twins: (params) => [{ kind: 'threshold', params: { qth: Number(params['limit'] ?? 1000), limit: Number(params['limit'] ?? 1000) + 1 } }],
  },
  bfifo: { method: 'judge', tolerances: {} },
  // Every packet here is best effort: no traffic of a scenario sets a DSCP.
  pfifo_fast: { method: 'judge', tolerances: {} },
  codel: {
    method: 'judge', clock: codelClock, peeks: true,
    tolerances: { count: 0, lastcount: 0, ldelay: 0, dropping: 0, drop_next: clockSteps, drop_overlimit: 0, ce_mark: 0, maxpacket: 0 },
  },
  fq_codel: {
    method: 'judge', clock: codelClock, peeks: true,
    tolerances: { new_flow_count: 0, new_flows_len: 0, old_flows_len: 0, drop_overlimit: 0, ce_mark: 0, maxpacket: 0 },
    shared: scaled(65536, 1024), hashed: scaledHash,
    refuse: (params) => (params['memory_limit'] === undefined ? null : 'memory_limit counts skb->truesize, which no record shows'),
  },
  sfq: {
    method: 'judge', tolerances: {}, shared: sfqKeys, peeks: true,
    refuse: (params) => (Number(params['perturb'] ?? 0) > 0 ? 'perturb draws a new hash at times no record shows' : params['redflowlimit'] !== undefined ? 'redflowlimit drops by chance' : null),
  },
  drr: { method: 'judge', tolerances: {}, shared: scaled(1024, 64), peeks: true },
  fq: {
    method: 'judge', tolerances: { flows_plimit: 0, gc_flows: 0 }, shared: fqKeys, hashed: (hash, params) => hash & Number(params['orphan_mask'] ?? 1023), clock: oddJiffyClock, peeks: true,
  },
  hhf: {
    method: 'judge', tolerances: { drop_overlimit: 0, hh_overlimit: 0, hh_tot_count: 0, hh_cur_count: 0 }, clock: jiffyClock, peeks: true,
    // The same ten bits in each stage of the filter, so that no two flows share a counter. In the kernel a flow shares all with others of n with probability (n / 1024)³.
    apart: byNumber((number) => keyOf((number & 0x3ff) * 0x100401)), secret: severalFlows('its filter hashes flows with a secret, so two may share counters', 32),
  },
  red: {
    method: 'judge', chance: { fifo: true, scale: 1 }, tolerances: { early: 0, pdrop: 0 },
    refuse: (params) => (params['adaptive'] === true ? 'adaptive changes max_p at times no record shows' : params['nodrop'] === true ? 'nodrop makes chance invisible for packets without ECN' : null),
  },
  choke: {
    method: 'judge', chance: { fifo: false, scale: 1 }, apart: byNumber((number) => number),
    // A packet that was marked may be taken out of the queue later, which `marks` counts and nothing else shows.
    tolerances: { marks: Infinity, early: 0, pdrop: 0, matched: 0 }, matchesNs: 1e6,
  },
  pie: {
    method: 'judge', chance: { fifo: true, scale: 0.25 }, peeks: true,
    tolerances: { prob: 1e-9, delay: 1000, avg_dq_rate: 0, packets_in: 0, dropped: 0, overlimit: 0, maxq: 0 },
    timer: pieTimer('prob'),
  },
  fq_pie: {
    method: 'judge', chance: { fifo: false, scale: 0.25 }, shared: scaled(65536, 1024), hashed: scaledHash, peeks: true,
    tolerances: { packets_in: 0, dropped: 0, overlimit: 0, new_flow_count: 0, new_flows_len: 0, old_flows_len: 0 },
    timer: pieTimer(null),
  },
  sfb: {
    method: 'judge', chance: { fifo: true, scale: 0.25 }, tolerances: { earlydrop: 0, penaltydrop: 0, bucketdrop: 0, queuedrop: 0, maxqlen: 0, maxprob: 1e-9, avgprob: 1e-4 }, clock: jiffyClock,
    // A hash of 0 means that there is none.
    apart: byNumber((number) => keyOf((1 + (number % 15)) * 0x11111111)), together: sfbTogether, secret: severalFlows('its Bloom filters hash flows with a secret, and which flows share bins was not found'),
  },
  dualpi2: {
    method: 'judge', chance: { fifo: false, scale: 0.25 }, clock: nsClock, peeks: true,
    // A packet of the L4S queue can be marked twice, which `marks` counts and nothing else shows.
    tolerances: { marks: Infinity, prob: 0, delay_c: clockSteps, delay_l: clockSteps, packets_in_c: 0, packets_in_l: 0, step_marks: 0, credit: 0, maxq: 0 },
    timer: (params) => ({ periodNs: Number(params['tupdate'] ?? 16e6), firstNs: Number(params['tupdate'] ?? 16e6), column: 'prob', jiffies: false, rises: true }),
    refuse: (params) => (params['drop_enqueue'] === true ? 'drop_enqueue: a mark at arrival cannot be told from one of the step threshold' : null),
  },
  cake: {
    method: 'judge', chance: { fifo: false, scale: 0.25 }, apart: cakeKeys, hashed: (hash) => hash, clock: nsClock, peeks: true,
    tolerances: tins(['sent', 0], ['dropped', 0], ['marked', 0], ['backlog_bytes', 0], ['peak_delay', clockSteps], ['avg_delay', clockSteps], ['base_delay', clockSteps]),
    secret: (plan, params) => (params['flows'] === true || mostFlowsOfAHost(plan) <= 2 ? null
      : 'flows of one host share a quantum that is rounded at random at every turn, and the record does not show each round in which all were passed over; give each flow hosts of its own, or set flows: true'),
    refuse: (params, direction) => (direction.shaper === 'tbf' && params['bandwidth'] !== undefined ? 'with a rate of its own under TBF, it is asked at times no record shows'
      : /ack-filter/.test(JSON.stringify(params).replace(/no-ack-filter/g, '')) ? 'its ACK filter looks at TCP options, which no record shows' : null),
  },
};
