/**
 * Boots a UML guest that runs one program and ends. Everything that could reach the results is fixed: start of the
 * clock, random seed, environment, command line; the paths the program sees for its results are the same in every
 * run. Needs no root. When the starting process dies, however it dies, nothing of the guest remains (preload.c).
 */

import { spawn } from 'node:child_process';
import { closeSync, copyFileSync, openSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import * as path from 'node:path';
import type { Duplex } from 'node:stream';
import { UserError } from '../testbed/errors.js';
import type { BootFolder } from './boot-folder.js';
import type { Companions } from './preload.js';
import { projectRoot } from './project.js';

/** Where the guest sees the run's raw folder. */
export const guestRaw = '/run/testbed/raw';
/** The terminal a guest has when it is given a line. */
export const guestLine = '/dev/tty1';
/** The project, seen in the guest: the same path wherever it is on the host. */
export const guestProject = '/run/testbed/project';
/** A file of the host as the guest names it: by `guestProject` when it belongs to the project. */
export function inGuest(file: string): string {
  const relative = path.relative(projectRoot, path.resolve(file));
  return relative.startsWith('..') || path.isAbsolute(relative) ? path.resolve(file) : path.join(guestProject, relative);
}

/** CLOCK_REALTIME at boot in virtual time, ns since the epoch (2023-11-14T22:13:20Z): any constant does. */
const virtualStart = '1700000000000000000';

export interface GuestRequest {
  /** The UML program. */
  readonly binary: string;
  readonly seccomp: boolean;
  readonly companions: Companions;
  readonly boot: BootFolder;
  readonly clock: 'virtual' | 'real';
  readonly seed: number;
  readonly memoryBytes: number;
  /** Holds the guest's memory: memory.ts. */
  readonly memoryFolder: string;
  readonly core: number | null;
  /** The host folder the guest writes to, seen in it as `guestRaw`. */
  readonly raw: string;
  /** File for what the kernel and the program print. */
  readonly console: string;
  /** Folders of the host the program needs, wherever they are. */
  readonly needed: readonly string[];
  /** Folder with a folder of modules a release, and the modules to load; null for a kernel without modules. */
  readonly modules: { readonly folder: string; readonly names: readonly string[] } | null;
  /** The program, absolute, and its arguments. */
  readonly command: readonly string[];
  /** A way in and out while it runs, in real time only: the guest's terminal `guestLine`, the other end of `Guest.line`. */
  readonly line?: boolean;
}

export interface GuestEnd {
  /** Exit code of the program in the guest; null when it did not come to its end. */
  readonly status: number | null;
  /** How the UML process ended. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Guest {
  readonly pid: number;
  readonly ended: Promise<GuestEnd>;
  /** Bytes from and to `guestLine`; null unless asked for. */
  readonly line: Duplex | null;
  /** SIGKILL to the guest's whole process group. */
  kill(): void;
}

/** Folders of the guest's own, which hide the host's. */
const hidden = ['/tmp', '/run', '/dev'];

/** @throws UserError when the kernel cannot be started at all */
export function bootGuest(request: GuestRequest): Guest {
  if (request.line && request.clock === 'virtual') throw new Error('nothing outside may reach a guest in virtual time');
  const { folder } = request.boot;
  copyFileSync(request.companions.init, path.join(folder, 'init'));
  copyFileSync(request.companions.thrifty, path.join(folder, 'thrifty.so'));
  copyFileSync(request.companions.patient, path.join(folder, 'patient.so'));
  copyFileSync(request.companions.steady, path.join(folder, 'steady.so'));
  if (request.clock === 'real') copyFileSync(request.companions.held, path.join(folder, 'held.so'));
  symlinkSync(path.resolve(request.raw), path.join(folder, 'raw'));
  symlinkSync(projectRoot, path.join(folder, 'project'));
  symlinkSync(request.companions.preload, path.join(folder, 'preload.so')); // LD_PRELOAD cannot name a path with spaces

  const lines = [`clock ${request.clock}`];
  if (request.modules) {
    symlinkSync(request.modules.folder, path.join(folder, 'modules'));
    lines.push('modules yes', ...request.modules.names.map((name) => `module ${name}`));
  }
  const kept = [...new Set(request.needed)].filter((needed) => hidden.some((above) => needed.startsWith(`${above}/`)));
  kept.forEach((needed, i) => {
    symlinkSync(needed, path.join(folder, `keep.${i}`));
    lines.push(`keep ${i} ${needed}`);
  });
  lines.push(...request.command.map((word) => `argument ${word}`));
  const broken = lines.find((line) => line.includes('\n'));
  if (broken !== undefined) throw new UserError(`a path with a line break in it cannot be used in a UML guest: ${JSON.stringify(broken)}`);
  writeFileSync(path.join(folder, 'arguments'), `${lines.join('\n')}\n`);

  // The kernel stirs its command line into its random numbers (drivers/char/random.c, random_init_early), so no path
  // that differs from run to run may be on it: the boot folder is the working folder, and the guest's root is the host's.
  const argv = [
    `mem=${Math.floor(request.memoryBytes / 2 ** 20)}M`,
    ...(request.clock === 'virtual' ? ['time-travel=inf-cpu', `time-travel-start=${virtualStart}`] : []),
    ...(request.seccomp ? ['seccomp=on'] : []),
    'rootfstype=hostfs', 'rootflags=/', 'ro', 'init=/proc/self/cwd/init',
    'con=null', 'con0=fd:0,fd:1', ...(request.line ? ['con1=fd:3'] : []), 'quiet', 'umid=guest',
  ];
  const out = openSync(request.console, 'a');
  const child = spawn(request.binary, argv, {
    cwd: folder,
    detached: true, // a process group of its own, for kill()
    stdio: ['ignore', out, out, request.line ? 'pipe' : 'ignore'],
    env: {
      // HOME: UML makes its .uml there.
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: folder, TMPDIR: request.memoryFolder, LD_PRELOAD: path.join(folder, 'preload.so'),
      TESTBED_GETRANDOM_SEED: BigInt.asUintN(64, BigInt(request.seed)).toString(),
      TESTBED_PARENT: String(process.pid),
      ...(request.core === null ? {} : { TESTBED_CPU: String(request.core) }),
    },
  });
  closeSync(out);
  const ended = new Promise<GuestEnd>((resolve, reject) => {
    child.on('error', (error) => { reject(new UserError(`the kernel ${request.binary} cannot be started: ${error.message}`)); });
    child.on('exit', (code, signal) => {
      kill(); // whatever is left of the group
      resolve({ status: readStatus(path.join(folder, 'status')), code, signal });
    });
  });
  const kill = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // already gone
    }
  };
  return { pid: child.pid ?? -1, ended, line: request.line ? child.stdio[3] as Duplex : null, kill };
}

function readStatus(file: string): number | null {
  try {
    const text = readFileSync(file, 'utf8').trim();
    return /^\d+$/.test(text) ? Number(text) : null;
  } catch {
    return null;
  }
}
