/**
 * `compile`: a Scenario and a seed become a Plan: every host, address, route, queue, delay, flow and probe. Pure: the
 * same arguments give the same Plan, to the last digit (with traffic of kind flent: and the same flent installed).
 */

import { changed, changedQueue, changedSides, defaults, expand, fixedDelay, pairId, sideOf, sides, trees, type Expanded, type Host, type Side, type Tree } from '../scenario/expand.js';
import type { LinkFields } from '../scenario/link.js';
import { queueOf } from '../scenario/link-checks.js';
import type { ScenarioQueue } from '../scenario/queue.js';
import type { Problem } from '../scenario/problem.js';
import type { Scenario, Variant } from '../scenario/scenario.js';
import { block, defaultRoute, subnet, type Subnet } from './addressing.js';
import { deviceNames } from './devices.js';
import { planFlows } from './flows.js';
import type { Plan, PlanDirection, PlanEvent, PlanLink, PlanNode, PlanProbe, PlanQueue, PlanRoute, PlanWire } from './plan.js';
import { Ports, probePort } from './ports.js';
import { stream } from './randomness.js';
import { placed, type QueuePlacement } from './queue-place.js';
import { planTests } from './tests.js';
import { bufferBytes, tcpSettings } from './tcp-settings.js';
import { accessWire, acts, cableRateBps, complete, peersOf, wireValues, type PairDelay, type WireValues } from './wire.js';

export interface CompileOptions {
  readonly seed: number;
  /** Which of scenario.variants; default: the first. */
  readonly variant?: Variant;
  /** Decides `packets: auto`: a record of every packet in virtual time only. Default: virtual. */
  readonly clock?: 'virtual' | 'real';
  /** Where queues of `topology.links` are that the scenario does not place itself (queue-place.ts). Default: kernel. */
  readonly queues?: QueuePlacement;
}

