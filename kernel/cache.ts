/**
 * The built kernels of this user, one folder each under the cache: `linux`, its `config`, and `kernel.json`.
 * A folder appears whole (rename) or not at all; names that start with a dot are builds under way or dead.
 */

import { readFileSync, readdirSync, rmSync } from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../testbed/errors.js';
import { configHash } from './config.js';
import { cacheFolder } from './project.js';
import { tryLock } from './lock.js';
import { compareVersions } from './versions.js';

export interface KernelRecord {
  readonly schema: 1;
  /** What users call it after `uml:`: `6.12`, or the name given to a `--source` build. */
  readonly name: string;
  /** `make kernelrelease`: `6.12.117`. */
  readonly release: string;
  /** Debian's source package and its version; null for a tree of the user's. */
  readonly package: { readonly name: string; readonly version: string } | null;
  /** The user's tree; null for a package. */
  readonly source: string | null;
  readonly configHash: string;
  /** Options built in, without `CONFIG_`. */
  readonly options: readonly string[];
  /** Options uml.config asks for that this kernel does not have as asked. */
  readonly notAsAsked: readonly string[];
  /** Takes `seccomp=on` (from 6.16): guest programs run without ptrace, which is faster. */
  readonly seccomp: boolean;
  /** Takes `time-travel`. */
  readonly virtualTime: boolean;
  readonly compiler: string;
  readonly builtAt: string;
  readonly buildSeconds: number;
  /** Lines make printed: what the next build's progress is counted against. */
  readonly makeLines: number;
}

export interface BuiltKernel extends KernelRecord {
  readonly folder: string;
  /** The program. */
  readonly binary: string;
}

export const kernelsFolder = (): string => cacheFolder('kernels');
export const lockFile = (key: string): string => path.join(kernelsFolder(), `.${key}.lock`);
/** Of a build under way; only the holder of the key's lock may have one. */
export const buildFolder = (key: string): string => path.join(kernelsFolder(), `.${key}.building`);

function read(folder: string): BuiltKernel | null {
  try {
    const record = JSON.parse(readFileSync(path.join(folder, 'kernel.json'), 'utf8')) as KernelRecord;
    return record.schema === 1 ? { ...record, folder, binary: path.join(folder, 'linux') } : null;
  } catch {
    return null;
  }
}

/** All built kernels, by name, the newest of a name first. */
export function builtKernels(): BuiltKernel[] {
  let entries: string[];
  try {
    entries = readdirSync(kernelsFolder());
  } catch {
    return [];
  }
  return entries
    .filter((entry) => !entry.startsWith('.'))
    .map((entry) => read(path.join(kernelsFolder(), entry)))
    .filter((kernel) => kernel !== null)
    .sort((a, b) => compareVersions(a.name, b.name) || a.name.localeCompare(b.name) || compareVersions(b.release, a.release) || b.builtAt.localeCompare(a.builtAt));
}

/** The kernel of that name to use: built with the present uml.config before others, then the newest. */
export function findKernel(name: string): BuiltKernel | null {
  const named = builtKernels().filter((kernel) => kernel.name === name);
  const hash = configHash();
  return named.find((kernel) => kernel.configHash === hash) ?? named[0] ?? null;
}

/** Removes what dead builds left: every building folder whose lock nobody holds. @returns the folders removed */
export function sweepDeadBuilds(): string[] {
  let entries: string[];
  try {
    entries = readdirSync(kernelsFolder());
  } catch {
    return [];
  }
  const removed: string[] = [];
  for (const entry of entries) {
    const key = /^\.(.+)\.building$/.exec(entry)?.[1];
    if (key === undefined) continue;
    const held = tryLock(lockFile(key));
    if (!held) continue;
    try {
      rmSync(buildFolder(key), { recursive: true, force: true });
      removed.push(buildFolder(key));
    } finally {
      held.release();
    }
  }
  return removed;
}

/** Removes every built kernel of that name. @returns what was removed @throws UserError when there is none, or one is being built */
export function removeKernel(name: string): BuiltKernel[] {
  const kernels = builtKernels().filter((kernel) => kernel.name === name);
  if (kernels.length === 0) {
    const names = [...new Set(builtKernels().map((kernel) => kernel.name))];
    throw new UserError(`no built kernel is called ${JSON.stringify(name)}; built: ${names.join(', ') || 'none'}`, 2);
  }
  for (const kernel of kernels) {
    const held = tryLock(lockFile(path.basename(kernel.folder)));
    if (!held) throw new UserError(`kernel ${name} is being built by another process; wait for it or end it, then remove again`);
    try {
      rmSync(kernel.folder, { recursive: true, force: true });
    } finally {
      held.release();
    }
  }
  return kernels;
}
