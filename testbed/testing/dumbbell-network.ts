/**
 * For tests of traffic alone: three namespaces a — r — b made with ip and tc, HTB and a queue on r's way to b,
 * netem's delay on b's answers, offloads off. The run's own network (network.ts) is not involved.
 */

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import type { AgentNetwork } from '../agent/run.js';
import { openNamespace, threadNamespace } from '../hosts/thread-namespace.js';
import { close } from '../linux/libc.js';
import type { Plan, PlanDirection, PlanFlow, PlanInterface, PlanLink, PlanWire } from '../plan/plan.js';

export interface DumbbellOptions {
  readonly rateBps: number;
  readonly rttNs: number;
  /** tc's words of the queue at the bottleneck, e.g. `pfifo limit 1000`. */
  readonly queue: string;
  readonly warmupNs: number;
  readonly durationNs: number;
  readonly flows: readonly Partial<PlanFlow>[];
  /** What netem at b does to what b sends, besides the delay. */
  readonly wire?: Partial<Pick<PlanWire, 'loss' | 'duplicate' | 'reorder'>>;
}

export const addresses = {
  4: { a: '10.0.1.1', ra: '10.0.1.2', rb: '10.0.2.2', b: '10.0.2.1' },
  6: { a: 'fd00:1::1', ra: 'fd00:1::2', rb: 'fd00:2::2', b: 'fd00:2::1' },
} as const;

const cable = (name: string): PlanDirection => ({ name, rateBps: null, shaper: null, overheadBytes: 14, queue: null, wire: [] });

/** The plan that a compiler would have made of it, as far as traffic reads it. Flows default to unlimited cubic from a to b over the whole run. */
export function dumbbellPlan(options: DumbbellOptions): Plan {
  const endNs = options.warmupNs + options.durationNs;
  const end = (node: string, device: string, of: 'a' | 'ra' | 'rb' | 'b'): PlanInterface => ({ node, device, addresses: [`${addresses[4][of]}/24`, `${addresses[6][of]}/64`] });
  const access: PlanLink = { name: 'a', role: 'access', a: end('a', 'ea', 'a'), b: end('r', 'ra', 'ra'), mtuBytes: 1500, forward: cable('a'), reverse: cable('a.reverse') };
  const bottleneck: PlanLink = {
    name: 'BL', role: 'bottleneck', a: end('r', 'rb', 'rb'), b: end('b', 'eb', 'b'), mtuBytes: 1500,
    forward: { ...cable('BL'), rateBps: options.rateBps, shaper: 'htb', queue: { kind: 'raw', in: 'kernel', params: {}, tc: options.queue.split(' ') } },
    reverse: { ...cable('BL.reverse'), wire: [{ delayNs: options.rttNs, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 100000, ...options.wire }] },
  };
  return {
    schema: 1, name: 'dumbbell', seed: 1, varied: {}, warmupNs: options.warmupNs, durationNs: options.durationNs,
    nodes: [
      { name: 'a', role: 'host', netns: 'a', routes: [{ to: '0.0.0.0/0', via: addresses[4].ra, device: 'ea' }, { to: '::/0', via: addresses[6].ra, device: 'ea' }] },
      { name: 'r', role: 'router', netns: 'r', routes: [] },
      { name: 'b', role: 'host', netns: 'b', routes: [{ to: '0.0.0.0/0', via: addresses[4].rb, device: 'eb' }, { to: '::/0', via: addresses[6].rb, device: 'eb' }] },
    ],
    links: [access, bottleneck],
    flows: options.flows.map((flow, id) => ({
      id, class: 'test', kind: 'bulk', transport: 'tcp', tool: 'builtin', src: 'a', dst: 'b', srcAddress: addresses[4].a, dstAddress: addresses[4].b, srcPort: 20000 + id, dstPort: 9000,
      startNs: 0, stopNs: flow.bytes !== undefined ? null : endNs, bytes: null, cc: flow.transport === 'udp' ? null : 'cubic', ecn: false, rateBps: null, packetBytes: null, bursts: null, toolArgs: [],
      baseRttNs: options.rttNs, ...flow,
    })),
    probes: [], events: [], collect: { queueIntervalNs: null, socketIntervalNs: null, packets: false },
    tcp: { hostSysctls: {}, routerSysctls: {}, model: 'linux' },
  };
}

