/**
 * What a captured packet is: its key, flow, size, ECN codepoint and the bottleneck it is routed to. Reads IPv4
 * (RFC 791) and IPv6 (RFC 8200, extension headers walked) with TCP, UDP and ICMP, cut anywhere. It never throws and
 * never reads outside the bytes it is given. About a hundred instructions a packet, nothing allocated.
 *
 * The key is a 64-bit hash of fields that forwarding and queueing keep: not TTL or hop limit, not the header
 * checksum, not ECN bits, not the transport checksum (it is computed late where checksums are offloaded).
 */

import { addressHex } from '../testbed/linux/inet-diag.js';
import type { PlanFlow, PlanProbe } from '../testbed/plan/plan.js';
import { none } from '../testbed/records/record-file.js';

const [ICMP, TCP, UDP, ICMPV6] = [1, 6, 17, 58] as const;
const [HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION] = [0, 43, 44, 60] as const;
const ETH_P_IP = 0x0800;
const ETH_P_IPV6 = 0x86dd;

/** Connections remembered besides the plan's own: past this, strangers are looked up again each time. */
const strangersKept = 1 << 16;

/** No bottleneck of this router. */
export const elsewhere = -1;

export class PacketReader {
  /** Of the packet `read` last: int32, to be taken as uint32. */
  keyLo = 0;
  keyHi = 0;
  /** IP bytes. */
  size = 0;
  /** Flow id, −1 − probe id, or `none.i32`. */
  flow = 0;
  forward = 0;
  ecn = 0;
  /** Index of the bottleneck its destination routes to, or `elsewhere`. */
  direction = elsewhere;

  // Hash table of (addresses, protocol, ports), open addressing: the 64-bit hash is its own proof of equality.
  private capacity = 1024;
  private entries = 0;
  private strangers = 0;
  private lo = new Int32Array(1024);
  private hi = new Int32Array(1024);
  private state = new Uint8Array(1024); // 0 free, else 1 + forward
  private flows = new Int32Array(1024);
  private directions = new Int32Array(1024);
  // The two lanes of the hash being computed.
  private a = 0;
  private b = 0;

  /**
   * @param directionOf bottleneck (index or `elsewhere`) that this router sends a destination to; hex as `addressHex` gives
   */
  constructor(flows: readonly PlanFlow[], probes: readonly PlanProbe[], private readonly directionOf: (destination: string) => number) {
    for (const flow of flows) {
      const protocol = flow.transport === 'tcp' ? TCP : UDP;
      this.know(flow.srcAddress, flow.dstAddress, protocol, flow.srcPort, flow.dstPort, flow.id);
    }
    for (const probe of probes) {
      if (probe.tool === 'builtin' || probe.tool === 'irtt') this.know(probe.srcAddress, probe.dstAddress, UDP, probe.port, probe.port, -1 - probe.id);
      else if (probe.srcAddress.includes(':')) this.knowEcho(probe, ICMPV6, 128, 129);
      else this.knowEcho(probe, ICMP, 8, 0);
    }
  }

  private know(source: string, destination: string, protocol: number, sourcePort: number, destinationPort: number, flow: number): void {
    this.insertKnown(source, destination, protocol, (sourcePort << 16) | destinationPort, flow, 1);
    this.insertKnown(destination, source, protocol, (destinationPort << 16) | sourcePort, flow, 0);
  }
  /** Echo messages have their type in place of ports. */
  private knowEcho(probe: PlanProbe, protocol: number, request: number, reply: number): void {
    this.insertKnown(probe.srcAddress, probe.dstAddress, protocol, request, -1 - probe.id, 1);
    this.insertKnown(probe.dstAddress, probe.srcAddress, protocol, reply, -1 - probe.id, 0);
  }
  private insertKnown(source: string, destination: string, protocol: number, ports: number, flow: number, forward: number): void {
    const [from, to] = [addressHex(source), addressHex(destination)];
    this.begin(protocol, ports);
    for (let i = 0; i < from.length; i += 8) this.mix(parseInt(from.slice(i, i + 8), 16) | 0);
    for (let i = 0; i < to.length; i += 8) this.mix(parseInt(to.slice(i, i + 8), 16) | 0);
    const place = this.find();
    if (this.state[place] !== 0) return; // the first of two that look the same (two ping probes of one pair)
    this.insert(place, flow, forward, this.directionOf(to));
  }

