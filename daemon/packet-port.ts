/**
 * Real packets by a packet socket with a memory-mapped ring (packet(7), TPACKET_V2: a frame a packet, each handed over at once). One
 * socket sees all devices of the network namespace it is opened in, in order of arrival, with the kernel's time stamps; fetching a
 * packet costs no system call, sending one costs one and bypasses the device's own queue discipline.
 */

import { bindSocket, CLOCK_MONOTONIC, CLOCK_REALTIME, clockNs, clockNsBig, close, mmapShared, setsockoptBytes, setsockoptInt, socket, stable, SystemError, tryGetsockopt, trySendto, trySetsockopt } from '../testbed/linux/libc.js';
import type { Port, PortFaults } from './port.js';
import { ipAt, type Slot } from './slots.js';

const AF_PACKET = 17;
const SOCK_RAW_NONBLOCK_CLOEXEC = 3 | 0o4000 | 0o2000000;
const ETH_P_ALL = 0x0003;
const [SOL_SOCKET, SO_SNDBUFFORCE] = [1, 32] as const;
const SOL_PACKET = 263;
const [PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, PACKET_QDISC_BYPASS, PACKET_IGNORE_OUTGOING] = [5, 6, 10, 20, 23] as const;
const TPACKET_V2 = 1;
const PACKET_OUTGOING = 4;
const [TP_STATUS_KERNEL, TP_STATUS_USER, TP_STATUS_CSUMNOTREADY, TP_STATUS_VLAN_VALID] = [0, 1, 8, 16] as const;
// struct tpacket2_hdr, then struct sockaddr_ll at 32
const [LENGTH, SNAPPED, MAC, SECONDS, NANOSECONDS, VLAN_TCI, VLAN_TPID] = [4, 8, 12, 16, 20, 24, 26] as const;
const [INTERFACE, KIND] = [36, 42] as const;
/** Of an Ethernet frame in the ring (packet_mmap.rst): behind header and address, so that the IP header is aligned. */
const macAt = 66;
const [ETH_P_IP, ETH_P_IPV6] = [0x0800, 0x86dd] as const;

const blockBytes = 1 << 17;
const ringFrames = 4096;

export class PacketPort implements Port {
  readonly fds: readonly number[];
  readonly timestamped = true;
  readonly slotBytes: number;
  private readonly fd: number;
  private readonly view: DataView;
  private readonly status: Int32Array;
  private readonly frames: readonly Uint8Array[];
  private readonly frameBytes: number;
  private readonly addresses = new Map<number, Buffer>();
  private next = 0;
  private offsetSeconds = 0;
  private offsetNanoseconds = 0;
  private lost = 0;
  private superpackets = 0;
  private unfinished = 0;