/** @throws ScenarioError when the random draws make more flows than a plan may have */
export function compile(scenario: Scenario, options: CompileOptions): Plan {
  const variant = options.variant ?? scenario.variants[0]!;
  const { seed, clock = 'virtual', queues = 'kernel' } = options;
  const { expanded, problems } = expand(variant);
  if (problems.length > 0) throw scenario.error(problems, variant);
  const parents = trees(expanded.neighbours);
  const ip = variant.topology.ip ?? 4;
  const warmupNs = variant.measure?.warmup ?? defaults.warmupNs;
  const durationNs = variant.measure?.duration ?? defaults.durationNs;
  const endNs = warmupNs + durationNs;

  const delays = pairDelays(expanded, parents, seed);
  const fastest = fastestRate(variant, expanded);
  const risen = eventRates(variant, expanded);
  /** What a wire must be able to take, bits/s. */
  const wireRate = (name: string, rateBps: number | null): number => (rateBps === null ? fastest : Math.max(rateBps, risen.get(name) ?? 0));
  const cables = layCables(expanded, ip);
  const addressOf = (host: Host): string => cables.hostSubnets.get(host)!.second;
  const peers = peersOf(expanded);

  const buffer = bufferBytes(variant, expanded, parents, (a, b) => delays.get(pairId(a, b))!.baseRttNs, fastest);
  const { tcp, own } = tcpSettings(variant, expanded, buffer);

  const mtuBytes = (fields: LinkFields): number => fields.mtu ?? variant.topology.mtu ?? defaults.mtuBytes;
  const direction = (cable: string, fields: LinkFields, side: Side, placement: QueuePlacement, wire: (rateBps: number) => readonly PlanWire[]): PlanDirection => {
    const name = directionName(cable, side);
    const rateBps = sideOf(fields.rate, side) ?? null;
    return {
      name, rateBps, shaper: rateBps === null ? null : fields.shaper ?? 'htb', overheadBytes: fields.overhead ?? defaults.overheadBytes,
      ...(rateBps === null || (fields.burst === undefined && fields.peakrate === undefined) ? {}
        : { bucket: { burstBytes: fields.burst ?? mtuBytes(fields) + (fields.overhead ?? defaults.overheadBytes), peakRateBps: fields.peakrate ?? null } }),
      queue: rateBps === null ? null : placed(queueOf(fields, side), placement, { mtuBytes: mtuBytes(fields), overheadBytes: fields.overhead ?? defaults.overheadBytes, rateBps }),
      wire: wire(wireRate(name, rateBps)),
    };
  };
  const plainWire = (fields: LinkFields, side: Side) => (rateBps: number): readonly PlanWire[] => {
    const values = wireValues(fields, side);
    return acts(values) ? [complete(values, rateBps)] : [];
  };

  const links: PlanLink[] = expanded.links.map((link, i) => {
    const net = cables.linkSubnets[i]!;
    return {
      name: link.name,
      role: sides.some((side) => typeof sideOf(link.fields.rate, side) === 'number') ? 'bottleneck' : 'access',
      a: { node: routerName(variant, link.a), device: cables.linkDevices[i]![0], addresses: [`${net.first}/${net.prefix}`] },
      b: { node: routerName(variant, link.b), device: cables.linkDevices[i]![1], addresses: [`${net.second}/${net.prefix}`] },
      mtuBytes: mtuBytes(link.fields),
      forward: direction(link.name, link.fields, 'forward', queues, plainWire(link.fields, 'forward')),
      reverse: direction(link.name, link.fields, 'reverse', queues, plainWire(link.fields, 'reverse')),
    };
  });
  for (const host of expanded.hosts) {
    const net = cables.hostSubnets.get(host)!;
    links.push({
      name: host.name, role: 'access',
      a: { node: host.name, device: 'eth0', addresses: [`${net.second}/${net.prefix}`] },
      b: { node: routerName(variant, host.router), device: cables.hostDevices.get(host)!, addresses: [`${net.first}/${net.prefix}`] },
      mtuBytes: mtuBytes(host.fields),
      forward: direction(host.name, host.fields, 'forward', 'kernel', (rateBps) => accessWire(host, peers.get(host) ?? [], delays, addressOf, rateBps)),
      reverse: direction(host.name, host.fields, 'reverse', 'kernel', plainWire(host.fields, 'reverse')),
    });
  }

  const nodes: PlanNode[] = [
    ...variant.topology.routers.map((name, r): PlanNode => ({ name, role: 'router', netns: name, routes: routerRoutes(expanded, parents, cables, r, ip) })),
    ...expanded.hosts.map((host): PlanNode => {
      const sysctls = own.get(host);
      return {
        name: host.name, role: 'host', netns: host.index === null ? host.name : `${host.group}.${host.index}`,
        routes: [{ to: defaultRoute(ip), via: cables.hostSubnets.get(host)!.first, device: 'eth0' }],
        ...(sysctls ? { sysctls } : {}),
      };
    }),
  ];

  const ports = new Ports();
  const fail = (problem: Problem): Error => scenario.error([problem], variant);
  const flows = planFlows(expanded, seed, endNs, delays, addressOf, ports, fail);
  const probes = planProbes(variant, expanded, seed, endNs, addressOf);
  const tests = planTests({ expanded, seed, ip, endNs, delays, addressOf, ports }, flows, probes, fail);

  return {
    schema: 1, name: scenario.name, seed, varied: variant.varied, warmupNs, durationNs, nodes, links, flows,
    probes, ...(tests.length > 0 ? { tests } : {}),
    events: planEvents(variant, expanded, links, wireRate),
    collect: {
      queueIntervalNs: variant.collect?.queue === undefined ? defaults.queueIntervalNs : variant.collect.queue,
      socketIntervalNs: variant.collect?.sockets === undefined ? defaults.socketIntervalNs : variant.collect.sockets,
      packets: typeof variant.collect?.packets === 'boolean' ? variant.collect.packets : clock === 'virtual',
    },
    tcp,
  };
}

export interface Run {
  readonly varied: Readonly<Record<string, string>>;
  readonly seed: number;
  /** Compiled each time it is read, so that a thousand runs need not be in memory at once. @throws ScenarioError */
  readonly plan: Plan;
}

