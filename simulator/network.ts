/** The network of a run: links, wires and routes made from a plan, and the step from one hop to the next. */

import type { Plan, PlanDirection, PlanLink, PlanQueue, PlanWire } from '../testbed/plan/plan.js';
import { UserError } from '../testbed/errors.js';
import type { AqmKind } from '../aqm/aqm.js';
import { Actor, EventQueue } from './events.js';
import { Link } from './link.js';
import { PacketPool, type Packet } from './packet.js';
import { Random, hash32, mix32 } from './random.js';
import { Route, Routing } from './route.js';
import { Wire } from './wire.js';

/** The last step of routes on which nothing can hold a packet: an event at the same instant, so that no endpoint is entered twice. */
class Cable extends Actor {
  private head: Packet | null = null;
  private tail: Packet | null = null;
  held = 0;
  constructor(private readonly network: Network) { super(); network.events.add(this); }
  push(packet: Packet): void {
    packet.next = null;
    this.held++;
    packet.order = this.network.events.takeOrder();
    if (this.tail === null) {
      this.head = this.tail = packet;
      this.network.events.scheduleOrdered(this.actorId, this.network.events.now, packet.order);
    } else {
      this.tail.next = packet;
      this.tail = packet;
    }
  }
  override fire(): void {
    const packet = this.head!;
    this.head = packet.next;
    this.held--;
    if (this.head === null) this.tail = null;
    else this.network.events.scheduleOrdered(this.actorId, this.network.events.now, this.head.order);
    packet.next = null;
    this.network.deliver(packet);
  }
}

const none: PlanWire = { delayNs: 0, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: Infinity };

export class Network {
  readonly events = new EventQueue();
  readonly pool = new PacketPool();
  readonly links: Link[] = [];
  readonly byName = new Map<string, Link>();
  private readonly wires: Wire[] = [];
  private readonly routing: Routing;
  private readonly cable = new Cable(this);
  /** The wire entry without `to` of each link: what events replace. */
  private readonly general = new Map<Link, Wire>();
  /** Directions that a plan event gives a queue. */
  private readonly queued: ReadonlySet<string>;
  private readonly specific = new Map<Link, readonly { readonly to: ReadonlySet<string>; readonly wire: Wire; }[]>();

  /** @param aqms the disciplines by kind (aqm/registry.ts) */
  constructor(readonly plan: Plan, private readonly aqms: ReadonlyMap<string, AqmKind>) {
    this.queued = new Set(plan.events.filter((event) => event.set.queue).map((event) => event.direction));
    const changed = new Set(plan.events.filter((event) => event.set.wire).map((event) => event.direction));
    const direction = (link: PlanLink, setting: PlanDirection): Link => {
      const made = new Link(this, setting, link.mtuBytes, link.role === 'bottleneck', plan.seed, plan.tcp.model === 'classic');
      const entries: { to: Set<string>; wire: Wire }[] = [];
      const all: Wire[] = [];
      let general: Wire | null = null;
      setting.wire.forEach((entry, i) => {
        const wire = new Wire(this, setting.name, entry, changed.has(setting.name), new Random(plan.seed, `${setting.name} wire ${i}`));
        all.push(wire);
        if (entry.to) entries.push({ to: new Set(entry.to), wire });
        else general ??= wire;
      });
      if (general === null) {
        general = new Wire(this, setting.name, none, changed.has(setting.name), new Random(plan.seed, `${setting.name} wire`));
        all.push(general);
      }
      made.wires = all;
      this.wires.push(...all);
      this.general.set(made, general);
      this.specific.set(made, entries);
      this.links.push(made);
      this.byName.set(setting.name, made);
      return made;
    };
    this.routing = new Routing(plan, plan.links.map((link) => [direction(link, link.forward), direction(link, link.reverse)] as const));
  }

  aqm(queue: PlanQueue): AqmKind {
    const found = this.aqms.get(queue.kind);
    if (!found) throw new UserError(`the simulator has no queue discipline "${queue.kind}"; it has ${[...this.aqms.keys()].join(', ')}`);
    return found;
  }

  setWire(link: Link, setting: PlanWire): void { this.general.get(link)!.set(setting); }

  /**
   * The way from node `src` to an address.
   * The flow hash depends on the seed, as Linux's does on boot: which flows share a bucket is drawn anew each seed.
   * @param key what tells the flow apart for hashing disciplines: `10.0.1.1 5001 10.0.2.1 9000 tcp`
   */
  route(src: string, srcAddress: string, dstAddress: string, recordId: number, forward: boolean, key: string): Route {
    const links = this.routing.path(src, dstAddress);
    const wires = links.map((link) => this.specific.get(link)!.find(({ to }) => to.has(dstAddress))?.wire ?? this.general.get(link)!);
    const passedOn = links.map((link, i) => link.queue === null && !this.queued.has(link.setting.name) && wires[i]!.immediate);
    const immediate = links.every((link) => link.queue === null) && wires.every((wire) => wire.immediate);
    const mtu = links.reduce((least, link) => Math.min(least, link.mtuBytes), 65535);
    const holds = (_: unknown, i: number): boolean => !passedOn[i];
    return new Route(
      links.filter(holds), wires.filter(holds), links.length > 0 && links[0]!.queue !== null, immediate, mtu, recordId, forward,
      mix32(hash32(key) ^ this.plan.seed), hash32(srcAddress), hash32(dstAddress),
    );
  }

  /** A packet leaves its source. */
  send(packet: Packet): void {
    const links = packet.route!.links;
    if (links.length === 0) { this.cable.push(packet); return; }
    links[0]!.arrive(packet);
  }

  /** A packet came to the end of its wire. */
  forward(packet: Packet): void {
    const route = packet.route!;
    if (++packet.hop < route.links.length) { route.links[packet.hop]!.arrive(packet); return; }
    if (route.immediate) this.cable.push(packet);
    else this.deliver(packet);
  }

  deliver(packet: Packet): void {
    const sink = packet.route!.sink;
    if (sink !== null) sink.receive(packet);
    this.pool.deliver(packet);
  }

  /** Packets in queues and on wires now. */
  get inFlight(): number {
    let count = this.cable.held;
    for (const link of this.links) count += link.queue?.backlogPackets ?? 0;
    for (const wire of this.wires) count += wire.held;
    return count;
  }
  /** @throws Error when a packet was lost or made from nothing: a bug in the simulator or in a discipline */
  checkConservation(): void {
    const { made, delivered, dropped } = this.pool;
    const inFlight = this.inFlight;
    if (made !== delivered + dropped + inFlight) throw new Error(`packets are not conserved: ${made} made, ${delivered} delivered, ${dropped} dropped, ${inFlight} in flight`);
  }

  /** Packets each wire had no room for (netem's limit), by link. */
  overflows(): { readonly link: string; readonly packets: number }[] {
    return this.wires.filter((wire) => wire.overflowed > 0).map((wire) => ({ link: wire.linkName, packets: wire.overflowed }));
  }
}
