import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { PlanFlow, PlanProbe } from '../testbed/plan/plan.js';
import { none } from '../testbed/records/record-file.js';
import { addressHex } from '../testbed/linux/inet-diag.js';
import { addressBytes } from '../testbed/linux/sockaddr.js';
import { PacketReader, elsewhere } from './packet-reader.js';

const [IPv4, IPv6] = [0x0800, 0x86dd] as const;
const flow = (id: number, more: Partial<PlanFlow> = {}): PlanFlow => ({
  id, class: 'c', kind: 'bulk', transport: 'tcp', tool: 'builtin', src: 's', dst: 'd', srcAddress: '10.0.1.1', dstAddress: '10.0.2.1', srcPort: 5000 + id, dstPort: 6000,
  startNs: 0, stopNs: null, bytes: null, cc: 'cubic', ecn: false, rateBps: null, packetBytes: null, bursts: null, toolArgs: [], baseRttNs: 0, ...more,
});
const probe = (id: number, more: Partial<PlanProbe> = {}): PlanProbe => ({
  id, name: `p${id}`, tool: 'builtin', src: 's', dst: 'd', srcAddress: '10.0.1.1', dstAddress: '10.0.2.1', port: 7000 + id, startNs: 0, stopNs: 1, intervalNs: 1, sizeBytes: 100, ...more,
});
const six = { srcAddress: 'fd00:1::1', dstAddress: 'fd00:2::1' };
const directionOf = (destination: string): number => (destination === addressHex('10.0.2.1') || destination === addressHex('fd00:2::1') ? 0 : elsewhere);
const readerOf = () => new PacketReader(
  [flow(0), flow(1), flow(2, { transport: 'udp' }), flow(3, six), flow(4, { ...six, transport: 'udp' })],
  [probe(0), probe(1, { tool: 'ping' }), probe(2, { ...six, tool: 'ping' })], directionOf,
);

interface Fields { readonly source?: string; readonly destination?: string; readonly protocol?: number; readonly id?: number; readonly tos?: number; readonly ttl?: number; readonly fragment?: number; readonly options?: number; readonly total?: number }
function ipv4(payload: Uint8Array, fields: Fields = {}): Buffer {
  const header = 20 + (fields.options ?? 0);
  const out = Buffer.alloc(header + payload.length);
  out[0] = 0x40 | (header / 4);
  out[1] = fields.tos ?? 0;
  out.writeUInt16BE(fields.total ?? out.length, 2);
  out.writeUInt16BE(fields.id ?? 7, 4);
  out.writeUInt16BE(fields.fragment ?? 0x4000, 6);
  out[8] = fields.ttl ?? 64;
  out[9] = fields.protocol ?? 6;
  out.writeUInt16BE((fields.ttl ?? 64) * 17, 10); // a checksum that changes with the TTL
  out.set(addressBytes(fields.source ?? '10.0.1.1'), 12);
  out.set(addressBytes(fields.destination ?? '10.0.2.1'), 16);
  out.set(payload, header);
  return out;
}
function ipv6(payload: Uint8Array, fields: Fields & { readonly headers?: readonly (readonly [number, Buffer])[] } = {}): Buffer {
  const headers = fields.headers ?? [];
  const out = Buffer.alloc(40);
  out.writeUInt32BE(((6 << 28) | ((fields.tos ?? 0) << 20)) >>> 0, 0);
  out[6] = headers[0]?.[0] ?? fields.protocol ?? 6;
  out[7] = fields.ttl ?? 64;
  out.set(addressBytes(fields.source ?? 'fd00:1::1'), 8);
  out.set(addressBytes(fields.destination ?? 'fd00:2::1'), 24);
  const chain = headers.map(([, bytes], i) => {
    const copy = Buffer.from(bytes);
    copy[0] = headers[i + 1]?.[0] ?? fields.protocol ?? 6;
    return copy;
  });
  const whole = Buffer.concat([out, ...chain, payload]);
  whole.writeUInt16BE(whole.length - 40, 4);
  return whole;
}
function tcp(sourcePort: number, destinationPort: number, more: { readonly seq?: number; readonly ack?: number; readonly checksum?: number; readonly options?: Buffer } = {}): Buffer {
  const options = more.options ?? Buffer.alloc(0);
  const out = Buffer.alloc(20 + options.length);
  out.writeUInt16BE(sourcePort, 0);
  out.writeUInt16BE(destinationPort, 2);
  out.writeUInt32BE(more.seq ?? 1, 4);
  out.writeUInt32BE(more.ack ?? 1, 8);
  out[12] = (out.length / 4) << 4;
  out[13] = 0x10;
  out.writeUInt16BE(500, 14);
  out.writeUInt16BE(more.checksum ?? 0, 16);
  out.set(options, 20);
  return out;
}
function udp(sourcePort: number, destinationPort: number, data: Buffer, checksum = 0): Buffer {
  const out = Buffer.alloc(8 + data.length);
  out.writeUInt16BE(sourcePort, 0);
  out.writeUInt16BE(destinationPort, 2);
  out.writeUInt16BE(out.length, 4);
  out.writeUInt16BE(checksum, 6);
  out.set(data, 8);
  return out;
}
const echo = (type: number, id: number, seq: number): Buffer => Buffer.from([type, 0, 9, 9, id >> 8, id & 255, seq >> 8, seq & 255, 1, 2, 3, 4, 5, 6, 7, 8]);

