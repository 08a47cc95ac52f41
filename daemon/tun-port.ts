/**
 * Real packets by TUN devices (Documentation/networking/tuntap.rst): what the kernel routes into one is read here, and what is written
 * to one comes out of it as if it had arrived there. The devices live as long as this process has them open, so a dead
 * daemon takes its devices, and every route through them, with it.
 */

import * as fs from 'node:fs';
import { UserError } from '../testbed/errors.js';
import { close, ioctl, open, socket, stable, SystemError } from '../testbed/linux/libc.js';
import { restoreHop } from './packet.js';
import type { Port, PortFaults } from './port.js';
import { ipAt, type Slot } from './slots.js';
import { tryRead, tryWrite } from './system.js';

const O_RDWR_NONBLOCK_CLOEXEC = 0o2 | 0o4000 | 0o2000000;
const TUNSETIFF = 0x400454ca;
const IFF_TUN_NO_PI = 0x1001;
const [SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFMTU, SIOCSIFTXQLEN] = [0x8913, 0x8914, 0x8922, 0x8943] as const;
const IFF_UP = 1;
const AF_INET = 2;
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000;
/** The device's own queue before us: only for the time until we read. */
const queuePackets = 4096;
const device = '/dev/net/tun';

interface Tun { readonly name: string; readonly fd: number }

export class TunPort implements Port {
  readonly fds: readonly number[];
  readonly timestamped = false;
  readonly slotBytes: number;
  private readonly tuns: readonly Tun[];
  private turn = 0;
  private superpackets = 0;
  private lostBefore = 0;

  /**
   * Makes the devices in this process's network namespace and brings them up.
   * @throws UserError when it may not, or the kernel has no TUN
   */
  constructor(names: readonly string[], private readonly mtuBytes: number) {
    this.slotBytes = Math.ceil((ipAt + mtuBytes + 2) / 64) * 64;
    const tuns: Tun[] = [];
    this.tuns = tuns;
    try {
      for (const name of names) tuns.push({ name, fd: makeTun(name, mtuBytes) });
    } catch (error) {
      for (const { fd } of tuns) close(fd);
      throw error;
    }
    this.fds = tuns.map(({ fd }) => fd);
    this.lostBefore = this.droppedByKernel();
  }

  /** One packet of each device in turn, so that neither waits for the other. */
  receive(slot: Slot, nowNs: number): number {
    for (let tried = 0; tried < this.tuns.length; tried++) {
      const index = this.turn;
      this.turn = index + 1 === this.tuns.length ? 0 : index + 1;
      for (;;) {
        // A byte more than may come, so that what is too long shows.
        const length = tryRead(this.fds[index]!, slot.bytes.subarray(ipAt), this.mtuBytes + 1);
        if (length <= 0) break;
        if (length > this.mtuBytes) {
          this.superpackets++;
          continue;
        }
        slot.length = length;
        slot.from = index;
        slot.opaque = false;
        return nowNs;
      }
    }
    return -1;
  }

  send(slot: Slot, out: number): number {
    restoreHop(slot.view, slot.at + ipAt, slot.length);
    const sent = tryWrite(this.fds[out]!, slot.bytes.subarray(ipAt), slot.length);
    return sent < 0 ? sent : 0;
  }

  upkeep(): void { /* no clock, no counters to fetch */ }

  /** tx_dropped of our devices: packets that came faster than we read. */
  private droppedByKernel(): number {
    const lines = fs.readFileSync('/proc/self/net/dev', 'latin1').split('\n');
    return this.tuns.reduce((sum, { name }) => {
      const line = lines.find((one) => one.trim().startsWith(`${name}:`));
      return sum + Number(line?.slice(line.indexOf(':') + 1).trim().split(/\s+/)[11] ?? 0);
    }, 0);
  }

  faults(): PortFaults {
    return { ringLost: this.droppedByKernel() - this.lostBefore, superpackets: this.superpackets, unfinishedChecksums: 0 };
  }

  close(): void { for (const { fd } of this.tuns) close(fd); }
}

/** @returns the descriptor @throws UserError */
function makeTun(name: string, mtuBytes: number): number {
  if (name.length === 0 || Buffer.byteLength(name) > 15) throw new UserError(`TUN device ${JSON.stringify(name)}: a device's name has 1 to 15 characters`);
  let fd: number;
  try {
    fd = open(device, O_RDWR_NONBLOCK_CLOEXEC);
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    const fix = error.code === 'ENOENT' ? 'load the module (modprobe tun), or make it: mkdir -p /dev/net; mknod /dev/net/tun c 10 200' : error.code === 'ENODEV' || error.code === 'ENXIO' ? 'this kernel has no TUN (CONFIG_TUN)' : 'run as root';
    throw new UserError(`${device} cannot be opened (${error.code}): ${fix}`, 3, { cause: error });
  }
  const request = stable(40); // struct ifreq
  request.write(name, 0, 'latin1');
  const control = socket(AF_INET, SOCK_DGRAM_CLOEXEC, 0);
  try {
    request.writeUInt16LE(IFF_TUN_NO_PI, 16);
    ioctl(fd, TUNSETIFF, request);
    for (const [call, value] of [[SIOCSIFMTU, mtuBytes], [SIOCSIFTXQLEN, queuePackets]] as const) {
      request.fill(0, 16);
      request.writeInt32LE(value, 16);
      ioctl(control, call, request);
    }
    ioctl(control, SIOCGIFFLAGS, request);
    request.writeUInt16LE(request.readUInt16LE(16) | IFF_UP, 16);
    ioctl(control, SIOCSIFFLAGS, request);
    return fd;
  } catch (error) {
    close(fd);
    if (!(error instanceof SystemError)) throw error;
    const fix = error.code === 'EPERM' ? 'it needs CAP_NET_ADMIN: run as root' : error.code === 'EBUSY' || error.code === 'EINVAL' ? 'a device of that name is there already: another testbed daemon?' : 'see dmesg';
    throw new UserError(`cannot make the TUN device ${name} (${error.code}): ${fix}`, 3, { cause: error });
  } finally {
    close(control);
  }
}
