/**
 * What a Plan asks of a kernel and its host, before anything starts: what its network uses (testbed/network/needs.ts),
 * congestion controls, devices, programs. Each need is known by the kernel's option and by its module, so that a kernel we
 * built (its .config), Debian's (its modules) and the local one (tried out) answer the same questions.
 */

import { aqms } from '../../aqm/registry.js';
import { networkNeeds, type NetworkNeed } from '../network/needs.js';
import type { Plan, PlanProbe, PlanTest } from '../plan/plan.js';
import { suggestion } from '../scenario/names.js';

export interface Need {
  readonly type: 'qdisc' | 'filter' | 'action' | 'congestion control' | 'device' | 'feature' | 'program';
  /** The kernel's (or program's) name: `fq_codel`, `cubic`, `veth`, `iperf3`. */
  readonly name: string;
  /** Who asks for it, in the scenario's words: `queue of BL1`. */
  readonly by: string;
  /** Where the scenario asks for it; absent for what every run needs. */
  readonly place?: readonly string[];
  /** Any of these options has it, without `CONFIG_`; empty = every kernel has it. Not for programs. */
  readonly options: readonly string[];
  /** The modules that have it when it is not built in; all of them are loaded that are there. */
  readonly modules: readonly string[];
  /** First kernel that has it, when that matters. */
  readonly since?: string;
  /** For a raw queue: tc's own words, to try it with. */
  readonly words?: readonly string[];
}

const alwaysThere = new Set(['pfifo', 'bfifo', 'pfifo_fast', 'pfifo_head_drop', 'noqueue', 'mq']);
/** First kernel with the qdisc, where some kernel we may meet is older. */
const since: Readonly<Record<string, string>> = { dualpi2: '6.17', fq_pie: '5.6', ets: '5.6', cake: '4.19' };
/** Congestion controls whose option is not called after them (net/ipv4/Kconfig). */
const congestionOptions: Readonly<Record<string, string>> = { highspeed: 'TCP_CONG_HSTCP' };

const qdisc = (name: string, by: string, words?: readonly string[]): Need => ({
  type: 'qdisc', name, by,
  options: alwaysThere.has(name) ? [] : name === 'ingress' || name === 'clsact' ? ['NET_SCH_INGRESS'] : [`NET_SCH_${name.toUpperCase()}`],
  modules: alwaysThere.has(name) ? [] : [name === 'clsact' ? 'sch_ingress' : `sch_${name}`],
  ...(Object.hasOwn(since, name) ? { since: since[name]! } : {}),
  ...(words ? { words } : {}),
});
const congestionControl = (name: string, by: string): Need => ({
  type: 'congestion control', name, by,
  options: name === 'reno' ? [] : [Object.hasOwn(congestionOptions, name) ? congestionOptions[name]! : `TCP_CONG_${name.toUpperCase()}`],
  modules: name === 'reno' ? [] : [`tcp_${name}`],
});
const program = (name: string, by: string): Need => ({ type: 'program', name, by, options: [], modules: [] });

/** What the kernel must have for one feature of the network. */
function networkPart({ type, name, by, place, words }: NetworkNeed): Need[] {
  const asker = { by, ...(place ? { place } : {}) };
  switch (type) {
    case 'link': return [{ type: 'device', name, ...asker, options: [name.toUpperCase()], modules: [name] }];
    case 'qdisc': return [{ ...qdisc(name, by, words), ...asker }];
    case 'classifier': return [{ type: 'filter', name, ...asker, options: [`NET_CLS_${name.toUpperCase()}`], modules: [`cls_${name}`] }];
    case 'redirect': return [
      { ...qdisc('ingress', by), ...asker },
      { type: 'action', name, ...asker, options: [`NET_ACT_${name.toUpperCase()}`], modules: [`act_${name}`] },
      { type: 'filter', name: 'matchall or u32', ...asker, options: ['NET_CLS_MATCHALL', 'NET_CLS_U32'], modules: ['cls_matchall', 'cls_u32'] },
    ];
  }
}

/** The programs a traffic or probe tool runs; none for what is built in. */
const toolPrograms: Readonly<Record<string, readonly string[]>> = {
  iperf3: ['iperf3'], ping: ['ping'], flent: ['flent'],
};

