/**
 * Plan → the list of steps that make its network: plain data, each one thing done to one node or device. They are carried out by
 * apply.ts or written as a shell script by shell.ts.
 *
 * One direction of a link: the sending device's root is the shaper (HTB or TBF), its leaf the queue. What the wire does (delay, loss) never happens
 * there but in a namespace of its own, through which the cable of such a link is led: two veth pairs, each end's arrivals redirected to
 * the other pair's device, on whose root netem stands. So a delayed packet neither occupies the sender's socket (TCP small queues) nor the AQM.
 *
 * A link of the userspace bottleneck (daemon/) is led through the same namespace, where the daemon takes packets from one pair's device and
 * hands them to the other's: rate, queue, delay and loss are then its own, and neither shaper nor netem is made.
 */

import { UserError } from '../errors.js';
import { TC_H_ROOT, addressBytes, handleOf } from '../linux/rtnetlink.js';
import { attribute, attributeU32, nested } from '../linux/attributes.js';
import { daemonLinks } from '../plan/daemon.js';
import type { Plan, PlanDirection, PlanInterface, PlanLink, PlanQueue, PlanWire } from '../plan/plan.js';
import { encodeHtb, encodeHtbClass, htbClassMinor, htbClassWords, htbWords } from '../qdiscs/htb.js';
import { encodeNetem, netemWords } from '../qdiscs/netem.js';
import { encodePrio, maxBands, prioWords } from '../qdiscs/prio.js';
import type { QdiscContext } from '../qdiscs/qdisc.js';
import { qdiscs } from '../qdiscs/registry.js';
import { encodeTbf, tbfClassMinor, tbfWords, type TbfPeak } from '../qdiscs/tbf.js';

/** A device as steps name it: its index is chosen here, so no step needs an answer from the kernel. */
export interface Device { readonly node: string; readonly device: string; readonly ifindex: number; readonly mac: string }

interface OnDevice { readonly node: string; readonly device: string; readonly ifindex: number }
/** The same configuration twice: the payload of TCA_OPTIONS, and tc's words. */
interface Options { readonly kind: string; readonly options: Buffer; readonly nested?: boolean; readonly words: readonly string[] }
export type Step =
  | { readonly do: 'namespace'; readonly node: string; readonly netns: string }
  | { readonly do: 'sysctl'; readonly node: string; readonly name: string; readonly value: string }
  | { readonly do: 'link'; readonly a: Device; readonly b: Device; readonly mtuBytes: number }
  /** Segmentation; `checksums`: those of sending too, so that packets leave whole. */
  | { readonly do: 'offloads'; readonly checksums?: boolean } & OnDevice
  | { readonly do: 'address'; readonly address: string } & OnDevice
  | { readonly do: 'neighbour'; readonly address: string; readonly mac: string } & OnDevice
  | { readonly do: 'route'; readonly to: string; readonly via: string } & OnDevice
  | { readonly do: 'qdisc'; readonly parent: number; readonly handle: number; readonly overheadBytes?: number } & Options & OnDevice
  /** Of kind `raw`: only tc can set it. */
  | { readonly do: 'tc'; readonly parent: number; readonly handle: number; readonly words: readonly string[]; /** The scenario's, for messages. */ readonly field: string } & OnDevice
  | { readonly do: 'class'; readonly parent: number; readonly classid: number } & Options & OnDevice
  | { readonly do: 'filter'; readonly parent: number; readonly priority: number; readonly protocol: 'all' | 'ip' | 'ipv6'; readonly handle: number } & Options & OnDevice
  /** All that arrives at the device leaves by another of the same node (matchall, or u32 where the kernel lacks it; mirred). */
  | { readonly do: 'redirect'; readonly to: { readonly device: string; readonly ifindex: number } } & OnDevice;

/** The node of all wires; no node of a plan can be called so. */
export const wireNode = '(wire)';
/** Device group of all our links (IFLA_GROUP): deleted together. */
export const linkGroup = 0x7465;
/** Indices from here on: below it the kernel puts lo and the fallback tunnels some kernels make in every namespace. */
const firstIfindex = 100;
export const shaperHandle = handleOf(1);
export const leafHandle = handleOf(0x10);