const run = (command: string, ...args: readonly string[]): string => execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
const words = (line: string): string[] => line.split(' ').filter((word) => word !== '');

/** Makes the namespaces; their names begin with `prefix`. */
export function dumbbellNetwork(plan: Plan, prefix = ''): AgentNetwork & { tc(node: string, line: string): string } {
  const name = (node: string): string => `${prefix}${node}`;
  const path = (node: string): string => `/run/netns/${name(node)}`;
  const ip = (node: string | null, line: string): string => run('ip', ...(node === null ? [] : ['-n', name(node)]), ...words(line));
  const tc = (node: string, line: string): string => run('tc', '-n', name(node), ...words(line));
  for (const { name: node } of plan.nodes) {
    run('ip', 'netns', 'add', name(node));
    ip(node, 'link set lo up');
    const enter = (file: string, text: string): void => { inNode(node, () => fs.writeFileSync(file, text)); };
    enter('/proc/sys/net/ipv6/conf/default/accept_dad', '0');
    enter('/proc/sys/net/ipv4/tcp_no_metrics_save', '1');
    for (const [file, value] of Object.entries(node === 'r' ? plan.tcp.routerSysctls : plan.tcp.hostSysctls)) enter(`/proc/sys/${file.replaceAll('.', '/')}`, value);
  }
  for (const { a, b } of plan.links) {
    ip(null, `link add ${a.device} netns ${name(a.node)} type veth peer name ${b.device} netns ${name(b.node)}`);
    for (const { node, device, addresses: list } of [a, b]) {
      run('ip', 'netns', 'exec', name(node), 'ethtool', '-K', device, 'tso', 'off', 'gso', 'off', 'gro', 'off');
      for (const address of list) ip(node, `addr add ${address} dev ${device}${address.includes(':') ? ' nodad' : ''}`);
      ip(node, `link set ${device} up`);
    }
  }
  for (const { name: node, routes } of plan.nodes) for (const { to, via, device } of routes) ip(node, `route add ${to} via ${via} dev ${device}`);
  for (const file of ['ipv4/ip_forward', 'ipv6/conf/all/forwarding']) inNode('r', () => fs.writeFileSync(`/proc/sys/net/${file}`, '1'));
  for (const { a, b, forward, reverse } of plan.links) {
    if (forward.queue !== null) {
      tc(a.node, `qdisc add dev ${a.device} root handle 1: htb default 10`);
      tc(a.node, `class add dev ${a.device} parent 1: classid 1:10 htb rate ${forward.rateBps}bit burst 1514 cburst 1514 quantum 1514`);
      tc(a.node, `qdisc add dev ${a.device} parent 1:10 handle 10: ${forward.queue.tc!.join(' ')}`);
    }
    for (const wire of reverse.wire) tc(b.node, `qdisc add dev ${b.device} root netem delay ${wire.delayNs / 1000}us loss ${wire.loss * 100}% duplicate ${wire.duplicate * 100}%${wire.reorder > 0 ? ` reorder ${wire.reorder * 100}%` : ''} limit ${wire.limitPackets}`);
  }
  function inNode<T>(node: string, call: () => T): T {
    const thread = threadNamespace();
    const target = openNamespace(path(node));
    try {
      return thread.inside(target, node, call);
    } finally {
      close(target);
      thread.close();
    }
  }
  return {
    inNode,
    netnsPath: path,
    command: (_node, words) => words,
    tc,
    bottleneck: () => { throw new Error('not needed here'); },
    applyEvent: (event) => { if (event.set.rateBps !== undefined) tc('r', `class change dev rb parent 1: classid 1:10 htb rate ${event.set.rateBps}bit burst 1514 cburst 1514 quantum 1514`); return []; },
    queued: () => 0,
    verify: () => [],
    verifyEnd: () => [],
    remove: () => { for (const { name: node } of plan.nodes) run('ip', 'netns', 'del', name(node)); },
  };
}
