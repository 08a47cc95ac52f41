/**
 * Segmentation and receive offloads by the ethtool ioctl (linux/ethtool.h: ETHTOOL_GSTRINGS, GFEATURES, SFEATURES): one call turns all of a
 * device's off, one reads them back. Any socket of the device's namespace serves, a netlink socket too.
 */

import koffi from 'koffi';
import { ioctl, stable } from './libc.js';

const SIOCETHTOOL = 0x8946;
const ETHTOOL_GLINK = 0x0a;
const [ETHTOOL_GSTRINGS, ETHTOOL_GSSET_INFO, ETHTOOL_GFEATURES, ETHTOOL_SFEATURES] = [0x1b, 0x37, 0x3a, 0x3b];
const ETH_SS_FEATURES = 4;

/** What makes packets larger than the MTU: sending (TSO, GSO, UFO, tunnels' kinds) and receiving (GRO, LRO). */
const isSuperpacket = (feature: string): boolean =>
  /^tx-.*segmentation$/.test(feature) || feature === 'tx-udp-fragmentation' || /^rx-(gro|lro)(-|$)/.test(feature) || feature === 'rx-udp-gro-forwarding';

/** struct ifreq: the name, then a pointer to `data`, which lies on an ArrayBuffer of its own and so never moves. */
const request = stable(40);
function call(fd: number, device: string, data: Buffer): void {
  request.fill(0);
  request.write(device.slice(0, 15), 0, 'latin1');
  request.writeBigUInt64LE(BigInt(koffi.address(data)), 16);
  ioctl(fd, SIOCETHTOOL, request);
}

let names: readonly string[] | undefined;
/** The kernel's names of its feature bits; the same for every device. */
function featureNames(fd: number, device: string): readonly string[] {
  if (names !== undefined) return names;
  const info = stable(24);
  info.writeUInt32LE(ETHTOOL_GSSET_INFO, 0);
  info.writeBigUInt64LE(1n << BigInt(ETH_SS_FEATURES), 8);
  call(fd, device, info);
  const count = info.readUInt32LE(16);
  const strings = stable(12 + 32 * count);
  strings.writeUInt32LE(ETHTOOL_GSTRINGS, 0);
  strings.writeUInt32LE(ETH_SS_FEATURES, 4);
  strings.writeUInt32LE(count, 8);
  call(fd, device, strings);
  names = Array.from({ length: count }, (_, index) => strings.toString('latin1', 12 + 32 * index, 44 + 32 * index).replace(/\0.*$/s, ''));
  return names;
}

/** Per feature bit: active, and changeable. struct ethtool_gfeatures: blocks of 32 bits of available, requested, active, never_changed. */
function features(fd: number, device: string): { bits: readonly string[]; blocks: number; active: (bit: number) => boolean; changeable: (bit: number) => boolean } {
  const bits = featureNames(fd, device);
  const blocks = Math.ceil(bits.length / 32);
  const data = stable(8 + 16 * blocks);
  data.writeUInt32LE(ETHTOOL_GFEATURES, 0);
  data.writeUInt32LE(blocks, 4);
  call(fd, device, data);
  const bit = (field: number) => (index: number): boolean => ((data.readUInt32LE(8 + 16 * (index >> 5) + 4 * field) >>> (index & 31)) & 1) === 1;
  const available = bit(0);
  const never = bit(3);
  return { bits, blocks, active: bit(2), changeable: (index) => available(index) && !never(index) };
}

const isSendChecksum = (feature: string): boolean => /^tx-checksum-/.test(feature);

/** @param checksums also those of sending: the kernel then completes each packet before the device gets it @throws SystemError */
export function offloadsOff(fd: number, device: string, checksums = false): void {
  const { bits, blocks, active, changeable } = features(fd, device);
  const data = stable(8 + 8 * blocks);
  data.writeUInt32LE(ETHTOOL_SFEATURES, 0);
  data.writeUInt32LE(blocks, 4);
  let any = false;
  bits.forEach((name, index) => {
    if (!(isSuperpacket(name) || (checksums && isSendChecksum(name))) || !active(index) || !changeable(index)) return;
    const at = 8 + 8 * (index >> 5);
    data.writeUInt32LE((data.readUInt32LE(at) | (1 << (index & 31))) >>> 0, at);
    any = true;
  });
  if (any) call(fd, device, data);
}

/** Names of the offloads still on; empty is what a run needs. */
export function offloadsOn(fd: number, device: string): string[] {
  const { bits, active } = features(fd, device);
  return bits.filter((name, index) => isSuperpacket(name) && active(index));
}

const linkQuery = stable(8);
/**
 * Asks for the carrier. Kernels since 6.8 first bring the device up to date with it (net/ethtool/ioctl.c, linkwatch_sync_dev), its root qdisc
 * included; otherwise a kernel thread does so, a hundred devices a second.
 */
export function syncLink(fd: number, device: string): void {
  linkQuery.writeUInt32LE(ETHTOOL_GLINK, 0);
  call(fd, device, linkQuery);
}
