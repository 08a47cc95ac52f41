/**
 * The daemon's process: `daemon CONFIG.json`. Makes its port, says `ready` on standard output, passes packets until standard input
 * ends, and says a summary. Exit code: 0 after an orderly end, 3 when it could not start, 1 when it could not go on.
 */

import * as fs from 'node:fs';
import { UserError } from '../testbed/errors.js';
import { SystemError } from '../testbed/linux/libc.js';
import type { DaemonConfig, DaemonLine } from './config.js';
import { PacketLoop } from './loop.js';
import { PacketPort } from './packet-port.js';
import type { Port } from './port.js';
import { TunPort } from './tun-port.js';

function say(line: DaemonLine): void {
  const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
  try {
    for (let at = 0; at < bytes.length;) at += fs.writeSync(1, bytes, at);
  } catch {
    // Nobody listens, or not fast enough: packets come first.
  }
}

const fixOf = (error: SystemError): string =>
  error.code === 'EPERM' || error.code === 'EACCES' ? 'run as root (it needs CAP_NET_RAW and CAP_NET_ADMIN)' : error.code === 'ENOMEM' ? 'free some memory' : error.code === 'EAFNOSUPPORT' ? 'this kernel has no packet sockets (CONFIG_PACKET)' : 'see dmesg';

function openPort(config: DaemonConfig): Port {
  const mtuBytes = Math.max(...config.directions.map((direction) => direction.mtuBytes));
  if (config.port === 'tun') return new TunPort(config.tuns, mtuBytes);
  try {
    return new PacketPort(new Set(config.directions.flatMap((direction) => [direction.in, direction.out])), mtuBytes);
  } catch (error) {
    if (error instanceof SystemError) throw new UserError(`the userspace bottleneck cannot open its packet socket: ${error.message}; ${fixOf(error)}`, 3, { cause: error });
    throw error;
  }
}

function main(file: string | undefined): number {
  let loop: PacketLoop;
  let port: Port;
  try {
    if (file === undefined) throw new UserError('usage: daemon CONFIG.json', 2);
    const config = JSON.parse(fs.readFileSync(file, 'utf8')) as DaemonConfig;
    port = openPort(config);
    loop = new PacketLoop(config, port, say);
    // Or the first collection, seconds into the run, moves all that was made until now, and packets wait for some ms.
    globalThis.gc?.();
    say({ type: 'ready', tuns: config.tuns, realTimePriority: PacketLoop.raisePriority() });
  } catch (error) {
    say({ type: 'error', message: error instanceof UserError ? error.message : error instanceof Error ? error.stack ?? error.message : String(error) });
    return 3;
  }
  try {
    loop.run();
    return 0;
  } catch (error) {
    say({ type: 'error', message: error instanceof UserError ? error.message : error instanceof Error ? error.stack ?? error.message : String(error) });
    return 1;
  } finally {
    port.close();
  }
}

process.exit(main(process.argv[2]));
