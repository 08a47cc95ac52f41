import * as assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { ScenarioError } from '../errors.js';
import { needsOf, type Need } from '../machines/needs.js';
import { load, loadText } from '../scenario/load.js';
import { compile, expandRuns } from './compile.js';
import { planHash } from './hash.js';
import type { Plan, PlanDirection, PlanLink } from './plan.js';

const files = fs.readdirSync('topologies').filter((name) => name.endsWith('.yaml')).sort();

/** IP address as a number, for comparing with prefixes. */
function bits(address: string): { readonly value: bigint; readonly width: number } {
  if (address.includes(':')) {
    const [head, tail] = address.split('::') as [string, string?];
    const left = head === '' ? [] : head.split(':');
    const right = tail === undefined || tail === '' ? [] : tail.split(':');
    const words = tail === undefined ? left : [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right];
    return { value: words.reduce((n, w) => (n << 16n) | BigInt(`0x${w}`), 0n), width: 128 };
  }
  return { value: address.split('.').reduce((n, byte) => (n << 8n) | BigInt(byte), 0n), width: 32 };
}
function matches(address: string, cidr: string): number {
  const [net, length] = cidr.split('/') as [string, string];
  const { value, width } = bits(address);
  const shift = BigInt(width - Number(length));
  return value >> shift === bits(net).value >> shift ? Number(length) : -1;
}
/** Names of one type of what the plan needs, sorted. */
const needed = (plan: Plan, type: Need['type']): string[] => [...new Set(needsOf(plan).filter((need) => need.type === type).map((need) => need.name))].sort();
const bare = (address: string): string => address.split('/')[0]!;

/** The network a kernel would make of a plan: what each node owns and how it forwards. */
class Network {
  private readonly byNode = new Map<string, { addresses: Set<string>; ports: { device: string; cidr: string; link: PlanLink; outward: PlanDirection; peer: string; peerAddress: string }[]; routes: Plan['nodes'][number]['routes'] }>();
  constructor(plan: Plan) {
    for (const node of plan.nodes) this.byNode.set(node.name, { addresses: new Set(), ports: [], routes: node.routes });
    for (const link of plan.links) {
      for (const [near, far, outward] of [[link.a, link.b, link.forward], [link.b, link.a, link.reverse]] as const) {
        const node = this.byNode.get(near.node)!;
        node.addresses.add(bare(near.addresses[0]!));
        node.ports.push({ device: near.device, cidr: near.addresses[0]!, link, outward, peer: far.node, peerAddress: bare(far.addresses[0]!) });
      }
    }
  }
  /** The directions a packet passes, by longest-prefix match at every node. */
  path(from: string, to: string): PlanDirection[] {
    const way: PlanDirection[] = [];
    for (let name = from, hops = 0; ; hops++) {
      const node = this.byNode.get(name)!;
      if (node.addresses.has(to)) return way;
      assert.ok(hops < 300, 'a forwarding loop');
      const choices = [
        ...node.ports.map((port) => ({ length: matches(to, port.cidr), via: to, device: port.device })),
        ...node.routes.map((route) => ({ length: matches(to, route.to), via: route.via, device: route.device })),
      ].filter((choice) => choice.length >= 0).sort((a, b) => b.length - a.length);
      assert.ok(choices.length > 0, `${name} has no route to ${to}`);
      assert.ok(choices.length === 1 || choices[0]!.length > choices[1]!.length, `${name} has two equal routes to ${to}`);
      const port = node.ports.find((p) => p.device === choices[0]!.device);
      assert.ok(port, `${name} has no interface ${choices[0]!.device}`);
      assert.equal(port.peerAddress, choices[0]!.via, `the next hop of ${name} to ${to} is not on ${port.device}`);
      way.push(port.outward);
      name = port.peer;
    }
  }
}
/** What the wires of a way add up to for a packet to `to`: the first entry that matches. */
const delayOf = (way: readonly PlanDirection[], to: string): number =>
  way.reduce((sum, direction) => sum + (direction.wire.find((w) => w.to === undefined || w.to.includes(to))?.delayNs ?? 0), 0);

