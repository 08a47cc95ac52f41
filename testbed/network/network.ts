/** The network of a plan, standing on this kernel: made, changed by events, checked against the rules of the field, read, removed. */

import { closeSync, openSync, readSync } from 'node:fs';
import { UserError } from '../errors.js';
import type { Hosts } from '../hosts/hosts.js';
import { netnsHosts } from '../hosts/netns.js';
import type { Journal } from '../journal/journal.js';
import { parseAttributes } from '../linux/attributes.js';
import { offloadsOn } from '../linux/ethtool.js';
import { SystemError } from '../linux/libc.js';
import { NetlinkError, type NetlinkSocket } from '../linux/netlink.js';
import { getQdisc, listClasses, listLinks, listQdiscs, parseLink, parseTc, setClass, setQdisc, TC_H_ROOT, type LinkState, type TcState } from '../linux/rtnetlink.js';
import type { Plan, PlanEvent, PlanQueue } from '../plan/plan.js';
import { encodeHtbClass, htbClassMinor } from '../qdiscs/htb.js';
import { encodeNetem } from '../qdiscs/netem.js';
import { bytesPerSecond } from '../qdiscs/parameters.js';
import { transmitTicks } from '../qdiscs/psched.js';
import { qdiscs } from '../qdiscs/registry.js';
import { encodeTbf, tbfLimit } from '../qdiscs/tbf.js';
import type { Finding } from '../records/raw.js';
import { applyLayout, awaitLinks, deleteLinks, isOffAnyway, runTc, sysctlPath } from './apply.js';
import { burstBytes, layoutOf, netemOf, queueOptions, tbfBuckets, wireNode, type Bottleneck, type DirectionLayout, type Layout } from './steps.js';

export interface NetworkOptions {
  /** Before every namespace's name: `[a-z0-9]{8}`. */
  readonly tag: string;
  /** null inside a guest, which vanishes as a whole. */
  readonly journal: Journal | null;
  /** How nodes are isolated; network namespaces unless told. */
  readonly hosts?: Hosts;
}
export interface NetemDrops { readonly direction: string; readonly drops: number; readonly limitPackets: number }

const invalid = (rule: string, message: string): Finding => ({ type: 'finding', level: 'invalid', rule, message });
const failed = (rule: string, message: string): Finding => ({ type: 'finding', level: 'failed', rule, message });

const short = Buffer.alloc(4096);
/** A file of a line: one reading tells its end, where `readFileSync` asks for size and end besides (in a guest a system call has its price). */
function readShort(path: string): string {
  const file = openSync(path, 'r');
  try {
    return short.toString('utf8', 0, readSync(file, short));
  } finally {
    closeSync(file);
  }
}

export class Network {
  /** bits/s now, by direction: events change it. */
  private readonly rates = new Map<string, number>();
  /** As events have left them. */
  private readonly queues = new Map<string, PlanQueue>();
  private linkBaseline: Map<string, LinkState> | undefined;

  private constructor(readonly plan: Plan, readonly layout: Layout, private readonly hosts: Hosts, private readonly sockets: Map<string, NetlinkSocket>) {
    for (const { name, direction } of layout.directions.values()) if (direction.rateBps !== null) this.rates.set(name, direction.rateBps);
  }

  /** Makes it all, or removes what it made and throws. @throws UserError with step, node, device, the kernel's words and a fix */
  static create(plan: Plan, { tag, journal, hosts = netnsHosts(tag, journal) }: NetworkOptions): Network {
    const layout = layoutOf(plan);
    const network = new Network(plan, layout, hosts, new Map());
    try {
      applyLayout(layout, hosts, network.sockets);
      awaitLinks(layout, network.sockets);
    } catch (error) {
      network.remove();
      throw error;
    }
    return network;
  }

  /** Runs `call` with this thread in the node's network namespace. Synchronous, not nested. */
  inNode<T>(node: string, call: () => T): T { return this.hosts.inside(node, call); }
  netnsPath(node: string): string { return this.hosts.namespacePath(node); }
  command(node: string, words: readonly [string, ...string[]]): readonly [string, ...string[]] { return this.hosts.command(node, words); }