/** A test with streams both ways makes two classes of one name in the scenario, NAME.up and NAME.down; no other has a dot. */
const trafficOf = (flowClass: string): string => flowClass.split('.')[0]!;
const isOfTest = ({ tool }: PlanProbe): boolean => tool === 'fping' || tool === 'irtt';

/** The servers beside the programs a test starts. */
const serverPrograms: Readonly<Record<string, string>> = { netperf: 'netserver' };
/** The tool of a test, and what it starts for each of its series. */
export const testPrograms = (test: PlanTest): string[] => [test.tool, ...new Set(test.series.flatMap(({ program: name }) => [name, ...(Object.hasOwn(serverPrograms, name) ? [serverPrograms[name]!] : [])]))];

/** Everything the plan needs, each once, in the order it is met. @throws UserError for queues that cannot be made */
export function needsOf(plan: Plan): Need[] {
  const network = 'every run';
  const needs: Need[] = [
    { type: 'feature', name: 'network namespaces', by: network, options: ['NET_NS'], modules: [] },
    { type: 'device', name: 'veth', by: network, options: ['VETH'], modules: ['veth'] },
    { type: 'feature', name: 'socket diagnostics', by: network, options: ['INET_TCP_DIAG'], modules: ['tcp_diag'] },
    { type: 'feature', name: 'packet sockets', by: network, options: ['PACKET'], modules: ['af_packet'] },
    program('ip', network), program('tc', network),
  ];
  if (plan.links.some((link) => [...link.a.addresses, ...link.b.addresses].some((address) => address.includes(':')))) {
    needs.push({ type: 'feature', name: 'IPv6', by: 'the addresses', place: ['topology', 'ip'], options: ['IPV6'], modules: ['ipv6'] });
  }
  needs.push(...networkNeeds(plan).flatMap(networkPart)); // what the userspace bottleneck takes are packet sockets, which every run needs
  for (const flow of plan.flows) {
    if (flow.cc !== null) needs.push({ ...congestionControl(flow.cc, `traffic ${flow.class}`), place: ['traffic', trafficOf(flow.class), 'cc'] });
    for (const name of toolPrograms[flow.tool] ?? []) needs.push({ ...program(name, `traffic ${flow.class}`), place: ['traffic', trafficOf(flow.class), 'tool'] });
  }
  for (const probe of plan.probes) {
    if (isOfTest(probe)) continue;
    for (const name of toolPrograms[probe.tool] ?? []) needs.push({ ...program(name, `probe ${probe.name}`), place: ['probes', probe.name, 'tool'] });
  }
  for (const test of plan.tests ?? []) {
    for (const name of testPrograms(test)) needs.push({ ...program(name, `${test.tool} ${test.test} of traffic ${test.class}`), place: ['traffic', test.class, 'test'] });
  }
  const seen = new Set<string>();
  return needs.filter((need) => {
    const key = JSON.stringify([need.type, need.name, need.words]);
    return seen.has(key) ? false : seen.add(key);
  });
}

/** How the userspace bottleneck can stand in for what a kernel lacks; empty where it cannot. */
export function inUserspace(need: Need): string {
  if (need.type !== 'qdisc' || need.words !== undefined) return '';
  if (need.name === 'netem') return ', or put the bottleneck\'s queue into user space (queue: { kind: …, in: daemon }), which brings the delay with it';
  return need.by.startsWith('queue of ') && aqms.has(need.name) ? `, or put it into user space (queue: { kind: ${need.name}, in: daemon })` : '';
}

/** `qdisc fq_codel (queue of BL1)` */
export const describeNeed = (need: Need): string => `${need.type} ${need.name} (${need.by})`;

/** Linux's congestion controls (net/ipv4/Kconfig), those the most used first; a tree of the user's own may have more. */
const knownCongestionControls = ['cubic', 'reno', 'bbr', 'dctcp', 'vegas', 'westwood', 'htcp', 'bic', 'hybla', 'illinois', 'highspeed', 'scalable', 'veno', 'yeah', 'nv', 'lp', 'cdg', 'prague'] as const;

/** For a congestion control that is not there: the name that was probably meant and those the kernel has. @param has whether it has any of these options */
export function otherCongestionControls(name: string, has: (options: readonly string[]) => boolean): string {
  const there = knownCongestionControls.filter((known) => has(congestionControl(known, '').options));
  return `${suggestion(name, there)}this kernel has ${there.join(', ')}`;
}
