/**
 * The exact sojourn time of every packet through every bottleneck: per router one packet ring (packet-ring.ts) that
 * sees packets enter the router and leave it by a bottleneck's device. A packet enters before IP forwarding and, in
 * virtual time, in the same instant as it reaches the queue; it leaves as the queue discipline hands it to the
 * device. Writes raw/captures-<router>.rec and .json; ingest pairs the two by key.
 *
 * A packet that a router makes itself (an ICMP error) appears only leaving. ARP and neighbour discovery to the
 * router itself do not appear.
 */

import * as fs from 'node:fs';
import type { AgentContext, BottleneckQueues, Collector, Timer } from '../testbed/agent/context.js';
import { CLOCK_REALTIME, clockNsBig } from '../testbed/linux/libc.js';
import { qdiscs } from '../testbed/qdiscs/registry.js';
import { PacketRing, packetFilter } from '../testbed/linux/packet-ring.js';
import type { PacketVisit } from '../testbed/linux/packet-ring.js';
import { captureFields, captureHashField } from '../testbed/records/raw.js';
import type { CaptureDictionary } from '../testbed/records/raw.js';
import { RecordWriter } from '../testbed/records/record-file.js';
import { PacketReader, elsewhere } from './packet-reader.js';
import { bottlenecksByNode, routeLookup } from './routing.js';
import type { RouterBottleneck } from './routing.js';

const blockBytes = 128 * 1024;
/** Memory a packet takes in the ring: block, packet and link-layer headers, and what is kept of it. */
const ringBytesPerPacket = 184;
/** Between looks into the ring, ns: adapted to how full it was found. */
const [shortest, usual, longest] = [5e6, 100e6, 250e6] as const;
/** A block that is not full is handed over after this: a timer in the kernel, so rarely. `finish` takes what is left. */
const retireMs = 10_000;
/** Real time: this far apart, time stamps and the run's clock are no longer the same clock. */
const clockStepNs = 1_000_000;

export interface PacketsOptions {
  /** Memory of each router's ring; default by the rates of its bottlenecks. */
  readonly ringBytes?: number;
}

/** Room for 0.4 s of packets of 200 bytes entering and leaving at the bottlenecks' rates: 4 … 32 MiB. */
function ringBytes(bottlenecks: readonly RouterBottleneck[]): number {
  const packetsPerSecond = bottlenecks.reduce((sum, { direction }) => sum + (direction.rateBps ?? 1e9) / 8 / 200, 0);
  return Math.min(32 << 20, Math.max(4 << 20, 2 * packetsPerSecond * 0.4 * ringBytesPerPacket));
}

class RouterCapture {
  private readonly ring: PacketRing;
  private readonly writer: RecordWriter;
  private readonly reader: PacketReader;
  private readonly startSeconds: number;
  private readonly startNanoseconds: number;
  private readonly ifindexes: Int32Array;
  private readonly mtuBytes: number;
  /** Records hold each packet's hash: one of the queues chooses by it. Only replay asks for it, and that judges virtual time alone. */
  private readonly hashed: boolean;
  private superpackets = 0;
  private largest = 0;
  private unreadable = 0;
  private interval: number = usual;
  private timer: Timer | null = null;

  constructor(private readonly context: AgentContext, network: BottleneckQueues, private readonly node: string, private readonly bottlenecks: readonly RouterBottleneck[], options: PacketsOptions) {
    const { plan } = context;
    const places = bottlenecks.map(({ direction }) => network.bottleneck(direction.name));
    const deviceOf = routeLookup(plan, node);
    const byDevice = new Map(bottlenecks.map(({ from }, index) => [from.device, index]));
    this.reader = new PacketReader(plan.flows, plan.probes, (destination) => byDevice.get(deviceOf(destination) ?? '') ?? elsewhere);
    this.startSeconds = Number(context.realtimeAtStart / 1_000_000_000n);
    this.startNanoseconds = Number(context.realtimeAtStart % 1_000_000_000n);
    this.ifindexes = Int32Array.from(places, ({ ifindex }) => ifindex);
    // Any link of this router: a superpacket is far larger than each.
    this.mtuBytes = Math.max(...plan.links.filter(({ a, b }) => a.node === node || b.node === node).map((link) => link.mtuBytes));
    this.hashed = context.clock === 'virtual' && bottlenecks.some(({ direction: { queue } }) => queue?.in === 'kernel' && qdiscs.get(queue.kind)?.hashes === true);
    // Nothing that enters by the only bottleneck's device goes back out by it; with several, each may lead to another.
    const entering = { interfaces: places.length === 1 ? [places[0]!.ifindex] : [], negated: true };
    const blocks = Math.max(2, Math.ceil((options.ringBytes ?? ringBytes(bottlenecks)) / blockBytes));
    this.ring = context.inNode(node, () => new PacketRing(packetFilter([...this.ifindexes], entering), blocks, blockBytes, retireMs, this.hashed));
    this.writer = new RecordWriter(context.raw(`captures-${node}.rec`), 'captures', {}, this.hashed ? [...captureFields, captureHashField] : captureFields);
    this.writeDictionary(0);
    this.schedule(0);
  }

