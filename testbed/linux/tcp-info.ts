/** struct tcp_info of a socket (linux/tcp.h; fields only ever get added at its end), read by getsockopt. */

import { SystemError, stable, tryGetsockopt } from './libc.js';

const IPPROTO_TCP = 6;
const TCP_INFO = 11;
export const tcpInfoBytes = 256;

/** TCP states that tcpi_state takes (net/tcp_states.h). */
export const TCP_CLOSE_WAIT = 8;

const memory = stable(tcpInfoBytes);
const length = stable(4);

/** What the kernel filled in; valid until the next call. @throws SystemError */
export function tcpInfo(fd: number): Buffer {
  length.writeUInt32LE(tcpInfoBytes);
  memory.fill(0);
  const result = tryGetsockopt(fd, IPPROTO_TCP, TCP_INFO, memory, length);
  if (result < 0) throw new SystemError('getsockopt TCP_INFO', -result);
  return memory;
}

const u64 = (info: Buffer, at: number): number => info.readUInt32LE(at + 4) * 4294967296 + info.readUInt32LE(at);

export const state = (info: Buffer): number => info[0]!;
/** Congestion-avoidance state: 0 Open … 4 Loss. */
export const congestionState = (info: Buffer): number => info[1]!;
/** µs, smoothed. */
export const rttUs = (info: Buffer): number => info.readUInt32LE(68);
export const sndCwnd = (info: Buffer): number => info.readUInt32LE(80);
/** Segments retransmitted so far. */
export const totalRetrans = (info: Buffer): number => info.readUInt32LE(100);
/** Payload bytes acknowledged; the kernel counts the SYN (and at last the FIN) as one each. */
export const bytesAcked = (info: Buffer): number => u64(info, 120);
/** Payload bytes received in order; a received FIN counts as one. */
export const bytesReceived = (info: Buffer): number => u64(info, 128);
export const dataSegsOut = (info: Buffer): number => info.readUInt32LE(156);
/** µs in which the peer's receive window, not congestion control, held the sender back. */
export const rwndLimitedUs = (info: Buffer): number => u64(info, 176);
/** µs in which too little data in the send buffer held it back. */
export const sndbufLimitedUs = (info: Buffer): number => u64(info, 184);
/** Payload bytes sent, retransmissions included. */
export const bytesSent = (info: Buffer): number => u64(info, 200);
/** The peer's receive window as last advertised, bytes (Linux 5.4). */
export const sndWnd = (info: Buffer): number => info.readUInt32LE(228);
