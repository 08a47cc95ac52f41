/**
 * Packets: one class, one shape, reused through a free list, so that a packet costs no allocation. The pool counts
 * what it hands out, which is one side of the conservation check (simulate.ts).
 */

import type { QueuedPacket } from '../aqm/aqm.js';
import type { Route } from './route.js';

/** What a packet carries. */
export const kind = { data: 0, ack: 1, syn: 2, synAck: 3, fin: 4, reset: 5, udp: 6, probe: 7, reply: 8 } as const;

/** Told when a packet it sent left its own host's queue: TCP small queues. */
export interface SmallQueueOwner { released(packet: Packet): void }

export class Packet implements QueuedPacket {
  // What a queue discipline sees.
  size = 0;
  ecn = 0;
  marked = false;
  flowHash = NaN;
  srcHash = NaN;
  dstHash = NaN;
  dscp = 0;
  pureAck = false;
  datagram = false;
  ackNumber = NaN;
  edtNs = NaN;
  enqueueNs = NaN;
  next: Packet | null = null;

  // Its journey.
  route: Route | null = null;
  hop = 0;
  ipBytes = 0;
  /** The sender's hash (skb->hash). */
  sentHash = NaN;
  /** When it reached the queue it is in, ns, after how many others, and its ECN codepoint then: what the record needs. */
  queuedNs = NaN;
  arrival = 0;
  ecnOnArrival = 0;
  /** When it reaches the end of the wire it is on, ns, and the order of that event. */
  arriveNs = NaN;
  order = NaN;
  owner: SmallQueueOwner | null = null;
  /** What it takes of its owner's small queue, bytes. */
  ownedBytes = 0;

  // What it carries. Sequence and acknowledgement numbers count segments.
  kind = 0;
  seq = 0;
  payload = 0;
  ack = 0;
  /** Advertised receive window, bytes. */
  window = 0;
  /** Timestamp option, ms. */
  tsVal = 0;
  tsEcr = 0;
  ece = false;
  cwr = false;
  fin = false;
  push = false;
  /** SACK blocks, segments [from, to); the first is a D-SACK when `dsack`. */
  sacks = 0;
  dsack = false;
  sackFrom0 = 0;
  sackTo0 = 0;
  sackFrom1 = 0;
  sackTo1 = 0;
  sackFrom2 = 0;
  sackTo2 = 0;
  /** Probes: when the probe left and when it was answered, ns. */
  sentNs = NaN;
  answeredNs = NaN;
}

export class PacketPool {
  private free: Packet | null = null;
  made = 0;
  delivered = 0;
  dropped = 0;
  /** Packet objects that exist: the largest number at once. */
  objects = 0;

  take(route: Route, packetKind: number, ipBytes: number): Packet {
    let packet = this.free;
    if (packet === null) { packet = new Packet(); this.objects++; } else this.free = packet.next;
    this.made++;
    packet.next = null;
    packet.route = route;
    packet.hop = 0;
    packet.ipBytes = ipBytes;
    packet.kind = packetKind;
    packet.ecn = 0;
    packet.marked = false;
    packet.sentHash = route.sentHash;
    packet.srcHash = route.srcHash;
    packet.dstHash = route.dstHash;
    packet.dscp = 0;
    packet.pureAck = false;
    packet.datagram = packetKind >= kind.udp;
    packet.ackNumber = 0;
    packet.edtNs = 0;
    packet.owner = null;
    packet.sacks = 0;
    packet.dsack = false;
    packet.ece = false;
    packet.cwr = false;
    packet.fin = false;
    packet.push = false;
    return packet;
  }

  /** A copy on the wire (netem's duplicate). */
  copy(from: Packet): Packet {
    const packet = this.take(from.route!, from.kind, from.ipBytes);
    packet.hop = from.hop;
    packet.sentHash = from.sentHash;
    packet.size = from.size;
    packet.ecn = from.ecn;
    packet.pureAck = from.pureAck;
    packet.ackNumber = from.ackNumber;
    packet.seq = from.seq;
    packet.payload = from.payload;
    packet.ack = from.ack;
    packet.window = from.window;
    packet.tsVal = from.tsVal;
    packet.tsEcr = from.tsEcr;
    packet.ece = from.ece;
    packet.cwr = from.cwr;
    packet.fin = from.fin;
    packet.push = from.push;
    packet.sacks = from.sacks;
    packet.dsack = from.dsack;
    packet.sackFrom0 = from.sackFrom0;
    packet.sackTo0 = from.sackTo0;
    packet.sackFrom1 = from.sackFrom1;
    packet.sackTo1 = from.sackTo1;
    packet.sackFrom2 = from.sackFrom2;
    packet.sackTo2 = from.sackTo2;
    packet.sentNs = from.sentNs;
    packet.answeredNs = from.answeredNs;
    return packet;
  }

  /** After its endpoint has read it. */
  deliver(packet: Packet): void { this.delivered++; this.recycle(packet); }
  drop(packet: Packet): void { this.dropped++; this.recycle(packet); }

  private recycle(packet: Packet): void {
    packet.owner = null;
    packet.route = null;
    packet.next = this.free;
    this.free = packet;
  }
}