  /**
   * @param devices interface indices whose packets are wanted; others' are passed over
   * @param mtuBytes the largest of their MTUs
   * @throws SystemError (EPERM without CAP_NET_RAW, ENOMEM)
   */
  constructor(private readonly devices: ReadonlySet<number>, private readonly mtuBytes: number) {
    this.frameBytes = 2048;
    // 4 for a VLAN tag
    while (this.frameBytes < macAt + ipAt + 4 + mtuBytes) this.frameBytes *= 2;
    this.slotBytes = this.frameBytes;
    const perBlock = Math.max(blockBytes, this.frameBytes) / this.frameBytes;
    const count = Math.max(perBlock * 2, Math.min(ringFrames, Math.floor((64 << 20) / this.frameBytes)));
    const blocks = Math.floor(count / perBlock);
    this.fd = socket(AF_PACKET, SOCK_RAW_NONBLOCK_CLOEXEC, 0);
    this.fds = [this.fd];
    try {
      setsockoptInt(this.fd, SOL_PACKET, PACKET_VERSION, TPACKET_V2);
      const request = stable(16); // struct tpacket_req
      request.writeUInt32LE(perBlock * this.frameBytes, 0);
      request.writeUInt32LE(blocks, 4);
      request.writeUInt32LE(this.frameBytes, 8);
      request.writeUInt32LE(blocks * perBlock, 12);
      setsockoptBytes(this.fd, SOL_PACKET, PACKET_RX_RING, request, 16);
      setsockoptInt(this.fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
      // Since Linux 4.20; before it they are passed over one by one.
      const one = stable(4);
      one.writeInt32LE(1);
      trySetsockopt(this.fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, one, 4);
      const sendBuffer = stable(4);
      sendBuffer.writeInt32LE(8 << 20);
      trySetsockopt(this.fd, SOL_SOCKET, SO_SNDBUFFORCE, sendBuffer, 4);
      const memory = mmapShared(this.fd, blocks * perBlock * this.frameBytes);
      this.view = new DataView(memory);
      this.status = new Int32Array(memory);
      this.frames = Array.from({ length: blocks * perBlock }, (_, i) => new Uint8Array(memory, i * this.frameBytes + macAt, this.frameBytes - macAt));
      for (const device of devices) this.addresses.set(device, linkAddress(device));
      this.upkeep();
      bindSocket(this.fd, linkAddress(0), 20);
    } catch (error) {
      close(this.fd);
      throw error;
    }
  }

  receive(slot: Slot): number {
    for (;;) {
      const index = this.next;
      const at = index * this.frameBytes;
      const word = at >> 2;
      const status = Atomics.load(this.status, word);
      if ((status & TP_STATUS_USER) === 0) return -1;
      this.next = index + 1 === this.frames.length ? 0 : index + 1;
      const { view } = this;
      const length = view.getUint32(at + LENGTH, true);
      const from = view.getInt32(at + INTERFACE, true);
      const wanted = this.devices.has(from) && view.getUint8(at + KIND) !== PACKET_OUTGOING && length >= ipAt;
      const whole = length <= this.mtuBytes + ipAt && view.getUint32(at + SNAPPED, true) === length;
      if (wanted && !whole) this.superpackets++;
      if (!wanted || !whole || view.getUint16(at + MAC, true) !== macAt) {
        Atomics.store(this.status, word, TP_STATUS_KERNEL);
        continue;
      }
      slot.bytes.set(this.frames[index]!);
      const nowNs = (view.getUint32(at + SECONDS, true) - this.offsetSeconds) * 1e9 + view.getUint32(at + NANOSECONDS, true) - this.offsetNanoseconds;
      slot.length = length - ipAt;
      slot.from = from;
      const type = slot.view.getUint16(slot.at + 12);
      slot.opaque = type !== ETH_P_IP && type !== ETH_P_IPV6;
      if ((status & TP_STATUS_CSUMNOTREADY) !== 0) this.unfinished++;
      if ((status & TP_STATUS_VLAN_VALID) !== 0) {
        // The tag was taken out of the frame: put back.
        slot.bytes.copyWithin(16, 12, length);
        slot.view.setUint16(slot.at + 12, view.getUint16(at + VLAN_TPID, true) || 0x8100);
        slot.view.setUint16(slot.at + 14, view.getUint16(at + VLAN_TCI, true));
        slot.length += 4;
        slot.opaque = true;
      }
      Atomics.store(this.status, word, TP_STATUS_KERNEL);
      return nowNs;
    }
  }

  send(slot: Slot, out: number): number {
    const sent = trySendto(this.fd, slot.bytes, slot.length + ipAt, 0, this.addresses.get(out)!, 20);
    return sent < 0 ? sent : 0;
  }

  /** CLOCK_REALTIME, which time stamps are of, less CLOCK_MONOTONIC: the closest of several readings. */
  upkeep(): void {
    let best = Infinity;
    for (let i = 0; i < 8; i++) {
      const before = clockNs(CLOCK_MONOTONIC);
      const realtime = clockNsBig(CLOCK_REALTIME);
      const after = clockNs(CLOCK_MONOTONIC);
      if (after - before >= best) continue;
      best = after - before;
      const offset = realtime - BigInt(Math.round((before + after) / 2));
      this.offsetSeconds = Number(offset / 1_000_000_000n);
      this.offsetNanoseconds = Number(offset % 1_000_000_000n);
    }
    const out = stable(8); // struct tpacket_stats; reading clears it
    const length = stable(4);
    length.writeUInt32LE(8);
    const result = tryGetsockopt(this.fd, SOL_PACKET, PACKET_STATISTICS, out, length);
    if (result < 0) throw new SystemError('getsockopt', -result, 'PACKET_STATISTICS');
    this.lost += out.readUInt32LE(4);
  }

  faults(): PortFaults {
    return { ringLost: this.lost, superpackets: this.superpackets, unfinishedChecksums: this.unfinished };
  }

  /** The ring's memory stays mapped until the process ends. */
  close(): void { close(this.fd); }
}

/** struct sockaddr_ll; index 0: every device. */
function linkAddress(device: number): Buffer {
  const address = stable(20);
  address.writeUInt16LE(AF_PACKET, 0);
  address.writeUInt16BE(ETH_P_ALL, 2);
  address.writeInt32LE(device, 4);
  return address;
}