  /** Index of a device in its node. */
  ifindex(node: string, device: string): number {
    const found = this.layout.devices.find((one) => one.node === node && one.device === device);
    if (found === undefined) throw new Error(`no device ${device} in node ${node}`);
    return found.ifindex;
  }
  direction(name: string): DirectionLayout {
    const found = this.layout.directions.get(name);
    if (found === undefined) throw new UserError(`no link direction ${name}; there are ${[...this.layout.directions.keys()].join(', ')}`);
    return found;
  }
  /** Where a direction queues. @throws UserError when it has no rate, so no queue of ours */
  bottleneck(name: string): Bottleneck {
    const { bottleneck } = this.direction(name);
    if (bottleneck === null) throw new UserError(`link direction ${name} has no rate, so nothing queues there; give it a rate`);
    return bottleneck;
  }
  private socket(node: string): NetlinkSocket {
    const socket = this.sockets.get(node);
    if (socket === undefined) throw new Error(`no node ${node}`);
    return socket;
  }

  /** The queue's statistics as the kernel has them now; its own state by `qdiscs.get(kind).decodeState`. One request. */
  readStats(name: string): TcState {
    const { node, ifindex, leafHandle } = this.bottleneck(name);
    const [answer] = this.socket(node).ask(getQdisc(ifindex, leafHandle));
    if (answer === undefined) throw new Error(`no answer about the queue of ${name}`);
    return parseTc(answer);
  }
  /** Packets waiting at the bottlenecks. */
  queued(): number {
    let packets = 0;
    for (const { name, link, bottleneck } of this.layout.directions.values()) if (link.role === 'bottleneck' && bottleneck !== null) packets += this.readStats(name).backlogPackets;
    return packets;
  }
  /** The shaper's class, or for TBF its qdisc. */
  private shaperState({ bottleneck, direction }: DirectionLayout): TcState | undefined {
    if (bottleneck === null) return undefined;
    const socket = this.socket(bottleneck.node);
    if (direction.shaper === 'tbf') return socket.ask(getQdisc(bottleneck.ifindex, bottleneck.shaperHandle)).map(parseTc)[0];
    return socket.ask(listClasses(bottleneck.ifindex)).map(parseTc).find((one) => one.handle === bottleneck.shaperHandle + htbClassMinor);
  }

  /** @returns what went wrong: an event that cannot be made invalidates the run */
  applyEvent(event: PlanEvent): readonly Finding[] {
    const out: Finding[] = [];
    const attempt = (what: string, call: () => void): void => {
      try {
        call();
      } catch (error) {
        if (!(error instanceof NetlinkError) && !(error instanceof UserError)) throw error;
        out.push({ ...failed('event-failed', `event at ${event.atNs / 1e9} s: could not set ${event.direction}.${what}: ${error.message}; change the event or the queue`), tNs: event.atNs });
      }
    };
    // The userspace bottleneck knows its events and makes them itself, at their very time.
    const daemon = this.layout.directions.get(event.direction)?.daemon ?? null;
    const queued = daemon !== null && this.direction(event.direction).direction.queue?.in === 'daemon';
    const { rateBps, queue } = queued ? {} as PlanEvent['set'] : event.set;
    const { wire } = daemon !== null ? {} as PlanEvent['set'] : event.set;
    if (rateBps !== undefined) attempt('rate', () => this.setRate(event.direction, rateBps));
    if (wire !== undefined) {
      attempt('wire', () => {
        const part = this.direction(event.direction).wireDefault;
        if (part === null) throw new UserError('the direction has no wire');
        this.socket(wireNode).run([setQdisc(part.ifindex, part.parent, part.handle, { kind: 'netem', options: encodeNetem(netemOf(wire)) }, true)]);
      });
    }
    if (queue !== undefined) {
      attempt('queue', () => {
        const { link, direction, bottleneck } = this.direction(event.direction);
        if (bottleneck === null || direction.queue === null) throw new UserError('the direction has no queue');
        if (queue.kind !== direction.queue.kind) throw new UserError(`its queue is ${direction.queue.kind}; an event can change parameters, not the kind`);
        const parent = bottleneck.shaperHandle + htbClassMinor;
        if (queue.kind === 'raw') {
          runTc(this.hosts, 'change', { do: 'tc', node: bottleneck.node, device: bottleneck.device, ifindex: bottleneck.ifindex, parent, handle: bottleneck.leafHandle, words: queue.tc ?? [], field: `events: ${event.direction}.queue` });
          return;
        }
        if (qdiscs.get(queue.kind)?.children) throw new UserError(`${queue.kind} consists of classes that cannot be changed while it runs`);
        const fixed = qdiscs.get(queue.kind)?.fixed ?? [];
        const changeable = { ...queue, params: Object.fromEntries(Object.entries(queue.params).filter(([key]) => !fixed.includes(key))) };
        this.socket(bottleneck.node).run([setQdisc(bottleneck.ifindex, parent, bottleneck.leafHandle, queueOptions(changeable, link, { ...direction, rateBps: this.rates.get(direction.name) ?? null }), true)]);
        this.queues.set(direction.name, queue);
      });
    }
    return out;
  }

