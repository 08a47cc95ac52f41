/** Requests of rtnetlink (linux/rtnetlink.h, if_link.h, pkt_sched.h) that set-up needs, and the answers it reads back. Pure: nothing here has a socket. */

import { isIPv6 } from 'node:net';
import { attribute, attributeString, attributeU32, nested, parseAttributes, text, unsigned } from './attributes.js';
import { NLM_F_CREATE, NLM_F_DUMP, NLM_F_ECHO, NLM_F_EXCL, NLM_F_REPLACE, type Message, type Request } from './netlink.js';

const [AF_UNSPEC, AF_INET, AF_INET6] = [0, 2, 10];
const RTM = { newLink: 16, delLink: 17, getLink: 18, newAddress: 20, newRoute: 24, newNeighbour: 28, newQdisc: 36, delQdisc: 37, getQdisc: 38, newClass: 40, getClass: 42, newFilter: 44 } as const;
const IFF_UP = 1;
const IFF_NOARP = 0x80;
const IFF_MULTICAST = 0x1000;

export const TC_H_ROOT = 0xffffffff;
/** Parent of the ingress qdisc and of clsact (TC_H_INGRESS). */
export const TC_H_INGRESS = 0xfffffff1;
export const handleOf = (major: number, minor = 0): number => ((major << 16) | minor) >>> 0;
/** `1:`, `1:a`, as tc writes handles. */
export const handleWord = (handle: number): string => `${(handle >>> 16).toString(16)}:${(handle & 0xffff) === 0 ? '' : (handle & 0xffff).toString(16)}`;

