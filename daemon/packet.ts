/**
 * What a queue discipline needs to know of a real packet, and the only bytes the daemon changes in one: the DS field
 * (ECN marks, CAKE's wash) with IPv4's header checksum (RFC 791, RFC 1624), and, on a router, the TTL that passing
 * through the daemon cost. IPv6 per RFC 8200, extension headers walked. Nothing here reads or writes outside
 * [at, at + length) or throws; of what it does not understand it says "no flow, not ECN-capable" and leaves it as it is.
 */

import { mix32 } from '../simulator/random.js';
import type { Slot } from './slots.js';

const [TCP, UDP, SCTP, DCCP, UDP_LITE] = [6, 17, 132, 33, 136] as const;
const [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION, MOBILITY] = [0, 43, 44, 51, 60, 135] as const;
const [FIN, SYN, RST, ACK] = [1, 2, 4, 16] as const;

/**
 * Fills the slot's header fields: `ecn`, `dscp`, hashes, `pureAck`, `ackNumber`, `datagram`.
 * @param at first byte of the IP header in `view`
 * @param length bytes there are from `at` on; what the headers claim beyond is not believed
 * @param seed which flows share a bucket is drawn anew each seed, as on each boot of a kernel
 */
export function readPacket(slot: Slot, view: DataView, at: number, length: number, seed: number): void {
  slot.ecn = 0;
  slot.dscp = 0;
  slot.pureAck = false;
  slot.datagram = true;
  slot.ackNumber = 0;
  slot.flowHash = 0;
  slot.srcHash = 0;
  slot.dstHash = 0;
  if (length < 20) return;
  const version = view.getUint8(at) >>> 4;
  if (version === 4) readIpv4(slot, view, at, length, seed);
  else if (version === 6 && length >= 40) readIpv6(slot, view, at, length, seed);
}

function readIpv4(slot: Slot, view: DataView, at: number, length: number, seed: number): void {
  const header = (view.getUint8(at) & 15) * 4;
  if (header < 20 || header > length) return;
  const field = view.getUint8(at + 1);
  slot.ecn = field & 3;
  slot.dscp = field >>> 2;
  const total = view.getUint16(at + 2);
  const end = at + (total >= header && total < length ? total : length);
  const protocol = view.getUint8(at + 9);
  const fragmented = (view.getUint16(at + 6) & 0x3fff) !== 0;
  slot.srcHash = mix32(view.getInt32(at + 12) ^ seed);
  slot.dstHash = mix32(view.getInt32(at + 16) ^ Math.imul(seed, 0x9e3779b1));
  readTransport(slot, view, at + header, end, fragmented ? -1 : protocol, protocol, seed);
}

function readIpv6(slot: Slot, view: DataView, at: number, length: number, seed: number): void {
  const field = (view.getUint16(at) >>> 4) & 0xff;
  slot.ecn = field & 3;
  slot.dscp = field >>> 2;
  const claimed = view.getUint16(at + 4) + 40;
  const end = at + (claimed > 40 && claimed < length ? claimed : length);
  let from = seed, to = Math.imul(seed, 0x9e3779b1);
  for (let i = 8; i < 24; i += 4) {
    from = mix32(from ^ view.getInt32(at + i));
    to = mix32(to ^ view.getInt32(at + i + 16));
  }
  slot.srcHash = from >>> 0;
  slot.dstHash = to >>> 0;
  let protocol = view.getUint8(at + 6);
  let payload = at + 40;
  let fragmented = false;
  // Each header is 8 bytes or more, so this ends.
  while (payload + 8 <= end) {
    if (protocol === FRAGMENT) {
      // An atomic fragment (RFC 6946) is a whole packet.
      fragmented = (view.getUint16(payload + 2) & 0xfff9) !== 0;
      protocol = view.getUint8(payload);
      payload += 8;
      if (fragmented) break;
    } else if (protocol === HOP_BY_HOP || protocol === ROUTING || protocol === DESTINATION || protocol === MOBILITY) {
      protocol = view.getUint8(payload);
      payload += (view.getUint8(payload + 1) + 1) * 8;
    } else if (protocol === AUTHENTICATION) {
      protocol = view.getUint8(payload);
      payload += (view.getUint8(payload + 1) + 2) * 4;
    } else {
      break;
    }
  }
  readTransport(slot, view, payload, end, fragmented ? -1 : protocol, protocol, seed);
}

/** @param transport the protocol whose header is at `payload`; −1: a fragment, whose ports are not looked at, as in Linux's flow dissector */
function readTransport(slot: Slot, view: DataView, payload: number, end: number, transport: number, protocol: number, seed: number): void {
  const hasPorts = transport === TCP || transport === UDP || transport === SCTP || transport === DCCP || transport === UDP_LITE;
  const ports = hasPorts && payload + 4 <= end ? view.getInt32(payload) : 0;
  slot.flowHash = mix32(mix32(slot.srcHash ^ ports) ^ Math.imul(slot.dstHash, 5) ^ Math.imul(protocol + 1, 0x85ebca6b) ^ seed);
  slot.datagram = protocol !== TCP;
  if (transport !== TCP || payload + 20 > end) return;
  const header = (view.getUint8(payload + 12) >>> 4) * 4;
  const flags = view.getUint8(payload + 13);
  if (header < 20 || payload + header !== end || (flags & (FIN | SYN | RST)) !== 0 || (flags & ACK) === 0) return;
  slot.pureAck = true;
  slot.ackNumber = view.getUint32(payload + 8);
}

/** RFC 1624, equation 3: the checksum at `at` after one of the 16-bit words it covers changed. */
function updateChecksum(view: DataView, at: number, before: number, after: number): void {
  let sum = (~view.getUint16(at) & 0xffff) + (~before & 0xffff) + after;
  sum = (sum & 0xffff) + (sum >>> 16);
  sum = (sum & 0xffff) + (sum >>> 16);
  view.setUint16(at, ~sum & 0xffff);
}

/** Writes the DS field (DSCP and ECN) of an IPv4 or IPv6 header. @returns false, with nothing changed, for anything else */
export function writeDsField(view: DataView, at: number, length: number, field: number): boolean {
  if (length < 20) return false;
  const before = view.getUint16(at);
  const version = before >>> 12;
  if (version === 4) {
    const header = ((before >>> 8) & 15) * 4;
    if (header < 20 || header > length) return false;
    const after = (before & 0xff00) | (field & 0xff);
    view.setUint16(at, after);
    updateChecksum(view, at + 10, before, after);
    return true;
  }
  if (version !== 6 || length < 40) return false;
  view.setUint16(at, (before & 0xf00f) | ((field & 0xff) << 4));
  return true;
}

/**
 * Gives back the hop that forwarding into the daemon took: TTL or hop limit plus one, never past 255. The packet passes the router's
 * forwarding twice, so the router still costs one hop in all.
 */
export function restoreHop(view: DataView, at: number, length: number): void {
  if (length < 20) return;
  const version = view.getUint8(at) >>> 4;
  if (version === 4) {
    const header = (view.getUint8(at) & 15) * 4;
    if (header < 20 || header > length) return;
    const before = view.getUint16(at + 8);
    if (before >>> 8 === 255) return;
    view.setUint16(at + 8, before + 0x100);
    updateChecksum(view, at + 10, before, before + 0x100);
  } else if (version === 6 && length >= 40) {
    const hops = view.getUint8(at + 7);
    if (hops < 255) view.setUint8(at + 7, hops + 1);
  }
}