export interface Bottleneck {
  readonly node: string;
  readonly device: string;
  readonly ifindex: number;
  /** The shaper's qdisc: `1:`. */
  readonly shaperHandle: number;
  /** The queue's qdisc: `10:`. */
  readonly leafHandle: number;
  /** tc's name of the queue's kind; for `raw` the first of its words. */
  readonly kind: string;
}
/** One netem of a wire. */
export interface WirePart { readonly device: string; readonly ifindex: number; readonly parent: number; readonly handle: number; readonly wire: PlanWire }
export interface DirectionLayout {
  readonly name: string;
  readonly link: PlanLink;
  readonly direction: PlanDirection;
  /** Sending and receiving end. */
  readonly from: Device;
  readonly to: Device;
  /** Where its queue is; null without a rate. */
  readonly bottleneck: Bottleneck | null;
  readonly wire: readonly WirePart[];
  /** The part without `to`, which events replace. */
  readonly wireDefault: WirePart | null;
  /** The link is the userspace bottleneck's: its packets come in by one device of the wires' namespace and go out by the other. */
  readonly daemon: { readonly in: Device; readonly out: Device } | null;
}
export interface Layout {
  readonly steps: readonly Step[];
  readonly directions: ReadonlyMap<string, DirectionLayout>;
  readonly devices: readonly Device[];
  /** Name of the wires' namespace without tag; null when no link has one. */
  readonly wireNetns: string | null;
}

const noWire: PlanWire = { delayNs: 0, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 1000 };
/** Where netem loses packets on purpose, its drop counter cannot show an overflow as well: there its limit is put out of reach. */
const unreachableLimit = 10_000_000;
export const netemOf = (wire: PlanWire): PlanWire => (wire.loss > 0 ? { ...wire, limitPackets: Math.max(wire.limitPackets, unreachableLimit) } : wire);

/** TBF's buckets: the depth of the rate's in bytes, and the peak rate's where there is one. */
export function tbfBuckets(link: PlanLink, direction: PlanDirection): { readonly depth: number; readonly peak: TbfPeak | null } {
  const packet = burstBytes(link, direction);
  const peakRateBps = direction.bucket?.peakRateBps ?? null;
  return { depth: direction.bucket?.burstBytes ?? packet, peak: peakRateBps === null ? null : { rateBps: peakRateBps, burstBytes: packet } };
}
/** Bytes of a full packet as the shaper counts them: its burst, where the plan has no other. */
export const burstBytes = (link: PlanLink, direction: PlanDirection): number => link.mtuBytes + direction.overheadBytes;

const queueContext = (link: PlanLink, direction: PlanDirection): QdiscContext => ({ mtuBytes: link.mtuBytes, rateBps: direction.rateBps });

/** The queue's options for netlink and tc. @throws UserError for an unknown kind or parameters that cannot be */
export function queueOptions(queue: PlanQueue, link: PlanLink, direction: PlanDirection): Options {
  const where = `link ${direction.name}: queue ${queue.kind}`;
  if (queue.in === 'daemon') throw new UserError(`${where}: it is in the userspace bottleneck (in: daemon); the kernel is not asked for it`);
  const qdisc = qdiscs.get(queue.kind);
  if (qdisc === undefined) throw new UserError(`${where}: unknown kind; expected one of ${[...qdiscs.keys()].join(', ')}, or raw with tc's words`);
  const context = queueContext(link, direction);
  try {
    return { kind: qdisc.kind, options: qdisc.encode(queue.params, context), words: qdisc.tcWords(queue.params, context), ...(qdisc.nested ? { nested: true } : {}) };
  } catch (error) {
    if (error instanceof UserError) throw new UserError(`link ${direction.name}: ${error.message}`, error.exitCode, { cause: error });
    // A number too large for the field of tc's structures it goes to.
    if (error instanceof RangeError) throw new UserError(`${where}: a parameter is too large for the kernel (${Object.entries(queue.params).map(([name, value]) => `${name} ${value}`).join(', ')}; times in ns, sizes in bytes): ${error.message}`, 2, { cause: error });
    throw error;
  }
}

/** Locally administered, the same in every run: the records must not depend on chance. */
function macOf(link: number, end: number): string {
  const bytes = [0x02, 0x74, end, (link >> 16) & 0xff, (link >> 8) & 0xff, link & 0xff];
  return bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(':');
}

