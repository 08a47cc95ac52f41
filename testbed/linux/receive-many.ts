/** Many datagrams in one system call (recvmmsg(2)), with senders' addresses and control messages when asked for. */

import koffi from 'koffi';
import { addressOf, stable } from './libc.js';

const recvmmsg = koffi.load(null).func('int recvmmsg(int fd, void *messages, uint32_t count, int flags, void *timeout)') as unknown as (fd: number, messages: Uint8Array, count: number, flags: number, timeout: null) => number;

/** struct mmsghdr: msghdr 56 (name 0, namelen 8, iov 16, iovlen 24, control 32, controllen 40, flags 48), length 56. */
const mmsgBytes = 64;
export const MSG_DONTWAIT = 0x40;
export const MSG_TRUNC = 0x20;

export class ReceiveMany {
  readonly data: Buffer;
  readonly view: DataView;
  readonly names: Buffer;
  readonly control: DataView;
  private readonly controlBuffer: Buffer;
  private readonly headers: Buffer;
  private readonly headerView: DataView;
  private readonly vectors: Buffer;

  /**
   * @param slots datagrams a call
   * @param slotBytes room for each; longer ones are cut
   * @param nameBytes room for each sender's address, 0 = not wanted
   * @param controlBytes room for each one's control messages, 0 = not wanted
   */
  constructor(readonly slots: number, readonly slotBytes: number, readonly nameBytes = 0, readonly controlBytes = 0) {
    this.data = stable(slots * slotBytes);
    this.view = new DataView(this.data.buffer);
    this.names = stable(Math.max(8, slots * nameBytes));
    this.controlBuffer = stable(Math.max(8, slots * controlBytes));
    this.control = new DataView(this.controlBuffer.buffer);
    this.headers = stable(slots * mmsgBytes);
    this.headerView = new DataView(this.headers.buffer);
    this.vectors = stable(slots * 16);
    const [data, names, control, vectors] = [addressOf(this.data), addressOf(this.names), addressOf(this.controlBuffer), addressOf(this.vectors)];
    for (let i = 0; i < slots; i++) {
      this.vectors.writeBigUInt64LE(data + BigInt(i * slotBytes), i * 16);
      this.vectors.writeBigUInt64LE(BigInt(slotBytes), i * 16 + 8);
      const at = i * mmsgBytes;
      if (nameBytes > 0) this.headers.writeBigUInt64LE(names + BigInt(i * nameBytes), at);
      this.headers.writeBigUInt64LE(vectors + BigInt(i * 16), at + 16);
      this.headers.writeBigUInt64LE(1n, at + 24);
      if (controlBytes > 0) this.headers.writeBigUInt64LE(control + BigInt(i * controlBytes), at + 32);
    }
  }

  /** Never waits, unless `flags` says so. @returns datagrams received, or −errno (−EAGAIN: none there) */
  receive(fd: number, flags = MSG_DONTWAIT, count = this.slots): number {
    // The kernel overwrites the room it was given with what it used.
    for (let i = 0; i < count; i++) {
      if (this.nameBytes > 0) this.headerView.setUint32(i * mmsgBytes + 8, this.nameBytes, true);
      if (this.controlBytes > 0) this.headerView.setUint32(i * mmsgBytes + 40, this.controlBytes, true);
    }
    const received = recvmmsg(fd, this.headers, count, flags, null);
    return received < 0 ? -koffi.errno() : received;
  }

  /** Where datagram `i` is in `data`. */
  offset(i: number): number { return i * this.slotBytes; }
  length(i: number): number { return this.headerView.getUint32(i * mmsgBytes + 56, true); }
  truncated(i: number): boolean { return (this.headerView.getUint32(i * mmsgBytes + 48, true) & MSG_TRUNC) !== 0; }
  nameLength(i: number): number { return this.headerView.getUint32(i * mmsgBytes + 8, true); }

  /** Offset in `control` of the payload of the first control message of that kind of datagram `i`, or −1. */
  controlAt(i: number, level: number, type: number): number {
    const from = i * this.controlBytes;
    const to = from + Math.min(this.controlBytes, this.headerView.getUint32(i * mmsgBytes + 40, true));
    for (let at = from; at + 16 <= to;) {
      const length = this.control.getUint32(at, true);
      if (length < 16 || at + length > to) return -1;
      if (this.control.getInt32(at + 8, true) === level && this.control.getInt32(at + 12, true) === type) return at + 16;
      at += (length + 7) & ~7;
    }
    return -1;
  }
}
