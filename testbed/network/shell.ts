/** A plan as a shell script: the very network by ip, tc, sysctl and ethtool, its traffic by iperf3 and ping, for a person to read and to run by hand. */

import { handleWord, TC_H_ROOT } from '../linux/rtnetlink.js';
import type { Plan, PlanEvent, PlanFlow, PlanProbe, PlanQueue } from '../plan/plan.js';
import { htbClassMinor, htbClassWords } from '../qdiscs/htb.js';
import { netemWords } from '../qdiscs/netem.js';
import { tbfLimit, tbfWords } from '../qdiscs/tbf.js';
import { daemonConfig } from './daemon.js';
import { burstBytes, layoutOf, netemOf, queueOptions, tbfBuckets, wireNode, type Layout, type Step } from './steps.js';

/** A word the shell takes literally, whatever is in it. */
export const quote = (word: string): string => (/^[A-Za-z0-9_./:=,%@+-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`);
const line = (...words: readonly string[]): string => words.map(quote).join(' ');
/** A comment: no line break of a name can end it. */
const comment = (text: string): string => `# ${text.replace(/[\r\n]+/g, ' ')}`;
const parentWords = (parent: number): string[] => (parent === TC_H_ROOT ? ['root'] : ['parent', handleWord(parent)]);
const seconds = (ns: number): string => String(Number((ns / 1e9).toFixed(6)));

function stepLines(step: Step, netns: (node: string) => string, silent: ReadonlySet<string>): string[] {
  switch (step.do) {
    case 'namespace': return [line('ip', 'netns', 'add', step.netns), line('ip', '-n', step.netns, 'link', 'set', 'lo', 'up')];
    case 'sysctl': return [line('ip', 'netns', 'exec', netns(step.node), 'sysctl', '-qw', `${step.name}=${step.value}`)];
    case 'link': {
      const quiet = [step.a, step.b].some((end) => silent.has(`${end.node} ${end.device}`)) ? ['arp', 'off', 'multicast', 'off'] : [];
      const [a, b, mtu] = [netns(step.a.node), netns(step.b.node), String(step.mtuBytes)];
      return [
        line('ip', '-n', a, 'link', 'add', step.a.device, 'mtu', mtu, 'address', step.a.mac, 'index', String(step.a.ifindex), 'type', 'veth', 'peer', 'name', step.b.device, 'mtu', mtu, 'address', step.b.mac, 'index', String(step.b.ifindex), 'netns', b),
        line('ip', '-n', a, 'link', 'set', step.a.device, ...quiet, 'up'), line('ip', '-n', b, 'link', 'set', step.b.device, ...quiet, 'up'),
      ];
    }
    case 'offloads': return [`${line('ip', 'netns', 'exec', netns(step.node), 'ethtool', '-K', step.device, 'tso', 'off', 'gso', 'off', 'gro', 'off', ...(step.checksums ? ['tx', 'off'] : []))} >/dev/null`];
    case 'address': return [line('ip', '-n', netns(step.node), 'addr', 'add', step.address, 'dev', step.device, ...(step.address.includes(':') ? ['nodad'] : []))];
    case 'neighbour': return [line('ip', '-n', netns(step.node), 'neigh', 'replace', step.address, 'lladdr', step.mac, 'dev', step.device, 'nud', 'permanent')];
    case 'route': return [line('ip', '-n', netns(step.node), 'route', 'add', step.to, 'via', step.via, 'dev', step.device, 'proto', 'static')];
    case 'qdisc': return [line('tc', '-n', netns(step.node), 'qdisc', 'add', 'dev', step.device, ...parentWords(step.parent), 'handle', handleWord(step.handle), ...(step.overheadBytes ? ['stab', 'overhead', String(step.overheadBytes)] : []), step.kind, ...step.words)];
    case 'tc': return [line('tc', '-n', netns(step.node), 'qdisc', 'add', 'dev', step.device, ...parentWords(step.parent), 'handle', handleWord(step.handle), ...step.words)];
    case 'class': return [line('tc', '-n', netns(step.node), 'class', 'add', 'dev', step.device, 'parent', handleWord(step.parent), 'classid', handleWord(step.classid), step.kind, ...step.words)];
    case 'filter': return [line('tc', '-n', netns(step.node), 'filter', 'add', 'dev', step.device, 'parent', handleWord(step.parent), 'protocol', step.protocol, 'prio', String(step.priority), ...(step.handle ? ['handle', String(step.handle)] : []), step.kind, ...step.words)];
    case 'redirect': return [
      line('tc', '-n', netns(step.node), 'qdisc', 'add', 'dev', step.device, 'ingress'),
      line('tc', '-n', netns(step.node), 'filter', 'add', 'dev', step.device, 'parent', 'ffff:', 'protocol', 'all', 'prio', '1', 'matchall', 'action', 'mirred', 'egress', 'redirect', 'dev', step.to.device),
    ];
  }
}

/** `( sleep 1.5; … ) &`; what still goes on when the script ends is ended with it, so the last command takes the place of the subshell. */
const later = (ns: number, ...commands: readonly string[]): string =>
  `( sleep ${seconds(ns)}; ${commands.map((command, i) => (i === commands.length - 1 && command !== 'true' ? `exec ${command}` : command)).join('; ')} ) & started="$started $!"`;
/** iperf3 takes whole seconds (0 is for ever): what is over goes on to the end of the script. */
const wholeSeconds = (ns: number): string => String(Math.max(1, Math.ceil(ns / 1e9)));

function flowLines(flow: PlanFlow, end: number, netns: (node: string) => string): string[] {
  const stop = flow.stopNs ?? end;
  const words = ['ip', 'netns', 'exec', netns(flow.src), 'iperf3', '-c', flow.dstAddress, '-B', flow.srcAddress, '--cport', String(flow.srcPort), '-p', String(flow.dstPort)];
  if (flow.transport === 'tcp') {
    words.push(...(flow.bytes === null ? ['-t', wholeSeconds(stop - flow.startNs)] : ['-n', String(flow.bytes)]), ...(flow.cc === null ? [] : ['-C', flow.cc]));
  } else {
    // iperf3 counts UDP payload: 28 bytes of IPv4 and UDP headers less, 48 with IPv6.
    const payload = (flow.packetBytes ?? 1500) - (flow.dstAddress.includes(':') ? 48 : 28);
    const rate = Math.round(((flow.rateBps ?? 0) * payload) / (flow.packetBytes ?? 1500));
    words.push('-u', '-l', String(payload), '-b', String(rate));
  }
  words.push(...flow.toolArgs);
  const server = ['ip', 'netns', 'exec', netns(flow.dst), 'iperf3', '-s', '-B', flow.dstAddress, '-p', String(flow.dstPort)];
  const bursts = flow.transport === 'udp' ? flow.bursts ?? [[flow.startNs, stop] as const] : [[flow.startNs, stop] as const];
  return [
    `${line(...server)} >/dev/null & started="$started $!"`,
    ...bursts.map(([from, to]) => later(from, line(...words, ...(flow.transport === 'udp' ? ['-t', wholeSeconds(to - from)] : [])))),
  ];
}
const probeLine = (probe: PlanProbe, netns: (node: string) => string): string => later(probe.startNs, line(
  'ip', 'netns', 'exec', netns(probe.src), 'ping', '-q', '-i', seconds(probe.intervalNs), '-s', String(Math.max(0, probe.sizeBytes - (probe.dstAddress.includes(':') ? 48 : 28))),
  '-c', String(Math.max(1, Math.floor((probe.stopNs - probe.startNs) / probe.intervalNs))), probe.dstAddress,
));

function eventLines(plan: Plan, layout: Layout, netns: (node: string) => string): string[] {
  const queues = new Map<string, PlanQueue>();
  return plan.events.map((event) => {
    const found = layout.directions.get(event.direction);
    const commands: string[] = [];
    // The userspace bottleneck makes its events itself.
    const queued = found?.daemon !== null && found?.direction.queue?.in === 'daemon';
    const { rateBps, queue } = queued ? {} as PlanEvent['set'] : event.set;
    const wire = found?.daemon === null ? event.set.wire : undefined;
    if (found?.bottleneck && rateBps !== undefined) {
      const burst = burstBytes(found.link, found.direction);
      const [at, device, shaper] = [netns(found.bottleneck.node), found.bottleneck.device, found.bottleneck.shaperHandle];
      const extra = found.direction.overheadBytes - 14;
      const { depth, peak } = tbfBuckets(found.link, found.direction);
      commands.push(found.direction.shaper === 'tbf'
        ? line('tc', '-n', at, 'qdisc', 'change', 'dev', device, 'root', 'handle', handleWord(shaper), ...(extra ? ['stab', 'overhead', String(extra)] : []), 'tbf', ...tbfWords(rateBps, depth, tbfLimit(queues.get(event.direction) ?? found.direction.queue!, found.link.mtuBytes, depth), peak))
        : line('tc', '-n', at, 'class', 'change', 'dev', device, 'parent', handleWord(shaper), 'classid', handleWord(shaper + htbClassMinor), 'htb', ...htbClassWords(rateBps, burst)));
    }
    if (found?.wireDefault && wire !== undefined) {
      const { device, parent, handle } = found.wireDefault;
      commands.push(line('tc', '-n', netns(wireNode), 'qdisc', 'change', 'dev', device, ...parentWords(parent), 'handle', handleWord(handle), 'netem', ...netemWords(netemOf(wire))));
    }
    if (found?.bottleneck && queue !== undefined) {
      queues.set(event.direction, queue);
      const words = queue.kind === 'raw' ? queue.tc ?? [] : [queue.kind, ...queueOptions(queue, found.link, found.direction).words];
      commands.push(line('tc', '-n', netns(found.bottleneck.node), 'qdisc', 'change', 'dev', found.bottleneck.device, 'parent', handleWord(found.bottleneck.shaperHandle + htbClassMinor), 'handle', handleWord(found.bottleneck.leafHandle), ...words));
    }
    return later(event.atNs, ...(commands.length > 0 ? commands : ['true']));
  });
}

/** The userspace bottleneck, in the wires' namespace. Its run time 0 is when it starts. */
function daemonLines(plan: Plan, layout: Layout): string[] {
  const config = daemonConfig(plan, layout, 'real', null);
  if (config === null || layout.wireNetns === null) return [];
  return [
    comment('The userspace bottleneck'), 'config=$(mktemp)', `printf %s ${quote(JSON.stringify(config))} > "$config"`,
    `${line('ip', 'netns', 'exec', layout.wireNetns, 'testbed', 'daemon', '--config')} "$config" & started="$started $!"`, 'sleep 1', '',
  ];
}

export function planToShell(plan: Plan): string {
  const layout = layoutOf(plan);
  const names = new Map(plan.nodes.map((node) => [node.name, node.netns]));
  if (layout.wireNetns !== null) names.set(wireNode, layout.wireNetns);
  const netns = (node: string): string => names.get(node) ?? node;
  const silent = new Set(layout.steps.flatMap((step) => (step.do === 'address' && step.address.includes(':') ? [`${step.node} ${step.device}`] : [])));
  const end = plan.warmupNs + plan.durationNs;
  const all = [...names.values()].map(quote).join(' ');
  const out = [
    '#!/bin/sh', comment(`${plan.name}, seed ${plan.seed}: the network and traffic of this plan, by hand (as root)`), 'set -eu', 'started=', 'config=',
    `remove() { kill $started 2>/dev/null || true; [ -z "$config" ] || rm -f "$config"; for n in ${all}; do ip netns del "$n" 2>/dev/null || true; done; }`, 'trap remove EXIT', 'trap "exit 1" INT TERM', '',
    comment('The network'), ...layout.steps.flatMap((step) => stepLines(step, netns, silent)), '',
    ...daemonLines(plan, layout),
  ];
  if (plan.flows.length > 0 || plan.probes.length > 0 || plan.events.length > 0) {
    out.push(comment('Traffic; the built-in generator is stood in for by iperf3'), ...plan.flows.flatMap((flow) => [comment(`flow ${flow.id}: ${flow.class}, ${flow.src} to ${flow.dst}`), ...flowLines(flow, end, netns)]));
    out.push(...plan.probes.flatMap((probe) => [comment(`probe ${probe.name}`), probeLine(probe, netns)]), ...(plan.events.length > 0 ? [comment('Events'), ...eventLines(plan, layout, netns)] : []));
    out.push(`sleep ${seconds(end)}`);
  }
  const bottlenecks = [...layout.directions.values()].filter(({ link, bottleneck }) => link.role === 'bottleneck' && bottleneck !== null);
  out.push(...bottlenecks.map(({ bottleneck }) => line('tc', '-n', netns(bottleneck!.node), '-s', 'qdisc', 'show', 'dev', bottleneck!.device)), '');
  return out.join('\n');
}
