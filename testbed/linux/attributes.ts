/**
 * Netlink attributes (struct nlattr, linux/netlink.h): a 2-byte length, a 2-byte type, the payload, padding to 4 bytes.
 * Buffers are built whole: set-up makes a few thousand of them, each of some dozens of bytes.
 */

import { UserError } from '../errors.js';

const header = 4;
const align = (length: number): number => (length + 3) & ~3;

/** One attribute with its padding. */
export function attribute(type: number, payload: Uint8Array): Buffer {
  const out = Buffer.alloc(align(header + payload.length));
  out.writeUInt16LE(header + payload.length, 0);
  out.writeUInt16LE(type, 2);
  out.set(payload, header);
  return out;
}
export const nested = (type: number, ...attributes: readonly Uint8Array[]): Buffer => attribute(type, Buffer.concat(attributes));

export function attributeU8(type: number, value: number): Buffer {
  const out = Buffer.alloc(8);
  out.writeUInt16LE(5, 0);
  out.writeUInt16LE(type, 2);
  out.writeUInt8(value, 4);
  return out;
}
export function attributeU16(type: number, value: number): Buffer {
  const out = Buffer.alloc(8);
  out.writeUInt16LE(6, 0);
  out.writeUInt16LE(type, 2);
  out.writeUInt16LE(value, 4);
  return out;
}
export function attributeU32(type: number, value: number): Buffer {
  // Cut to 32 bits, the kernel would be told something else than was asked for. (Some are signed: CAKE's overhead.)
  if (!(value >= -0x80000000 && value <= 0xffffffff)) throw new UserError(`${value} does not fit the 32 bits the kernel has for it (in its own unit: µs, packets or bytes); expected at most 4294967295`);
  const out = Buffer.alloc(8);
  out.writeUInt16LE(8, 0);
  out.writeUInt16LE(type, 2);
  out.writeUInt32LE(value >>> 0, 4);
  return out;
}
export function attributeU64(type: number, value: bigint): Buffer {
  const out = Buffer.alloc(12);
  out.writeUInt16LE(12, 0);
  out.writeUInt16LE(type, 2);
  out.writeBigInt64LE(BigInt.asIntN(64, value), 4);
  return out;
}
/** NUL-terminated, as the kernel wants names. */
export const attributeString = (type: number, text: string): Buffer => attribute(type, Buffer.from(`${text}\0`, 'utf8'));

/** Payloads by type (the nested and byte-order flags stripped). A type that occurs twice keeps its last payload. */
export function parseAttributes(data: Buffer, start = 0, end = data.length): Map<number, Buffer> {
  const out = new Map<number, Buffer>();
  for (let at = start; at + header <= end;) {
    const length = data.readUInt16LE(at);
    if (length < header || at + length > end) break;
    out.set(data.readUInt16LE(at + 2) & 0x3fff, data.subarray(at + header, at + length));
    at += align(length);
  }
  return out;
}

/** Unsigned value of a 1-, 2-, 4- or 8-byte payload; NaN when the attribute is absent. */
export function unsigned(payload: Buffer | undefined): number {
  switch (payload?.length) {
    case 1: return payload.readUInt8(0);
    case 2: return payload.readUInt16LE(0);
    case 4: return payload.readUInt32LE(0);
    case 8: return Number(payload.readBigUInt64LE(0));
    default: return Number.NaN;
  }
}
export const text = (payload: Buffer | undefined): string => payload === undefined ? '' : payload.toString('utf8').replace(/\0.*$/s, '');
