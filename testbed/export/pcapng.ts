/**
 * Packet records as pcapng (draft-ietf-opsawg-pcapng), for Wireshark: two interfaces a bottleneck direction, one with what left the
 * queue at the time it left, one with what was dropped (at the time it arrived; when a queue drops later than that, the
 * record does not tell). The comment of each packet has what only the queue knows: time in the queue, mark, reason of the drop.
 *
 * True: times (ns from the start of the run), addresses, ports, protocol, sizes (original length), ECN, the order of
 * packets. Made up, for the records hold no headers: TCP sequence numbers (bytes in order of arrival here: what was sent
 * again counts as new), acknowledgement numbers (what left the queue forward by then), flags but SYN, windows, IP ids,
 * TTLs. Packets are cut off after their headers. Packets that belong to no flow or probe get IP protocol 253.
 */

import * as net from 'node:net';
import type { Plan, PlanFlow, PlanProbe } from '../plan/plan.js';
import { closing } from './closing.js';
import type { ExportFormat } from './format.js';
import { dropReason, packetRows, recordedDirections } from './packet-rows.js';
import type { Direction, PacketRow } from './packet-rows.js';
import { openRecords } from './table-stream.js';
import { inTimeOrder, spread } from './time-order.js';

const linkTypeRaw = 101; // LINKTYPE_RAW: IPv4 or IPv6, by the first nibble
const protocols = { icmp: 1, tcp: 6, udp: 17, icmp6: 58, none: 253 /* RFC 3692: for experiments */ } as const;

interface PacketEvent {
  readonly t: number;
  readonly interfaceId: number;
  readonly headers: Buffer;
  readonly size: number;
  readonly comment: string;
  readonly tcp: TcpPart | null;
}
/** Of a TCP packet: which link and flow, where a forward packet's bytes end, and where an acknowledgement number has its place. */
interface TcpPart { readonly key: string; readonly end: number | null; readonly ackAt: number | null }

export const pcapng: ExportFormat = {
  summary: 'packets with their time in the queue as comments, for Wireshark', tables: [], files: 'one', byBottleneck: true,
  async write(request) {
    const records = await openRecords(request.runDir);
    try {
      const directions = await recordedDirections(request, records);
      await closing(await request.output('', '.pcapng'), async (output) => {
        await output.write(sectionHeader(`${request.runId}: scenario ${request.plan.name}, seed ${request.plan.seed}, ${request.run.machine}${request.run.kernel?.release ? ` ${request.run.kernel.release}` : ''}. `
          + 'Times are from the start of the run. Made up: TCP sequence and acknowledgement numbers, flags but SYN, windows, IP ids, TTLs; packets are cut off after their headers.'));
        for (const { direction } of directions) {
          await output.write(interfaceDescription(direction.name, `${direction.queue?.kind ?? 'no queue'}: packets that left, at the time they left`));
          await output.write(interfaceDescription(`${direction.name} (dropped)`, `${direction.queue?.kind ?? 'no queue'}: packets that did not leave, at the time they arrived`));
        }
        const delivered = new Map<string, number>(); // by link and flow: the next byte after what left forward
        const sources = directions.map((place, index) => {
          const headers = new Headers(request.plan, place);
          return spread<PacketRow, PacketEvent>(packetRows(records, place.direction.name), (row) => row.tEnqueue, (row, add) => {
            const left = row.tDequeue !== null;
            add({ t: row.tDequeue ?? row.tEnqueue, interfaceId: 2 * index + (left ? 0 : 1), ...headers.of(row), size: row.size, comment: commentOf(request.plan, place, row) });
          });
        });
        for await (const events of inTimeOrder(sources)) {
          request.signal.throwIfAborted();
          for (const event of events) {
            // Here all links' packets are in order of time, so what has left forward by now is known.
            if (event.tcp !== null) {
              const { key, end, ackAt } = event.tcp;
              if (end !== null) delivered.set(key, Math.max(end, delivered.get(key) ?? 0));
              if (ackAt !== null) event.headers.writeUInt32BE((delivered.get(key) ?? 1) >>> 0, ackAt);
            }
            await output.write(enhancedPacket(event));
          }
        }
      });
      return ['Sequence numbers, acknowledgements, windows and TTLs in it are made up: docs/export.md says which fields are true.'];
    } finally {
      records.close();
    }
  },
};

function commentOf(plan: Plan, { direction }: Direction, row: PacketRow): string {
  const whose = row.flow === null ? 'no flow' : row.flow < 0 ? `probe ${plan.probes[-1 - row.flow]?.name ?? -1 - row.flow}` : `flow ${row.flow} (${plan.flows[row.flow]?.class ?? '?'})`;
  const fate = row.tDequeue !== null ? `sojourn ${((row.tDequeue - row.tEnqueue) / 1e6).toFixed(6)} ms${row.marked ? ', CE marked here' : ''}`
    : row.dropped ? dropReason(row, direction) : 'still in the queue when the record ends';
  return `${fate}; ${whose}; ${direction.name} packet ${row.seq}, arrived ${(row.tEnqueue / 1e9).toFixed(9)} s`;
}

