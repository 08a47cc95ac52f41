/**
 * An AF_PACKET socket with a memory-mapped TPACKET_V3 ring (packet(7), Documentation/networking/packet_mmap.rst,
 * net/packet/af_packet.c), cooked: packets begin at their IP header. It sees one network namespace's packets on all
 * interfaces, those that a classic BPF filter accepts, entering (before IP forwarding) and leaving (as the driver is
 * handed them, after the queue discipline). Nothing but `poll` costs the reader system calls: none at all.
 */

import koffi from 'koffi';
import { addressOf, bindSocket, close, mmapShared, setsockoptBytes, socket, stable, SystemError, tryGetsockopt } from './libc.js';

const AF_PACKET = 17;
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000;
const ETH_P_ALL = 0x0003;
const SOL_PACKET = 263;
const PACKET_RX_RING = 5;
const PACKET_STATISTICS = 6;
const PACKET_VERSION = 10;
const TPACKET_V3 = 2;
const TP_FT_REQ_FILL_RXHASH = 1;
const SOL_SOCKET = 1;
const SO_ATTACH_FILTER = 26;
const TP_STATUS_USER = 1;
const MADV_DONTFORK = 10;
const madvise = koffi.load(null).func('int madvise(void *address, size_t length, int advice)') as unknown as (address: Uint8Array, length: number, advice: number) => number;
export const PACKET_OUTGOING = 4;

// struct tpacket_block_desc and, in the packet's header, struct tpacket3_hdr (48 bytes) with struct sockaddr_ll behind it
const BLOCK_STATUS = 8;
const BLOCK_PACKETS = 12;
const BLOCK_FIRST = 16;
const [NEXT, SECONDS, NANOSECONDS, SNAPPED, LENGTH, NETWORK, HASH] = [0, 4, 8, 12, 16, 26, 28] as const;
const [PROTOCOL, INTERFACE, KIND] = [50, 52, 58] as const;

/** One instruction of classic BPF: struct sock_filter (linux/filter.h). */
export interface Instruction { readonly code: number; readonly jt: number; readonly jf: number; readonly k: number }
const [LD_W_ABS, LD_H_ABS, JEQ, JGE, RET] = [0x20, 0x28, 0x15, 0x35, 0x06] as const;
const SKF_AD_OFF = 0xfffff000; // −0x1000: ancillary data of the packet
const [SKF_AD_PROTOCOL, SKF_AD_PKTTYPE, SKF_AD_IFINDEX] = [0, 4, 8] as const;
const ETH_P_IP = 0x0800;
const ETH_P_IPV6 = 0x86dd;

/** Bytes kept of a packet: an IP header without options and this much of what follows. */
export const snapBytes = { 4: 20 + 44, 6: 40 + 44 } as const;

/**
 * The filter: IP packets that leave by one of `leaving`, or that enter by an interface of `entering`.
 * `entering` negated: by any interface but those.
 */
