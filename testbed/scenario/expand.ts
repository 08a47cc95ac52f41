/**
 * What a validated scenario stands for: every single host, the tree of routers, the pairs of hosts of each class,
 * and who delays an `rtt`. Finds the mistakes that only show between the parts (a host that is not there, a cycle
 * of links, two round-trip times for one pair). Both the loader, to check, and the compiler build on it.
 */

import { parseExpectations } from '../expect/parse.js';
import type { EngineRules } from './engine-rules.js';
import { checkEvents } from './event-checks.js';
import { maxHosts, type HostRange } from './hosts.js';
import { defaultMtuBytes, defaultOverheadBytes, sideOf, type LinkFields, type Side } from './link.js';
import { checkLink, mtuOf, type Report } from './link-checks.js';
import { enumerate, suggestion } from './names.js';
import type { Holes } from './partial.js';
import { formatPath, type Path, type Problem } from './problem.js';
import { leastOf, type Distribution } from './quantity.js';
import type { Resolved } from './schema.js';
import { flentArgumentsProblem } from './flent-arguments.js';
import { iperf3ArgumentsProblem } from './iperf3-arguments.js';
import { mostIperf3Flows, trafficTools } from './tools.js';
import type { CommonTraffic } from './traffic/kind.js';
import { trafficKinds } from './traffic/registry.js';
import { formatTime } from '../units.js';

export { changed, changedQueue, changedSides } from './event-checks.js';
export { sideOf, sides, type Side } from './link.js';

export interface Host {
  /** `S1[0]`, or `S1` for a single host. */
  readonly name: string;
  readonly group: string;
  readonly index: number | null;
  readonly router: number;
  readonly fields: LinkFields;
}
export interface RouterLink {
  readonly name: string;
  /** Indices of the routers; forward is a → b. */
  readonly a: number;
  readonly b: number;
  readonly fields: LinkFields;
}
export interface Pair { readonly src: Host; readonly dst: Host }
export interface TrafficClass {
  readonly name: string;
  readonly spec: CommonTraffic;
  readonly pairs: readonly Pair[];
  readonly tool: string;
  readonly ecn: boolean;
  readonly cc: string | null;
}
export interface ProbeClass { readonly name: string; readonly pairs: readonly Pair[] }

/** A round-trip time that a pair of hosts was given. */
export interface PairRtt {
  readonly spec: Distribution;
  /** Where it is made: packets from `delayer` to `peer` wait on the delayer's access link. */
  readonly delayer: Host;
  readonly peer: Host;
  /** Delays that are on the way anyway, both directions, ns. */
  readonly fixedNs: number;
}

export interface Expanded {
  readonly hosts: readonly Host[];
  readonly hostNamed: ReadonlyMap<string, Host>;
  readonly links: readonly RouterLink[];
  /** Neighbours of each router: [router, index of the link]. */
  readonly neighbours: readonly (readonly (readonly [number, number])[])[];
  readonly classes: readonly TrafficClass[];
  readonly probes: readonly ProbeClass[];
  /** By `pairId`. */
  readonly rtts: ReadonlyMap<string, PairRtt>;
  /** Pairs that communicate, by `pairId`. */
  readonly pairs: ReadonlyMap<string, Pair>;
}

/** Pairs of hosts in all classes and probes. */
const maxPairs = 100_000;

/** One name for a pair of hosts whichever way round. */
export const pairId = (a: Host, b: Host): string => (a.name < b.name ? `${a.name}|${b.name}` : `${b.name}|${a.name}`);

/** Kernel side: netem entries hang below prio, which has at most 16 bands (TCQ_PRIO_BANDS, include/uapi/linux/pkt_sched.h); one is for the rest. */
export const maxDelayGroups = 15;

/** Congestion controls with TCP_CONG_NEEDS_ECN: they ask for ECN whatever tcp_ecn says (tcp_ca_needs_ecn). */
const needsEcn: ReadonlySet<string> = new Set(['dctcp', 'prague']);
export const asksForEcn = (cc: string | null): boolean => cc !== null && needsEcn.has(cc);

