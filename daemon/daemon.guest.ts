/** Runs in a guest, for daemon.test.ts: the daemon's process between two pairs of devices, frames put in at one end and taken out at the other. Prints one JSON. */

import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { aqms } from '../aqm/registry.js';
import { Random } from '../simulator/random.js';
import { bindSocket, CLOCK_MONOTONIC, clockNs, close, setsockoptBytes, setsockoptInt, socket, stable, tryRecv, trySend } from '../testbed/linux/libc.js';
import { DaemonProcess } from '../testbed/network/daemon.js';
import type { PlanDirection, PlanEvent } from '../testbed/plan/plan.js';
import { direction, wire } from '../testbed/testing/plans.js';
import type { DaemonConfig, DaemonSummary } from './config.js';

const AF_PACKET = 17;
const ETH_P_ALL = 0x0300;
const mtuBytes = 1500;

/** `in0`–`far0` and `in1`–`far1`: the daemon stands between in0 and in1; indices 20 and 21. */
function makeDevices(): void {
  for (const i of [0, 1]) {
    execFileSync('ip', ['link', 'add', `in${i}`, 'index', String(20 + i), 'type', 'veth', 'peer', 'name', `far${i}`, 'index', String(30 + i)]);
    for (const name of [`in${i}`, `far${i}`]) {
      execFileSync('sysctl', ['-qw', `net.ipv6.conf.${name}.disable_ipv6=1`]);
      execFileSync('ip', ['link', 'set', name, 'up']);
    }
  }
}

/** A raw socket on a device: what is sent through it arrives at the device's peer. */
function rawSocket(ifindex: number): number {
  const fd = socket(AF_PACKET, 3, 0);
  const address = stable(20);
  address.writeUInt16LE(AF_PACKET, 0);
  address.writeUInt16LE(ETH_P_ALL, 2);
  address.writeInt32LE(ifindex, 4);
  setsockoptInt(fd, 1, 33 /* SO_RCVBUFFORCE */, 64 << 20);
  const patience = stable(16);
  patience.writeBigInt64LE(2n, 0);
  setsockoptBytes(fd, 1, 20 /* SO_RCVTIMEO */, patience, 16);
  bindSocket(fd, address, 20);
  return fd;
}
const buffer = stable(4096);
/** The next frame, or null after 2 s without one. */
function take(fd: number): Buffer | null {
  const length = tryRecv(fd, buffer, buffer.length, 0);
  return length < 0 ? null : Buffer.from(buffer.subarray(0, length));
}
function put(fd: number, frame: Buffer): number {
  const bytes = stable(frame.length);
  frame.copy(bytes);
  return trySend(fd, bytes, frame.length, 0);
}

async function withDaemon<T>(forward: Partial<PlanDirection>, call: (send: number, receive: number, daemon: DaemonProcess) => T | Promise<T>, events: readonly PlanEvent[] = []): Promise<{ value: T; summary: DaemonSummary }> {
  const config: DaemonConfig = {
    schema: 1, port: 'packet', tuns: [], watch: [], clock: 'virtual', seed: 3, events, records: null, statisticsNs: null, spinNs: 0, memoryBytes: 64 << 20,
    directions: [
      { direction: direction('there', forward), mtuBytes, in: 20, out: 21, record: false },
      { direction: direction('back'), mtuBytes, in: 21, out: 20, record: false },
    ],
  };
  const daemon = await DaemonProcess.start(config, '/run/daemon.json', (inside) => inside());
  const [send, receive] = [rawSocket(30), rawSocket(31)];
  try {
    const value = await call(send, receive, daemon);
    const summary = await daemon.end();
    if (summary === null) throw new Error(`the daemon died: ${daemon.endedBy}`);
    return { value, summary };
  } finally {
    close(send);
    close(receive);
  }
}

