/**
 * A host within this host: its own network, mounts (an empty /run) and processes, by unshare(1), as root. What a
 * command leaves behind in it can be compared exactly, whatever else goes on on the machine, and all of it goes with it.
 */

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import { findProgram } from '../../kernel/project.js';
import { eventually } from './command.js';

export interface HostState {
  readonly namespaces: readonly string[];
  readonly links: readonly string[];
  readonly addresses: readonly string[];
  readonly qdiscs: readonly string[];
  readonly mounts: readonly string[];
  readonly processes: readonly string[];
  /** Below /run, and our folders in /tmp and /dev/shm. */
  readonly files: readonly string[];
}

/** Why none can be had here, or undefined. */
export function noPrivateHost(): string | undefined {
  if (process.getuid?.() !== 0) return 'this is not root';
  const missing = ['unshare', 'nsenter', 'ip', 'tc'].filter((name) => findProgram(name) === null);
  return missing.length > 0 ? `there is no ${missing.join(' and no ')}` : undefined;
}

export class PrivateHost {
  private constructor(private readonly child: ChildProcess, private readonly init: number) {}

  static async create(): Promise<PrivateHost> {
    // The namespaces of the machine itself come and go meanwhile, and their mounts with them.
    const child = spawn('unshare', ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c',
      'umount -R -l /run/netns 2>&-; mount -t tmpfs tmpfs /run && ip link set lo up && while :; do sleep 3600; done'], { stdio: 'ignore' });
    let init = 0;
    await eventually('the private host stands', () => {
      try {
        init = Number(fs.readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim());
        return init > 0 && execFileSync('nsenter', ['-t', String(init), '-a', 'stat', '-f', '-c', '%T', '/run'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim() === 'tmpfs'
          && /UP/.test(execFileSync('nsenter', ['-t', String(init), '-a', 'ip', 'link', 'show', 'lo'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
      } catch {
        return false;
      }
    }, 20_000);
    return new PrivateHost(child, init);
  }

  /** Words before a command that is to run here. */
  get under(): readonly string[] {
    return ['nsenter', '-t', String(this.init), '-n', '-m', '-p', '--'];
  }
  run(...words: readonly string[]): string {
    return execFileSync(this.under[0]!, [...this.under.slice(1), ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }

  state(): HostState {
    const lines = (...words: readonly string[]): string[] => this.run(...words).split('\n').map((line) => line.trim()).filter((line) => line !== '').sort();
    return {
      namespaces: lines('sh', '-c', 'ls /run/netns 2>/dev/null || true'),
      links: lines('ip', '-o', 'link').map((line) => line.replace(/^\d+: /, '').replace(/ state \S+/, '')),
      addresses: lines('ip', '-o', 'addr').map((line) => line.split(/\s+/).slice(1, 4).join(' ')),
      qdiscs: lines('tc', 'qdisc', 'show'),
      mounts: lines('sh', '-c', "cut -d' ' -f5 /proc/self/mountinfo"),
      // Without those of this question.
      processes: lines('ps', '-e', '-o', 'stat=,args=').filter((line) => !line.startsWith('Z') && !/ps -e -o/.test(line)).map((line) => line.replace(/^\S+\s+/, '')),
      files: lines('sh', '-c', 'find /run -mindepth 1 | sort; ls -d /tmp/testbed-boot-* /dev/shm/testbed-* 2>/dev/null || true').filter((line) => !line.startsWith('/tmp/') && !line.startsWith('/dev/shm')),
    };
  }

  end(): void {
    this.child.kill('SIGKILL');
  }
}
