/** Real packets, whole and broken: what is read of them, and the few bytes that are changed. */

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readPacket, restoreHop, writeDsField } from './packet.js';
import { ipAt, Slot, SlotPool } from './slots.js';

/** RFC 1071 over an IPv4 header; 0 when the checksum in it is right. */
function headerSum(bytes: Uint8Array, header: number): number {
  let sum = 0;
  for (let i = 0; i < header; i += 2) sum += (bytes[i]! << 8) | bytes[i + 1]!;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

function ipv4({ field = 0, options = 0, protocol = 6, fragment = 0, ttl = 64, payload = tcp(), total = -1 }: { field?: number; options?: number; protocol?: number; fragment?: number; ttl?: number; payload?: Uint8Array; total?: number }): Uint8Array {
  const header = 20 + options * 4;
  const bytes = Buffer.alloc(header + payload.length, 1);
  bytes[0] = 0x40 | (header / 4);
  bytes[1] = field;
  bytes.writeUInt16BE(total < 0 ? bytes.length : total, 2);
  bytes.writeUInt16BE(fragment, 6);
  bytes[8] = ttl;
  bytes[9] = protocol;
  bytes.writeUInt16BE(0, 10);
  bytes.set([10, 0, 1, 2, 10, 0, 2, 2], 12);
  bytes.set(payload, header);
  bytes.writeUInt16BE(headerSum(bytes, header), 10);
  return bytes;
}
function ipv6({ field = 0, extensions = [], protocol = 6, payload = tcp(), hops = 64 }: { field?: number; extensions?: readonly (readonly [number, Uint8Array])[]; protocol?: number; payload?: Uint8Array; hops?: number }): Uint8Array {
  const chain: Uint8Array[] = [];
  extensions.forEach(([, body], i) => {
    const copy = Buffer.from(body);
    copy[0] = extensions[i + 1]?.[0] ?? protocol;
    chain.push(copy);
  });
  const rest = Buffer.concat([...chain, payload]);
  const bytes = Buffer.alloc(40, 0);
  bytes.writeUInt32BE(0x60000000 | (field << 20), 0);
  bytes.writeUInt16BE(rest.length, 4);
  bytes[6] = extensions[0]?.[0] ?? protocol;
  bytes[7] = hops;
  bytes[23] = 1;
  bytes[39] = 2;
  return Buffer.concat([bytes, rest]);
}
function tcp({ flags = 16, ack = 1000, data = 0, ports = [5001, 80] }: { flags?: number; ack?: number; data?: number; ports?: readonly [number, number] } = {}): Uint8Array {
  const bytes = Buffer.alloc(20 + data);
  bytes.writeUInt16BE(ports[0], 0);
  bytes.writeUInt16BE(ports[1], 2);
  bytes.writeUInt32BE(ack, 8);
  bytes[12] = 0x50;
  bytes[13] = flags;
  return bytes;
}

const guard = 32;
/** A slot of its own in the middle of memory that must not change, with these bytes at its IP header. */
function slotWith(bytes: Uint8Array): { slot: Slot; memory: Buffer } {
  const memory = Buffer.from(new ArrayBuffer(guard + ipAt + bytes.length + guard)).fill(0xa5);
  const slot = new Slot(memory.subarray(guard, guard + ipAt + bytes.length), new DataView(memory.buffer), guard);
  slot.bytes.set(bytes, ipAt);
  slot.length = bytes.length;
  return { slot, memory };
}
const read = (bytes: Uint8Array, seed = 1): Slot => {
  const { slot } = slotWith(bytes);
  readPacket(slot, slot.view, slot.at + ipAt, slot.length, seed);
  return slot;
};

describe('a packet in the daemon', () => {
  it('gives flow, hosts, DSCP, ECN and pure ACKs of IPv4 and IPv6', () => {
    for (const make of [ipv4, ipv6]) {
      const data = read(make({ field: (46 << 2) | 2, payload: tcp({ data: 100 }) }));
      assert.deepEqual([data.ecn, data.dscp, data.pureAck], [2, 46, false]);
      assert.deepEqual([data.datagram, read(make({ payload: Buffer.alloc(100), protocol: 17 })).datagram], [false, true]);
      const ack = read(make({ payload: tcp({ ack: 0xfffffff0 }) }));
      assert.deepEqual([ack.pureAck, ack.ackNumber], [true, 0xfffffff0]);
      assert.equal(ack.flowHash, data.flowHash, 'one flow');
      assert.notEqual(read(make({ payload: tcp({ ports: [5002, 80] }) })).flowHash, data.flowHash, 'another port');
      assert.notEqual(read(make({ payload: tcp({ data: 100 }) }), 2).flowHash, data.flowHash, 'another seed');
      for (const flags of [16 | 2, 16 | 1, 16 | 4, 0]) assert.equal(read(make({ payload: tcp({ flags }) })).pureAck, false, `flags ${flags}`);
    }
  });

  it('finds the ports behind IPv4 options and IPv6 extension headers, and takes all fragments of a packet for one flow', () => {
    assert.equal(read(ipv4({ options: 10 })).flowHash, read(ipv4({})).flowHash);
    const hopByHop = [0, Buffer.from([0, 1, ...new Array<number>(14).fill(0)])] as const;
    const routing = [43, Buffer.from([0, 0, ...new Array<number>(6).fill(0)])] as const;
    const authentication = [51, Buffer.from([0, 4, ...new Array<number>(22).fill(0)])] as const;
    assert.equal(read(ipv6({ extensions: [hopByHop, routing, authentication] })).flowHash, read(ipv6({})).flowHash);
    const fragment = (offset: number, more: number) => [44, Buffer.from([0, 0, (offset << 3) >> 8, ((offset << 3) & 0xff) | more, 0, 0, 0, 7])] as const;
    assert.equal(read(ipv6({ extensions: [fragment(0, 1)] })).flowHash, read(ipv6({ extensions: [fragment(10, 0)], payload: Buffer.alloc(50, 9) })).flowHash);
    assert.equal(read(ipv6({ extensions: [fragment(0, 0)] })).flowHash, read(ipv6({})).flowHash, 'an atomic fragment is whole');
    assert.equal(read(ipv4({ fragment: 0x2000 })).flowHash, read(ipv4({ fragment: 100, payload: Buffer.alloc(60, 3) })).flowHash);
    assert.equal(read(ipv4({ fragment: 100, payload: tcp() })).pureAck, false);
  });

  it('is marked with the checksum right, options or not, whatever the field was', () => {
    fc.assert(fc.property(fc.nat(255), fc.nat(255), fc.nat(10), fc.uint8Array({ maxLength: 40 }), (before, after, options, payload) => {
      const { slot, memory } = slotWith(ipv4({ field: before, options, payload }));
      const copy = Buffer.from(memory);
      assert.equal(writeDsField(slot.view, slot.at + ipAt, slot.length, after), true);
      assert.equal(memory[guard + ipAt + 1], after);
      assert.equal(headerSum(memory.subarray(guard + ipAt), 20 + 4 * options), 0, 'checksum');
      memory.copy(copy, guard + ipAt + 1, guard + ipAt + 1, guard + ipAt + 2);
      memory.copy(copy, guard + ipAt + 10, guard + ipAt + 10, guard + ipAt + 12);
      assert.deepEqual(memory, copy, 'nothing else changed');
    }));
    fc.assert(fc.property(fc.nat(255), fc.nat(255), (before, after) => {
      const bytes = ipv6({ field: before });
      const { slot } = slotWith(bytes);
      assert.equal(writeDsField(slot.view, slot.at + ipAt, slot.length, after), true);
      assert.deepEqual(slot.bytes.subarray(ipAt), Buffer.from(ipv6({ field: after })));
    }));
  });

  it('gets its hop back, with the checksum right, but never more than 255', () => {
    for (const ttl of [0, 1, 63, 127, 128, 254, 255]) {
      const { slot } = slotWith(ipv4({ ttl, options: 2 }));
      restoreHop(slot.view, slot.at + ipAt, slot.length);
      assert.equal(slot.bytes[ipAt + 8], Math.min(255, ttl + 1));
      assert.equal(headerSum(slot.bytes.subarray(ipAt), 28), 0);
      const six = slotWith(ipv6({ hops: ttl })).slot;
      restoreHop(six.view, six.at + ipAt, six.length);
      assert.equal(six.bytes[ipAt + 7], Math.min(255, ttl + 1));
    }
  });

  /** Whole packets cut, lengthened and with bytes changed anywhere, and plain noise. */
  const broken = fc.oneof(
    fc.uint8Array({ maxLength: 120 }),
    fc.tuple(
      fc.oneof(fc.record({ options: fc.nat(10), fragment: fc.nat(0xffff), total: fc.integer({ min: 0, max: 0xffff }), protocol: fc.constantFrom(6, 17, 1, 132, 255) }).map(ipv4), fc.record({ extensions: fc.array(fc.tuple(fc.constantFrom(0, 43, 44, 51, 60, 135), fc.uint8Array({ minLength: 8, maxLength: 24 })), { maxLength: 4 }), protocol: fc.constantFrom(6, 17, 58, 59, 255) }).map(ipv6)),
      fc.nat(120), fc.array(fc.tuple(fc.nat(119), fc.nat(255)), { maxLength: 6 }),
    ).map(([packet, cut, changes]) => {
      const bytes = Uint8Array.from(packet.subarray(0, Math.min(packet.length, cut)));
      for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value;
      return bytes;
    }),
  );

  it('that is broken never throws, never leads outside its bytes, and is left as it was where it is not understood', () => {
    fc.assert(fc.property(broken, fc.nat(255), (bytes, field) => {
      const { slot, memory } = slotWith(bytes);
      // A view of the packet alone throws at the first access outside it.
      const exact = slotWith(bytes).slot.bytes.subarray(ipAt);
      const own = new DataView(Uint8Array.from(exact).buffer);
      readPacket(slot, own, 0, bytes.length, 7);
      assert.ok(slot.ecn >= 0 && slot.ecn <= 3 && slot.dscp >= 0 && slot.dscp <= 63);
      assert.ok([slot.flowHash, slot.srcHash, slot.dstHash, slot.ackNumber].every((value) => Number.isInteger(value) && value >= 0 && value <= 0xffffffff));
      assert.deepEqual(Buffer.from(own.buffer), Buffer.from(bytes), 'reading changes nothing');
      const understood = writeDsField(own, 0, bytes.length, field);
      if (!understood) {
        assert.equal(slot.ecn | slot.dscp, 0, 'so nothing ever marks it');
        assert.deepEqual(Buffer.from(own.buffer), Buffer.from(bytes));
      }
      restoreHop(own, 0, bytes.length);
      writeDsField(slot.view, slot.at + ipAt, slot.length, field);
      restoreHop(slot.view, slot.at + ipAt, slot.length);
      assert.ok(memory.subarray(0, guard + ipAt).every((byte) => byte === 0xa5) && memory.subarray(guard + ipAt + bytes.length).every((byte) => byte === 0xa5), 'nothing written outside');
    }), { numRuns: 20_000 });
  });
});

describe('the slots', () => {
  it('are never the same twice, grow up to their limit, and then are refused', () => {
    const pool = new SlotPool(2048, 2 * 1024 * 2048);
    const taken = Array.from({ length: 2048 }, () => pool.take()!);
    assert.equal(new Set(taken).size, 2048);
    assert.equal(new Set(taken.map((slot) => `${slot.bytes.byteOffset} ${taken.findIndex((other) => other.view === slot.view)}`)).size, 2048);
    assert.equal(pool.take(), null);
    pool.give(taken[5]!);
    assert.equal(pool.take(), taken[5]);
  });
});
