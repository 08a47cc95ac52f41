/** Socket addresses in the kernel's form: struct sockaddr_in and sockaddr_in6 (ip(7), ipv6(7)). */

import { isIPv4, isIPv6 } from 'node:net';
import { stable } from './libc.js';

export const AF_INET = 2;
export const AF_INET6 = 10;

/** AF_INET or AF_INET6. */
export const familyOf = (address: string): number => (address.includes(':') ? AF_INET6 : AF_INET);

/** 4 or 16 bytes in network order. @throws TypeError when it is no IP address */
export function addressBytes(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number));
  if (!isIPv6(address) || address.includes('%')) throw new TypeError(`not an IP address: ${address}`);
  const bytes = Buffer.alloc(16);
  let text = address;
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (dotted) {
    const [a, b, c, d] = dotted[2]!.split('.').map(Number) as [number, number, number, number];
    text = `${dotted[1]}${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
  }
  const [head, tail] = text.split('::') as [string, string | undefined];
  const words = (part: string | undefined): number[] => (part ? part.split(':').map((word) => parseInt(word, 16)) : []);
  const front = words(head);
  const back = words(tail);
  front.forEach((word, i) => bytes.writeUInt16BE(word, 2 * i));
  back.forEach((word, i) => bytes.writeUInt16BE(word, 16 - 2 * (back.length - i)));
  return bytes;
}

/** struct sockaddr_in (16 bytes) or sockaddr_in6 (28 bytes), in memory that does not move. */
export function socketAddress(address: string, port: number): Buffer {
  const ip = addressBytes(address);
  const out = stable(ip.length === 4 ? 16 : 28);
  out.writeUInt16LE(ip.length === 4 ? AF_INET : AF_INET6, 0);
  out.writeUInt16BE(port, 2);
  out.set(ip, ip.length === 4 ? 4 : 8);
  return out;
}

/** Address and port of a socket address as a map key; the same for the same endpoint. */
export const endpointKey = (address: Buffer): string =>
  address.readUInt16LE(0) === AF_INET ? address.toString('latin1', 2, 8) : address.toString('latin1', 2, 4) + address.toString('latin1', 8, 24);
