/** Tells when a network device is taken away (or moved to another network namespace), by the kernel's own notice (rtnetlink(7), group RTMGRP_LINK). */

import * as fs from 'node:fs';
import * as os from 'node:os';
import { bindSocket, close, socket, stable, SystemError, tryRecv } from '../testbed/linux/libc.js';

const AF_NETLINK = 16;
const SOCK_RAW_NONBLOCK_CLOEXEC = 3 | 0o4000 | 0o2000000;
const NETLINK_ROUTE = 0;
const RTMGRP_LINK = 1;
const RTM_DELLINK = 17;
const AF_UNSPEC = 0;
const headerBytes = 16;
const { EAGAIN, EINTR, ENOBUFS } = os.constants.errno;

export interface WatchedDevice { readonly name: string; readonly ifindex: number }

export class DeviceWatch {
  /** To be polled for reading. */
  readonly fd: number;
  private readonly buffer = stable(65536);

  /** @throws SystemError */
  constructor(private readonly devices: readonly WatchedDevice[]) {
    this.fd = socket(AF_NETLINK, SOCK_RAW_NONBLOCK_CLOEXEC, NETLINK_ROUTE);
    const address = stable(12); // struct sockaddr_nl
    address.writeUInt16LE(AF_NETLINK, 0);
    address.writeUInt32LE(RTMGRP_LINK, 8);
    try {
      bindSocket(this.fd, address, 12);
    } catch (error) {
      close(this.fd);
      throw error;
    }
  }

  /** Reads what was told since. @returns a device that is gone, or null @throws SystemError */
  gone(): WatchedDevice | null {
    const { buffer, devices } = this;
    for (;;) {
      const bytes = tryRecv(this.fd, buffer, buffer.length, 0);
      if (bytes === -EAGAIN) return null;
      if (bytes === -EINTR) continue;
      // More was told than the socket could hold.
      if (bytes === -ENOBUFS) return this.missing();
      if (bytes < 0) throw new SystemError('recv', -bytes, 'NETLINK_ROUTE');
      for (let at = 0; at + headerBytes <= bytes;) {
        const length = buffer.readUInt32LE(at);
        if (length < headerBytes) break;
        // struct ifinfomsg; a port that leaves its bridge is told the same way, as AF_BRIDGE
        if (buffer.readUInt16LE(at + 4) === RTM_DELLINK && buffer.readUInt8(at + headerBytes) === AF_UNSPEC) {
          const ifindex = buffer.readInt32LE(at + headerBytes + 4);
          const found = devices.find((device) => device.ifindex === ifindex);
          if (found !== undefined) return found;
        }
        at += (length + 3) & ~3;
      }
    }
  }

  /** A device that is not there now, or null: for one that went before the watch began. */
  missing(): WatchedDevice | null {
    const names = new Set(fs.readFileSync('/proc/self/net/dev', 'latin1').split('\n').map((line) => line.slice(0, line.indexOf(':')).trim()));
    return this.devices.find(({ name }) => !names.has(name)) ?? null;
  }

  close(): void { close(this.fd); }
}
