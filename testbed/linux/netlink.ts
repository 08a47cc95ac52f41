/**
 * Netlink sockets (linux/netlink.h): requests built into one preallocated buffer, many in one send, errors with the kernel's own text
 * (NETLINK_EXT_ACK). A socket stays in the network namespace its thread was in when it was opened, so it serves that
 * namespace for ever after without setns.
 *
 * Only the last message of a send asks for an acknowledgement: the kernel works messages off in order and reports each
 * failure before it, so one answer means all succeeded. In a guest every saved system call counts.
 */

import * as libc from './libc.js';
import { parseAttributes, text } from './attributes.js';
import * as os from 'node:os';

const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0o2000000;
const SOL_NETLINK = 270;
const NETLINK_CAP_ACK = 10;
const NETLINK_EXT_ACK = 11;
const NETLINK_GET_STRICT_CHK = 12;

export const NETLINK_ROUTE = 0;
export const NLM_F_REQUEST = 1;
export const NLM_F_ACK = 4;
export const NLM_F_ECHO = 8;
export const NLM_F_DUMP = 0x300;
export const NLM_F_REPLACE = 0x100;
export const NLM_F_EXCL = 0x200;
export const NLM_F_CREATE = 0x400;
const NLM_F_CAPPED = 0x100;
const NLM_F_ACK_TLVS = 0x200;
const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const headerBytes = 16;

const errnoNames = new Map<number, string>(Object.entries(os.constants.errno).map(([name, value]) => [value, name]));

/** The kernel refused a request. */
export class NetlinkError extends Error {
  readonly code: string;
  constructor(
    readonly errno: number,
    /** The kernel's own words (extended ACK), or ''. */
    readonly kernelText: string,
    /** Which message of the send, from 0. */
    readonly index: number,
  ) {
    const code = errnoNames.get(errno) ?? `errno ${errno}`;
    super(kernelText ? `${code}: ${kernelText}` : code);
    this.name = 'NetlinkError';
    this.code = code;
  }
}

export interface Message { readonly type: number; readonly flags: number; readonly body: Buffer }

/** One request: the family's fixed header, then attributes. */
export interface Request {
  readonly type: number;
  /** NLM_F_CREATE, EXCL, REPLACE …; REQUEST is added. */
  readonly flags: number;
  readonly body: Uint8Array;
  readonly attributes?: readonly Uint8Array[];
}

/** Sends stay below the default socket buffers of 208 KiB, and so that all errors of a send fit the receive buffer. */
const maxSendBytes = 96 * 1024;
const maxSendMessages = 200;
// One thread, synchronous calls: all sockets share the buffers.
const sendBuffer = libc.stable(maxSendBytes + 64 * 1024);
const receiveBuffer = libc.stable(256 * 1024);
const MSG_TRUNC = 0x20;
/** Answers are there before send returns; were one missing, an error is better than a hang. */
const MSG_DONTWAIT = 0x40;

export class NetlinkSocket {
  private sequence = 1;
  private constructor(readonly fd: number) {}

  /** In the calling thread's network namespace. @throws SystemError */
  static open(protocol = NETLINK_ROUTE): NetlinkSocket {
    const fd = libc.socket(AF_NETLINK, SOCK_RAW_CLOEXEC, protocol);
    const one = Buffer.from([1, 0, 0, 0]);
    // Old kernels lack some of these; without them errors have no text, and that is all.
    for (const option of [NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK]) libc.trySetsockopt(fd, SOL_NETLINK, option, one, 4);
    return new NetlinkSocket(fd);
  }

  close(): void { libc.close(this.fd); }

  /** Carries out all requests in order, in as few sends as possible. Does not stop at an error: throws the first one after its send. @throws NetlinkError */
  run(requests: readonly Request[]): void {
    for (let next = 0; next < requests.length;) {
      const first = next;
      let length = 0;
      let lastAt = 0;
      const firstSequence = this.sequence;
      while (next < requests.length && next - first < maxSendMessages && length < maxSendBytes) {
        lastAt = length;
        length = this.put(length, requests[next++]!, 0);
      }
      sendBuffer.writeUInt16LE(sendBuffer.readUInt16LE(lastAt + 6) | NLM_F_ACK, lastAt + 6);
      this.send(length);
      const error = this.awaitAcknowledgement(firstSequence, this.sequence - 1);
      if (error) throw new NetlinkError(error.errno, error.kernelText, first + error.index);
    }
  }