function queueSteps(device: Device, link: PlanLink, direction: PlanDirection): { steps: Step[]; bottleneck: Bottleneck | null } {
  const { rateBps, shaper, queue } = direction;
  if (rateBps === null || queue === null || queue.in === 'daemon') return { steps: [], bottleneck: null };
  const on = { node: device.node, device: device.device, ifindex: device.ifindex };
  const burst = burstBytes(link, direction);
  const extra = direction.overheadBytes - 14;
  const stab = extra === 0 ? {} : { overheadBytes: extra };
  const steps: Step[] = [];
  let parent: number;
  if (shaper === 'tbf') {
    const { depth, peak } = tbfBuckets(link, direction);
    steps.push({ do: 'qdisc', ...on, parent: TC_H_ROOT, handle: shaperHandle, ...stab, kind: 'tbf', options: encodeTbf(rateBps, depth, depth, peak), words: tbfWords(rateBps, depth, depth, peak) });
    parent = shaperHandle + tbfClassMinor;
  } else {
    parent = shaperHandle + htbClassMinor;
    steps.push({ do: 'qdisc', ...on, parent: TC_H_ROOT, handle: shaperHandle, ...stab, kind: 'htb', options: encodeHtb(), words: htbWords });
    steps.push({ do: 'class', ...on, parent: shaperHandle, classid: parent, kind: 'htb', options: encodeHtbClass(rateBps, burst), words: htbClassWords(rateBps, burst) });
  }
  const bottleneck = { ...on, shaperHandle, leafHandle, kind: queue.kind === 'raw' ? queue.tc?.[0] ?? 'raw' : queue.kind };
  if (queue.kind === 'raw') {
    if (!queue.tc?.length) throw new UserError(`link ${direction.name}: queue raw needs tc's words, such as tc: [plug]`);
    steps.push({ do: 'tc', ...on, parent, handle: leafHandle, words: queue.tc, field: `topology.${link.role === 'access' && link.a.node === link.name ? `hosts.${link.name.replace(/\[\d+\]$/, '')}` : `links.${link.name}`}.queue.tc` });
    return { steps, bottleneck };
  }
  steps.push({ do: 'qdisc', ...on, parent, handle: leafHandle, ...queueOptions(queue, link, direction) });
  for (const child of qdiscs.get(queue.kind)?.children?.(queue.params, queueContext(link, direction)) ?? []) {
    if (child.type === 'class') steps.push({ do: 'class', ...on, parent: leafHandle, classid: leafHandle + child.minor, kind: queue.kind, options: child.options, words: child.words });
    else if (child.type === 'qdisc') steps.push({ do: 'qdisc', ...on, parent: leafHandle + child.parentMinor, handle: handleOf(0x100 + child.parentMinor), kind: child.kind, options: child.options, words: child.words });
    else steps.push({ do: 'filter', ...on, parent: leafHandle, priority: 1, protocol: 'all', handle: 1, kind: child.kind, options: child.options(leafHandle), words: child.words(leafHandle) });
  }
  return { steps, bottleneck };
}

/** u32 (net/sched/cls_u32.c) on the destination address: struct tc_u32_sel and a key of 4 bytes each, offsets from the network header. */
function destinationFilter(address: string, classid: number): Options & { protocol: 'ip' | 'ipv6' } {
  const bytes = addressBytes(address);
  const keys = bytes.length / 4;
  const selector = Buffer.alloc(16 + 16 * keys);
  selector[0] = 1; // TC_U32_TERMINAL
  selector[2] = keys;
  for (let key = 0; key < keys; key++) {
    selector.fill(0xff, 16 + 16 * key, 20 + 16 * key);
    bytes.copy(selector, 20 + 16 * key, 4 * key, 4 * key + 4);
    selector.writeInt32LE((bytes.length === 4 ? 16 : 24) + 4 * key, 24 + 16 * key);
  }
  const six = bytes.length === 16;
  return {
    protocol: six ? 'ipv6' : 'ip', kind: 'u32', options: Buffer.concat([attributeU32(1, classid), attribute(5, selector)]),
    words: ['match', six ? 'ip6' : 'ip', 'dst', `${address}/${bytes.length * 8}`, 'flowid', `${(classid >>> 16).toString(16)}:${(classid & 0xffff).toString(16)}`],
  };
}

/** Mirred to another device's egress (net/sched/act_mirred.c), as the only action of a filter; `type` is the filter's TCA_…_ACT. */
export function redirectOptions(kind: 'matchall' | 'u32', ifindex: number): Buffer {
  const parameters = Buffer.alloc(28);
  parameters.writeInt32LE(4, 8); // TC_ACT_STOLEN
  parameters.writeInt32LE(1, 20); // TCA_EGRESS_REDIR
  parameters.writeUInt32LE(ifindex, 24);
  const action = nested(1, attribute(1, Buffer.from('mirred\0')), nested(2, attribute(2, parameters)));
  if (kind === 'matchall') return nested(2, action);
  const everything = Buffer.alloc(32); // one key that masks out all
  everything[0] = 1;
  everything[2] = 1;
  return Buffer.concat([attribute(5, everything), nested(7, action)]);
}