  private setRate(name: string, rateBps: number): void {
    const { link, direction } = this.direction(name);
    const { node, ifindex, shaperHandle } = this.bottleneck(name);
    const burst = burstBytes(link, direction);
    if (direction.shaper === 'tbf') {
      const leaf = this.queues.get(name) ?? direction.queue;
      const { depth, peak } = tbfBuckets(link, direction);
      const limit = leaf === null ? depth : tbfLimit(leaf, link.mtuBytes, depth);
      // The kernel forgets a size table that a change does not repeat (sch_api.c qdisc_change).
      this.socket(node).run([setQdisc(ifindex, TC_H_ROOT, shaperHandle, { kind: 'tbf', options: encodeTbf(rateBps, depth, limit, peak), overheadBytes: direction.overheadBytes - 14 }, true)]);
    } else {
      this.socket(node).run([setClass(ifindex, shaperHandle, shaperHandle + htbClassMinor, { kind: 'htb', options: encodeHtbClass(rateBps, burst) }, true)]);
    }
    this.rates.set(name, rateBps);
  }

  /**
   * Before traffic: offloads read back off, each shaper's rate and burst and each queue as configured, sysctls as pinned. Also takes the baseline of
   * the devices' drop counters for `verifyEnd`.
   */
  verify(): readonly Finding[] {
    const out = this.verifyStanding((on) => `${on} cannot be turned off, so packets larger than the MTU could pass; use --machine uml`);
    this.linkBaseline = this.readLinks();
    return out;
  }

  /** What must hold from set-up to the end. @param offloads what to say of those that are on */
  private verifyStanding(offloads: (names: string) => string): Finding[] {
    const out: Finding[] = [];
    for (const { node, device } of this.layout.devices) {
      try {
        const on = offloadsOn(this.socket(node).fd, device);
        if (on.length > 0) out.push(invalid('offloads-on', `node ${node}, device ${device}: ${offloads(on.join(', '))}`));
      } catch (error) {
        if (!(error instanceof SystemError) || error.code !== 'ENODEV') throw error; // told as device-gone
      }
    }
    out.push(...this.verifyShapers());
    for (const node of this.plan.nodes) out.push(...this.verifySysctls(node.name));
    return out;
  }