const ethernet = (type: number, payload: Buffer): Buffer => Buffer.concat([Buffer.from([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, type >> 8, type & 0xff]), payload]);
function udp4(field: number, n: number, bytes = 200): Buffer {
  const packet = Buffer.alloc(bytes);
  packet[0] = 0x45;
  packet[1] = field;
  packet.writeUInt16BE(bytes, 2);
  packet.writeUInt16BE(n & 0xffff, 4);
  packet[8] = 64;
  packet[9] = 17;
  packet.set([10, 0, 1, 2, 10, 0, 2, 2], 12);
  packet.writeUInt16BE(sumOf(packet), 10);
  packet.writeUInt16BE(4000 + (n % 4), 20);
  packet.writeUInt16BE(80, 22);
  return ethernet(0x0800, packet);
}
function sumOf(packet: Buffer): number {
  let sum = 0;
  for (let i = 0; i < 20; i += 2) sum += packet.readUInt16BE(i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
function udp6(field: number, bytes = 200): Buffer {
  const packet = Buffer.alloc(bytes);
  packet.writeUInt32BE(0x60000000 | (field << 20), 0);
  packet.writeUInt16BE(bytes - 40, 4);
  packet[6] = 17;
  packet[7] = 64;
  packet[23] = 1;
  packet[39] = 2;
  return ethernet(0x86dd, packet);
}

/** Frames of every length, broken in every way: each comes out as it went in, in order. */
async function malformed(): Promise<unknown> {
  const random = new Random(11, 'frames');
  const below = (n: number): number => random.u32() % n;
  const frames: Buffer[] = [];
  for (let i = 0; i < 1500; i++) {
    const noise = Buffer.from(Array.from({ length: 14 + below(i % 10 === 0 ? mtuBytes : 90) }, () => below(256)));
    // A destination that no device on the way takes for its own, and types with and without a header behind them.
    noise.set([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], 0);
    noise.writeUInt16BE([0x0800, 0x86dd, 0x0806, 0x88cc, 0x8847, 0x0000, 0x05dc, 0x1234][below(8)]!, 12);
    if (noise.length > 14 && below(3) > 0) noise[14] = below(2) === 0 ? 0x40 | below(16) : 0x60 | below(16);
    // Not ECN-capable: nothing may change it.
    if (noise.length > 15 && (noise[12]! << 8 | noise[13]!) === 0x0800) noise[15] = noise[15]! & 0xfc;
    if (noise.length > 15 && (noise[12]! << 8 | noise[13]!) === 0x86dd) noise[15] = noise[15]! & 0xcf;
    frames.push(noise);
  }
  // All are sent before the first is read: 1500 wait at 1 Mbit/s, where CoDel and its like would drop, so the queue is one that marks or keeps.
  const { value, summary } = await withDaemon({ rateBps: 50e6, queue: { kind: 'bfifo', in: 'daemon', params: { limit: 10_000_000 } } }, (send, receive) => {
    let refused = 0;
    const sent = frames.filter((frame) => (put(send, frame) < 0 ? (refused++, false) : true));
    let same = 0, other = 0;
    for (const frame of sent) {
      const got = take(receive);
      if (got === null) break;
      if (got.equals(frame)) same++;
      else other++;
    }
    return { sent: sent.length, same, other, refused };
  });
  return { ...value, faults: summary.faults, arrived: summary.directions[0]!.arrivedPackets };
}

/** ECN-capable packets that wait too long come out marked, with the checksum right; others as they were. */
async function marks(): Promise<unknown> {
  const { value, summary } = await withDaemon({ rateBps: 1e6, queue: { kind: 'codel', in: 'daemon', params: { ce_threshold: 3e6, ecn: true } } }, (send, receive) => {
    for (let i = 0; i < 5; i++) for (const frame of [udp4(2 | 40 << 2, i), udp6(1), udp4(0, i), udp6(0)]) put(send, frame);
    const out = { marked4: 0, marked6: 0, badSums: 0, dscpKept: 0, plain: 0, received: 0 };
    for (let frame = take(receive); frame !== null; frame = take(receive)) {
      out.received++;
      const ip = frame.subarray(14);
      if (ip[0]! >> 4 === 4) {
        if (sumOf(ip) !== 0) out.badSums++;
        if ((ip[1]! & 3) === 3) { out.marked4++; if (ip[1]! >> 2 === 40) out.dscpKept++; }
        else if ((ip[1]! & 3) === 0) out.plain++;
      } else if (((ip.readUInt16BE(0) >> 4) & 3) === 3) out.marked6++;
      else out.plain++;
    }
    return out;
  });
  return { ...value, counted: summary.directions[0]!.marks };
}

/** 64-byte datagrams one by one through an idle link of 1 Mbit/s and a wire of 25 ms; then at another rate and delay, by events. */
async function delays(): Promise<unknown> {
  const through = (send: number, receive: number, n: number): number[] => Array.from({ length: n }, (_, i) => {
    // Two back to back: the burst of HTB lets the second through at once, the third waits for the first two.
    const from = clockNs(CLOCK_MONOTONIC);
    for (let k = 0; k < 12; k++) put(send, udp4(0, i, 1486));
    let last = 0;
    for (let k = 0; k < 12; k++) if (take(receive) !== null) last = clockNs(CLOCK_MONOTONIC) - from;
    return last;
  });
  const general = wire(25e6);
  const { value } = await withDaemon({ rateBps: 12e6, queue: { kind: 'pfifo', in: 'daemon', params: { limit: 100 } }, wire: [general] }, async (send, receive, daemon) => {
    const before = through(send, receive, 2);
    daemon.begin(clockNs(CLOCK_MONOTONIC));
    await sleep(1500);
    const after = through(send, receive, 2);
    await sleep(1500);
    return { before, after, limited: (() => { for (let i = 0; i < 60; i++) put(send, udp4(0, i)); let n = 0; while (take(receive) !== null) n++; return n; })() };
  }, [
    { atNs: 1e9, direction: 'there', set: { rateBps: 6e6, wire: wire(5e6) } },
    { atNs: 2e9, direction: 'there', set: { queue: { kind: 'pfifo', in: 'daemon', params: { limit: 10 } } } },
  ]);
  return value;
}

/** Loss, duplication and reordering of a wire without a rate. */
async function wires(): Promise<unknown> {
  const count = 3000;
  const { value, summary } = await withDaemon({ wire: [wire(2e6, { loss: 0.1, duplicate: 0.05, reorder: 0.02, to: ['10.0.2.2'] }), wire(0)] }, async (send, receive) => {
    const seen: number[] = [];
    for (let i = 0; i < count; i += 10) {
      for (let k = 0; k < 10; k++) put(send, udp4(0, i + k, 60));
      await sleep(1);
    }
    for (let frame = take(receive); frame !== null; frame = take(receive)) seen.push(frame.readUInt16BE(18));
    return { received: seen.length, distinct: new Set(seen).size, early: seen.filter((n, i) => i > 0 && n < seen[i - 1]!).length };
  });
  return { count, ...value, lost: summary.directions[0]!.lost };
}

/** Every discipline of aqm/: packets pass, and none is lost track of. */
async function kinds(): Promise<unknown> {
  const out: Record<string, { received: number; sent: number; drops: number; arrived: number; backlog: number }> = {};
  for (const kind of aqms.keys()) {
    const { value, summary } = await withDaemon({ rateBps: 5e6, queue: { kind, in: 'daemon', params: {} } }, async (send, receive) => {
      let received = 0;
      for (let i = 0; i < 60; i++) {
        for (let k = 0; k < 4; k++) put(send, udp4((i + k) % 4, k, 600));
        await sleep(2);
      }
      while (take(receive) !== null) received++;
      return received;
    });
    const [there] = summary.directions;
    out[kind] = { received: value, sent: there!.sentPackets, drops: there!.drops, arrived: there!.arrivedPackets, backlog: there!.backlogPackets };
  }
  return out;
}

const modes: Readonly<Record<string, () => Promise<unknown>>> = { malformed, marks, delays, wires, kinds };
makeDevices();
console.log(JSON.stringify(await modes[process.argv[2] ?? '']!()));
process.exit(0);