export function packetFilter(leaving: readonly number[], entering: { readonly interfaces: readonly number[]; readonly negated: boolean }): readonly Instruction[] {
  const out: Instruction[] = [];
  const emit = (code: number, k: number, jt = 0, jf = 0): number => out.push({ code, jt, jf, k: k >>> 0 }) - 1;
  const ret = (bytes: number) => emit(RET, bytes);
  // Interfaces are tested by pairs "equal? else skip one; return", so no jump is ever longer than 255 instructions.
  const acceptance = (): void => {
    emit(LD_H_ABS, SKF_AD_OFF + SKF_AD_PROTOCOL);
    emit(JEQ, ETH_P_IP, 0, 1);
    ret(snapBytes[4]);
    emit(JEQ, ETH_P_IPV6, 0, 1);
    ret(snapBytes[6]);
    ret(0);
  };
  const JA = 0x05;
  const membership = (interfaces: readonly number[], negated: boolean): void => {
    const sorted = [...new Set(interfaces)].sort((a, b) => a - b);
    emit(LD_W_ABS, SKF_AD_OFF + SKF_AD_IFINDEX);
    const toMember: number[] = [];
    const runs: [number, number][] = [];
    for (const index of sorted) {
      const last = runs.at(-1);
      if (last && last[1] === index - 1) last[1] = index;
      else runs.push([index, index]);
    }
    for (const [from, to] of runs) {
      // below the run (they are sorted): on to the next test, which fails as well
      if (from === to) emit(JEQ, from, 0, 1);
      else {
        emit(JGE, from, 0, 2);
        emit(JGE, to + 1, 1, 0);
      }
      toMember.push(emit(JA, 0));
    }
    if (negated) acceptance();
    else ret(0);
    const member = out.length;
    for (const at of toMember) out[at] = { ...out[at]!, k: member - at - 1 };
    if (negated) ret(0);
    else acceptance();
  };
  emit(LD_W_ABS, SKF_AD_OFF + SKF_AD_PKTTYPE);
  emit(JEQ, PACKET_OUTGOING, 1, 0);
  const enters = emit(JA, 0);
  membership(leaving, false);
  out[enters] = { ...out[enters]!, k: out.length - enters - 1 };
  membership(entering.interfaces, entering.negated);
  return out;
}

/** What is called for each packet: all offsets into the ring's own memory. Packets that are longer than what was kept have `snapped` < `length`. `hash`: int32, to be taken as uint32; 0 unless asked for. */
export type PacketVisit = (
  view: DataView, at: number, snapped: number, length: number,
  seconds: number, nanoseconds: number, protocol: number, ifindex: number, outgoing: boolean, hash: number,
) => void;

export class PacketRing {
  private readonly fd: number;
  private readonly view: DataView;
  private block = 0;
  /** Packets visited so far. */
  visited = 0;
  private counted = 0;
  private dropped = 0;
  private closed = false;

  /**
   * Opens it in the network namespace this thread is in and starts capturing. Blocks × blockBytes of memory are locked.
   * @param blockBytes a power of two, at least a page
   * @param retireMs a block that is not full is handed over after this long; a timer of the kernel's
   * @param hash packets come with skb_get_hash(): the sending socket's txhash where it has one, else a hash of addresses, protocol and ports under a
   *   secret of the kernel's. It is made once a packet and stays with it, so whoever asks next (fq_codel) is given the same.
   * @throws SystemError (EPERM without CAP_NET_RAW, ENOMEM)
   */
  constructor(filter: readonly Instruction[], readonly blocks: number, readonly blockBytes: number, retireMs: number, hash = false) {
    this.fd = socket(AF_PACKET, SOCK_DGRAM_CLOEXEC, 0);
    try {
      const version = stable(4);
      version.writeInt32LE(TPACKET_V3);
      setsockoptBytes(this.fd, SOL_PACKET, PACKET_VERSION, version, 4);
      const request = stable(28); // struct tpacket_req3
      request.writeUInt32LE(blockBytes, 0);
      request.writeUInt32LE(blocks, 4);
      request.writeUInt32LE(2048, 8); // frame size: only its count is checked in version 3
      request.writeUInt32LE((blockBytes / 2048) * blocks, 12);
      request.writeUInt32LE(retireMs, 16);
      if (hash) request.writeUInt32LE(TP_FT_REQ_FILL_RXHASH, 24);
      setsockoptBytes(this.fd, SOL_PACKET, PACKET_RX_RING, request, 28);
      const memory = mmapShared(this.fd, blocks * blockBytes);
      // Children are started while rings are mapped. UML 6.12 loses count of the ring's pages when they are copied
      // into a child's page tables (it frees them while they are in use), and a child has no use for them anyway.
      if (madvise(new Uint8Array(memory), memory.byteLength, MADV_DONTFORK) < 0) throw new SystemError('madvise', koffi.errno(), 'MADV_DONTFORK');
      this.view = new DataView(memory);
      this.attach(filter);
      // Only now: between socket and filter nothing may come in.
      const address = stable(20);
      address.writeUInt16LE(AF_PACKET, 0);
      address.writeUInt16BE(ETH_P_ALL, 2);
      bindSocket(this.fd, address, 20);
    } catch (error) {
      close(this.fd);
      throw error;
    }
  }