/** A view of exactly the bytes given: any read outside throws. */
function read(reader: PacketReader, packet: Uint8Array, protocol: number = packet[0]! >>> 4 === 6 ? IPv6 : IPv4, snapped = packet.length): boolean {
  const bytes = Uint8Array.from(packet.subarray(0, snapped));
  return reader.read(new DataView(bytes.buffer), 0, bytes.length, packet.length, protocol);
}
const keyOf = (packet: Buffer, snapped?: number): string => {
  const reader = readerOf();
  assert.ok(read(reader, packet, undefined, snapped));
  return `${reader.keyHi}:${reader.keyLo}`;
};

describe('Packets read from a capture', () => {
  it('belong to their flow and direction', () => {
    const reader = readerOf();
    const flows: [Buffer, number, number, number][] = [
      [ipv4(tcp(5000, 6000)), 0, 1, 0],
      [ipv4(tcp(6000, 5000), { source: '10.0.2.1', destination: '10.0.1.1' }), 0, 0, elsewhere],
      [ipv4(tcp(5001, 6000)), 1, 1, 0],
      [ipv4(udp(5002, 6000, Buffer.alloc(8)), { protocol: 17 }), 2, 1, 0],
      [ipv4(udp(5000, 6000, Buffer.alloc(8)), { protocol: 17 }), none.i32, 1, 0], // UDP with a TCP flow's ports
      [ipv6(tcp(5003, 6000)), 3, 1, 0],
      [ipv6(udp(6000, 5004, Buffer.alloc(8)), { protocol: 17, source: 'fd00:2::1', destination: 'fd00:1::1' }), 4, 0, elsewhere],
      [ipv4(udp(7000, 7000, Buffer.alloc(8)), { protocol: 17 }), -1, 1, 0],
      [ipv4(udp(7000, 7000, Buffer.alloc(8)), { protocol: 17, source: '10.0.2.1', destination: '10.0.1.1' }), -1, 0, elsewhere],
      [ipv4(echo(8, 1, 1), { protocol: 1 }), -2, 1, 0],
      [ipv4(echo(0, 1, 1), { protocol: 1, source: '10.0.2.1', destination: '10.0.1.1' }), -2, 0, elsewhere],
      [ipv4(echo(0, 1, 1), { protocol: 1 }), none.i32, 1, 0], // a reply to somebody else's ping the other way
      [ipv6(echo(128, 1, 1), { protocol: 58 }), -3, 1, 0],
      [ipv6(echo(129, 1, 1), { protocol: 58, source: 'fd00:2::1', destination: 'fd00:1::1' }), -3, 0, elsewhere],
      [ipv4(tcp(5000, 6000), { destination: '10.0.2.9' }), none.i32, 1, elsewhere],
    ];
    for (const round of [1, 2]) { // the second time from what was remembered
      for (const [packet, id, forward, direction] of flows) {
        assert.ok(read(reader, packet));
        assert.deepEqual([reader.flow, reader.forward, reader.direction], [id, forward, direction], `round ${round}: ${packet.toString('hex')}`);
        assert.equal(reader.size, packet.length);
      }
    }
  });

  it('are told from thousands of strangers, before and after room for them runs out', () => {
    const reader = readerOf();
    for (let port = 0; port < 70_000; port++) read(reader, ipv4(tcp(port & 0xffff, 6001 + (port >> 16))));
    assert.ok(read(reader, ipv4(tcp(5001, 6000))));
    assert.equal(reader.flow, 1);
    assert.ok(read(reader, ipv4(tcp(1, 9))));
    assert.deepEqual([reader.flow, reader.direction], [none.i32, 0]);
  });

  it('keep their key through forwarding, marking and checksum offload', () => {
    const options = Buffer.from('0101080a0000000100000002', 'hex');
    for (const [before, after] of [
      [ipv4(tcp(5000, 6000), { tos: 2, ttl: 64 }), ipv4(tcp(5000, 6000, { checksum: 0xbeef }), { tos: 3, ttl: 63 })],
      [ipv4(udp(5002, 6000, Buffer.alloc(20)), { protocol: 17, tos: 1 }), ipv4(udp(5002, 6000, Buffer.alloc(20), 99), { protocol: 17, tos: 3, ttl: 9 })],
      [ipv6(tcp(5003, 6000, { options }), { tos: 2 }), ipv6(tcp(5003, 6000, { options, checksum: 7 }), { tos: 3, ttl: 1 })],
    ] as const) assert.equal(keyOf(before), keyOf(after));
  });

  it('have another key when anything that tells them apart differs', () => {
    const stamp = (value: number): Buffer => { const out = Buffer.from('0101080a0000000000000002', 'hex'); out.writeUInt32BE(value, 4); return out; };
    const data = (value: number): Buffer => { const out = Buffer.alloc(32); out.writeUInt32LE(value, 4); return out; };
    const packets = [
      ipv4(tcp(5000, 6000)), ipv4(tcp(5000, 6000), { id: 8 }), ipv4(tcp(5000, 6000, { seq: 2 })), ipv4(tcp(5000, 6000, { ack: 2 })), ipv4(tcp(5001, 6000)),
      ipv4(tcp(6000, 5000)), ipv4(tcp(5000, 6000), { source: '10.0.2.1', destination: '10.0.1.1' }), ipv4(Buffer.concat([tcp(5000, 6000), Buffer.alloc(1)])),
      ipv4(udp(1, 2, data(1)), { protocol: 17 }), ipv4(udp(1, 2, data(2)), { protocol: 17 }), ipv4(echo(8, 1, 1), { protocol: 1 }), ipv4(echo(8, 1, 2), { protocol: 1 }), ipv4(echo(8, 2, 1), { protocol: 1 }),
      ipv6(tcp(5000, 6000, { options: stamp(1) })), ipv6(tcp(5000, 6000, { options: stamp(2) })),
      ipv4(Buffer.alloc(32), { protocol: 17, fragment: 0x2001 }), ipv4(Buffer.alloc(32), { protocol: 17, fragment: 0x2002 }),
    ];
    assert.equal(new Set(packets.map((packet) => keyOf(packet))).size, packets.length);
  });

  it('have keys that do not collide over a million packets of one flow', function () {
    this.timeout(60_000);
    const reader = readerOf();
    const packet = new DataView(Uint8Array.from(ipv4(tcp(5000, 6000))).buffer);
    const seen = new Set<number>();
    for (let i = 0; i < 1_000_000; i++) {
      packet.setUint16(4, i & 0xffff);
      packet.setUint32(24, (i * 1448) >>> 0);
      reader.read(packet, 0, packet.byteLength, packet.byteLength, IPv4);
      seen.add((reader.keyHi & 0x1fffff) * 0x1_0000_0000 + (reader.keyLo >>> 0)); // 53 of the 64 bits
    }
    assert.equal(seen.size, 1_000_000);
  });

  it('are read past options and extension headers', () => {
    const reader = readerOf();
    assert.ok(read(reader, ipv4(tcp(5000, 6000), { options: 12 })));
    assert.equal(reader.flow, 0);
    const [hopByHop, destination, fragment] = [Buffer.alloc(8), Buffer.alloc(16), Buffer.alloc(8)];
    destination[1] = 1;
    fragment.writeUInt16BE(1, 2); // first of several
    assert.ok(read(reader, ipv6(tcp(5003, 6000), { headers: [[0, hopByHop], [60, destination], [44, fragment]] })));
    assert.equal(reader.flow, 3);
    fragment.writeUInt16BE(0x0101, 2); // a later one: what follows are no ports
    assert.ok(read(reader, ipv6(tcp(5003, 6000), { headers: [[44, fragment]] })));
    assert.equal(reader.flow, none.i32);
    assert.equal(reader.direction, 0);
    assert.ok(read(reader, ipv4(tcp(5000, 6000), { fragment: 0x2001 })));
    assert.equal(reader.flow, none.i32);
  });

  it('have the size and ECN codepoint of their IP header', () => {
    const reader = readerOf();
    for (const ecn of [0, 1, 2, 3]) {
      read(reader, ipv4(tcp(5000, 6000), { tos: 0xb8 | ecn }));
      assert.equal(reader.ecn, ecn);
      read(reader, ipv6(tcp(5003, 6000), { tos: 0xb8 | ecn }));
      assert.equal(reader.ecn, ecn);
    }
    read(reader, Buffer.concat([ipv4(tcp(5000, 6000)), Buffer.alloc(6)])); // padded to the shortest Ethernet frame
    assert.equal(reader.size, 40);
    assert.equal(keyOf(Buffer.concat([ipv4(udp(1, 2, Buffer.alloc(2)), { protocol: 17 }), Buffer.from('abcdefgh')])), keyOf(ipv4(udp(1, 2, Buffer.alloc(2)), { protocol: 17 })));
    read(reader, ipv4(Buffer.concat([tcp(5000, 6000), Buffer.alloc(900)]), { total: 0 })); // longer than 16 bits can say
    assert.equal(reader.size, 940);
  });

  it('never make the reader throw or look beyond their bytes, whatever they are', () => {
    const reader = readerOf();
    const start = fc.constantFrom(
      ipv4(tcp(5000, 6000)), ipv4(udp(1, 2, Buffer.alloc(9)), { protocol: 17 }), ipv4(tcp(1, 2), { options: 40 }), ipv4(echo(8, 1, 1), { protocol: 1 }),
      ipv6(tcp(5003, 6000)), ipv6(udp(1, 2, Buffer.alloc(9)), { protocol: 17 }), ipv6(tcp(1, 2), { headers: [[0, Buffer.alloc(8)], [43, Buffer.alloc(8)], [44, Buffer.alloc(8)]] }),
    );
    fc.assert(fc.property(start, fc.array(fc.tuple(fc.nat(120), fc.integer({ min: 0, max: 255 })), { maxLength: 6 }), fc.nat(120), fc.constantFrom(IPv4, IPv6, 0x0806, 0), (packet, changes, snapped, protocol) => {
      const bytes = Buffer.from(packet);
      for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value;
      const known = read(reader, bytes, protocol, snapped);
      if (known) assert.ok(Number.isInteger(reader.flow) && reader.size >= 0 && reader.ecn <= 3);
      if (snapped < 20) assert.equal(known, false);
    }), { numRuns: 5000 });
    fc.assert(fc.property(fc.uint8Array({ maxLength: 130 }), fc.constantFrom(IPv4, IPv6), (bytes, protocol) => {
      read(reader, bytes, protocol);
    }), { numRuns: 5000 });
  });

  it('are read alike wherever they stand in memory', () => {
    fc.assert(fc.property(fc.nat(64), fc.nat(64), (before, after) => {
      const packet = ipv4(tcp(5000, 6000, { seq: 77 }));
      const memory = new Uint8Array(before + packet.length + after).fill(0xa5);
      memory.set(packet, before);
      const reader = readerOf();
      assert.ok(reader.read(new DataView(memory.buffer), before, packet.length, packet.length, IPv4));
      assert.equal(`${reader.keyHi}:${reader.keyLo}`, keyOf(packet));
    }));
  });
});