/** netem on the root of `device`, or prio with a netem a band where destinations differ: up to 15 a prio, the last band leading on. */
function wireSteps(device: Device, wires: readonly PlanWire[]): { steps: Step[]; parts: WirePart[]; wireDefault: WirePart } {
  const on = { node: device.node, device: device.device, ifindex: device.ifindex };
  const steps: Step[] = [];
  const parts: WirePart[] = [];
  const netem = (parent: number, handle: number, wire: PlanWire): WirePart => {
    const set = netemOf(wire);
    steps.push({ do: 'qdisc', ...on, parent, handle, kind: 'netem', options: encodeNetem(set), words: netemWords(set) });
    const part = { device: device.device, ifindex: device.ifindex, parent, handle, wire };
    parts.push(part);
    return part;
  };
  const fallbackAt = wires.findIndex((wire) => wire.to === undefined);
  const specific = fallbackAt < 0 ? wires : wires.slice(0, fallbackAt);
  const fallback = fallbackAt < 0 ? noWire : wires[fallbackAt]!;
  if (specific.length === 0) return { steps, parts, wireDefault: netem(TC_H_ROOT, handleOf(1), fallback) };
  let parent = TC_H_ROOT;
  let major = 1;
  for (let first = 0; first < specific.length; first += maxBands - 1) {
    const level = specific.slice(first, first + maxBands - 1);
    const handle = handleOf(major++);
    const bands = level.length + 1;
    steps.push({ do: 'qdisc', ...on, parent, handle, kind: 'prio', options: encodePrio(bands, bands - 1), words: prioWords(bands, bands - 1) });
    level.forEach((wire, band) => {
      netem(handle + band + 1, handleOf(major++), wire);
      for (const address of wire.to ?? []) {
        const filter = destinationFilter(address, handle + band + 1);
        steps.push({ do: 'filter', ...on, parent: handle, priority: filter.protocol === 'ip' ? 1 : 2, handle: 0, ...filter });
      }
    });
    parent = handle + bands;
  }
  return { steps, parts, wireDefault: netem(parent, handleOf(major), fallback) };
}

const hasSix = (iface: PlanInterface): boolean => iface.addresses.some((address) => address.includes(':'));