  private attach(filter: readonly Instruction[]): void {
    const program = stable(filter.length * 8);
    filter.forEach(({ code, jt, jf, k }, i) => {
      program.writeUInt16LE(code, i * 8);
      program[i * 8 + 2] = jt;
      program[i * 8 + 3] = jf;
      program.writeUInt32LE(k, i * 8 + 4);
    });
    const descriptor = stable(16);
    descriptor.writeUInt16LE(filter.length, 0);
    descriptor.writeBigUInt64LE(addressOf(program), 8);
    setsockoptBytes(this.fd, SOL_SOCKET, SO_ATTACH_FILTER, descriptor, 16);
  }

  /** Visits the packets of every full block and gives the blocks back. @returns blocks that were full */
  poll(visit: PacketVisit): number {
    let full = 0;
    for (; full < this.blocks; full++) {
      const at = this.block * this.blockBytes;
      if ((this.view.getUint32(at + BLOCK_STATUS, true) & TP_STATUS_USER) === 0) break;
      this.visitBlock(at, visit);
      // The count is cleared so that a block the kernel has not opened yet never looks like one it is filling.
      this.view.setUint32(at + BLOCK_PACKETS, 0, true);
      this.view.setUint32(at + BLOCK_STATUS, 0, true);
      this.block = (this.block + 1) % this.blocks;
    }
    return full;
  }

  /**
   * Stops capturing and visits what is left, the block that the kernel was still filling included: it counts the
   * packets of an open block in the block's header as they come (prb_fill_curr_block), so none is lost at the end.
   */
  finish(visit: PacketVisit): void {
    this.attach([{ code: RET, jt: 0, jf: 0, k: 0 }]);
    while (this.poll(visit) === this.blocks);
    this.visitBlock(this.block * this.blockBytes, visit);
    this.view.setUint32(this.block * this.blockBytes + BLOCK_PACKETS, 0, true);
  }

  private visitBlock(block: number, visit: PacketVisit): void {
    const { view } = this;
    let left = view.getUint32(block + BLOCK_PACKETS, true);
    this.visited += left;
    for (let at = block + view.getUint32(block + BLOCK_FIRST, true); left > 0; left--) {
      visit(
        view, at + view.getUint16(at + NETWORK, true), view.getUint32(at + SNAPPED, true), view.getUint32(at + LENGTH, true),
        view.getUint32(at + SECONDS, true), view.getUint32(at + NANOSECONDS, true),
        view.getUint16(at + PROTOCOL), view.getUint32(at + INTERFACE, true), view.getUint8(at + KIND) === PACKET_OUTGOING, view.getInt32(at + HASH, true),
      );
      at += view.getUint32(at + NEXT, true);
    }
  }

  /** Packets the filter accepted so far, and those of them that found the ring full. */
  statistics(): { readonly accepted: number; readonly lost: number } {
    const out = stable(12); // struct tpacket_stats_v3; reading clears it
    const length = stable(4);
    length.writeUInt32LE(12);
    const result = tryGetsockopt(this.fd, SOL_PACKET, PACKET_STATISTICS, out, length);
    if (result < 0) throw new SystemError('getsockopt', -result, 'PACKET_STATISTICS');
    this.counted += out.readUInt32LE(0);
    this.dropped += out.readUInt32LE(4);
    return { accepted: this.counted, lost: this.dropped };
  }

  /** The descriptor; the ring's memory stays mapped until the process ends. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    close(this.fd);
  }
}