/** Network byte order. `10.0.0.1` → 4 bytes, `fd00::1` → 16. */
export function addressBytes(address: string): Buffer {
  if (!isIPv6(address)) return Buffer.from(address.split('.').map(Number));
  const [head = '', tail] = address.split('::');
  const groups = (part: string): number[] => part.split(':').filter((word) => word !== '').flatMap((word) => {
    if (!word.includes('.')) return [Number.parseInt(word, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = word.split('.').map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
  const [left, right] = [groups(head), groups(tail ?? '')];
  const all = tail === undefined ? left : [...left, ...Array.from({ length: 8 - left.length - right.length }, () => 0), ...right];
  const out = Buffer.alloc(16);
  all.forEach((group, index) => out.writeUInt16BE(group, 2 * index));
  return out;
}
export const macBytes = (mac: string): Buffer => Buffer.from(mac.split(':').map((byte) => Number.parseInt(byte, 16)));

/** struct ifinfomsg */
function linkHeader(ifindex: number, flags: number, change: number): Buffer {
  const out = Buffer.alloc(16);
  out.writeInt32LE(ifindex, 4);
  out.writeUInt32LE(flags, 8);
  out.writeUInt32LE(change, 12);
  return out;
}

export interface VethEnd {
  readonly device: string;
  /** Chosen by us, so that later requests of the same batch can name it. */
  readonly ifindex: number;
  readonly mac: string;
}
/** A veth pair, this end up, the peer in the namespace of `peerNamespaceFd` still down: it has no partner yet when the kernel makes it (veth_open), so `linkUp` it after. `group` lets a whole namespace's links be deleted at once. `silent`: IPv6 neither asks for neighbours nor reports multicast groups on it. */
export function newVeth(end: VethEnd, peer: VethEnd, peerNamespaceFd: number, mtuBytes: number, group: number, silent: boolean): Request {
  const noisy = silent ? IFF_NOARP | IFF_MULTICAST : 0;
  const flags = silent ? IFF_NOARP : 0;
  const common = (one: VethEnd): Buffer[] => [attributeString(3, one.device), attribute(1, macBytes(one.mac)), attributeU32(4, mtuBytes), attributeU32(27, group)];
  const peerInfo = nested(1, linkHeader(peer.ifindex, flags, noisy), ...common(peer), attributeU32(28, peerNamespaceFd)); // VETH_INFO_PEER, IFLA_NET_NS_FD
  return {
    type: RTM.newLink, flags: NLM_F_CREATE | NLM_F_EXCL, body: linkHeader(end.ifindex, flags | IFF_UP, noisy | IFF_UP),
    attributes: [...common(end), nested(18, attributeString(1, 'veth'), nested(2, peerInfo))], // IFLA_LINKINFO { KIND, DATA }
  };
}
export const linkUp = (ifindex: number): Request => ({ type: RTM.newLink, flags: 0, body: linkHeader(ifindex, IFF_UP, IFF_UP) });
/** All links of `group` in the namespace, in one go (one wait for the kernel's readers, not one a link). */
export const deleteLinkGroup = (group: number): Request => ({ type: RTM.delLink, flags: 0, body: linkHeader(0, 0, 0), attributes: [attributeU32(27, group)] });
export const listLinks = (): Request => ({ type: RTM.getLink, flags: NLM_F_DUMP, body: linkHeader(0, 0, 0) });

export interface LinkState {
  readonly ifindex: number;
  readonly device: string;
  readonly mtuBytes: number;
  /** Operational state UP (RFC 2863): only now has the kernel put its root qdisc to work; before, it drops. */
  readonly up: boolean;
  readonly rxDropped: number;
  readonly txDropped: number;
  readonly rxErrors: number;
  readonly txErrors: number;
}
/** From RTM_NEWLINK with IFLA_STATS64 (struct rtnl_link_stats64). */
export function parseLink({ body }: Message): LinkState {
  const attributes = parseAttributes(body, 16);
  const stats = attributes.get(23);
  const counter = (index: number): number => (stats === undefined ? 0 : Number(stats.readBigUInt64LE(8 * index)));
  return {
    ifindex: body.readInt32LE(4), device: text(attributes.get(3)), mtuBytes: unsigned(attributes.get(4)), up: unsigned(attributes.get(16)) === 6,
    rxErrors: counter(4), txErrors: counter(5), rxDropped: counter(6), txDropped: counter(7),
  };
}

/** @param address with prefix length. No duplicate address detection: it would delay IPv6 by a second. */
export function newAddress(ifindex: number, address: string): Request {
  const [ip = '', prefix = ''] = address.split('/');
  const bytes = addressBytes(ip);
  const six = bytes.length === 16;
  const body = Buffer.alloc(8);
  body.set([six ? AF_INET6 : AF_INET, Number(prefix || bytes.length * 8), six ? 0x02 /* IFA_F_NODAD */ : 0, 0]);
  body.writeUInt32LE(ifindex, 4);
  return { type: RTM.newAddress, flags: NLM_F_CREATE | NLM_F_EXCL, body, attributes: six ? [attribute(1, bytes)] : [attribute(2, bytes), attribute(1, bytes)] };
}

export function newRoute(ifindex: number, to: string, via: string): Request {
  const [network = '', prefix = '0'] = to.split('/');
  const gateway = addressBytes(via);
  const length = Number(prefix);
  const body = Buffer.alloc(12);
  // struct rtmsg: family, dst_len, src_len, tos, table main, protocol static, scope universe, type unicast
  body.set([gateway.length === 16 ? AF_INET6 : AF_INET, length, 0, 0, 254, 4, 0, 1]);
  return {
    type: RTM.newRoute, flags: NLM_F_CREATE | NLM_F_EXCL, body,
    attributes: [...(length === 0 ? [] : [attribute(1, addressBytes(network))]), attribute(5, gateway), attributeU32(4, ifindex)],
  };
}

/** A permanent entry: no ARP or neighbour solicitation is ever sent for it. */
export function newNeighbour(ifindex: number, address: string, mac: string): Request {
  const bytes = addressBytes(address);
  const body = Buffer.alloc(12);
  body[0] = bytes.length === 16 ? AF_INET6 : AF_INET;
  body.writeInt32LE(ifindex, 4);
  body.writeUInt16LE(0x80 /* NUD_PERMANENT */, 8);
  return { type: RTM.newNeighbour, flags: NLM_F_CREATE | NLM_F_REPLACE, body, attributes: [attribute(1, bytes), attribute(2, macBytes(mac))] };
}

/** struct tcmsg */
function tcHeader(ifindex: number, handle: number, parent: number, info = 0): Buffer {
  const out = Buffer.alloc(20);
  out[0] = AF_UNSPEC;
  out.writeInt32LE(ifindex, 4);
  out.writeUInt32LE(handle, 8);
  out.writeUInt32LE(parent, 12);
  out.writeUInt32LE(info, 16);
  return out;
}

export interface TcOptions {
  readonly kind: string;
  /** Payload of TCA_OPTIONS; empty: not sent. */
  readonly options: Buffer;
  /** TCA_OPTIONS carries NLA_F_NESTED. */
  readonly nested?: boolean;
  /** Link-layer bytes beyond the Ethernet header to count with each packet (`stab overhead`), may be negative. */
  readonly overheadBytes?: number;
}
const optionsAttribute = ({ options, nested: flagged }: TcOptions): Buffer[] => (options.length === 0 ? [] : [attribute(flagged ? 0x8002 : 2, options)]);
/** tc_stab.c: with only an overhead there is no table, just its struct tc_sizespec. */
function sizeTable(overheadBytes: number | undefined): Buffer[] {
  if (!overheadBytes) return [];
  const spec = Buffer.alloc(24);
  spec.writeInt32LE(overheadBytes, 4);
  return [nested(8, attribute(1, spec))]; // TCA_STAB { TCA_STAB_BASE }
}

/** `change`: only the options of a qdisc that is there. */
export const setQdisc = (ifindex: number, parent: number, handle: number, qdisc: TcOptions, change = false): Request => ({
  type: RTM.newQdisc, flags: change ? 0 : NLM_F_CREATE | NLM_F_EXCL, body: tcHeader(ifindex, handle, parent),
  attributes: [attributeString(1, qdisc.kind), ...optionsAttribute(qdisc), ...sizeTable(qdisc.overheadBytes)],
});
export const deleteQdisc = (ifindex: number, parent: number, handle: number): Request => ({ type: RTM.delQdisc, flags: 0, body: tcHeader(ifindex, handle, parent) });
export const setClass = (ifindex: number, parent: number, classid: number, options: TcOptions, change = false): Request => ({
  type: RTM.newClass, flags: change ? 0 : NLM_F_CREATE | NLM_F_EXCL, body: tcHeader(ifindex, classid, parent), attributes: [attributeString(1, options.kind), ...optionsAttribute(options)],
});
/** @param protocol ETH_P_…, host order. @param handle 0: the kernel chooses. */
export const newFilter = (ifindex: number, parent: number, priority: number, protocol: number, handle: number, filter: TcOptions): Request => ({
  type: RTM.newFilter, flags: NLM_F_CREATE | NLM_F_EXCL,
  body: tcHeader(ifindex, handle, parent, ((priority << 16) | ((protocol & 0xff) << 8) | (protocol >> 8)) >>> 0),
  attributes: [attributeString(1, filter.kind), ...optionsAttribute(filter)],
});
/** ECHO: the kernel sends the answer to whoever listens for changes, and to us only if asked (sch_api.c qdisc_notify). */
export const getQdisc = (ifindex: number, handle: number): Request => ({ type: RTM.getQdisc, flags: NLM_F_ECHO, body: tcHeader(ifindex, handle, 0) });
export const listQdiscs = (ifindex = 0): Request => ({ type: RTM.getQdisc, flags: NLM_F_DUMP, body: tcHeader(ifindex, 0, 0) });
export const listClasses = (ifindex: number): Request => ({ type: RTM.getClass, flags: NLM_F_DUMP, body: tcHeader(ifindex, 0, 0) });

/** Everything the kernel says about one qdisc or class. */
export interface TcState {
  readonly ifindex: number;
  readonly handle: number;
  readonly parent: number;
  readonly kind: string;
  readonly sentBytes: number;
  readonly sentPackets: number;
  readonly drops: number;
  readonly overlimits: number;
  readonly requeues: number;
  readonly backlogBytes: number;
  readonly backlogPackets: number;
  readonly options: Buffer | undefined;
  /** TCA_STATS_APP */
  readonly xstats: Buffer | undefined;
}
/** RTM_NEWQDISC or RTM_NEWTCLASS. Counters from TCA_STATS2 (linux/gen_stats.h), whose packet count may stand in a 64-bit attribute of its own. */
export function parseTc({ body }: Message): TcState {
  const attributes = parseAttributes(body, 20);
  const stats = attributes.get(7);
  const parts = stats === undefined ? new Map<number, Buffer>() : parseAttributes(stats);
  const basic = parts.get(1);
  const queue = parts.get(3);
  const packets64 = parts.get(8);
  const inQueue = (index: number): number => (queue === undefined ? 0 : queue.readUInt32LE(4 * index));
  return {
    ifindex: body.readInt32LE(4), handle: body.readUInt32LE(8), parent: body.readUInt32LE(12), kind: text(attributes.get(1)),
    sentBytes: basic === undefined ? 0 : Number(basic.readBigUInt64LE(0)),
    sentPackets: packets64 !== undefined ? Number(packets64.readBigUInt64LE(0)) : basic === undefined ? 0 : basic.readUInt32LE(8),
    backlogPackets: inQueue(0), backlogBytes: inQueue(1), drops: inQueue(2), requeues: inQueue(3), overlimits: inQueue(4),
    options: attributes.get(2), xstats: parts.get(4),
  };
}