  /** All qdiscs of a node in one dump. */
  private readQdiscs(node: string): readonly TcState[] { return this.socket(node).ask(listQdiscs()).map(parseTc); }
  private verifyShapers(): Finding[] {
    const byNode = new Map<string, readonly TcState[]>();
    return [...this.layout.directions.values()].flatMap((layout) => {
      if (layout.bottleneck === null) return [];
      const { node } = layout.bottleneck;
      if (!byNode.has(node)) byNode.set(node, this.readQdiscs(node));
      return this.verifyShaper(layout, byNode.get(node)!);
    });
  }
  private verifyShaper(layout: DirectionLayout, standing: readonly TcState[]): Finding[] {
    const { bottleneck, direction, link, name } = layout;
    if (bottleneck === null) return [];
    const rateBps = this.rates.get(name) ?? 0;
    const rate = bytesPerSecond(rateBps);
    const burst = burstBytes(link, direction);
    const at = `link ${name}`;
    const shaper = this.shaperState(layout);
    if (shaper?.options === undefined) return [invalid('rate-not-achieved', `${at}: its shaper is gone`)];
    const options = parseAttributes(shaper.options);
    const parameters = options.get(1);
    const rate64 = options.get(direction.shaper === 'tbf' ? 4 : 6);
    const actual = rate64 !== undefined ? Number(rate64.readBigUInt64LE(0)) : parameters?.readUInt32LE(8) ?? 0;
    const out: Finding[] = [];
    if (actual !== rate) out.push(invalid('rate-not-achieved', `${at}: its shaper is set to ${actual * 8} bit/s instead of ${rate * 8}`));
    if (direction.shaper !== 'tbf' && parameters !== undefined) {
      const [buffer, cbuffer, quantum] = [24, 28, 32].map((offset) => parameters.readUInt32LE(offset));
      const ticks = transmitTicks(rate, burst);
      // One tick more or less: the kernel keeps ns.
      if (Math.abs(buffer! - ticks) > 1 || Math.abs(cbuffer! - ticks) > 1) out.push(invalid('shaper-burst', `${at}: its shaper holds bursts of ${buffer} and ${cbuffer} ticks instead of one packet (${ticks})`));
      if (quantum !== burst) out.push(invalid('shaper-quantum', `${at}: its shaper's quantum is ${quantum} bytes instead of ${burst} (r2q)`));
    }
    const queue = standing.find((one) => one.ifindex === bottleneck.ifindex && one.handle === bottleneck.leafHandle);
    if (queue?.kind !== bottleneck.kind) out.push(invalid('queue-not-set', `${at}: its queue is ${queue?.kind ?? 'missing'} instead of ${bottleneck.kind}`));
    return out;
  }

  private verifySysctls(node: string): Finding[] {
    const pinned = this.layout.steps.flatMap((step) => (step.do === 'sysctl' && step.node === node ? [step] : []));
    if (pinned.length === 0) return [];
    const normal = (value: string): string => value.trim().replace(/\s+/g, ' ');
    return this.inNode(node, () => pinned.flatMap(({ name, value }): Finding[] => {
      let actual: string;
      try {
        actual = normal(readShort(sysctlPath(name)));
      } catch (error) {
        if (isOffAnyway({ name, value }, error)) return [];
        throw error;
      }
      return actual === normal(value) ? [] : [invalid('sysctl-not-set', `node ${node}: sysctl ${name} is ${actual} instead of ${value}`)];
    }));
  }

  private readLinks(): Map<string, LinkState> {
    const out = new Map<string, LinkState>();
    for (const node of new Set(this.layout.devices.map((device) => device.node))) {
      for (const link of this.socket(node).ask(listLinks()).map(parseLink)) out.set(`${node} ${link.device}`, link);
    }
    return out;
  }

  /** Whether the plan asks this direction to lose packets at any time. */
  private losesOnPurpose(name: string): boolean {
    const direction = this.plan.links.flatMap(({ forward, reverse }) => [forward, reverse]).find((one) => one.name === name);
    return (direction?.wire.some(({ loss }) => loss > 0) ?? false) || this.plan.events.some((event) => event.direction === name && (event.set.wire?.loss ?? 0) > 0);
  }

  /** Packets the wires' netems dropped for want of room, by direction; must be 0. (Losses asked for are not among them.) */
  netemDrops(): readonly NetemDrops[] {
    if (this.layout.wireNetns === null) return [];
    const states = this.socket(wireNode).ask(listQdiscs()).map(parseTc);
    const out: NetemDrops[] = [];
    for (const { name, wire: parts } of this.layout.directions.values()) {
      for (const part of parts) {
        const state = states.find((one) => one.ifindex === part.ifindex && one.handle === part.handle);
        if (state?.options === undefined) continue;
        // struct tc_netem_qopt: loss as it is set now; an event may have set it before. With loss the limit is out of reach (steps.ts).
        const [limitPackets, loss] = [state.options.readUInt32LE(4), state.options.readUInt32LE(8)];
        const lost = loss > 0 || this.losesOnPurpose(name);
        out.push({ direction: name, drops: lost ? 0 : state.drops, limitPackets });
      }
    }
    return out;
  }