/** The network of a plan. Pure. @throws UserError for queues or links that cannot be made */
export function layoutOf(plan: Plan): Layout {
  const namespaces: Step[] = [];
  const sysctls: Step[] = [];
  const late: Step[] = [];
  const links: Step[] = [];
  const configure: Step[] = [];
  const directions = new Map<string, DirectionLayout>();
  const devices: Device[] = [];
  const byDevice = new Map<string, Device>();
  // One count for all nodes: the two ends of a link must not have the same index, or the kernel takes the link for one without a
  // lower device and lets it wait up to a second before it carries packets (net/core/link_watch.c linkwatch_urgent_event).
  let nextIfindex = firstIfindex;
  const newDevice = (node: string, device: string, mac: string): Device => {
    const made = { node, device, ifindex: nextIfindex++, mac };
    devices.push(made);
    byDevice.set(`${node} ${device}`, made);
    return made;
  };

  const eventWires = new Set(plan.events.filter((event) => event.set.wire !== undefined).map((event) => event.direction));
  const wiredDirection = (direction: PlanDirection): boolean => direction.wire.length > 0 || eventWires.has(direction.name);
  const daemon = daemonLinks(plan);
  const wired = plan.links.some((link) => daemon.has(link.name) || wiredDirection(link.forward) || wiredDirection(link.reverse));
  let wireNetns: string | null = null;
  if (wired) {
    wireNetns = 'wire';
    while (plan.nodes.some((node) => node.netns === wireNetns)) wireNetns += '-';
  }

  const sixNodes = new Set(plan.links.flatMap((link) => [link.a, link.b]).filter(hasSix).map((iface) => iface.node));
  for (const node of plan.nodes) {
    namespaces.push({ do: 'namespace', node: node.name, netns: node.netns });
    const router = node.role === 'router';
    const own: Record<string, string> = {
      // Nothing of the kernel's own speaks on the links: no link-local addresses, no router discovery, no redirects.
      'net.ipv6.conf.all.disable_ipv6': sixNodes.has(node.name) ? '0' : '1', 'net.ipv6.conf.default.disable_ipv6': sixNodes.has(node.name) ? '0' : '1',
      ...(sixNodes.has(node.name) ? { 'net.ipv6.conf.default.addr_gen_mode': '1', 'net.ipv6.conf.default.accept_dad': '0', 'net.ipv6.conf.default.router_solicitations': '0' } : {}),
      ...(router ? { 'net.ipv4.ip_forward': '1', 'net.ipv4.conf.all.send_redirects': '0', 'net.ipv4.conf.default.send_redirects': '0' } : {}),
      ...(router && sixNodes.has(node.name) ? { 'net.ipv6.conf.all.forwarding': '1' } : {}),
      ...(router ? plan.tcp.routerSysctls : plan.tcp.hostSysctls),
      ...node.sysctls,
    };
    for (const [name, value] of Object.entries(own)) {
      if (!sixNodes.has(node.name) && name.startsWith('net.ipv6.') && !name.endsWith('.disable_ipv6')) continue;
      // A forwarding IPv6 interface joins the all-routers groups and reports it, unless it already stands without multicast.
      (/^net\.ipv6\.conf\..*\.forwarding$/.test(name) ? late : sysctls).push({ do: 'sysctl', node: node.name, name, value });
    }
  }
  if (wireNetns !== null) {
    namespaces.push({ do: 'namespace', node: wireNode, netns: wireNetns });
    for (const which of ['all', 'default']) sysctls.push({ do: 'sysctl', node: wireNode, name: `net.ipv6.conf.${which}.disable_ipv6`, value: '1' });
  }

  plan.links.forEach((link, index) => {
    const a = newDevice(link.a.node, link.a.device, macOf(index, 1));
    const b = newDevice(link.b.node, link.b.device, macOf(index, 2));
    const ends: Device[] = [a, b];
    const byDaemon = daemon.has(link.name);
    const viaWire = byDaemon || wiredDirection(link.forward) || wiredDirection(link.reverse);
    // `towards[0]` sends to b, `towards[1]` to a.
    const towards: (Device | null)[] = [null, null];
    if (viaWire) {
      const wireA = newDevice(wireNode, `w${index}a`, macOf(index, 3));
      const wireB = newDevice(wireNode, `w${index}b`, macOf(index, 4));
      links.push({ do: 'link', a: wireA, b: a, mtuBytes: link.mtuBytes }, { do: 'link', a: wireB, b, mtuBytes: link.mtuBytes });
      ends.push(wireA, wireB);
      towards[0] = wireB;
      towards[1] = wireA;
      if (!byDaemon) {
        configure.push({ do: 'redirect', node: wireNode, device: wireA.device, ifindex: wireA.ifindex, to: { device: wireB.device, ifindex: wireB.ifindex } });
        configure.push({ do: 'redirect', node: wireNode, device: wireB.device, ifindex: wireB.ifindex, to: { device: wireA.device, ifindex: wireA.ifindex } });
      }
    } else {
      // Made from the router's side where there is one: all its links then go in one batch.
      const [first, second] = plan.nodes.find((node) => node.name === link.a.node)?.role === 'host' ? [b, a] : [a, b];
      links.push({ do: 'link', a: first, b: second, mtuBytes: link.mtuBytes });
    }
    for (const end of ends) configure.push({ do: 'offloads', node: end.node, device: end.device, ifindex: end.ifindex, ...(byDaemon ? { checksums: true } : {}) });
    for (const [iface, device, peer, peerDevice] of [[link.a, a, link.b, b], [link.b, b, link.a, a]] as const) {
      const on = { node: device.node, device: device.device, ifindex: device.ifindex };
      for (const address of iface.addresses) configure.push({ do: 'address', ...on, address });
      for (const address of peer.addresses) configure.push({ do: 'neighbour', ...on, address: address.split('/')[0]!, mac: peerDevice.mac });
    }
    for (const [direction, from, to, wireDevice] of [[link.forward, a, b, towards[0]], [link.reverse, b, a, towards[1]]] as const) {
      const queue = queueSteps(from, link, direction);
      configure.push(...queue.steps);
      const wire = wireDevice && !byDaemon && wiredDirection(direction) ? wireSteps(wireDevice, direction.wire) : null;
      if (wire) configure.push(...wire.steps);
      directions.set(direction.name, { name: direction.name, link, direction, from, to, bottleneck: queue.bottleneck, wire: wire?.parts ?? [], wireDefault: wire?.wireDefault ?? null, daemon: byDaemon ? { in: from === a ? towards[1]! : towards[0]!, out: wireDevice! } : null });
    }
  });

  const routes: Step[] = plan.nodes.flatMap((node) => node.routes.map((route): Step => {
    const device = byDevice.get(`${node.name} ${route.device}`);
    if (device === undefined) throw new Error(`plan: route of ${node.name} to ${route.to} names device ${route.device}, which no link gives it`);
    return { do: 'route', node: node.name, device: device.device, ifindex: device.ifindex, to: route.to, via: route.via };
  }));
  return { steps: [...namespaces, ...sysctls, ...links, ...late, ...configure, ...routes], directions, devices, wireNetns };
}
