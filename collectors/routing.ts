/** Which bottleneck a router sends a destination to: the plan's routes by longest prefix, as the kernel does it. */

import { addressHex } from '../testbed/linux/inet-diag.js';
import type { Plan, PlanDirection, PlanInterface, PlanLink } from '../testbed/plan/plan.js';

/** A bottleneck direction whose queue is in a router's own kernel. */
export interface RouterBottleneck { readonly direction: PlanDirection; readonly link: PlanLink; readonly from: PlanInterface; readonly to: PlanInterface }

/** Both directions of every bottleneck link that have a queue in the kernel, in the order of the plan. */
export function kernelBottlenecks(plan: Plan): readonly RouterBottleneck[] {
  return plan.links.filter((link) => link.role === 'bottleneck').flatMap((link) => [
    { direction: link.forward, link, from: link.a, to: link.b },
    { direction: link.reverse, link, from: link.b, to: link.a },
  ]).filter(({ direction }) => direction.queue?.in === 'kernel');
}

/** The same by the node that sends into them. */
export function bottlenecksByNode(plan: Plan): ReadonlyMap<string, readonly RouterBottleneck[]> {
  const out = new Map<string, RouterBottleneck[]>();
  for (const bottleneck of kernelBottlenecks(plan)) {
    const list = out.get(bottleneck.from.node);
    if (list) list.push(bottleneck);
    else out.set(bottleneck.from.node, [bottleneck]);
  }
  return out;
}

const value = (address: string): { readonly bits: 32 | 128; readonly value: bigint } => {
  const hex = addressHex(address);
  return { bits: hex.length === 8 ? 32 : 128, value: BigInt(`0x${hex}`) };
};

/** @returns the device by which `node` sends to an address (hex as `addressHex` gives it), undefined without a route or when it is the node's own */
export function routeLookup(plan: Plan, node: string): (destinationHex: string) => string | undefined {
  // Prefix length → prefix → device, one map a family and length.
  const tables = { 32: new Map<number, Map<bigint, string>>(), 128: new Map<number, Map<bigint, string>>() };
  const own = new Set<string>();
  const add = (cidr: string, device: string): void => {
    const [address, length] = cidr.split('/') as [string, string | undefined];
    const { bits, value: number } = value(address);
    const prefix = length === undefined ? bits : Number(length);
    const table = tables[bits].get(prefix) ?? new Map<bigint, string>();
    tables[bits].set(prefix, table);
    const key = number >> BigInt(bits - prefix);
    if (!table.has(key)) table.set(key, device);
  };
  for (const link of plan.links) {
    for (const end of [link.a, link.b]) {
      if (end.node !== node) continue;
      for (const address of end.addresses) {
        own.add(addressHex(address.split('/')[0]!));
        add(address, end.device);
      }
    }
  }
  for (const route of plan.nodes.find(({ name }) => name === node)?.routes ?? []) add(route.to, route.device);
  const lengths = {
    32: [...tables[32].keys()].sort((a, b) => b - a),
    128: [...tables[128].keys()].sort((a, b) => b - a),
  };
  return (hex) => {
    if (own.has(hex)) return undefined;
    const bits = hex.length === 8 ? 32 : 128;
    const number = BigInt(`0x${hex}`);
    for (const length of lengths[bits]) {
      const device = tables[bits].get(length)!.get(number >> BigInt(bits - length));
      if (device !== undefined) return device;
    }
    return undefined;
  };
}