  private begin(protocol: number, ports: number): void {
    this.a = 0x2545f491 ^ protocol;
    this.b = 0x1b873593 + protocol;
    this.mix(ports);
  }
  private mix(word: number): void {
    const a = Math.imul(this.a ^ word, 0x9e3779b1);
    this.a = a ^ (a >>> 15);
    const b = Math.imul((this.b + word) | 0, 0x85ebca77);
    this.b = (b << 13) | (b >>> 19);
  }

  private find(): number {
    const mask = this.capacity - 1;
    let place = (this.a ^ (this.b >>> 7)) & mask;
    while (this.state[place] !== 0 && (this.lo[place] !== this.a || this.hi[place] !== this.b)) place = (place + 1) & mask;
    return place;
  }
  private insert(place: number, flow: number, forward: number, direction: number): void {
    this.lo[place] = this.a;
    this.hi[place] = this.b;
    this.state[place] = 1 + forward;
    this.flows[place] = flow;
    this.directions[place] = direction;
    this.entries++;
    if (this.entries * 2 > this.capacity) this.grow();
  }
  private grow(): void {
    const { capacity, lo, hi, state, flows, directions, a, b } = this;
    this.capacity = capacity * 2;
    this.lo = new Int32Array(this.capacity);
    this.hi = new Int32Array(this.capacity);
    this.state = new Uint8Array(this.capacity);
    this.flows = new Int32Array(this.capacity);
    this.directions = new Int32Array(this.capacity);
    for (let i = 0; i < capacity; i++) {
      if (state[i] === 0) continue;
      this.a = lo[i]!;
      this.b = hi[i]!;
      const place = this.find();
      this.lo[place] = this.a;
      this.hi[place] = this.b;
      this.state[place] = state[i]!;
      this.flows[place] = flows[i]!;
      this.directions[place] = directions[i]!;
    }
    this.a = a;
    this.b = b;
  }

  /** Sets flow, forward and direction from the hash of addresses, protocol and ports. `to`: the destination's bytes. */
  private identify(view: DataView, to: number, addressBytes: 4 | 16): void {
    const place = this.find();
    const state = this.state[place]!;
    if (state !== 0) {
      this.flow = this.flows[place]!;
      this.forward = state - 1;
      this.direction = this.directions[place]!;
      return;
    }
    let destination = '';
    for (let i = 0; i < addressBytes; i += 4) destination += view.getUint32(to + i).toString(16).padStart(8, '0');
    this.flow = none.i32;
    this.forward = 1;
    this.direction = this.directionOf(destination);
    if (this.strangers < strangersKept) {
      this.strangers++;
      this.insert(place, this.flow, 1, this.direction);
    }
  }

  /**
   * @param at the IP header; only [at, at + snapped) is read
   * @param length bytes of the packet as the kernel holds it
   * @returns false when there is no whole IP header: then nothing above is set
   */
  read(view: DataView, at: number, snapped: number, length: number, protocol: number): boolean {
    if (protocol === ETH_P_IP) return this.read4(view, at, snapped, length);
    if (protocol === ETH_P_IPV6) return this.read6(view, at, snapped, length);
    return false;
  }

  private read4(view: DataView, at: number, snapped: number, length: number): boolean {
    if (snapped < 20) return false;
    const first = view.getUint32(at);
    const headerBytes = (first >>> 22) & 0x3c;
    if (first >>> 28 !== 4 || headerBytes < 20) return false;
    const total = first & 0xffff;
    const fragment = view.getUint32(at + 4); // identification, flags, offset
    const protocol = view.getUint8(at + 9);
    const end = at + (total !== 0 && total < snapped ? total : snapped); // beyond: padding of a short Ethernet frame
    const payload = at + headerBytes;
    const whole = (fragment & 0x1fff) === 0;
    this.begin(protocol, whole ? ports(view, payload, end, protocol) : 0);
    this.mix(view.getInt32(at + 12));
    this.mix(view.getInt32(at + 16));
    this.identify(view, at + 16, 4);
    this.mix(fragment | 0);
    this.mix(total);
    this.mixPayload(view, payload, end, whole ? protocol : -1, false);
    this.size = total === 0 ? length : total;
    this.ecn = (first >>> 16) & 3;
    this.finish();
    return true;
  }

