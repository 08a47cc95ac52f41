/**
 * A remote computer with a kernel of its own: a User-Mode Linux guest in real time with Debian's sshd in it. Kernels built here have no network device to the outside, so
 * connections to a port on the host's loopback go over a terminal line of the guest (multiplex.ts) to sshd's own port on the guest's loopback.
 */

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { bootGuest, guestLine, guestRaw, inGuest, type Guest } from '../../kernel/boot.js';
import { makeBootFolder, type BootFolder } from '../../kernel/boot-folder.js';
import { memoryFolder } from '../../kernel/memory.js';
import { companions } from '../../kernel/preload.js';
import { findProgram } from '../../kernel/project.js';
import type { BootableKernel } from '../../kernel/select.js';
import { boundMs } from './command.js';
import { Multiplex } from './multiplex.js';

const memoryBytes = 2 ** 30;
const portThere = 22;

export class GuestSshd {
  private constructor(readonly port: number, readonly kernel: BootableKernel, private readonly folder: string, private readonly server: net.Server, private readonly guest: Guest, private readonly boot: BootFolder) {}

  /** Makes the keys `host` and `user` (let in) in the folder, which the guest sees, and boots. @throws Error with the guest's console when it does not come up */
  static async start(folder: string, kernel: BootableKernel): Promise<GuestSshd> {
    fs.mkdirSync(folder, { recursive: true });
    const there = (name: string): string => path.posix.join(guestRaw, name);
    for (const name of ['host', 'user']) execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path.join(folder, name)]);
    // The home folder of the guest's root is the host's, which is read-only there.
    fs.writeFileSync(path.join(folder, 'sshd.conf'), [`Port ${portThere}`, 'ListenAddress 127.0.0.1', `HostKey ${there('host')}`, `AuthorizedKeysFile ${there('user.pub')}`, 'StrictModes no', 'PidFile none',
      'PasswordAuthentication no', 'KbdInteractiveAuthentication no', 'UsePAM no', 'PermitRootLogin yes', 'SetEnv HOME=/run/remote', 'Subsystem sftp internal-sftp -d /run/remote', ''].join('\n'));
    const console_ = path.join(folder, 'console.log');
    const boot = makeBootFolder();
    const guest = bootGuest({
      binary: kernel.binary, seccomp: kernel.seccomp, companions: await companions(), boot, clock: 'real', seed: 1, memoryBytes, memoryFolder: memoryFolder(memoryBytes), core: null,
      raw: folder, console: console_, needed: [path.dirname(path.dirname(process.execPath))].filter((each) => each !== '/usr'), modules: null, line: true,
      command: [process.execPath, inGuest(fileURLToPath(new URL('./sshd.guest.js', import.meta.url))), guestLine, String(portThere), findProgram('sshd')!, there('sshd.conf')],
    });
    const line = guest.line!;
    line.on('error', () => undefined); // the guest's end is told by `ended`
    const multiplex = new Multiplex('host', { from: line, write: (bytes) => { line.write(bytes); } }, () => { throw new Error('the guest opens no connections'); });
    const server = net.createServer((socket) => { multiplex.open(socket); });
    const started = await Promise.race([
      multiplex.ready.then(() => true), guest.ended.then(() => false),
      new Promise<false>((resolve) => { setTimeout(() => { resolve(false); }, boundMs).unref(); }),
    ]);
    if (!started) {
      guest.kill();
      boot.remove();
      throw new Error(`the guest's sshd does not come up:\n${fs.readFileSync(console_, 'utf8')}`);
    }
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
    return new GuestSshd((server.address() as net.AddressInfo).port, kernel, folder, server, guest, boot);
  }

  /** Private key file of the one who is let in. */
  get key(): string {
    return path.join(this.folder, 'user');
  }
  /** A line for known_hosts. */
  known(): string {
    return `[127.0.0.1]:${this.port} ${fs.readFileSync(path.join(this.folder, 'host.pub'), 'utf8')}`;
  }

  async end(): Promise<void> {
    this.server.close();
    this.guest.kill();
    await this.guest.ended;
    this.boot.remove();
  }
}