// ---- Headers

/** A header to be filled in, of one flow or probe and direction. */
interface Template { readonly bytes: Buffer; readonly ip: 4 | 6; readonly transport: 'tcp' | 'udp' | 'icmp' | 'none' }

class Headers {
  private readonly templates = new Map<number, Template>();
  /** Next sequence number, by flow × direction. */
  private readonly next = new Map<number, number>();
  private ipId = 0;
  constructor(private readonly plan: Plan, private readonly place: Direction) {}

  of(row: PacketRow): { readonly headers: Buffer; readonly tcp: TcpPart | null } {
    const key = (row.flow ?? 1e9) * 2 + (row.forward ? 1 : 0);
    let template = this.templates.get(key);
    if (template === undefined) this.templates.set(key, (template = this.template(row)));
    const ipBytes = template.ip === 4 ? 20 : 40;
    const space = row.size - ipBytes;
    let headerBytes = template.transport === 'none' ? 0 : 8;
    if (template.transport === 'tcp') {
      // Linux's segments with data have 12 bytes of timestamps; without data, all that is left is options.
      headerBytes = row.forward && space > 60 ? 32 : Math.max(20, Math.min(60, space - (space % 4)));
    }
    const bytes = Buffer.alloc(Math.min(ipBytes + headerBytes, Math.max(row.size, ipBytes)));
    template.bytes.copy(bytes, 0, 0, Math.min(bytes.length, template.bytes.length));
    const ecn = row.tDequeue !== null && row.marked ? 3 : row.ecn;
    if (template.ip === 4) {
      bytes[1] = ecn;
      bytes.writeUInt16BE(row.size & 0xffff, 2);
      bytes.writeUInt16BE(this.ipId = (this.ipId + 1) & 0xffff, 4);
      bytes.writeUInt16BE(checksum(bytes, 20), 10);
    } else {
      bytes[1] = ecn << 4; // traffic class: low four bits in the upper half of byte 1
      bytes.writeUInt16BE(Math.max(0, row.size - 40) & 0xffff, 4);
    }
    let tcp: TcpPart | null = null;
    if (bytes.length < ipBytes + headerBytes) return { headers: bytes, tcp };
    const at = ipBytes;
    if (template.transport === 'tcp') {
      const payload = Math.max(0, space - headerBytes);
      const first = !this.next.has(key);
      const syn = first && payload === 0 && headerBytes === 40;
      const seq = this.next.get(key) ?? (syn ? 0 : 1);
      const end = seq + payload + (syn ? 1 : 0);
      this.next.set(key, end);
      tcp = { key: `${this.place.link.name} ${row.flow}`, end: row.forward && row.tDequeue !== null ? end : null, ackAt: row.forward ? null : at + 8 };
      bytes.writeUInt32BE(seq >>> 0, at + 4);
      bytes.writeUInt32BE(row.forward && !syn ? 1 : 0, at + 8);
      bytes[at + 12] = (headerBytes / 4) << 4;
      bytes[at + 13] = syn ? (row.forward ? 0x02 : 0x12) : 0x10;
      bytes.writeUInt16BE(0xffff, at + 14);
      bytes.fill(1, at + 20, at + headerBytes); // options: NOP
    } else if (template.transport === 'udp') {
      bytes.writeUInt16BE(space & 0xffff, at + 4);
    } else if (template.transport === 'icmp') {
      const seq = this.next.get(key) ?? 0;
      this.next.set(key, seq + 1);
      bytes.writeUInt16BE(seq & 0xffff, at + 6);
    }
    return { headers: bytes, tcp };
  }

  private template(row: PacketRow): Template {
    const flow = row.flow === null ? undefined : row.flow < 0 ? this.plan.probes[-1 - row.flow] : this.plan.flows[row.flow];
    if (flow === undefined) {
      const plain = (addresses: readonly string[]): string => (addresses[0] ?? '0.0.0.0').split('/')[0]!;
      const { a, b } = this.place.link;
      const [from, to] = this.place.reverse ? [b, a] : [a, b];
      return { ...ipHeader(plain(from.addresses), plain(to.addresses), protocols.none, 0), transport: 'none' };
    }
    const [from, to] = row.forward ? [flow.srcAddress, flow.dstAddress] : [flow.dstAddress, flow.srcAddress];
    if (row.flow! < 0) {
      const probe = flow as PlanProbe;
      if (probe.tool === 'ping') {
        const six = net.isIPv6(from);
        const header = ipHeader(from, to, six ? protocols.icmp6 : protocols.icmp, 8);
        const at = header.ip === 4 ? 20 : 40;
        header.bytes[at] = six ? (row.forward ? 128 : 129) : row.forward ? 8 : 0;
        header.bytes.writeUInt16BE((probe.id + 1) & 0xffff, at + 4);
        return { ...header, transport: 'icmp' };
      }
      return { ...withPorts(ipHeader(from, to, protocols.udp, 8), probe.port, probe.port), transport: 'udp' };
    }
    const { srcPort, dstPort, transport } = flow as PlanFlow;
    const ports = row.forward ? [srcPort, dstPort] as const : [dstPort, srcPort] as const;
    return { ...withPorts(ipHeader(from, to, protocols[transport], transport === 'tcp' ? 20 : 8), ...ports), transport };
  }
}