  private read6(view: DataView, at: number, snapped: number, length: number): boolean {
    if (snapped < 40) return false;
    const first = view.getUint32(at);
    if (first >>> 28 !== 6) return false;
    const total = view.getUint16(at + 4);
    const end = at + (total !== 0 && total + 40 < snapped ? total + 40 : snapped);
    let protocol = view.getUint8(at + 6);
    let payload = at + 40;
    let whole = true;
    let identification = 0;
    let offset = 0;
    // At most as many headers as fit into what was kept: each is 8 bytes or more.
    while (payload + 8 <= end) {
      if (protocol === FRAGMENT) {
        offset = view.getUint16(payload + 2);
        identification = view.getInt32(payload + 4);
        if ((offset & 0xfff8) !== 0) whole = false;
        protocol = view.getUint8(payload);
        payload += 8;
        if (!whole) break;
      } else if (protocol === HOP_BY_HOP || protocol === ROUTING || protocol === DESTINATION) {
        protocol = view.getUint8(payload);
        payload += (view.getUint8(payload + 1) + 1) * 8;
      } else {
        break;
      }
    }
    this.begin(protocol, whole ? ports(view, payload, end, protocol) : 0);
    for (let i = 8; i < 40; i += 4) this.mix(view.getInt32(at + i));
    this.identify(view, at + 24, 16);
    this.mix(first & 0xfffff); // flow label
    this.mix(total);
    this.mix(identification);
    this.mix(offset);
    this.mixPayload(view, payload, end, whole ? protocol : -1, true);
    this.size = total === 0 ? length : total + 40;
    this.ecn = (first >>> 20) & 3;
    this.finish();
    return true;
  }

  /** `options`: TCP options too. IPv4's identification tells equal-looking ACKs apart; IPv6 has none, but time stamps and SACK blocks. */
  private mixPayload(view: DataView, from: number, end: number, protocol: number, options: boolean): void {
    switch (protocol) {
      case TCP:
        if (end - from >= 16) {
          this.mix(view.getInt32(from + 4));
          this.mix(view.getInt32(from + 8));
          const offset = view.getInt32(from + 12);
          this.mix(offset);
          if (options) this.mixBytes(view, from + 20, Math.min(end, from + ((offset >>> 26) & 0x3c), from + 44));
        } else {
          this.mixBytes(view, from + 4, end);
        }
        return;
      case UDP: // length in IP's; then the first 8 bytes of data
        this.mixBytes(view, from + 8, Math.min(end, from + 16));
        return;
      case ICMP: case ICMPV6: // identifier, sequence number, and the first 8 bytes of data
        this.mixBytes(view, from + 4, Math.min(end, from + 16));
        return;
      default:
        this.mixBytes(view, from, Math.min(end, from + 24));
    }
  }
  private mixBytes(view: DataView, from: number, end: number): void {
    let at = from;
    for (; at + 4 <= end; at += 4) this.mix(view.getInt32(at));
    for (; at < end; at++) this.mix(view.getUint8(at));
  }

  /** Every bit of a lane onto every other (the finalizer of MurmurHash3), then the lanes onto each other. */
  private finish(): void {
    let { a, b } = this;
    a = Math.imul(a ^ (a >>> 16), 0x85ebca6b);
    a = Math.imul(a ^ (a >>> 13), 0xc2b2ae35);
    a ^= a >>> 16;
    b = Math.imul(b ^ (b >>> 16), 0xc2b2ae35);
    b = Math.imul(b ^ (b >>> 13), 0x85ebca6b);
    b ^= b >>> 16;
    this.keyLo = a;
    this.keyHi = b;
  }

}

/** TCP's and UDP's ports in one word, ICMP's type; 0 where they were cut off. */
function ports(view: DataView, payload: number, end: number, protocol: number): number {
  if (payload + 4 > end) return 0;
  if (protocol === TCP || protocol === UDP) return view.getInt32(payload);
  if (protocol === ICMP || protocol === ICMPV6) return view.getUint8(payload);
  return 0;
}
