/** A container engine of the test's own, dockerd or podman's service, with its folders in one place; it changes nothing of the host's network. */

import { spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { findProgram } from '../../kernel/project.js';
import { openEngine } from '../hosts/engine.js';
import { unmountAll } from '../journal/clean.js';
import { readMounts } from '../journal/mounts.js';
import { howToInstall } from '../doctor/packages.js';
import { mayUseNamespaces } from '../machines/local.js';
import { boundMs } from './command.js';
import { temporaryFolder } from './temporary-folder.js';

export type EngineKind = 'docker' | 'podman';

const programOf = { docker: 'dockerd', podman: 'podman' } as const;

/** Why none can be started here, or null. */
export function noEngine(kind: EngineKind = 'docker'): string | null {
  const program = programOf[kind];
  if (findProgram(program) === null) return `no ${program}: ${howToInstall([program])}`;
  if (!mayUseNamespaces() || process.getuid?.() !== 0) return `${program} needs root`;
  return null;
}

/** runc, and cgroups by its own hand: there need not be a systemd. */
const containersConf = '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n[containers]\ndefault_ulimits = []\n';

export class PrivateEngine {
  readonly folder = temporaryFolder('testbed-engine-');
  readonly socket = path.join(this.folder, 'sock');
  #daemon: ChildProcess | undefined;

  constructor(private readonly kind: EngineKind = 'docker') {}

  get host(): string {
    return `unix://${this.socket}`;
  }

  #words(): readonly string[] {
    const at = (name: string): string => path.join(this.folder, name);
    if (this.kind === 'podman') return ['--root', at('data'), '--runroot', at('exec'), '--tmpdir', at('tmp'), 'system', 'service', '--time=0', this.host];
    return [
      '--data-root', at('data'), '--exec-root', at('exec'), '--pidfile', at('pid'), '-H', this.host,
      '--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false', '--bridge=none',
    ];
  }

  /** @returns why it did not start, or null */
  async start(): Promise<string | null> {
    const at = (name: string): string => path.join(this.folder, name);
    const log = fs.openSync(at('log'), 'w');
    fs.writeFileSync(at('containers.conf'), containersConf);
    this.#daemon = spawn(findProgram(programOf[this.kind])!, this.#words(), { stdio: ['ignore', log, log], env: { ...process.env, CONTAINERS_CONF: at('containers.conf') } });
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
    return `${programOf[this.kind]} does not start here: ${fs.readFileSync(at('log'), 'utf8').trim().split('\n').at(-1) ?? ''}`;
  }

  async stop(): Promise<void> {
    const daemon = this.#daemon;
    if (daemon !== undefined && daemon.exitCode === null && daemon.signalCode === null) {
      const ended = new Promise((resolve) => { daemon.once('exit', resolve); });
      daemon.kill('SIGTERM');
      await ended;
    }
    // podman leaves its storage mounted, and what cleans up after its containers may mount it once more.
    for (let left = 20; ; left--) {
      for (const { path: point } of readMounts()) if (point.startsWith(`${this.folder}/`)) unmountAll(point);
      try {
        fs.rmSync(this.folder, { recursive: true, force: true });
        return;
      } catch (error) {
        if (left === 0) throw error;
        await new Promise((resolve) => { setTimeout(resolve, 200); });
      }
    }
  }
}
