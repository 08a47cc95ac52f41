/**
 * What collectors.test.ts runs in a guest: s — R1 ==BL== R2 — d, made with ip and tc, and one phase a behaviour. Prints
 * for each phase what the collectors recorded, boiled down to what the test judges.
 */

import { execFileSync, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { realtimeAt } from '../testbed/agent/clocks.js';
import type { AgentContext, BottleneckQueues, Collector, CollectorFactory } from '../testbed/agent/context.js';
import { Loop } from '../testbed/agent/loop.js';
import { bindSocket, clockNs, close, open, setns, setsockoptInt, socket, stable, trySchedSetscheduler, trySendto, CLOCK_MONOTONIC } from '../testbed/linux/libc.js';
import { familyOf, socketAddress } from '../testbed/linux/sockaddr.js';
import type { Plan, PlanDirection, PlanFlow, PlanProbe } from '../testbed/plan/plan.js';
import { fieldOffsets, readRecordHeader, readRecords } from '../testbed/records/record-file.js';
import { packetsWith } from './packets.js';
import { probes } from './probes.js';
import { queue } from './queue.js';
import { sockets } from './sockets.js';

// As the agent does: the kernel adds no slack to a real-time process's waits.
const priority = stable(4);
priority.writeInt32LE(1);
trySchedSetscheduler(0, 1 | 0x40000000, priority);

const run = (command: string, ...args: string[]): string => execFileSync(command, args, { encoding: 'utf8' });
const ip = (line: string): string => run('ip', ...line.split(' '));
const tc = (node: string, line: string): string => run('tc', '-n', node, ...line.split(' '));

const addresses = {
  4: { s: '10.0.1.1', d: '10.0.2.1', via: { s: '10.0.1.2', d: '10.0.2.2', R1: '10.0.9.2', R2: '10.0.9.1' } },
  6: { s: 'fd00:1::1', d: 'fd00:2::1', via: { s: 'fd00:1::2', d: 'fd00:2::2', R1: 'fd00:9::2', R2: 'fd00:9::1' } },
} as const;

for (const node of ['s', 'R1', 'R2', 'd']) {
  ip(`netns add ${node}`);
  ip(`-n ${node} link set lo up`);
}
for (const [a, da, b, db, v4, v6] of [['s', 'eth', 'R1', 'ds', '10.0.1', 'fd00:1'], ['R1', 'bl', 'R2', 'bl', '10.0.9', 'fd00:9'], ['d', 'eth', 'R2', 'dd', '10.0.2', 'fd00:2']] as const) {
  ip(`link add name ${da} netns ${a} type veth peer name ${db} netns ${b}`);
  for (const [node, device, last] of [[a, da, 1], [b, db, 2]] as const) {
    run('ip', 'netns', 'exec', node, 'ethtool', '-K', device, 'tso', 'off', 'gso', 'off', 'gro', 'off');
    ip(`-n ${node} addr add ${v4}.${last}/24 dev ${device}`);
    ip(`-n ${node} addr add ${v6}::${last}/64 dev ${device} nodad`);
    ip(`-n ${node} link set ${device} up`);
  }
  // Neighbours are known for good: no ARP takes a place in the queue while packets are counted.
  for (const [node, device, other, otherDevice, last] of [[a, da, b, db, 2], [b, db, a, da, 1]] as const) {
    const [{ address }] = JSON.parse(run('ip', '-n', other, '-j', 'link', 'show', 'dev', otherDevice)) as [{ address: string }];
    for (const neighbour of [`${v4}.${last}`, `${v6}::${last}`]) ip(`-n ${node} neigh replace ${neighbour} lladdr ${address} dev ${device} nud permanent`);
  }
}
for (const node of ['s', 'd'] as const) {
  ip(`-n ${node} route add default via ${addresses[4].via[node]}`);
  ip(`-n ${node} -6 route add default via ${addresses[6].via[node]}`);
}
for (const [node, remote, remote6] of [['R1', '10.0.2.0/24', 'fd00:2::/64'], ['R2', '10.0.1.0/24', 'fd00:1::/64']] as const) {
  run('ip', 'netns', 'exec', node, 'sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
  ip(`-n ${node} route add ${remote} via ${addresses[4].via[node]}`);
  ip(`-n ${node} -6 route add ${remote6} via ${addresses[6].via[node]}`);
}

function inNode<T>(node: string, call: () => T): T {
  const [own, other] = [open('/proc/thread-self/ns/net', 0), open(`/run/netns/${node}`, 0)];
  setns(other, 0);
  try {
    return call();
  } finally {
    setns(own, 0);
    close(own);
    close(other);
  }
}
const ifindex = (node: string, device: string): number => (JSON.parse(run('ip', '-n', node, '-j', 'link', 'show', 'dev', device)) as { ifindex: number }[])[0]!.ifindex;
const network: BottleneckQueues = {
  bottleneck: (direction) => direction === 'BL'
    ? { node: 'R1', device: 'bl', ifindex: ifindex('R1', 'bl'), handle: 0x00100000 }
    : { node: 'R2', device: 'bl', ifindex: ifindex('R2', 'bl'), handle: 0x00200000 },
};
// The queue of the reverse direction stands at the root, without a shaper.
tc('R2', 'qdisc add dev bl root handle 20: pfifo limit 1000');

// New interfaces announce themselves (router solicitations, multicast reports): let them, before anything is counted.
run('sleep', '10');

interface Phase {
  readonly rateBps: number;
  readonly shaper?: 'htb' | 'tbf';
  readonly queue: string;
  readonly wire?: { readonly forward?: string; readonly reverse?: string };
  readonly durationNs: number;
  readonly queueIntervalNs?: number | null;
  readonly socketIntervalNs?: number | null;
  readonly flows?: readonly Partial<PlanFlow>[];
  readonly probes?: readonly Partial<PlanProbe>[];
  readonly collectors: readonly CollectorFactory[];
  readonly begin?: (context: AgentContext) => void;
  /** How long the loop goes on after the window, ns. */
  readonly drainNs?: number;
}
interface Capture { place: number; t: number; key: string; size: number; flow: number; direction: number; leaving: boolean; ecn: number; forward: number; /** Absent where no queue of the router hashes. */ hash: number | undefined }
interface PhaseResult {
  readonly findings: readonly { level: string; rule: string; message: string }[];
  readonly records: Readonly<Record<string, readonly Readonly<Record<string, number>>[]>>;
  readonly raw: string;
  readonly qdisc: { readonly packets: number; readonly drops: number; readonly qlen: number; readonly text: string };
}

const warmupNs = 1e8;
const direction = (name: string, rateBps: number | null, kind: string): PlanDirection => ({
  name, rateBps, shaper: rateBps === null ? null : 'htb', overheadBytes: 14, queue: { kind, in: 'kernel', params: {} }, wire: [],
});
const flowDefaults: PlanFlow = {
  id: 0, class: 'test', kind: 'bulk', transport: 'udp', tool: 'test', src: 's', dst: 'd', srcAddress: addresses[4].s, dstAddress: addresses[4].d, srcPort: 5000, dstPort: 6000,
  startNs: 0, stopNs: null, bytes: null, cc: null, ecn: false, rateBps: null, packetBytes: null, bursts: null, toolArgs: [], baseRttNs: 0,
};
const probeDefaults: PlanProbe = {
  id: 0, name: 'p', tool: 'builtin', src: 's', dst: 'd', srcAddress: addresses[4].s, dstAddress: addresses[4].d, port: 7000, startNs: 0, stopNs: 1e9, intervalNs: 1e7, sizeBytes: 100,
};

let phases = 0;
function phase(spec: Phase): PhaseResult {
  const raw = `/run/phase${phases++}`;
  fs.mkdirSync(raw);
  for (const [node, device] of [['R1', 'bl'], ['R2', 'dd'], ['d', 'eth']] as const) {
    if (!tc(node, `qdisc show dev ${device}`).includes('noqueue')) tc(node, `qdisc del dev ${device} root`);
  }
  if (spec.shaper === 'tbf') {
    tc('R1', `qdisc add dev bl root handle 1: tbf rate ${spec.rateBps}bit burst 1514 limit 10000000`);
    tc('R1', `qdisc add dev bl parent 1:1 handle 10: ${spec.queue}`);
  } else {
    tc('R1', 'qdisc add dev bl root handle 1: htb default 1');
    tc('R1', `class add dev bl parent 1: classid 1:1 htb rate ${spec.rateBps}bit burst 1514 cburst 1514 quantum 1514`);
    tc('R1', `qdisc add dev bl parent 1:1 handle 10: ${spec.queue}`);
  }
  if (spec.wire?.forward) tc('R2', `qdisc add dev dd root netem limit 100000 ${spec.wire.forward}`);
  if (spec.wire?.reverse) tc('d', `qdisc add dev eth root netem limit 100000 ${spec.wire.reverse}`);

  const cidr = (node: 's' | 'd', last: 1 | 2): string[] => [`10.0.${node === 's' ? 1 : 2}.${last}/24`, `fd00:${node === 's' ? 1 : 2}::${last}/64`];
  const none = { rateBps: null, shaper: null, overheadBytes: 14, queue: null, wire: [] } as const;
  const plan: Plan = {
    schema: 1, name: 'test', seed: 1, varied: {}, warmupNs, durationNs: spec.durationNs - warmupNs,
    nodes: [
      { name: 's', role: 'host', netns: 's', routes: [] }, { name: 'd', role: 'host', netns: 'd', routes: [] },
      { name: 'R1', role: 'router', netns: 'R1', routes: [{ to: '10.0.2.0/24', via: addresses[4].via.R1, device: 'bl' }, { to: 'fd00:2::/64', via: addresses[6].via.R1, device: 'bl' }] },
      { name: 'R2', role: 'router', netns: 'R2', routes: [{ to: '10.0.1.0/24', via: addresses[4].via.R2, device: 'bl' }, { to: 'fd00:1::/64', via: addresses[6].via.R2, device: 'bl' }] },
    ],
    links: [
      { name: 'BL', role: 'bottleneck', mtuBytes: 1500, a: { node: 'R1', device: 'bl', addresses: ['10.0.9.1/24', 'fd00:9::1/64'] }, b: { node: 'R2', device: 'bl', addresses: ['10.0.9.2/24', 'fd00:9::2/64'] }, forward: direction('BL', spec.rateBps, spec.queue.split(' ')[0]!), reverse: direction('BL.reverse', null, 'pfifo') },
      { name: 's', role: 'access', mtuBytes: 1500, a: { node: 's', device: 'eth', addresses: cidr('s', 1) }, b: { node: 'R1', device: 'ds', addresses: cidr('s', 2) }, forward: { name: 's', ...none }, reverse: { name: 's.reverse', ...none } },
      { name: 'd', role: 'access', mtuBytes: 1500, a: { node: 'd', device: 'eth', addresses: cidr('d', 1) }, b: { node: 'R2', device: 'dd', addresses: cidr('d', 2) }, forward: { name: 'd', ...none }, reverse: { name: 'd.reverse', ...none } },
    ],
    flows: (spec.flows ?? []).map((flow, id) => ({ ...flowDefaults, ...flow, id })),
    probes: (spec.probes ?? []).map((probe, id) => ({ ...probeDefaults, name: `p${id}`, ...probe, id })),
    events: [], tcp: { hostSysctls: {}, routerSysctls: {}, model: 'linux' },
    collect: { queueIntervalNs: spec.queueIntervalNs === undefined ? 1e7 : spec.queueIntervalNs, socketIntervalNs: spec.socketIntervalNs ?? null, packets: true },
  };
  const findings: { level: string; rule: string; message: string }[] = [];
  const originNs = clockNs(CLOCK_MONOTONIC) + 1e8;
  const loop = new Loop(originNs, 'virtual');
  const context: AgentContext = {
    plan, loop, clock: 'virtual', endNs: spec.durationNs, now: () => loop.now(),
    monotonicAtStart: originNs,
    realtimeAtStart: realtimeAt(originNs, 'virtual'),
    raw: (name) => `${raw}/${name}`, inNode, netnsPath: (node) => `/run/netns/${node}`, command: (_node, words) => words,
    finding: (level, rule, message) => { findings.push({ level, rule, message }); }, facts: () => undefined,
  };
  const started = spec.collectors.map((factory) => factory(context, network)).filter((collector): collector is Collector => collector !== null);
  for (const collector of started) collector.start();
  spec.begin?.(context);
  while (loop.run(spec.durationNs + (spec.drainNs ?? 5e8)) === 'signal'); // SIGCHLD
  const [qdisc] = (JSON.parse(run('tc', '-n', 'R1', '-s', '-j', 'qdisc', 'show', 'dev', 'bl')) as { handle: string; packets: number; drops: number; qlen: number }[]).filter(({ handle }) => handle === '10:');
  for (const collector of started) collector.stop();
  loop.close();
  const records = Object.fromEntries(fs.readdirSync(raw).filter((name) => name.endsWith('.rec')).map((name) => [name, rows(`${raw}/${name}`)]));
  return { findings, records, raw, qdisc: { packets: qdisc!.packets, drops: qdisc!.drops, qlen: qdisc!.qlen, text: run('tc', '-n', 'R1', '-s', 'qdisc', 'show', 'dev', 'bl') } };
}

function rows(path: string): Record<string, number>[] {
  const header = readRecordHeader(path);
  const offsets = fieldOffsets(header);
  const out: Record<string, number>[] = [];
  for (const { view, rows: count } of readRecords(path)) {
    for (let i = 0; i < count; i++) {
      const at = i * header.rowBytes;
      out.push(Object.fromEntries(header.fields.map(({ name, type }) => {
        const place = at + offsets[name]!;
        return [name, type === 'f64' ? view.getFloat64(place, true) : type === 'i32' ? view.getInt32(place, true) : type === 'u32' ? view.getUint32(place, true) : view.getUint8(place)];
      })));
    }
  }
  return out;
}
const captures = (result: PhaseResult, node = 'R1'): Capture[] => (result.records[`captures-${node}.rec`] ?? []).map((row, place) => ({
  place, t: row['t']!, key: `${row['key_hi']}:${row['key_lo']}`, size: row['size']!, flow: row['flow']!, direction: row['direction']!, leaving: row['leaving'] === 1, ecn: row['ecn']!, forward: row['forward']!, hash: row['hash'],
}));

/** Arrivals paired with departures by key, in order. */
function pair(all: readonly Capture[]): { readonly pairs: { arrival: Capture; departure: Capture | null }[]; readonly strangers: number } {
  const pairs: { arrival: Capture; departure: Capture | null }[] = [];
  const waiting = new Map<string, { arrival: Capture; departure: Capture | null }[]>();
  let strangers = 0;
  for (const packet of all) {
    if (packet.leaving) {
      const found = waiting.get(packet.key)?.shift();
      if (found) found.departure = packet;
      else strangers++;
      continue;
    }
    const entry = { arrival: packet, departure: null };
    pairs.push(entry);
    const list = waiting.get(packet.key);
    if (list) list.push(entry);
    else waiting.set(packet.key, [entry]);
  }
  return { pairs, strangers };
}
const balance = (result: PhaseResult, node = 'R1') => {
  const all = captures(result, node);
  const { pairs, strangers } = pair(all);
  return {
    arrivals: pairs.length, departures: all.filter(({ leaving }) => leaving).length, unpaired: pairs.filter(({ departure }) => !departure).length, strangers,
    dictionary: JSON.parse(fs.readFileSync(`${result.raw}/captures-${node}.json`, 'utf8')) as { lost: number; directions: string[] },
    marked: pairs.filter(({ arrival, departure }) => departure && arrival.ecn !== 3 && departure.ecn === 3).length,
    identified: all.filter(({ flow }) => flow === 0).length, forward: all.filter(({ flow, forward }) => flow === 0 && forward === 1).length,
    drops: result.qdisc.drops, sent: result.qdisc.packets, queued: result.qdisc.qlen,
  };
};

/** UDP packets of `bytes` IP bytes from s to d on a fixed schedule from run time `fromNs`. @returns when each was sent, ns */
function cbr(context: AgentContext, fromNs: number, gapNs: number, count: number, bytes: number, ecn = 0, family: 4 | 6 = 4): number[] {
  const { s, d } = addresses[family];
  const fd = inNode('s', () => {
    const made = socket(familyOf(s), 2, 0);
    const local = socketAddress(s, 5000);
    bindSocket(made, local, local.length);
    if (family === 4) setsockoptInt(made, 0, 1, ecn); // IP_TOS
    else setsockoptInt(made, 41, 67, ecn); // IPV6_TCLASS
    return made;
  });
  const to = socketAddress(d, 6000);
  const payload = stable(bytes - (family === 4 ? 28 : 48));
  const sent: number[] = [];
  context.loop.at(context.endNs, () => close(fd));
  context.loop.every(fromNs, gapNs, fromNs + gapNs * (count - 1), () => {
    payload.writeUInt32LE(sent.length, 0);
    sent.push(context.now());
    trySendto(fd, payload, payload.length, 0, to, to.length);
  });
  return sent;
}
function iperf(context: AgentContext, seconds: number): void {
  const quiet = { stdio: 'ignore' } as const;
  context.loop.at(0, () => { inNode('d', () => spawn('iperf3', ['-s', '-1', '-p', '6000'], quiet)).unref(); });
  context.loop.at(5e7, () => { inNode('s', () => spawn('iperf3', ['-c', addresses[4].d, '-p', '6000', '--cport', '5000', '-t', String(seconds)], quiet)).unref(); });
}

const packets = packetsWith({});
const out: Record<string, unknown> = {};

for (const shaper of ['htb', 'tbf'] as const) {
  let sent: readonly number[] = [];
  const result = phase({
    rateBps: 10e6, shaper, queue: 'pfifo limit 20', durationNs: 1e9, flows: [{}], collectors: [packets, queue],
    begin: (context) => { sent = cbr(context, 2e8, 4e5, 500, 1000); },
  });
  const { pairs } = pair(captures(result));
  out[`cbr-${shaper}`] = {
    findings: result.findings, ...balance(result), sentAt: sent, packets: pairs.map(({ arrival, departure }) => [arrival.t, departure ? departure.t : null, arrival.place, departure ? departure.place : null]),
    samples: result.records['queue-BL.rec'], reverse: result.records['queue-BL.reverse.rec']!.length,
  };
}
for (const queueWords of ['codel ecn', 'red limit 1000000 min 15000 max 45000 avpkt 1000 burst 20 probability 0.1 ecn']) {
  const result = phase({
    rateBps: 10e6, queue: queueWords, durationNs: 2e9, drainNs: 1e9, flows: [{}], collectors: [packets, queue], queueIntervalNs: null,
    begin: (context) => { cbr(context, 2e8, 6e5, 3000, 1000, 2); },
  });
  out[queueWords.split(' ')[0]!] = { findings: result.findings, ...balance(result), samples: result.records['queue-BL.rec'], text: result.qdisc.text };
}
{
  let said = '';
  const result = phase({
    rateBps: 100e6, queue: 'fq_codel', durationNs: 1.5e9, wire: { reverse: 'delay 10ms' }, flows: [{ transport: 'tcp' }], socketIntervalNs: 1e8, collectors: [packets, queue, sockets],
    begin: (context) => {
      iperf(context, 1);
      context.loop.at(1e9, () => { said = run('ip', 'netns', 'exec', 's', 'ss', '-tinH', 'sport = 5000'); });
    },
  });
  out['bulk'] = { findings: result.findings, ...balance(result), reverse: balance(result, 'R2'), ss: said, sockets: result.records['sockets.rec'], samples: result.records['queue-BL.rec']!.length };
}
{
  const result = phase({
    rateBps: 1e9, queue: 'fq_codel', durationNs: 2e8, drainNs: 1e8, flows: [{ transport: 'tcp' }], collectors: [packetsWith({ ringBytes: 256 * 1024 })],
    begin: (context) => iperf(context, 1),
  });
  out['small-ring'] = { findings: result.findings, ...balance(result) };
}
{
  run('ip', 'netns', 'exec', 's', 'ethtool', '-K', 'eth', 'tso', 'on', 'gso', 'on');
  const result = phase({ rateBps: 100e6, queue: 'fq_codel', durationNs: 6e8, flows: [{ transport: 'tcp' }], collectors: [packets], begin: (context) => iperf(context, 1) });
  run('ip', 'netns', 'exec', 's', 'ethtool', '-K', 'eth', 'tso', 'off', 'gso', 'off');
  out['superpacket'] = { findings: result.findings };
}
{
  const result = phase({
    rateBps: 10e6, queue: 'pfifo limit 100', durationNs: 1.2e9, wire: { forward: 'delay 5ms', reverse: 'delay 20ms' },
    probes: [{ startNs: 1e8, stopNs: 1e9 }, { tool: 'ping', startNs: 1.05e8, stopNs: 1e9, intervalNs: 2e7 }, { startNs: 1.02e8, stopNs: 1e9, srcAddress: addresses[6].s, dstAddress: addresses[6].d, port: 7001 }], collectors: [packets, probes],
  });
  out['probes'] = { findings: result.findings, rows: result.records['probes.rec'], ping: fs.readFileSync(`${result.raw}/ping-p1.txt`, 'utf8'), flows: captures(result).map(({ flow, forward, leaving }) => `${flow}${forward}${leaving}`) };
}
{
  const result = phase({
    rateBps: 10e6, queue: 'pfifo limit 100', durationNs: 2.2e9, wire: { reverse: 'delay 20ms loss 20%' },
    probes: [{ startNs: 1e8, stopNs: 2e9 }, { tool: 'ping', startNs: 1.05e8, stopNs: 2e9, intervalNs: 2.5e7 }], collectors: [probes],
  });
  out['lossy'] = { findings: result.findings, rows: result.records['probes.rec'], ping: fs.readFileSync(`${result.raw}/ping-p1.txt`, 'utf8') };
}
{
  const result = phase({
    rateBps: 10e6, queue: 'pfifo limit 20', durationNs: 1e9, flows: [{ srcAddress: addresses[6].s, dstAddress: addresses[6].d }], collectors: [packets],
    begin: (context) => { cbr(context, 2e8, 4e5, 500, 1000, 1, 6); },
  });
  out['ipv6'] = { findings: result.findings, ...balance(result), ecn: [...new Set(captures(result).map(({ ecn }) => ecn))], sizes: [...new Set(captures(result).map(({ size }) => size))] };
}
{
  let said = '';
  const result = phase({
    rateBps: 10e6, queue: 'fq_codel', durationNs: 1e9, flows: [{}, { transport: 'tcp' }], collectors: [packets],
    begin: (context) => {
      cbr(context, 2e8, 4e5, 2000, 1000);
      iperf(context, 1);
      context.loop.at(8e8, () => { said = run('tc', '-n', 'R1', 'class', 'show', 'dev', 'bl'); });
    },
  });
  const { pairs } = pair(captures(result));
  out['hashes'] = {
    findings: result.findings, text: said, flows: pairs.filter(({ arrival }) => arrival.forward === 1).map(({ arrival }) => [arrival.flow, arrival.hash]),
    changed: pairs.filter(({ arrival, departure }) => departure && departure.hash !== arrival.hash).length,
  };
}
fs.writeSync(1, `${JSON.stringify(out)}\n`);
process.exit(0);