/** What must hold in every plan. */
function sound(plan: Plan): void {
  const addresses = plan.links.flatMap((link) => [...link.a.addresses, ...link.b.addresses].map(bare));
  assert.equal(new Set(addresses).size, addresses.length, 'an address is there twice');
  for (const names of [plan.nodes.map((n) => n.name), plan.nodes.map((n) => n.netns), plan.links.map((l) => l.name)]) assert.equal(new Set(names).size, names.length);
  const devices = plan.links.flatMap((link) => [link.a, link.b].map((end) => `${end.node} ${end.device}`));
  assert.equal(new Set(devices).size, devices.length, 'an interface is there twice');
  for (const link of plan.links) {
    for (const end of [link.a, link.b]) assert.match(end.device, /^[A-Za-z][A-Za-z0-9_-]{0,14}$/);
    assert.ok(matches(bare(link.a.addresses[0]!), link.b.addresses[0]!) >= 0, 'the ends of a cable are in different subnets');
    for (const direction of [link.forward, link.reverse]) {
      assert.equal(direction.queue === null, direction.rateBps === null);
      for (const wire of direction.wire) assert.ok(wire.limitPackets >= 1000 && (direction.rateBps === null || wire.limitPackets * 64 * 8 >= 2 * direction.rateBps * (wire.delayNs / 1e9)));
      assert.ok(direction.wire.filter((w) => w.to !== undefined).length <= 15);
    }
  }
  const network = new Network(plan);
  const endNs = plan.warmupNs + plan.durationNs;
  const tuples = new Set<string>();
  const seen = new Set<string>();
  plan.flows.forEach((flow, i) => {
    assert.equal(flow.id, i);
    tuples.add(`${flow.transport} ${flow.srcAddress} ${flow.srcPort} ${flow.dstAddress} ${flow.dstPort}`);
    assert.ok(flow.startNs >= 0 && flow.startNs < endNs && Number.isInteger(flow.startNs));
    assert.ok(flow.stopNs === null || (flow.stopNs > flow.startNs && flow.stopNs <= endNs));
    assert.ok(flow.bytes === null || (Number.isInteger(flow.bytes) && flow.bytes > 0));
    const id = `${flow.src} ${flow.dst}`;
    if (seen.has(id)) return;
    seen.add(id);
    const there = network.path(flow.src, flow.dstAddress);
    const back = network.path(flow.dst, flow.srcAddress);
    assert.deepEqual(there.map((d) => d.name.replace('.reverse', '')), back.map((d) => d.name.replace('.reverse', '')).reverse(), 'the way back is another');
    assert.equal(delayOf(there, flow.dstAddress) + delayOf(back, flow.srcAddress), flow.baseRttNs, `${id}: the delays do not add up to the RTT`);
  });
  assert.equal(tuples.size, plan.flows.length, 'two flows have the same ports');
  for (const probe of plan.probes) {
    network.path(probe.src, probe.dstAddress);
    network.path(probe.dst, probe.srcAddress);
    assert.ok(probe.startNs < probe.stopNs && probe.stopNs <= endNs);
  }
  assert.deepEqual(JSON.parse(JSON.stringify(plan)), plan, 'a plan is plain JSON');
}

const dumbbell = (rest: string, topology = ''): string => `name: t
topology:
${topology}  routers: [R1, R2]
  links:
    BL: { between: [R1, R2], rate: 20mbit, queue: codel }
  hosts:
    S: { count: 4, at: R1, rate: 100mbit }
    D: { count: 4, at: R2, delay: { forward: 2ms, reverse: 3ms } }
${rest}`;
const plan = (text: string, seed = 1): Plan => compile(loadText(text, 't.yaml'), { seed });