  private schedule(runNs: number): void {
    const due = runNs + this.interval;
    this.timer = this.context.loop.at(due, (now) => {
      const full = this.ring.poll(this.visit) / this.ring.blocks;
      if (full > 0.25) this.interval = Math.max(shortest, this.interval / 2);
      else if (full < 0.05) this.interval = Math.min(longest, this.interval * 1.25);
      this.schedule(Math.max(due, now));
    });
  }

  private readonly visit: PacketVisit = (view, at, snapped, length, seconds, nanoseconds, protocol, ifindex, outgoing, hash) => {
    const { reader } = this;
    if (!reader.read(view, at, snapped, length, protocol)) {
      this.unreadable++;
      return;
    }
    let { direction } = reader;
    if (outgoing) {
      direction = 0;
      while (direction < this.ifindexes.length && this.ifindexes[direction] !== ifindex) direction++;
      if (direction === this.ifindexes.length) return;
    } else if (direction === elsewhere) {
      return;
    }
    const bytes = length > reader.size ? length : reader.size;
    if (bytes > this.mtuBytes) {
      this.superpackets++;
      if (bytes > this.largest) this.largest = bytes;
    }
    const row = this.writer.claim();
    const out = this.writer.data;
    out.setFloat64(row, (seconds - this.startSeconds) * 1e9 + (nanoseconds - this.startNanoseconds), true);
    out.setInt32(row + 8, reader.keyLo, true);
    out.setInt32(row + 12, reader.keyHi, true);
    out.setUint32(row + 16, reader.size, true);
    out.setInt32(row + 20, reader.flow, true);
    out.setUint8(row + 24, direction);
    out.setUint8(row + 25, outgoing ? 1 : 0);
    out.setUint8(row + 26, reader.ecn);
    out.setUint8(row + 27, reader.forward);
    if (this.hashed) out.setInt32(row + 28, hash, true);
  };

  flush(): void {
    this.ring.poll(this.visit);
    this.writer.flush();
  }

  stop(): void {
    this.timer?.cancel();
    this.ring.finish(this.visit);
    const { accepted, lost } = this.ring.statistics();
    this.ring.close();
    this.writer.close();
    const missing = Math.max(lost, accepted - this.ring.visited);
    this.writeDictionary(missing);
    if (missing > 0) {
      this.context.finding('invalid', 'capture-lost',
        `${this.node}: ${missing} of ${accepted} packets were not recorded, the capture's ring was full. Packet records are incomplete. Lower the rate of what is sent${this.context.clock === 'real' ? ', run in virtual time' : ''}, or set collect packets off.`);
    }
    if (this.superpackets > 0) {
      this.context.finding('invalid', 'superpacket',
        `${this.node}: ${this.superpackets} packets were larger than the MTU of ${this.mtuBytes} bytes (up to ${this.largest}): a segmentation offload (TSO, GSO or GRO) is on at a host or router. Turn it off on every interface.`);
    }
    if (this.unreadable > 0) this.context.finding('warning', 'unreadable-packets', `${this.node}: ${this.unreadable} packets had no whole IP header and were left out of the packet records.`);
  }

  private writeDictionary(lost: number): void {
    const dictionary: CaptureDictionary = { directions: this.bottlenecks.map(({ direction }) => direction.name), lost, monotonicNs: this.context.monotonicAtStart };
    fs.writeFileSync(this.context.raw(`captures-${this.node}.json`), `${JSON.stringify(dictionary)}\n`);
  }
}

export const packetsWith = (options: PacketsOptions) => (context: AgentContext, network: BottleneckQueues): Collector | null => {
  if (!context.plan.collect.packets) return null;
  const routers = bottlenecksByNode(context.plan);
  if (routers.size === 0) return null;
  let captures: readonly RouterCapture[] = [];
  return {
    name: 'packets',
    start() {
      captures = [...routers].map(([node, bottlenecks]) => new RouterCapture(context, network, node, bottlenecks, options));
    },
    flush() {
      for (const capture of captures) capture.flush();
    },
    stop() {
      for (const capture of captures) capture.stop();
      if (context.clock === 'real' && captures.length > 0) {
        const stepped = Number(clockNsBig(CLOCK_REALTIME) - context.realtimeAtStart) - context.now();
        if (Math.abs(stepped) > clockStepNs) {
          context.finding('invalid', 'clock-stepped', `This machine's clock was set by ${(stepped / 1e6).toFixed(1)} ms during the run: packet time stamps no longer match the run's clock. Stop time synchronisation from stepping it, or run in virtual time.`);
        }
      }
    },
  };
};
export const packets = packetsWith({});
