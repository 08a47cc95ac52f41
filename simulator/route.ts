/**
 * Routes, worked out once a flow and direction: the plan's static routes are followed hop by hop (longest prefix,
 * as the kernel's FIB does) from source to destination address, and the links and wires on the way are kept in
 * arrays, so that forwarding a packet is an index.
 */

import type { Plan, PlanNode } from '../testbed/plan/plan.js';
import { UserError } from '../testbed/errors.js';
import type { Packet } from './packet.js';
import type { Link } from './link.js';
import type { Wire } from './wire.js';

/** Where a route ends. The endpoint reads the packet; the caller gives it back to the pool afterwards. */
export interface Endpoint { receive(packet: Packet): void }

export class Route {
  /** What comes out at the end; set by the flow or probe that uses the route. */
  sink: Endpoint | null = null;
  /** What packets carry (skb->hash): a sender draws it anew at a retransmission timeout. */
  sentHash: number;
  constructor(
    /** The hops at which something can happen to a packet: those that only hand it on, in the same instant, are left out. */
    readonly links: readonly Link[],
    /** wires[i] is the part of links[i]'s wire that serves this destination. */
    readonly wires: readonly Wire[],
    /** True when the source's own interface has a queue: TCP small queues. */
    readonly queuedAtSource: boolean,
    /** True when nothing on the way can ever hold a packet: then the last step needs an event of its own. */
    readonly immediate: boolean,
    readonly mtuBytes: number,
    /** Row key in packet records: flow id, or −1 − probe id. */
    readonly recordId: number,
    readonly forward: boolean,
    /** Of addresses and ports. */
    readonly tupleHash: number,
    readonly srcHash: number,
    readonly dstHash: number,
  ) {
    this.sentHash = tupleHash;
  }
}

interface Prefix { readonly bits: bigint; readonly length: number; readonly v6: boolean }

/** @returns the address as a number. @throws UserError when it is not one. */
export function addressBits(address: string): { readonly bits: bigint; readonly v6: boolean } {
  if (!address.includes(':')) {
    const parts = address.split('.').map(Number);
    if (parts.length !== 4 || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255)) throw new UserError(`"${address}" in the plan is not an IP address`);
    return { bits: BigInt(parts[0]! * 2 ** 24 + parts[1]! * 2 ** 16 + parts[2]! * 2 ** 8 + parts[3]!), v6: false };
  }
  const halves = address.split('::');
  const words = (text: string | undefined): string[] => (text === undefined || text === '' ? [] : text.split(':'));
  const head = words(halves[0]);
  const tail = words(halves[1]);
  const gap = halves.length === 2 ? 8 - head.length - tail.length : 0;
  const all = [...head, ...Array<string>(Math.max(0, gap)).fill('0'), ...tail];
  if (halves.length > 2 || all.length !== 8 || all.some((word) => !/^[0-9a-fA-F]{1,4}$/.test(word))) throw new UserError(`"${address}" in the plan is not an IP address`);
  return { bits: all.reduce((sum, word) => (sum << 16n) | BigInt(parseInt(word, 16)), 0n), v6: true };
}

function prefix(cidr: string): Prefix {
  const [address = '', length] = cidr.split('/');
  const { bits, v6 } = addressBits(address);
  return { bits, length: length === undefined ? (v6 ? 128 : 32) : Number(length), v6 };
}

const within = (address: { readonly bits: bigint; readonly v6: boolean }, net: Prefix): boolean => {
  if (address.v6 !== net.v6) return false;
  const drop = BigInt((net.v6 ? 128 : 32) - net.length);
  return address.bits >> drop === net.bits >> drop;
};

interface Hop { readonly link: Link; readonly to: string }
interface Table { readonly node: PlanNode; readonly own: ReadonlySet<string>; readonly entries: { readonly net: Prefix; readonly hop: Hop }[] }

/** The plan's routing tables, ready for look-ups. */
export class Routing {
  private readonly tables = new Map<string, Table>();

  /** @param links the two directions of each plan link, [a → b, b → a], in the plan's order */
  constructor(plan: Plan, links: readonly (readonly [Link, Link])[]) {
    const devices = new Map<string, Hop>();
    const own = new Map<string, Set<string>>();
    const connected = new Map<string, { net: Prefix; hop: Hop }[]>();
    plan.links.forEach((link, i) => {
      const pair = links[i]!;
      for (const [from, to, direction] of [[link.a, link.b, pair[0]], [link.b, link.a, pair[1]]] as const) {
        const hop = { link: direction, to: to.node };
        devices.set(`${from.node} ${from.device}`, hop);
        for (const address of from.addresses) {
          (own.get(from.node) ?? own.set(from.node, new Set()).get(from.node)!).add(addressBits(address.split('/')[0]!).bits.toString());
          (connected.get(from.node) ?? connected.set(from.node, []).get(from.node)!).push({ net: prefix(address), hop });
        }
      }
    });
    for (const node of plan.nodes) {
      const entries = [...(connected.get(node.name) ?? [])];
      for (const route of node.routes) {
        const hop = devices.get(`${node.name} ${route.device}`);
        if (!hop) throw new UserError(`plan: node ${node.name} has a route to ${route.to} by ${route.device}, but no link has that device`);
        entries.push({ net: prefix(route.to), hop });
      }
      entries.sort((x, y) => y.net.length - x.net.length);
      this.tables.set(node.name, { node, own: own.get(node.name) ?? new Set(), entries });
    }
  }

  /** Links from node `src` to the node that owns `address`. @throws UserError when there is no way. */
  path(src: string, address: string): Link[] {
    const destination = addressBits(address);
    const key = destination.bits.toString();
    const path: Link[] = [];
    let at = src;
    for (let hops = 0; hops < 64; hops++) {
      const table = this.tables.get(at);
      if (!table) throw new UserError(`plan: there is no node ${at}`);
      if (table.own.has(key)) return path;
      const entry = table.entries.find(({ net }) => within(destination, net));
      if (!entry) throw new UserError(`plan: ${at} has no route to ${address} (on the way from ${src})`);
      path.push(entry.hop.link);
      at = entry.hop.to;
    }
    throw new UserError(`plan: the routes from ${src} to ${address} form a loop`);
  }
}
