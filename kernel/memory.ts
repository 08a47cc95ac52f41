/**
 * Where a guest's memory goes: UML keeps it in an unlinked file that it maps executable, in TMPDIR. Containers
 * often mount /dev/shm `noexec` and with 64 MB; the kernel then dies at boot (or on a page fault in the middle of a
 * run) without saying why. So the folder is chosen, and its room checked, before anything starts.
 */

import { accessSync, constants, existsSync, readFileSync, realpathSync, statfsSync } from 'node:fs';
import { UserError } from '../testbed/errors.js';
import { cacheFolder } from './project.js';

export interface Mount { readonly point: string; readonly options: readonly string[] }

/** Mounts of /proc/self/mountinfo, later ones over earlier ones. */
export function parseMounts(mountinfo: string): Mount[] {
  return mountinfo.split('\n').filter((line) => line !== '').map((line) => {
    const fields = line.split(' ');
    return { point: fields[4]!.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8))), options: fields[5]!.split(',') };
  });
}

/** The mount a path is on: the longest mount point above it, the last one mounted there. */
export function mountOf(file: string, mounts: readonly Mount[]): Mount | undefined {
  let best: Mount | undefined;
  for (const mount of mounts) {
    const under = mount.point === '/' || file === mount.point || file.startsWith(`${mount.point}/`);
    if (under && (best === undefined || mount.point.length >= best.point.length)) best = mount;
  }
  return best;
}

/** Why a guest's memory cannot be kept in this folder, or null when it can. */
export function whyNotHere(folder: string, bytes: number, mounts: readonly Mount[] = parseMounts(readFileSync('/proc/self/mountinfo', 'utf8'))): string | null {
  if (!existsSync(folder)) return 'does not exist';
  const real = realpathSync(folder);
  try {
    accessSync(real, constants.W_OK | constants.X_OK);
  } catch {
    return 'not writable';
  }
  if (mountOf(real, mounts)?.options.includes('noexec')) return 'mounted noexec';
  const { bavail, bsize } = statfsSync(real);
  return bavail * bsize < bytes ? `${Math.floor((bavail * bsize) / 2 ** 20)} MiB free` : null;
}

/** The first folder that can hold a guest's memory: TMPDIR if set, then RAM, then disk. @throws UserError with what is wrong with each */
export function memoryFolder(bytes: number, candidates: readonly string[] = [process.env['TMPDIR'] ?? '', '/dev/shm', '/tmp', '/var/tmp', cacheFolder()].filter((folder) => folder !== '')): string {
  const refused: string[] = [];
  for (const folder of new Set(candidates)) {
    const why = whyNotHere(folder, bytes);
    if (why === null) return folder;
    refused.push(`${folder}: ${why}`);
  }
  throw new UserError(`no folder can hold a guest's ${Math.ceil(bytes / 2 ** 20)} MiB of memory (${refused.join('; ')}); set TMPDIR to a folder on a file system mounted exec with that much room, or give the guest less memory`);
}