/** Every run of a scenario: each variant with each seed, variants first. @param options.seeds instead of the scenario's */
export function expandRuns(scenario: Scenario, options: { readonly clock?: 'virtual' | 'real'; readonly seeds?: readonly number[]; readonly queues?: QueuePlacement } = {}): readonly Run[] {
  return scenario.variants.flatMap((variant) => (options.seeds ?? scenario.seeds).map((seed): Run => ({
    varied: variant.varied, seed,
    get plan() { return compile(scenario, { seed, variant, ...(options.clock ? { clock: options.clock } : {}), ...(options.queues ? { queues: options.queues } : {}) }); },
  })));
}

const routerName = (variant: Variant, index: number): string => variant.topology.routers[index]!;

/** Every pair's base RTT, drawn where it is random, and what must be added to the path for it. */
function pairDelays(expanded: Expanded, parents: readonly Tree[], seed: number): ReadonlyMap<string, PairDelay> {
  const delays = new Map<string, PairDelay>();
  for (const [id, { src, dst }] of expanded.pairs) {
    const rtt = expanded.rtts.get(id);
    if (rtt) {
      const ns = Math.round(stream(seed, 'rtt', id).draw(rtt.spec));
      delays.set(id, { extraNs: ns - rtt.fixedNs, baseRttNs: ns, delayer: rtt.delayer });
    } else {
      const fixed = fixedDelay(expanded.links, parents, src, dst) + fixedDelay(expanded.links, parents, dst, src);
      delays.set(id, { extraNs: 0, baseRttNs: fixed, delayer: null });
    }
  }
  return delays;
}

/** The highest rate any shaper ever has: no wire without one can be given more for long. */
function fastestRate(variant: Variant, expanded: Expanded): number {
  const rates = [...expanded.links, ...expanded.hosts].flatMap(({ fields }) => sides.map((side) => sideOf(fields.rate, side)));
  for (const event of variant.events ?? []) for (const change of event.changes) if (change.field === 'rate') rates.push(...sides.map((side) => change.value[side] as number | undefined));
  const known = rates.filter((rate): rate is number => typeof rate === 'number');
  return known.length === 0 ? cableRateBps : Math.max(...known);
}

/** The highest rate an event gives each direction, by its name. */
function eventRates(variant: Variant, expanded: Expanded): ReadonlyMap<string, number> {
  const highest = new Map<string, number>();
  for (const event of variant.events ?? []) {
    for (const change of event.changes) {
      if (change.field !== 'rate') continue;
      for (const cable of changed(change, expanded)) {
        for (const side of changedSides(change, cable.fields)) {
          const name = directionName(cable.name, side);
          highest.set(name, Math.max(highest.get(name) ?? 0, change.value[side] as number));
        }
      }
    }
  }
  return highest;
}

const directionName = (cable: string, side: Side): string => (side === 'forward' ? cable : `${cable}.reverse`);

interface Cables {
  readonly linkSubnets: readonly Subnet[];
  readonly linkDevices: readonly (readonly [string, string])[];
  readonly hostSubnets: ReadonlyMap<Host, Subnet>;
  readonly hostDevices: ReadonlyMap<Host, string>;
  /** Subnets in each router's block. */
  readonly used: readonly number[];
}

/** Addresses and interface names of every cable. */
function layCables(expanded: Expanded, ip: 4 | 6): Cables {
  const used = expanded.neighbours.map(() => 0);
  const wanted: string[][] = expanded.neighbours.map(() => []);
  const plug = (router: number, name: string): number => wanted[router]!.push(name) - 1;
  const linkSubnets = expanded.links.map((link) => subnet(link.a, used[link.a]!++, ip));
  const linkPorts = expanded.links.map((link) => [plug(link.a, link.name), plug(link.b, link.name)] as const);
  const hostSubnets = new Map(expanded.hosts.map((host) => [host, subnet(host.router, used[host.router]!++, ip)]));
  const hostPorts = new Map(expanded.hosts.map((host) => [host, plug(host.router, host.index === null ? host.group : `${host.group}-${host.index}`)]));
  const names = wanted.map(deviceNames);
  return {
    used, linkSubnets, hostSubnets,
    linkDevices: expanded.links.map((link, i) => [names[link.a]![linkPorts[i]![0]]!, names[link.b]![linkPorts[i]![1]]!] as const),
    hostDevices: new Map(expanded.hosts.map((host) => [host, names[host.router]![hostPorts.get(host)!]!])),
  };
}

