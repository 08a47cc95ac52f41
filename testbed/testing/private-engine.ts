/** A container engine of the test's own: dockerd with its folders in one place, which changes nothing of the host's network. */

import { spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { findProgram } from '../../kernel/project.js';
import { openEngine } from '../hosts/engine.js';
import { mayUseNamespaces } from '../machines/local.js';
import { boundMs } from './command.js';

/** Why none can be started here, or null. */
export function noEngine(): string | null {
  if (findProgram('dockerd') === null) return 'no dockerd: apt-get install --no-install-recommends docker.io';
  if (!mayUseNamespaces() || process.getuid?.() !== 0) return 'dockerd needs root';
  return null;
}

export class PrivateEngine {
  readonly folder = fs.mkdtempSync(path.join(os.tmpdir(), 'testbed-engine-'));
  readonly socket = path.join(this.folder, 'sock');
  #daemon: ChildProcess | undefined;

  get host(): string {
    return `unix://${this.socket}`;
  }

  /** @returns why it did not start, or null */
  async start(): Promise<string | null> {
    const at = (name: string): string => path.join(this.folder, name);
    const log = fs.openSync(at('log'), 'w');
    this.#daemon = spawn(findProgram('dockerd')!, [
      '--data-root', at('data'), '--exec-root', at('exec'), '--pidfile', at('pid'), '-H', this.host,
      '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false', '--bridge=none',
    ], { stdio: ['ignore', log, log] });
    fs.closeSync(log);
    for (const until = Date.now() + boundMs; Date.now() < until && this.#daemon.exitCode === null;) {
      if (fs.existsSync(this.socket)) {
        try {
          await openEngine(this.socket);
          return null;
        } catch {
          // not yet
        }
      }
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
    return `dockerd does not start here: ${fs.readFileSync(at('log'), 'utf8').trim().split('\n').at(-1) ?? ''}`;
  }

  async stop(): Promise<void> {
    const daemon = this.#daemon;
    if (daemon !== undefined && daemon.exitCode === null && daemon.signalCode === null) {
      const ended = new Promise((resolve) => { daemon.once('exit', resolve); });
      daemon.kill('SIGTERM');
      await ended;
    }
    fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}