  /** One request's answer or answers (a dump ends by itself). @throws NetlinkError */
  ask(request: Request): Message[] {
    const dump = (request.flags & NLM_F_DUMP) === NLM_F_DUMP;
    const sequence = this.sequence;
    this.send(this.put(0, request, 0));
    const out: Message[] = [];
    for (;;) {
      const received = this.receive();
      for (let at = 0; at + headerBytes <= received;) {
        const length = receiveBuffer.readUInt32LE(at);
        const type = receiveBuffer.readUInt16LE(at + 4);
        if (receiveBuffer.readUInt32LE(at + 8) === sequence) {
          if (type === NLMSG_DONE) return out;
          if (type === NLMSG_ERROR) {
            const error = this.errorAt(at, length, sequence);
            if (error) throw error;
            return out;
          }
          out.push({ type, flags: receiveBuffer.readUInt16LE(at + 6), body: Buffer.from(receiveBuffer.subarray(at + headerBytes, at + length)) });
          if (!dump) return out;
        }
        at += (length + 3) & ~3;
      }
    }
  }

  /** Writes `request` at `at` of the send buffer; returns the offset after it. */
  private put(at: number, request: Request, flags: number): number {
    let end = at + headerBytes;
    sendBuffer.set(request.body, end);
    end += (request.body.length + 3) & ~3;
    for (const attribute of request.attributes ?? []) {
      sendBuffer.set(attribute, end);
      end += (attribute.length + 3) & ~3;
    }
    sendBuffer.writeUInt32LE(end - at, at);
    sendBuffer.writeUInt16LE(request.type, at + 4);
    sendBuffer.writeUInt16LE(NLM_F_REQUEST | request.flags | flags, at + 6);
    sendBuffer.writeUInt32LE(this.sequence++, at + 8);
    sendBuffer.writeUInt32LE(0, at + 12);
    return end;
  }

  private send(length: number): void {
    const sent = libc.trySend(this.fd, sendBuffer, length, 0);
    if (sent !== length) throw new libc.SystemError('send', sent < 0 ? -sent : 90 /* EMSGSIZE */, 'to netlink');
  }

  private receive(): number {
    for (;;) {
      const received = libc.tryRecv(this.fd, receiveBuffer, receiveBuffer.length, MSG_TRUNC | MSG_DONTWAIT);
      if (received === -os.constants.errno.EINTR) continue;
      if (received < 0) throw new libc.SystemError('recv', -received, 'from netlink');
      if (received > receiveBuffer.length) throw new Error(`netlink message of ${received} bytes is larger than the buffer`);
      return received;
    }
  }

  /** Reads until the answer to `last`; the first failure among first … last, or undefined. */
  private awaitAcknowledgement(first: number, last: number): NetlinkError | undefined {
    let failure: NetlinkError | undefined;
    for (;;) {
      const received = this.receive();
      for (let at = 0; at + headerBytes <= received;) {
        const length = receiveBuffer.readUInt32LE(at);
        const sequence = receiveBuffer.readUInt32LE(at + 8);
        if (receiveBuffer.readUInt16LE(at + 4) === NLMSG_ERROR && sequence >= first) {
          failure ??= this.errorAt(at, length, first);
          if (sequence === last) return failure;
        }
        at += (length + 3) & ~3;
      }
    }
  }

  /** struct nlmsgerr at `at`: the error, or undefined for a plain acknowledgement. */
  private errorAt(at: number, length: number, firstSequence: number): NetlinkError | undefined {
    const errno = -receiveBuffer.readInt32LE(at + headerBytes);
    if (errno === 0) return undefined;
    const flags = receiveBuffer.readUInt16LE(at + 6);
    let kernelText = '';
    if (flags & NLM_F_ACK_TLVS) {
      const echoed = flags & NLM_F_CAPPED ? headerBytes : receiveBuffer.readUInt32LE(at + headerBytes + 4);
      kernelText = text(parseAttributes(receiveBuffer, at + headerBytes + 4 + ((echoed + 3) & ~3), at + length).get(1));
    }
    return new NetlinkError(errno, kernelText, receiveBuffer.readUInt32LE(at + 8) - firstSequence);
  }
}
