/** What the operating system refused, in the user's words: no bug of ours, and nothing of the scenario's. Full disks are in full-disk.ts. */

import { isDiskFull } from './full-disk.js';

/** errno → what to do about it. */
const advice: Readonly<Record<string, string>> = {
  EACCES: 'permission is denied; choose a place you may use, or change its permissions',
  EPERM: 'that is not permitted; choose a place you may use',
  EROFS: 'the file system is read-only; choose another place',
  ENOTDIR: 'a part of this path is a file, not a folder; give another path',
  EISDIR: 'this is a folder; a file is expected',
  ENAMETOOLONG: 'the name is too long; give a shorter one',
  ELOOP: 'its symbolic links lead in a circle',
  EFBIG: 'the file grew beyond the limit (ulimit -f); raise it',
  EMFILE: 'too many files are open; raise the limit (ulimit -n)',
  ENFILE: 'too many files are open on this machine',
  ENOMEM: 'there is not enough memory',
  EAGAIN: 'the limit of processes or threads is reached (ulimit -u)',
  EIO: 'the disk cannot be read or written',
  ESTALE: 'the network file system lost it; try again',
  ETXTBSY: 'the file is a program that runs',
};

const named = new RegExp(`^(${Object.keys(advice).join('|')}): `);

/** @returns a message, or null for any other error */
export function systemMessage(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  if (isDiskFull(error)) return `a disk is full: ${error.message}. Free some space, or choose another folder with --out.`;
  const { code = named.exec(error.message)?.[1], path, syscall } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' && syscall === 'uv_cwd') return 'the working folder was removed: change to one that is there';
  const help = code === undefined ? undefined : advice[code];
  return help === undefined ? null : `${path ?? error.message.replace(named, '')}: ${help} (${code!})`;
}