interface IpHeader { readonly bytes: Buffer; readonly ip: 4 | 6 }

function ipHeader(from: string, to: string, protocol: number, transportBytes: number): IpHeader {
  if (net.isIPv6(from)) {
    const bytes = Buffer.alloc(40 + transportBytes);
    bytes[0] = 0x60;
    bytes[6] = protocol;
    bytes[7] = 64;
    ipv6Bytes(from).copy(bytes, 8);
    ipv6Bytes(to).copy(bytes, 24);
    return { bytes, ip: 6 };
  }
  const bytes = Buffer.alloc(20 + transportBytes);
  bytes[0] = 0x45;
  bytes[6] = 0x40; // do not fragment
  bytes[8] = 64;
  bytes[9] = protocol;
  Buffer.from(from.split('.').map(Number)).copy(bytes, 12);
  Buffer.from(to.split('.').map(Number)).copy(bytes, 16);
  return { bytes, ip: 4 };
}

function withPorts(header: IpHeader, from: number, to: number): IpHeader {
  const at = header.ip === 4 ? 20 : 40;
  header.bytes.writeUInt16BE(from, at);
  header.bytes.writeUInt16BE(to, at + 2);
  return header;
}

export function ipv6Bytes(address: string): Buffer {
  const [head = '', tail] = address.split('%')[0]!.split('::');
  const groups = (text: string): number[] => (text === '' ? [] : text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = group.split('.').map(Number);
    return [(a << 8) | b, (c << 8) | d];
  }));
  const [left, right] = [groups(head), tail === undefined ? [] : groups(tail)];
  const all = tail === undefined ? left : [...left, ...Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => 0), ...right];
  const bytes = Buffer.alloc(16);
  all.slice(0, 8).forEach((group, index) => bytes.writeUInt16BE(group & 0xffff, 2 * index));
  return bytes;
}

/** RFC 1071, over an even number of bytes. */
function checksum(bytes: Buffer, length: number): number {
  let sum = 0;
  for (let i = 0; i < length; i += 2) sum += (bytes[i]! << 8) | bytes[i + 1]!;
  sum = (sum & 0xffff) + (sum >>> 16);
  sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

// ---- Blocks

const padded = (length: number): number => (length + 3) & ~3;

function option(code: number, value: Buffer): Buffer {
  const bytes = Buffer.alloc(4 + padded(value.length));
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt16LE(value.length, 2);
  value.copy(bytes, 4);
  return bytes;
}

function block(type: number, parts: readonly Buffer[]): Buffer {
  const length = 12 + parts.reduce((sum, part) => sum + part.length, 0);
  const bytes = Buffer.alloc(length);
  bytes.writeUInt32LE(type, 0);
  bytes.writeUInt32LE(length, 4);
  let at = 8;
  for (const part of parts) at += part.copy(bytes, at);
  bytes.writeUInt32LE(length, at);
  return bytes;
}

const endOfOptions = Buffer.alloc(4);

function sectionHeader(comment: string): Buffer {
  const fixed = Buffer.alloc(16);
  fixed.writeUInt32LE(0x1a2b3c4d, 0); // byte order
  fixed.writeUInt16LE(1, 4);
  fixed.writeUInt16LE(0, 6);
  fixed.writeBigInt64LE(-1n, 8); // length not given
  return block(0x0a0d0d0a, [fixed, option(1, Buffer.from(comment)), option(4, Buffer.from('testbed')), endOfOptions]);
}

function interfaceDescription(name: string, description: string): Buffer {
  const fixed = Buffer.alloc(8);
  fixed.writeUInt16LE(linkTypeRaw, 0);
  return block(1, [fixed, option(2, Buffer.from(name)), option(3, Buffer.from(description)), option(9, Buffer.from([9])) /* ns */, endOfOptions]);
}

function enhancedPacket({ t, interfaceId, headers, size, comment }: PacketEvent): Buffer {
  const text = Buffer.from(comment);
  const data = padded(headers.length);
  const length = 32 + data + 4 + padded(text.length) + 4;
  const bytes = Buffer.alloc(length);
  bytes.writeUInt32LE(6, 0);
  bytes.writeUInt32LE(length, 4);
  bytes.writeUInt32LE(interfaceId, 8);
  bytes.writeUInt32LE(Math.floor(t / 4294967296), 12);
  bytes.writeUInt32LE(t >>> 0, 16);
  bytes.writeUInt32LE(headers.length, 20);
  bytes.writeUInt32LE(Math.max(size, headers.length), 24);
  headers.copy(bytes, 28);
  const at = 28 + data;
  bytes.writeUInt16LE(1, at); // opt_comment
  bytes.writeUInt16LE(text.length, at + 2);
  text.copy(bytes, at + 4);
  bytes.writeUInt32LE(length, length - 4);
  return bytes;
}
