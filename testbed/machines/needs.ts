/**
 * What a Plan asks of a kernel and its host, before anything starts: queue disciplines, filters, congestion
 * controls, devices, programs. Each need is known by the kernel's option and by its module, so that a kernel we
 * built (its .config), Debian's (its modules) and the local one (tried out) answer the same questions.
 */

import { daemonLinks } from '../plan/daemon.js';
import type { Plan, PlanDirection, PlanQueue, PlanTest } from '../plan/plan.js';

export interface Need {
  readonly type: 'qdisc' | 'filter' | 'action' | 'congestion control' | 'device' | 'feature' | 'program';
  /** The kernel's (or program's) name: `fq_codel`, `cubic`, `veth`, `iperf3`. */
  readonly name: string;
  /** Who asks for it, in the scenario's words: `queue of BL1`. */
  readonly by: string;
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

function queueNeeds(queue: PlanQueue, by: string): Need[] {
  if (queue.in === 'daemon') return []; // packet sockets, which every run needs
  if (queue.kind === 'raw') return queue.tc?.[0] === undefined ? [] : [qdisc(queue.tc[0], by, queue.tc)];
  return [qdisc(queue.kind, by)];
}

/** @param byDaemon its wire is the userspace bottleneck's */
function directionNeeds(direction: PlanDirection, byDaemon: boolean): Need[] {
  const needs: Need[] = [];
  if (direction.shaper && direction.queue?.in !== 'daemon') needs.push(qdisc(direction.shaper, `shaper of ${direction.name}`));
  if (direction.queue) needs.push(...queueNeeds(direction.queue, `queue of ${direction.name}`));
  if (direction.wire.length > 0 && !byDaemon) {
    const by = `delay of ${direction.name}`;
    needs.push(
      qdisc('netem', by),
      qdisc('ingress', by),
      { type: 'action', name: 'mirred', by, options: ['NET_ACT_MIRRED'], modules: ['act_mirred'] },
      { type: 'filter', name: 'matchall or u32', by, options: ['NET_CLS_MATCHALL', 'NET_CLS_U32'], modules: ['cls_matchall', 'cls_u32'] },
    );
    // Delays that depend on the destination: a band each.
    if (direction.wire.some((wire) => wire.to)) needs.push(qdisc('prio', by), { type: 'filter', name: 'u32', by, options: ['NET_CLS_U32'], modules: ['cls_u32'] });
  }
  return needs;
}

/** The programs a traffic or probe tool runs; none for what is built in. */
const toolPrograms: Readonly<Record<string, readonly string[]>> = {
  iperf3: ['iperf3'], ping: ['ping'], flent: ['flent'], fping: ['fping'], irtt: ['irtt'],
};

/** The servers beside the programs a test starts. */
const serverPrograms: Readonly<Record<string, string>> = { netperf: 'netserver' };
/** The tool of a test, and what it starts for each of its series. */
export const testPrograms = (test: PlanTest): string[] => [test.tool, ...new Set(test.series.flatMap(({ program: name }) => [name, ...(Object.hasOwn(serverPrograms, name) ? [serverPrograms[name]!] : [])]))];

/** Everything the plan needs, each once, in the order it is met. */
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
    needs.push({ type: 'feature', name: 'IPv6', by: 'the addresses', options: ['IPV6'], modules: ['ipv6'] });
  }
  const daemon = daemonLinks(plan);
  for (const link of plan.links) for (const direction of [link.forward, link.reverse]) needs.push(...directionNeeds(direction, daemon.has(link.name)));
  for (const event of plan.events) {
    if (event.set.queue) needs.push(...queueNeeds(event.set.queue, `event on ${event.direction}`));
    if (event.set.wire && daemon.size === 0) needs.push(qdisc('netem', `event on ${event.direction}`));
  }
  for (const flow of plan.flows) {
    if (flow.cc !== null) needs.push(congestionControl(flow.cc, `traffic ${flow.class}`));
    for (const name of toolPrograms[flow.tool] ?? []) needs.push(program(name, `traffic ${flow.class}`));
  }
  for (const probe of plan.probes) {
    for (const name of toolPrograms[probe.tool] ?? []) needs.push(program(name, `probe ${probe.name}`));
  }
  for (const test of plan.tests ?? []) {
    for (const name of testPrograms(test)) needs.push(program(name, `${test.tool} ${test.test} of traffic ${test.class}`));
  }
  const seen = new Set<string>();
  return needs.filter((need) => {
    const key = `${need.type} ${need.name}`;
    return seen.has(key) ? false : seen.add(key);
  });
}

/** `qdisc fq_codel (queue of BL1)` */
export const describeNeed = (need: Need): string => `${need.type} ${need.name} (${need.by})`;
