/** Packet records: one row a packet that arrived at a bottleneck's queue, written when it leaves or is dropped (testbed/records/raw.ts). */

import type { DropReason } from '../aqm/aqm.js';
import { RecordWriter } from '../testbed/records/record-file.js';
import { dropReasonCode, packetFields } from '../testbed/records/raw.js';
import type { Packet } from './packet.js';

export class PacketRecords {
  private readonly writer: RecordWriter;
  rows = 0;
  constructor(path: string, bottleneck: string) {
    this.writer = new RecordWriter(path, 'packets', { bottleneck }, packetFields);
  }
  /** @param dequeueNs NaN when it was dropped or still waits. @param drop why it was dropped; null: it was not */
  write(packet: Packet, dequeueNs: number, drop: DropReason | null): void {
    const at = this.writer.claim();
    const data = this.writer.data;
    const route = packet.route!;
    data.setFloat64(at, packet.queuedNs, true);
    data.setFloat64(at + 8, dequeueNs, true);
    data.setUint32(at + 16, packet.ipBytes, true);
    data.setInt32(at + 20, route.recordId, true);
    data.setUint8(at + 24, route.forward ? 1 : 0);
    data.setUint8(at + 25, drop === null ? 0 : 1);
    data.setUint8(at + 26, packet.marked ? 1 : 0);
    data.setUint8(at + 27, packet.ecnOnArrival);
    data.setUint8(at + 28, dropReasonCode(drop));
    data.setUint32(at + 29, packet.arrival, true);
    this.rows++;
  }
  close(): void { this.writer.close(); }
}