/** The links on the way between two routers of a tree, and the direction each is passed in. */
export function route(expanded: Pick<Expanded, 'links'> & { readonly parents: readonly Tree[] } , from: number, to: number): readonly { readonly link: RouterLink; readonly side: Side }[] {
  const way: { link: RouterLink; side: Side }[] = [];
  const tree = expanded.parents[to]!;
  for (let at = from; at !== to;) {
    const link = expanded.links[tree.link[at]!]!;
    const side: Side = link.a === at ? 'forward' : 'reverse';
    way.push({ link, side });
    at = side === 'forward' ? link.b : link.a;
  }
  return way;
}
/** Paths towards one router: for each router the link to take, −1 at the router itself. */
export interface Tree { readonly link: Int32Array }

/** Breadth-first from every router. */
export function trees(neighbours: Expanded['neighbours']): readonly Tree[] {
  return neighbours.map((_, root) => {
    const link = new Int32Array(neighbours.length).fill(-1);
    const seen = new Uint8Array(neighbours.length);
    seen[root] = 1;
    const queue = [root];
    for (let i = 0; i < queue.length; i++) {
      for (const [next, via] of neighbours[queue[i]!]!) {
        if (seen[next]) continue;
        seen[next] = 1;
        link[next] = via;
        queue.push(next);
      }
    }
    return { link };
  });
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

export interface ExpandOptions {
  /** What the engine makes of queues and congestion controls; absent: not asked (the loader did). */
  readonly rules?: EngineRules | undefined;
  /** Places that could not be read: what only follows from them is no mistake. */
  readonly holes?: Holes;
}

/**
 * @returns what the scenario stands for, and every mistake found; with mistakes the rest may be incomplete.
 */
export function expand(scenario: Resolved, { rules, holes }: ExpandOptions = {}): { readonly expanded: Expanded; readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const problem: Report = (path, message, ...needs) => {
    const unread = (need: Path): boolean => holes !== undefined && (need.includes('*') ? holes.like(...need.map(String)) : holes.touches(need));
    if (holes?.covers(path) || needs.some(unread)) return;
    problems.push({ path, message });
  };
  const { topology } = scenario;

  // Names: routers, links and hosts share one space, since links and hosts are called by name in events and metrics.
  const taken = new Map<string, string>();
  const claim = (name: string, what: string, path: Path): void => {
    const other = taken.get(name);
    if (other !== undefined) problem(path, `the name "${name}" is also that of ${other}; expected a name of its own`);
    else taken.set(name, what);
  };
  topology.routers.forEach((name, i) => claim(name, 'a router', ['topology', 'routers', i]));
  const routerIndex = new Map(topology.routers.map((name, i) => [name, i]));
  const router = (name: string, path: Path): number => {
    const index = routerIndex.get(name);
    if (index === undefined) problem(path, `there is no router "${name}"; ${suggestion(name, topology.routers)}expected ${enumerate(topology.routers)}`, ['topology', 'routers']);
    return index ?? -1;
  };

  // Links: a tree.
  const links: RouterLink[] = [];
  const neighbours: [number, number][][] = topology.routers.map(() => []);
  const part = topology.routers.map((_, i) => i);
  let lost = false;
  const root = (i: number): number => { while (part[i] !== i) i = part[i] = part[part[i]!]!; return i; };
  for (const [name, link] of Object.entries(topology.links ?? {})) {
    const path = ['topology', 'links', name];
    claim(name, 'a link', path);
    checkLink(link, topology, path, problem, rules);
    const [a, b] = [router(link.between[0]!, [...path, 'between', 0]), router(link.between[1]!, [...path, 'between', 1])];
    if (a < 0 || b < 0) { lost = true; continue; }
    if (a === b) {
      lost = true;
      problem([...path, 'between'], `the link joins ${link.between[0]!} with itself; expected two different routers`); continue; }
    if (root(a) === root(b)) {
      const known = trees(neighbours);
      const loop = route({ links, parents: known }, b, a);
      const names = [topology.routers[a]!, topology.routers[b]!, ...loop.map(({ link: l, side }) => topology.routers[side === 'forward' ? l.b : l.a]!)];
      problem([...path, 'between'], `the link closes a cycle: ${names.join(' – ')} (with ${loop.map((hop) => hop.link.name).join(', ')}); expected one way between any two routers, since routes are static`);
      continue;
    }
    part[root(a)] = root(b);
    neighbours[a]!.push([b, links.length]);
    neighbours[b]!.push([a, links.length]);
    links.push({ name, a, b, fields: link });
  }
  const islands = new Set(topology.routers.map((_, i) => root(i)));
  if (islands.size > 1 && !lost && routerIndex.size === topology.routers.length && !holes?.like('topology', 'links', '*')) {
    const apart = topology.routers.filter((_, i) => root(i) !== root(0));
    problem(['topology', 'routers'], `${enumerate(apart)} ${apart.length === 1 ? 'is' : 'are'} not joined with ${topology.routers[0]!}; expected links in topology.links that join all routers`, ['topology', 'routers']);
  }

  // Hosts: counted before they are made.
  const groups = Object.entries(topology.hosts);
  const total = groups.reduce((sum, [, group]) => sum + (group.count ?? 1), 0);
  const hosts: Host[] = [];
  const hostNamed = new Map<string, Host>();
  if (groups.length === 0) problem(['topology', 'hosts'], 'has no hosts; expected at least one, such as S1: { at: R1 }');
  if (total > maxHosts) {
    const largest = groups.reduce((best, next) => ((next[1].count ?? 1) > (best[1].count ?? 1) ? next : best));
    problem(['topology', 'hosts', largest[0], 'count'], `${total} hosts in all are too many; expected at most ${maxHosts}`);
  }
  for (const [name, group] of groups) {
    const path = ['topology', 'hosts', name];
    claim(name, 'a host', path);
    const at = router(group.at, [...path, 'at']);
    checkLink(group, topology, path, problem, rules);
    if (total > maxHosts) continue;
    const make = (hostName: string, index: number | null): void => {
      const host = { name: hostName, group: name, index, router: at, fields: group };
      hosts.push(host);
      hostNamed.set(hostName, host);
    };
    if (group.count === undefined) make(name, null);
    else for (let i = 0; i < group.count; i++) make(`${name}[${i}]`, i);
  }

  const groupNames = groups.map(([name]) => name);
  let pairsLeft = maxPairs;
  const counted = (group: string): Path => ['topology', 'hosts', group, 'count'];
  const resolve = (ranges: readonly HostRange[], path: Path): Host[] | undefined => {
    const found: Host[] = [];
    let good = true;
    ranges.forEach((range, i) => {
      const where = ranges.length === 1 ? path : [...path, i];
      const group = Object.hasOwn(topology.hosts, range.group) ? topology.hosts[range.group] : undefined;
      if (group === undefined) {
        const router_ = routerIndex.has(range.group) ? ` (${range.group} is a router)` : '';
        problem(where, `there is no host "${range.group}"${router_}; ${suggestion(range.group, groupNames)}expected ${enumerate(groupNames)}`, ['topology', 'hosts', range.group]);
        good = false;
      } else if (range.first !== null && group.count === undefined) {
        problem(where, `${range.text}: ${range.group} is a single host; expected ${range.group} (or give it a count)`, counted(range.group));
        good = false;
      } else if (range.first !== null && range.last! < range.first) {
        problem(where, `${range.text} counts backwards; expected ${range.group}[${range.last}..${range.first}]`);
        good = false;
      } else if (range.first !== null && range.last! >= (group.count ?? 1)) {
        problem(where, `${range.text}: there are ${count(group.count ?? 1, 'host')} ${range.group}; expected ${range.group}[0] to ${range.group}[${(group.count ?? 1) - 1}]`, counted(range.group));
        good = false;
      } else if (total <= maxHosts) {
        const first = range.first ?? 0;
        const last = range.last ?? (group.count ?? 1) - 1;
        if (found.length + last - first + 1 > pairsLeft) {
          if (good) problem(path, `too many hosts; expected at most ${maxPairs} pairs of hosts in the whole scenario`);
          good = false;
          return;
        }
        for (let n = first; n <= last; n++) found.push(hostNamed.get(group.count === undefined ? range.group : `${range.group}[${n}]`)!);
      } else {
        good = false;
      }
    });
    return good ? found : undefined;
  };
  const pairUp = (from: readonly HostRange[], to: readonly HostRange[], path: Path): Pair[] => {
    const sources = resolve(from, [...path, 'from']);
    const targets = resolve(to, [...path, 'to']);
    if (!sources || !targets) return [];
    if (sources.length !== targets.length && sources.length !== 1 && targets.length !== 1) {
      problem([...path, 'to'], `${count(targets.length, 'host')} in to, ${count(sources.length, 'host')} in from; expected lists of equal length, or a single host in one of them`, ...[...from, ...to].map(({ group }) => counted(group)));
      return [];
    }
    const n = Math.max(sources.length, targets.length);
    pairsLeft -= n;
    const made = Array.from({ length: n }, (_, i) => ({ src: sources[sources.length === 1 ? 0 : i]!, dst: targets[targets.length === 1 ? 0 : i]! }));
    const same = made.find((pair) => pair.src === pair.dst);
    if (same) {
      problem([...path, 'to'], `${same.src.name} would send to itself; expected two different hosts`);
      return [];
    }
    return made;
  };

  // Traffic.
  const endNs = (scenario.measure?.warmup ?? defaults.warmupNs) + (scenario.measure?.duration ?? defaults.durationNs);
  const drafts: { name: string; spec: CommonTraffic; pairs: Pair[] }[] = [];
  for (const [name, spec] of Object.entries(scenario.traffic ?? {})) {
    const path = ['traffic', name];
    drafts.push({ name, spec, pairs: pairUp(spec.from, spec.to, path) });
    if (spec.start !== undefined && leastOf(spec.start) >= endNs) problem([...path, 'start'], `it would start after the run ends at ${formatTime(endNs)}; expected an earlier time, or a longer measure (the run ends after its warmup and duration)`, ['measure']);
    if (spec.stop !== undefined && spec.stop <= (spec.start === undefined ? 0 : leastOf(spec.start))) problem([...path, 'stop'], `${formatTime(spec.stop)} is not after its start; expected a later time`, [...path, 'start']);
  }
  const isBulk = (kind: string): boolean => trafficKinds.get(kind)?.bulk === true;
  const bulkFlows = drafts.filter((d) => isBulk(d.spec.kind) && d.spec.kind !== 'flent').reduce((sum, d) => sum + d.pairs.length * (d.spec.flows ?? 1), 0);
  const classes = drafts.map(({ name, spec, pairs }): TrafficClass => {
    const path: Path = ['traffic', name];
    const kind: Path = [...path, 'kind'];
    // The default tool depends on how many bulk flows there are.
    const chosen: readonly Path[] = [kind, [...path, 'tool'], [...path, 'cc'], ...(spec.tool === undefined ? [['traffic']] : [])];
    const control = trafficKinds.get(spec.kind)?.transport === 'tcp' ? spec.cc ?? 'cubic' : null;
    // iperf3's server does not run the client's congestion control, so DCTCP would not get the ECN it needs.
    const tool = spec.tool ?? (spec.kind === 'flent' ? 'flent' : isBulk(spec.kind) && bulkFlows <= mostIperf3Flows && !asksForEcn(control) ? 'iperf3' : 'builtin');
    const able = trafficTools.get(tool);
    if (!able) problem([...path, 'tool'], `there is no tool "${tool}"; ${suggestion(tool, [...trafficTools.keys()])}expected ${[...trafficTools].filter(([, kinds]) => kinds.includes(spec.kind)).map(([t]) => t).join(', ')}`, kind);
    else if (!able.includes(spec.kind)) problem([...path, 'tool'], `${tool} cannot send ${spec.kind}; expected ${[...trafficTools].filter(([, kinds]) => kinds.includes(spec.kind)).map(([t]) => t).join(', ')}`, kind);
    if (spec.args !== undefined && spec.args.length > 0 && tool === 'builtin') problem([...path, 'args'], 'the built-in generator takes no arguments; expected no args, or another tool', ...chosen);
    else if (tool === 'iperf3') {
      const wrong = iperf3ArgumentsProblem(spec.args ?? []);
      if (wrong !== null) problem([...path, 'args'], wrong, ...chosen);
    } else if (tool === 'flent') {
      const wrong = flentArgumentsProblem(spec.args ?? []);
      if (wrong !== null) problem([...path, 'args'], wrong, kind);
    }
    if (spec.ecn === false && asksForEcn(control)) problem([...path, 'ecn'], `${control!} always uses ECN; expected true, or no ecn`, kind);
    const controls = rules?.congestionControls ?? null;
    if (control !== null && controls !== null && !controls.includes(control)) problem([...path, 'cc'], `${JSON.stringify(control)} is not a congestion control of the simulator; ${suggestion(control, controls)}expected ${controls.join(', ')}`, kind);
    return { name, spec, pairs, tool, ecn: spec.ecn ?? asksForEcn(control), cc: control };
  });
  checkEcn(classes, problem);

  const probes: ProbeClass[] = [];
  for (const [name, probe] of Object.entries(scenario.probes ?? {})) {
    probes.push({ name, pairs: pairUp(probe.from, probe.to, ['probes', name]) });
    if ((probe.start ?? 0) >= endNs) problem(['probes', name, 'start'], `it would start after the run ends at ${formatTime(endNs)}; expected an earlier time, or a longer measure (the run ends after its warmup and duration)`, ['measure']);
    if (probe.stop !== undefined && probe.stop <= (probe.start ?? 0)) problem(['probes', name, 'stop'], `${formatTime(probe.stop)} is not after its start; expected a later time`, ['probes', name, 'start']);
  }
  const probePairs = probes.reduce((sum, p) => sum + p.pairs.length, 0);
  if (probePairs > 1000) problem(['probes'], `${probePairs} pairs of hosts would be probed; expected at most 1000`);

  // From here on paths between hosts are needed: only between those that are joined.
  const expanded = { hosts, hostNamed, links, neighbours, classes, probes };
  const pairs = new Map<string, Pair>();
  const rtts = new Map<string, PairRtt>();
  const joined = ({ src, dst }: Pair): boolean => src.router >= 0 && dst.router >= 0 && root(src.router) === root(dst.router);
  const sound = islands.size === 1 && hosts.every((h) => h.router >= 0);
  const onTheWay = sound ? expanded : { ...expanded, classes: classes.map((c) => ({ ...c, pairs: c.pairs.filter(joined) })), probes: probes.map((p) => ({ ...p, pairs: p.pairs.filter(joined) })) };
  const parents = trees(neighbours);
  for (const { pairs: list } of [...onTheWay.classes, ...onTheWay.probes]) for (const pair of list) pairs.set(pairId(pair.src, pair.dst), pair);
  checkHops(onTheWay, parents, problem);
  pairRtts(scenario, onTheWay, parents, rtts, problem);
  checkPackets(scenario, onTheWay, parents, problem);
  checkEvents({ scenario, expanded, rtts, endNs, problem, rules });
  /** Whether a link, class or probe is written there that could not be read, or not joined to the rest. */
  const unread = (name: string): boolean => (Object.hasOwn(topology.links ?? {}, name) && !links.some((link) => link.name === name))
    || [['topology', 'links', name, 'rate'], ['traffic', name, 'kind'], ['probes', name, 'from']].some((path) => holes?.touches(path));
  problems.push(...parseExpectations(scenario.expect ?? [], expanded, unread).problems);
  return { expanded: { ...expanded, pairs, rtts }, problems };
}

/** What holds where the scenario is silent. */
export const defaults = {
  warmupNs: 10e9, durationNs: 60e9, mtuBytes: defaultMtuBytes, overheadBytes: defaultOverheadBytes, probeIntervalNs: 10e6, probeSizeBytes: 100,
  queueIntervalNs: 10e6, socketIntervalNs: 100e6,
} as const;

/** Propagation delay of the way from one host to another, ns, without what an `rtt` adds. */
export function fixedDelay(links: readonly RouterLink[], parents: readonly Tree[], from: Host, to: Host): number {
  let ns = (sideOf(from.fields.delay, 'forward') ?? 0) + (sideOf(to.fields.delay, 'reverse') ?? 0);
  for (const { link, side } of route({ links, parents }, from.router, to.router)) ns += sideOf(link.fields.delay, side) ?? 0;
  return ns;
}

/**
 * In Linux, asking for ECN is a setting of the sending host (tcp_ecn), unless the congestion control asks by itself.
 * One host can therefore not send a class with it and another without.
 */
function checkEcn(classes: readonly TrafficClass[], problem: Report): void {
  const without = new Map<Host, string>();
  for (const c of classes) if (c.cc !== null && !c.ecn) for (const { src } of c.pairs) if (!without.has(src)) without.set(src, c.name);
  for (const c of classes) {
    if (c.cc === null || !c.ecn || asksForEcn(c.cc)) continue;
    const clash = c.pairs.find(({ src }) => without.has(src));
    if (clash) problem(['traffic', c.name, 'ecn'], `${clash.src.name} also sends "${without.get(clash.src)!}" without ECN, and Linux asks for ECN by host; expected the same ecn in both classes, or different hosts`, ...[c.name, without.get(clash.src)!].flatMap((name) => ['kind', 'cc', 'ecn'].map((key) => ['traffic', name, key])));
  }
}

function sameDistribution(a: Distribution, b: Distribution): boolean { return JSON.stringify(a) === JSON.stringify(b); }
const describe = (d: Distribution): string => (d.kind === 'fixed' ? formatTime(d.value) : d.kind === 'uniform' ? `uniform(${formatTime(d.min)}, ${formatTime(d.max)})` : d.kind);

function pairRtts(scenario: Resolved, expanded: Pick<Expanded, 'links' | 'classes' | 'probes'>, parents: readonly Tree[], rtts: Map<string, PairRtt>, problem: Report): void {
  const sendsBulk = new Set<Host>();
  for (const c of expanded.classes) if (trafficKinds.get(c.spec.kind)?.bulk) for (const { src } of c.pairs) sendsBulk.add(src);
  const saidBy = new Map<string, Path>();
  const give = (pair: Pair, spec: Distribution, path: Path): boolean => {
    const id = pairId(pair.src, pair.dst);
    const known = rtts.get(id);
    if (known) {
      if (!sameDistribution(known.spec, spec)) {
        problem(path, `${describe(spec)} for ${pair.src.name} and ${pair.dst.name}, which have ${describe(known.spec)} by ${formatPath(saidBy.get(id)!)}; expected one rtt for a pair of hosts`);
        return false;
      }
      return true;
    }
    const fixedNs = fixedDelay(expanded.links, parents, pair.src, pair.dst) + fixedDelay(expanded.links, parents, pair.dst, pair.src);
    if (leastOf(spec) < fixedNs) {
      problem(path, `${describe(spec)} is less than the delays between ${pair.src.name} and ${pair.dst.name} and back, ${formatTime(fixedNs)}; expected at least that`);
      return false;
    }
    // On the side that does not send bulk data; if both or neither does, on the `to` side.
    const atSource = sendsBulk.has(pair.dst) && !sendsBulk.has(pair.src);
    rtts.set(id, { spec, delayer: atSource ? pair.src : pair.dst, peer: atSource ? pair.dst : pair.src, fixedNs });
    saidBy.set(id, path);
    return true;
  };
  const all = [
    ...expanded.classes.map((c) => ({ pairs: c.pairs, spec: c.spec.rtt, path: ['traffic', c.name, 'rtt'] })),
    ...expanded.probes.map((p) => ({ pairs: p.pairs, spec: scenario.probes?.[p.name]?.rtt, path: ['probes', p.name, 'rtt'] })),
  ];
  for (const { pairs, spec, path } of all) if (spec !== undefined) for (const pair of pairs) if (!give(pair, spec, path)) break;

  // Distinct delays on one host; a uniform rtt is another for every peer.
  const groups = new Map<Host, Set<string>>();
  for (const [id, rtt] of rtts) {
    const set = groups.get(rtt.delayer) ?? new Set<string>();
    set.add(rtt.spec.kind === 'fixed' ? String(rtt.spec.value - rtt.fixedNs) : id);
    groups.set(rtt.delayer, set);
  }
  for (const [host, set] of groups) {
    if (set.size <= maxDelayGroups) continue;
    const id = [...rtts].find(([, rtt]) => rtt.delayer === host)![0];
    problem(saidBy.get(id)!, `${host.name} would need ${set.size} different delays towards its peers; expected at most ${maxDelayGroups} (more hosts, or peers that share an rtt)`);
  }
}

/** Linux sends with a TTL of 64 (IPDEFTTL, include/uapi/linux/ip.h), and the 64th router takes the last one: a packet passes 63. */
export const mostHops = 63;

function checkHops(expanded: Pick<Expanded, 'links' | 'classes' | 'probes'>, parents: readonly Tree[], problem: Report): void {
  if (parents.length <= mostHops) return;
  const check = (pairs: readonly Pair[], path: Path): void => {
    for (const { src, dst } of pairs) {
      const routers = route({ links: expanded.links, parents }, src.router, dst.router).length + 1;
      if (routers > mostHops) { problem(path, `${routers} routers lie between ${src.name} and ${dst.name}; expected at most ${mostHops}, since Linux sends packets with a TTL of 64`, ['topology', 'routers']); return; }
    }
  };
  for (const { name, pairs } of expanded.classes) check(pairs, ['traffic', name]);
  for (const { name, pairs } of expanded.probes) check(pairs, ['probes', name]);
}

function checkPackets(scenario: Resolved, expanded: Pick<Expanded, 'links' | 'classes' | 'probes'>, parents: readonly Tree[], problem: Report): void {
  const ipMtu = (fields: LinkFields): number => mtuOf(fields, scenario.topology);
  const check = (pairs: readonly Pair[], bytes: number, path: Path): void => {
    for (const { src, dst } of pairs) {
      const mtu = Math.min(ipMtu(src.fields), ipMtu(dst.fields), ...route({ links: expanded.links, parents }, src.router, dst.router).map(({ link }) => ipMtu(link.fields)));
      if (bytes > mtu) { problem(path, `a packet of ${bytes} bytes does not fit the MTU of ${mtu} between ${src.name} and ${dst.name}; expected at most ${mtu}B`, ['topology', 'mtu'], ['topology', 'links', '*', 'mtu'], ['topology', 'hosts', '*', 'mtu']); return; }
    }
  };
  for (const c of expanded.classes) {
    const packet = (c.spec as { packet?: number }).packet;
    if (packet !== undefined) check(c.pairs, packet, ['traffic', c.name, 'packet']);
  }
  for (const p of expanded.probes) check(p.pairs, scenario.probes?.[p.name]?.size ?? defaults.probeSizeBytes, ['probes', p.name, 'size']);
}