/** A route for every other router's block, by the neighbour on the way. */
function routerRoutes(expanded: Expanded, parents: readonly Tree[], cables: Cables, router: number, ip: 4 | 6): PlanRoute[] {
  const routes: PlanRoute[] = [];
  for (let other = 0; other < expanded.neighbours.length; other++) {
    if (other === router || cables.used[other] === 0) continue;
    const i = parents[other]!.link[router]!;
    const link = expanded.links[i]!;
    const outwards = link.a === router;
    routes.push({ to: block(other, ip), via: outwards ? cables.linkSubnets[i]!.second : cables.linkSubnets[i]!.first, device: cables.linkDevices[i]![outwards ? 0 : 1]! });
  }
  return routes;
}

function planProbes(variant: Variant, expanded: Expanded, seed: number, endNs: number, addressOf: (host: Host) => string): PlanProbe[] {
  const probes: PlanProbe[] = [];
  for (const { name, pairs } of expanded.probes) {
    const spec = variant.probes![name]!;
    const intervalNs = spec.interval ?? defaults.probeIntervalNs;
    for (const [p, { src, dst }] of pairs.entries()) {
      const stopNs = Math.min(spec.stop ?? endNs, endNs);
      // A random phase: probes in step with each other or with a flow's packets would see one part of the queue only.
      const startNs = Math.min(stopNs - 1, (spec.start ?? 0) + Math.floor(stream(seed, 'probe', name, String(p)).uniform() * intervalNs));
      probes.push({
        id: probes.length, name, tool: spec.tool ?? 'builtin', src: src.name, dst: dst.name, srcAddress: addressOf(src), dstAddress: addressOf(dst),
        port: probePort(probes.length), startNs, stopNs, intervalNs, sizeBytes: spec.size ?? defaults.probeSizeBytes,
      });
    }
  }
  return probes;
}

/** Events in order of time. An event carries all values of the wire, or all parameters of the queue, as they are then: engines replace them whole. */
function planEvents(variant: Variant, expanded: Expanded, links: readonly PlanLink[], wireRate: (name: string, rateBps: number | null) => number): PlanEvent[] {
  const direction = new Map(links.flatMap((link) => [[link.forward.name, link.forward], [link.reverse.name, link.reverse]] as const));
  const wires = new Map<string, WireValues>();
  const queues = new Map<string, PlanQueue>();
  const plan: PlanEvent[] = [];
  const inOrder = [...(variant.events ?? [])].sort((a, b) => a.atNs - b.atNs); // stable: equal times in the file's order
  for (const event of inOrder) {
    for (const change of event.changes) {
      for (const cable of changed(change, expanded)) {
        for (const side of changedSides(change, cable.fields)) {
          const name = directionName(cable.name, side);
          const value = change.value[side]!;
          if (change.field === 'rate') plan.push({ atNs: event.atNs, direction: name, set: { rateBps: value as number } });
          else if (change.field === 'queue') {
            const before = queues.get(name) ?? direction.get(name)!.queue!;
            const { keptInKernel: _, ...after } = changedQueue(before, value as ScenarioQueue) as ScenarioQueue;
            const queue: PlanQueue = { ...after, in: before.in };
            queues.set(name, queue);
            plan.push({ atNs: event.atNs, direction: name, set: { queue } });
          }
          else {
            const key = change.field === 'delay' ? 'delayNs' : change.field === 'jitter' ? 'jitterNs' : change.field;
            const before = wires.get(name) ?? wireValues(cable.fields, side);
            const after: WireValues = { ...before, [key]: value as number };
            wires.set(name, after);
            plan.push({ atNs: event.atNs, direction: name, set: { wire: complete(after, wireRate(name, direction.get(name)!.rateBps)) } });
          }
        }
      }
    }
  }
  return plan;
}