  /** After traffic: no netem overflowed, nothing was dropped but by our queues, no packet was larger than the MTU, and offloads, shapers and sysctls are as they were. */
  verifyEnd(): readonly Finding[] {
    const out: Finding[] = [];
    for (const { direction, drops, limitPackets } of this.netemDrops()) {
      if (drops > 0) out.push(invalid('netem-dropped', `link ${direction}: its wire dropped ${drops} packets at netem's limit of ${limitPackets}, so delay was not all it did; report it, or lower rate × delay`));
    }
    const baseline = this.linkBaseline;
    if (baseline !== undefined) {
      for (const { node, device } of this.layout.devices) {
        const key = `${node} ${device}`;
        const [before, after] = [baseline.get(key), this.readLinksOnce().get(key)];
        if (before === undefined || after === undefined) {
          out.push(invalid('device-gone', `node ${node}: device ${device} is gone`));
          continue;
        }
        const lost = (['rxDropped', 'txDropped', 'rxErrors', 'txErrors'] as const).filter((field) => after[field] > before[field]).map((field) => `${field} ${after[field] - before[field]}`);
        if (lost.length > 0) out.push(invalid('dropped-elsewhere', `node ${node}, device ${device}: packets were lost outside the queues (${lost.join(', ')}); give the links a rate, so that no more is sent at once than the kernel takes, or, in real time, use virtual time: the machine may be overloaded`));
      }
    }
    this.linksNow = undefined;
    out.push(...this.verifyStanding((on) => `${on} was turned on during the run, so packets larger than the MTU could pass; something else on this machine sets up its devices`));
    for (const layout of this.layout.directions.values()) if (layout.bottleneck !== null) out.push(...this.verifyPackets(layout));
    return out;
  }
  private linksNow: Map<string, LinkState> | undefined;
  private readLinksOnce(): Map<string, LinkState> { return (this.linksNow ??= this.readLinks()); }

  private verifyPackets({ name, link, direction, bottleneck }: DirectionLayout): Finding[] {
    const out: Finding[] = [];
    const full = burstBytes(link, direction);
    const state = this.readStats(name);
    const largest = largestPacket(state);
    if (largest > full) out.push(invalid('superpacket', `link ${name}: a packet of ${largest} bytes passed its queue, more than the ${full} of a full one: an offload was on`));
    if (direction.shaper !== 'tbf') {
      const root = this.socket(bottleneck!.node).ask(getQdisc(bottleneck!.ifindex, bottleneck!.shaperHandle)).map(parseTc)[0];
      const direct = root?.options === undefined ? undefined : parseAttributes(root.options).get(2)?.readUInt32LE(16); // tc_htb_glob.direct_pkts
      if (direct) out.push(invalid('shaper-bypassed', `link ${name}: ${direct} packets passed its shaper by`));
    }
    return out;
  }

  remove(): void {
    const busiest = [wireNode, ...this.plan.nodes.filter((node) => node.role === 'router').map((node) => node.name)];
    try {
      deleteLinks(busiest, this.sockets);
    } finally {
      for (const socket of this.sockets.values()) socket.close();
      this.sockets.clear();
      this.hosts.remove();
    }
  }
}

/** `maxpacket` of CoDel and FQ-CoDel, `max_skblen` of CAKE's tins; 0 where the qdisc does not keep it. */
function largestPacket({ kind, xstats }: TcState): number {
  if (xstats === undefined) return 0;
  if (kind === 'codel') return xstats.readUInt32LE(0);
  if (kind === 'fq_codel') return xstats.readUInt32LE(4);
  if (kind === 'cake') {
    const tins = parseAttributes(xstats).get(10);
    return Math.max(0, ...[...(tins === undefined ? [] : parseAttributes(tins).values())].map((tin) => parseAttributes(tin).get(24)?.readUInt32LE(0) ?? 0));
  }
  return 0;
}
