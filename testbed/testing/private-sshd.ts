/** An sshd of the test's own on loopback, with keys and known_hosts in a folder of its caller: another computer, as far as ssh can tell. */

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as os from 'node:os';
import * as path from 'node:path';
import { findProgram } from '../../kernel/project.js';
import { howToInstall } from '../doctor/packages.js';
import { eventually } from './command.js';

/** Why none can be started here, or null. */
export function noSshd(): string | null {
  const missing = ['sshd', 'ssh-keygen', 'ssh-keyscan'].filter((name) => findProgram(name) === null);
  return missing.length > 0 ? `no ${missing.join(', ')}: ${howToInstall(missing)}` : null;
}

const freePort = (): Promise<number> => new Promise((resolve) => {
  const server = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address() as net.AddressInfo;
    server.close(() => { resolve(port); });
  });
});

export class PrivateSshd {
  #server: ChildProcess | undefined;

  private constructor(private readonly folder: string, readonly port: number, private readonly homeBytes: number | undefined) {}

  /**
   * Makes the keys `host`, `user` (let in) and `other` (not) in the folder and starts to listen.
   * @param environment of everything that is started there
   * @param homeBytes a disk of that size, which only it sees, for what is stored in the home folder there; its owner's home folder unless told
   */
  static async start(folder: string, { environment = {}, homeBytes }: { readonly environment?: Readonly<Record<string, string>>; readonly homeBytes?: number } = {}): Promise<PrivateSshd> {
    const sshd = new PrivateSshd(folder, await freePort(), homeBytes);
    if (homeBytes !== undefined) fs.mkdirSync(sshd.#home);
    fs.mkdirSync('/run/sshd', { recursive: true });
    for (const name of ['host', 'user', 'other']) execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path.join(folder, name)]);
    fs.writeFileSync(path.join(folder, 'sshd.conf'), [`Port ${sshd.port}`, 'ListenAddress 127.0.0.1', `HostKey ${path.join(folder, 'host')}`, `AuthorizedKeysFile ${path.join(folder, 'user.pub')}`, 'StrictModes no', 'PidFile none',
      'PasswordAuthentication no', 'KbdInteractiveAuthentication no', 'UsePAM no', 'PermitRootLogin yes', `Subsystem sftp internal-sftp${homeBytes === undefined ? '' : ` -d ${sshd.#home}`}`,
      ...(Object.keys(environment).length > 0 ? [`SetEnv ${Object.entries(environment).map(([name, value]) => `${name}=${value}`).join(' ')}`] : []), ''].join('\n'));
    await sshd.listen();
    return sshd;
  }

  /** As it is called there. */
  get #home(): string {
    return path.join(this.folder, 'disk');
  }
  /** The home folder of `homeBytes`, seen from here. */
  get home(): string {
    return `/proc/${this.#server!.pid}/root${this.#home}`;
  }
  /** `user@127.0.0.1:port` */
  get target(): string {
    return `${os.userInfo().username}@127.0.0.1:${this.port}`;
  }
  /** Private key file. @param name one that is let in, unless told otherwise */
  key(name: 'user' | 'other' = 'user'): string {
    return path.join(this.folder, name);
  }
  /** A line for known_hosts. @param name the key it gives: the right one, unless told otherwise */
  known(name: 'host' | 'other' = 'host'): string {
    return `[127.0.0.1]:${this.port} ${fs.readFileSync(path.join(this.folder, `${name}.pub`), 'utf8')}`;
  }

  /** Starts to listen, again after `cutOff`. */
  async listen(): Promise<void> {
    const words = [findProgram('sshd')!, '-D', '-e', '-f', path.join(this.folder, 'sshd.conf')];
    const withDisk = ['unshare', '--mount', 'sh', '-c', 'size=$1 home=$2; shift 2; mount -t tmpfs -o "size=$size" tmpfs "$home" && exec "$@"', 'sh', String(this.homeBytes), this.#home, ...words];
    const [program, ...rest] = this.homeBytes === undefined ? words : withDisk;
    this.#server = spawn(program!, rest, { stdio: 'ignore' });
    await eventually('sshd listens', () => {
      try {
        execFileSync('ssh-keyscan', ['-T', '2', '-p', String(this.port), '127.0.0.1'], { stdio: ['ignore', 'pipe', 'ignore'] });
        return true;
      } catch {
        return false;
      }
    }, 20_000);
  }

  /** Ends it and its sessions, as a network that fails takes them away. */
  async cutOff(): Promise<void> {
    const server = this.#server;
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const below = (parent: string): string[] => fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && statusOf(pid, 'PPid') === parent);
    const children = below(String(server.pid));
    server.kill('SIGKILL');
    for (const pid of children) for (const each of [...below(pid).filter((one) => /sshd/.test(statusOf(one, 'Name'))), pid]) process.kill(Number(each), 'SIGKILL');
    await eventually('sshd is gone', () => server.exitCode !== null || server.signalCode !== null, 10_000);
  }
}

function statusOf(pid: string, field: string): string {
  try {
    return new RegExp(`^${field}:\\s*(.*)$`, 'm').exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
  } catch {
    return '';
  }
}
