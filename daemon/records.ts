/**
 * The daemon's records, in the tables a kernel qdisc's go to (testbed/records/raw.ts): a row a packet, written as it leaves the
 * queue or is dropped, and queue samples on the schedule of every collector. Times are ns of the run.
 */

import type { DropReason } from '../aqm/aqm.js';
import { Actor, before, type EventQueue } from '../simulator/events.js';
import { dropReasonCode, packetFields, queueFields } from '../testbed/records/raw.js';
import { RecordWriter } from '../testbed/records/record-file.js';
import type { Link } from './link.js';
import type { Slot } from './slots.js';

export class PacketRecords {
  private readonly writer: RecordWriter;
  /** @param originNs the daemon's clock at run time 0 */
  constructor(path: string, bottleneck: string, private readonly originNs: number) {
    this.writer = new RecordWriter(path, 'packets', { bottleneck }, packetFields);
  }
  /** @param dequeueNs NaN when it was dropped or still waits. @param drop why it was dropped; null: it was not */
  write(slot: Slot, dequeueNs: number, drop: DropReason | null): void {
    const at = this.writer.claim();
    const { data } = this.writer;
    data.setFloat64(at, slot.queuedNs - this.originNs, true);
    data.setFloat64(at + 8, dequeueNs - this.originNs, true);
    data.setUint32(at + 16, slot.length, true);
    data.setInt32(at + 20, slot.flow, true);
    data.setUint8(at + 24, slot.forward);
    data.setUint8(at + 25, drop === null ? 0 : 1);
    data.setUint8(at + 26, slot.marked ? 1 : 0);
    data.setUint8(at + 27, slot.ecnOnArrival);
    data.setUint8(at + 28, dropReasonCode(drop));
    data.setUint32(at + 29, slot.arrival, true);
  }
  flush(): void { this.writer.flush(); }
  close(): void { this.writer.close(); }
}

/** Samples at 0, interval, … to the end of the window, and exactly when it opens and closes. */
export class QueueSamples extends Actor {
  private readonly writer: RecordWriter;
  private readonly state: Float64Array;
  private k = 0;

  constructor(private readonly events: EventQueue, private readonly link: Link, path: string, private readonly originNs: number, private readonly warmupNs: number, private readonly endNs: number, private readonly intervalNs: number | null) {
    super();
    events.add(this);
    this.state = new Float64Array(link.state.length);
    this.writer = new RecordWriter(path, 'queue', { bottleneck: link.name }, [...queueFields, ...link.state.map((name) => ({ name, type: 'f64' as const }))], 32 * 1024);
    this.arm(-1);
  }

  private arm(nowNs: number): void {
    let at = nowNs < this.warmupNs ? this.warmupNs : nowNs < this.endNs ? this.endNs : Infinity;
    if (this.intervalNs !== null) {
      while (this.k * this.intervalNs <= nowNs) this.k++;
      at = Math.min(at, this.k * this.intervalNs);
    }
    if (at <= this.endNs) this.events.scheduleOrdered(this.actorId, this.originNs + at, before.sampler);
  }

  override fire(): void {
    const { link, state } = this;
    const queue = link.queue!;
    const nowNs = this.events.now - this.originNs;
    state.fill(NaN);
    queue.readState(state, this.events.now);
    this.writer.row(nowNs, queue.backlogBytes, queue.backlogPackets, link.sentBytes, link.sentPackets, link.drops, link.marks, ...state);
    this.arm(nowNs);
  }
  flush(): void { this.writer.flush(); }
  close(): void { this.writer.close(); }
}
