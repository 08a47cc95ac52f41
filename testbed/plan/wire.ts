/** What the wire of one direction does: the delays that make up an `rtt`, and how many packets netem must be able to hold. */

import { pairId, sideOf, type Expanded, type Host, type Side } from '../scenario/expand.js';
import type { LinkFields } from '../scenario/link.js';
import type { PlanWire } from './plan.js';

/** Of a direction, without the packets it must hold. */
export type WireValues = Omit<PlanWire, 'to' | 'limitPackets'>;

/** Without any rate in the whole topology, as fast as veth pairs were seen to be. */
export const cableRateBps = 10e9;

/**
 * netem's `limit`: twice the smallest packets (64 bytes) that the rate can put into the delay, at least 1000. A packet
 * waits at most delay + 4 × jitter (netem's jitter is a standard deviation unless uniform).
 */
export function wireLimit(values: WireValues, rateBps: number): number {
  const seconds = (values.delayNs + 4 * values.jitterNs) / 1e9;
  return Math.min(0x7fffffff, Math.max(1000, Math.ceil((2 * rateBps * seconds) / (64 * 8))));
}

export function wireValues(fields: LinkFields, side: Side): WireValues {
  return {
    delayNs: sideOf(fields.delay, side) ?? 0, jitterNs: sideOf(fields.jitter, side) ?? 0, loss: sideOf(fields.loss, side) ?? 0,
    duplicate: sideOf(fields.duplicate, side) ?? 0, reorder: sideOf(fields.reorder, side) ?? 0,
  };
}

/** Whether the wire does anything at all. */
export const acts = (w: WireValues): boolean => w.delayNs > 0 || w.jitterNs > 0 || w.loss > 0 || w.duplicate > 0 || w.reorder > 0;

export const complete = (values: WireValues, rateBps: number, to?: readonly string[]): PlanWire =>
  ({ ...(to ? { to } : {}), ...values, limitPackets: wireLimit(values, rateBps) });

/** What each pair of hosts gets on top of the fixed delays of its path, ns, by pairId; and its base RTT. */
export interface PairDelay { readonly extraNs: number; readonly baseRttNs: number; readonly delayer: Host | null }

/**
 * The wire of host → router: its own values, and for the peers an `rtt` is made for, with the rest of that rtt added.
 * One entry for all where every peer has the same.
 */
export function accessWire(host: Host, peers: readonly Host[], delays: ReadonlyMap<string, PairDelay>, addressOf: (host: Host) => string, rateBps: number): PlanWire[] {
  const own = wireValues(host.fields, 'forward');
  const groups = new Map<number, string[]>();
  for (const peer of peers) {
    const delay = delays.get(pairId(host, peer));
    const extra = delay !== undefined && delay.delayer === host ? delay.extraNs : 0;
    const group = groups.get(extra);
    if (group) group.push(addressOf(peer));
    else groups.set(extra, [addressOf(peer)]);
  }
  const withExtra = (extra: number): WireValues => ({ ...own, delayNs: own.delayNs + extra });
  if (groups.size <= 1) {
    const values = withExtra([...groups.keys()][0] ?? 0);
    return acts(values) ? [complete(values, rateBps)] : [];
  }
  const entries = [...groups].filter(([extra]) => extra > 0).map(([extra, to]) => complete(withExtra(extra), rateBps, to));
  return acts(own) ? [...entries, complete(own, rateBps)] : entries;
}

/** Every host's peers, in the order of the scenario. */
export function peersOf(expanded: Expanded): ReadonlyMap<Host, readonly Host[]> {
  const peers = new Map<Host, Host[]>();
  const add = (a: Host, b: Host): void => {
    const list = peers.get(a);
    if (list) list.push(b);
    else peers.set(a, [b]);
  };
  for (const { src, dst } of expanded.pairs.values()) { add(src, dst); add(dst, src); }
  return peers;
}