describe('compiling a scenario', () => {
  for (const file of files) {
    it(`makes a sound plan of every run of topologies/${file}`, function () {
      this.timeout(30_000);
      const text = fs.readFileSync(`topologies/${file}`, 'utf8');
      assert.match(text, /^# \S.{30,}/, 'the first line says what it shows');
      for (const run of expandRuns(load(`topologies/${file}`))) {
        assert.equal(run.plan.seed, run.seed);
        assert.deepEqual(run.plan.varied, run.varied);
        sound(run.plan);
      }
    });
  }

  it('makes of the parking lot what its text says', () => {
    const runs = expandRuns(load('topologies/parking-lot.yaml'));
    assert.equal(runs.length, 12);
    const { plan: p } = runs[0]!;
    assert.equal(p.nodes.length, 3 + 12);
    assert.equal(p.links.length, 2 + 12);
    assert.deepEqual(p.links.filter((l) => l.role === 'bottleneck').map((l) => l.name), ['BL1', 'BL2']);
    const flows = (name: string): Plan['flows'] => p.flows.filter((f) => f.class === name);
    assert.deepEqual(flows('long').map((f) => [f.src, f.dst, f.tool, f.cc, f.bytes, f.stopNs]), [['S1[0]', 'D3[0]', 'iperf3', 'cubic', null, 70e9], ['S1[1]', 'D3[1]', 'iperf3', 'cubic', null, 70e9]]);
    assert.ok(flows('long').every((f) => f.startNs > 0 && f.startNs < 1e9));
    assert.notEqual(flows('long')[0]!.startNs, flows('long')[1]!.startNs);
    assert.ok(flows('cross1').every((f) => f.baseRttNs >= 45e6 && f.baseRttNs <= 55e6 && f.tool === 'iperf3'));
    assert.deepEqual(flows('cross2').map((f) => [f.bytes, f.stopNs]), [[10e6, null], [10e6, null]]);
    // Poisson: 280 ± 5 standard deviations in 70 s.
    assert.ok(Math.abs(flows('web').length - 280) < 84);
    assert.deepEqual(flows('voice').map((f) => [f.transport, f.rateBps, f.packetBytes, f.tool]), [['udp', 64e3, 200, 'builtin']]);
    assert.deepEqual(p.probes.map((x) => [x.src, x.dst, x.intervalNs, x.sizeBytes]), [['S1[0]', 'D3[0]', 10e6, 100]]);
    // The delay is on the receivers, which send no bulk data.
    for (const link of p.links) assert.equal(link.forward.wire.length, /^D/.test(link.name) ? 1 : 0, link.name);
    assert.deepEqual([needed(p, 'qdisc'), needed(p, 'congestion control'), needed(p, 'program')], [['htb', 'ingress', 'netem', 'pfifo'], ['cubic', 'reno'], ['ip', 'iperf3', 'tc']]);
  });

  it('gives the same plan for the same seed and another for another', () => {
    const scenario = load('topologies/mixed.yaml');
    const hash = (seed: number): string => planHash(compile(scenario, { seed }));
    assert.equal(hash(1), hash(1));
    assert.notEqual(hash(1), hash(2));
    assert.match(hash(1), /^[0-9a-f]{64}$/);
  });

  it('hashes a plan whatever the order of its keys', () => {
    const p = compile(load('topologies/dumbbell.yaml'), { seed: 1 });
    const reversed = Object.fromEntries(Object.entries(p).reverse()) as unknown as Plan;
    assert.equal(planHash(p), planHash(reversed));
  });

  it('draws nothing differently for a class when another is added', () => {
    const traffic = 'traffic:\n  web: { kind: short, from: S, to: D, arrival: poisson(5/s), size: exponential(50kB), rtt: uniform(20ms, 90ms) }\n';
    const more = traffic.replace('traffic:\n', 'traffic:\n  first: { kind: onoff, from: S[0], to: D[1], rate: 1mbit, on: exponential(1s), off: exponential(1s) }\n');
    const of = (p: Plan): unknown[] => p.flows.filter((f) => f.class === 'web').map((f) => [f.src, f.startNs, f.bytes, f.baseRttNs]);
    assert.ok(of(plan(dumbbell(traffic))).length > 100);
    assert.deepEqual(of(plan(dumbbell(traffic))), of(plan(dumbbell(more))));
  });

  it('draws the chunks of a connection that pauses at compile time', () => {
    const [flow] = plan(dumbbell("traffic:\n  v: { kind: chunks, from: 'S[0]', to: 'D[0]', size: 'uniform(10kB, 20kB)', every: 500ms, start: 1s, stop: 3s }\n")).flows;
    assert.deepEqual([flow!.kind, flow!.tool, flow!.transport, flow!.bytes, flow!.startNs, flow!.stopNs], ['chunks', 'builtin', 'tcp', null, 1e9, 3e9]);
    assert.deepEqual(flow!.chunks!.map(([at]) => at), [1e9, 1.5e9, 2e9, 2.5e9]);
    assert.ok(new Set(flow!.chunks!.map(([, bytes]) => bytes)).size > 1 && flow!.chunks!.every(([, bytes]) => bytes >= 10e3 && bytes <= 20e3));
  });

  it('counts the delays of links and hosts into an rtt, and shares it with every class of the pair', () => {
    const p = plan(dumbbell('traffic:\n  b: { kind: bulk, from: S, to: D, rtt: 50ms }\n  w: { kind: short, from: D[0], to: S[0], arrival: every 1s, size: 1kB }\n'));
    sound(p);
    assert.ok(p.flows.every((f) => f.baseRttNs === 50e6));
    // 2 ms of the host's own and 50 − 5 for the rtt, in one entry; 3 ms the other way.
    assert.deepEqual(p.links.find((l) => l.name === 'D[0]')!.forward.wire.map((w) => w.delayNs), [47e6]);
    assert.deepEqual(p.links.find((l) => l.name === 'D[0]')!.reverse.wire.map((w) => w.delayNs), [3e6]);
  });

  it('delays on the side that sends no bulk data, and on the receiving one when both do', () => {
    const delayed = (p: Plan): string[] => p.links.filter((l) => l.forward.wire.some((w) => w.delayNs > 10e6)).map((l) => l.name);
    assert.deepEqual(delayed(plan(dumbbell('traffic:\n  down: { kind: bulk, from: D[0], to: S[0], rtt: 50ms }\n'))), ['S[0]']);
    assert.deepEqual(delayed(plan(dumbbell('traffic:\n  down: { kind: bulk, from: D[0], to: S[0] }\nprobes:\n  p: { from: S[0], to: D[0], rtt: 50ms }\n'))), ['S[0]']);
    assert.deepEqual(delayed(plan(dumbbell('traffic:\n  up: { kind: bulk, from: S[0], to: D[0], rtt: 50ms }\n  down: { kind: bulk, from: D[0], to: S[0] }\n'))), ['D[0]']);
  });

  it('groups the peers of one host by their delay, and leaves a peer without rtt its path', () => {
    const p = plan(dumbbell('traffic:\n  a: { kind: bulk, from: "S[0..1]", to: D[0], rtt: 50ms }\n  b: { kind: bulk, from: S[2], to: D[0], rtt: 80ms }\n  c: { kind: bulk, from: S[3], to: D[0] }\n'));
    sound(p);
    const wire = p.links.find((l) => l.name === 'D[0]')!.forward.wire;
    assert.deepEqual(wire.map((w) => [w.to?.length, w.delayNs]), [[2, 47e6], [1, 77e6], [undefined, 2e6]]);
    assert.ok(needed(p, 'qdisc').includes('prio'));
  });

  it('gives 4000 hosts on three routers sound addresses and a handful of routes each', function () {
    this.timeout(60_000);
    const p = plan(`name: big
topology:
  routers: [R1, R2, R3]
  links: { A: { between: [R1, R2], rate: 1gbit }, B: { between: [R2, R3], rate: 1gbit } }
  hosts: { S: { count: 2000, at: R1 }, D: { count: 2000, at: R3 } }
traffic:
  b: { kind: bulk, from: S, to: D, rtt: 50ms }
`);
    assert.equal(p.nodes.length, 4003);
    assert.ok(p.nodes.every((n) => n.routes.length <= 2));
    assert.equal(p.flows.length, 2000);
    assert.ok(p.flows.every((f) => f.tool === 'builtin'));
    sound({ ...p, flows: p.flows.filter((f) => f.id % 97 === 0).map((f, id) => ({ ...f, id })) });
  });

  it('routes any tree of routers, over IPv6 too', () => {
    for (const ip of [4, 6]) {
      const routers = Array.from({ length: 12 }, (_, i) => `R${i}`);
      const links = routers.slice(1).map((name, i) => `    L${i}: { between: [${i % 2 ? `${name}, R${Math.floor(i / 2)}` : `R${Math.floor(i / 2)}, ${name}`}], delay: ${i + 1}ms }`);
      const hosts = routers.map((name) => `    H${name}: { at: ${name} }`);
      const traffic = routers.slice(1).map((name) => `  t${name}: { kind: bulk, from: HR0, to: H${name}, rtt: 500ms }\n  u${name}: { kind: cbr, from: H${name}, to: HR${(Number(name.slice(1)) * 5) % 12 === Number(name.slice(1)) ? 0 : (Number(name.slice(1)) * 5) % 12}, rate: 1mbit }`);
      const p = plan(`name: tree\ntopology:\n  ip: ${ip}\n  routers: [${routers.join(', ')}]\n  links:\n${links.join('\n')}\n  hosts:\n${hosts.join('\n')}\ntraffic:\n${traffic.join('\n')}\n`);
      sound(p);
      assert.match(p.flows[0]!.srcAddress, ip === 6 ? /^fd00:/ : /^10\./);
    }
  });

  it('names interfaces after what they lead to, and never cuts two names to one', () => {
    const long = 'a-very-long-name-of-a-host-group';
    const p = plan(`name: t
topology:
  routers: [R1]
  hosts:
    ${long}: { count: 3, at: R1 }
    lo: { at: R1 }
    S-0: { at: R1 }
    S: { count: 2, at: R1 }
    if1: { at: R1 }
traffic:
  b: { kind: bulk, from: S[0], to: S[1] }
`);
    sound(p);
    const devices = p.links.map((l) => l.b.device);
    assert.deepEqual(devices, ['if0', 'if1', 'if2', 'if3', 'if4', 'if5', 'S-1', 'if7']);
  });

  it('chooses iperf3 for up to 16 bulk flows in all, and the built-in generator for more', () => {
    const tools = (flows: number): string[] => [...new Set(plan(dumbbell(`traffic:\n  a: { kind: bulk, from: S, to: D, flows: ${flows} }\n`)).flows.map((f) => f.tool))];
    assert.deepEqual(tools(4), ['iperf3']);
    assert.deepEqual(tools(5), ['builtin']);
  });

  it('gives each iperf3 server a port of its own', () => {
    const p = plan(dumbbell('traffic:\n  a: { kind: bulk, from: S, to: D[0], flows: 4 }\n'));
    assert.equal(new Set(p.flows.map((f) => f.dstPort)).size, 16);
    sound(p);
  });

  it('keeps the ports of a hundred thousand short flows of one pair apart', function () {
    this.timeout(30_000);
    const p = plan(dumbbell('traffic:\n  w: { kind: short, from: S[0], to: D[0], arrival: poisson(1500/s), size: 1kB }\n'));
    assert.ok(p.flows.length > 100_000);
    sound(p);
  });

  it('refuses more flows than a plan may have, naming class and line, and does not hang', function () {
    this.timeout(30_000);
    const scenario = loadText(dumbbell('traffic:\n  w: { kind: short, from: S[0], to: D[0], arrival: poisson(1000000/s), size: 1kB }\n'), 't.yaml');
    assert.throws(() => compile(scenario, { seed: 1 }), (error) => error instanceof ScenarioError && /t\.yaml:10: traffic\.w: more than 1000000 flows/.test(error.message));
  });

  it('pins ECN where it is asked for: nowhere, everywhere, or on the hosts that ask', () => {
    const settings = (traffic: string): [string | undefined, string[]] => {
      const p = plan(dumbbell(`traffic:\n${traffic}`));
      return [p.tcp.hostSysctls['net.ipv4.tcp_ecn'], p.nodes.filter((n) => n.sysctls?.['net.ipv4.tcp_ecn'] === '1').map((n) => n.name)];
    };
    assert.deepEqual(settings('  a: { kind: bulk, from: S, to: D }\n'), ['0', []]);
    assert.deepEqual(settings('  a: { kind: bulk, from: S, to: D, ecn: true }\n'), ['1', []]);
    assert.deepEqual(settings('  a: { kind: bulk, from: S[0], to: D[0], ecn: true }\n  b: { kind: bulk, from: S[1], to: D[1] }\n'), ['2', ['S[0]']]);
    assert.deepEqual(settings('  a: { kind: bulk, from: S[0], to: D[0], cc: dctcp }\n  b: { kind: bulk, from: S[0], to: D[1] }\n'), ['2', []]);
  });

  it('allows buffers for the bandwidth-delay product and the full queue', () => {
    const most = (text: string): number => Number(plan(text).tcp.hostSysctls['net.ipv4.tcp_rmem']!.split('\t')[2]);
    assert.equal(most(dumbbell('traffic:\n  a: { kind: bulk, from: S, to: D }\n').replace('queue: codel', 'queue: { kind: pfifo, limit: 10p }').replace(', rate: 100mbit', '')), 6 << 20);
    // 1 Gbit/s × 200 ms is 25 MB, and 1000 packets of 1500 bytes.
    const big = most(dumbbell('traffic:\n  a: { kind: bulk, from: S, to: D, rtt: 200ms }\n').replace('rate: 20mbit', 'rate: 1gbit').replace(', rate: 100mbit', ''));
    assert.ok(big >= 4 * (25e6 + 1.5e6) && big < 5 * (25e6 + 1.5e6));
  });

  it('carries all values of a wire in each event, and a rate in both directions', () => {
    const p = plan(dumbbell('traffic:\n  a: { kind: bulk, from: S, to: D }\nevents:\n  - { at: 20s, set BL.loss: 1% }\n  - { at: 10s, set: { BL.delay: { forward: 10ms }, BL.rate: 5mbit } }\n  - { at: 30s, set BL.reverse.rate: 40mbit }\n'));
    const brief = p.events.map((e) => [e.atNs / 1e9, e.direction, e.set.rateBps ?? [e.set.wire!.delayNs, e.set.wire!.loss]]);
    assert.deepEqual(brief, [
      [10, 'BL', [10e6, 0]], [10, 'BL', 5e6], [10, 'BL.reverse', 5e6],
      [20, 'BL', [10e6, 0.01]], [20, 'BL.reverse', [0, 0.01]], [30, 'BL.reverse', 40e6],
    ]);
  });

  it('records every packet in virtual time unless told otherwise', () => {
    const scenario = load('topologies/dumbbell.yaml');
    assert.equal(compile(scenario, { seed: 1, clock: 'virtual' }).collect.packets, true);
    assert.equal(compile(scenario, { seed: 1, clock: 'real' }).collect.packets, false);
    assert.equal(compile(load('topologies/dumbbell.yaml', { set: ['collect.packets=true', 'collect.queue=none'] }), { seed: 1, clock: 'real' }).collect.packets, true);
    assert.equal(compile(load('topologies/dumbbell.yaml', { set: ['collect.queue=none'] }), { seed: 1 }).collect.queueIntervalNs, null);
  });

  it('gives a queue event every parameter that is set by then', () => {
    const p = plan(dumbbell('traffic:\n  a: { kind: bulk, from: S, to: D }\nevents:\n  - { at: 30s, set BL.queue: { kind: red, probability: 0.1 } }\n  - { at: 20s, set BL.queue: { kind: red, max: 80p } }\n').replace('queue: codel', 'queue: { kind: red, min: 20p, max: 60p }'));
    assert.deepEqual(p.events.filter(({ direction }) => direction === 'BL').map(({ atNs, set }) => [atNs, set.queue!.params]), [
      [20e9, { min: '20p', max: '80p' }], [30e9, { min: '20p', max: '80p', probability: 0.1 }],
    ]);
  });

  it('needs the qdiscs of shapers, wires and raw words', () => {
    const p = plan(dumbbell('traffic:\n  a: { kind: bulk, from: S, to: D, tool: iperf3 }\nprobes:\n  p: { from: S[0], to: D[0], tool: ping }\n').replace('queue: codel', 'shaper: tbf, queue: { tc: "sfq perturb 10" }'));
    assert.deepEqual([needed(p, 'qdisc'), needed(p, 'congestion control'), needed(p, 'program')], [['htb', 'ingress', 'netem', 'pfifo', 'sfq', 'tbf'], ['cubic'], ['ip', 'iperf3', 'ping', 'tc']]);
  });
});
