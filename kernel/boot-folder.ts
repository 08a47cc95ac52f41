/**
 * A guest's boot folder on the host: its init, arguments, links and exit status, and the working folder of the UML
 * process. Its path is plain characters only; whatever a user named is reached through links in it. The starting
 * process holds its lock, so one whose lock is free belongs to nobody and is removed at the next boot, or by
 * `testbed clean`.
 */

import { chmodSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { UserError } from '../testbed/errors.js';
import { tryLock, type Lock } from './lock.js';
import { whyNotHere } from './memory.js';

const prefix = 'testbed-boot-';
/** Room for what a boot folder holds. */
const folderBytes = 2 ** 20;
const makingPrefix = 'testbed-making-boot-';
const lockName = '.testbed-lock';
const places = (): string[] => [...new Set([os.tmpdir(), '/tmp', '/var/tmp', '/dev/shm'])].filter((folder) => /^[A-Za-z0-9/._-]+$/.test(folder));

export interface BootFolder { readonly folder: string; remove(): void }

/** @throws UserError when no usual temporary folder will do */
export function makeBootFolder(): BootFolder {
  for (const place of places()) {
    // The guest starts programs from it, and is refused where the host would be (hostfs asks access(2)).
    if (whyNotHere(place, folderBytes) !== null) continue;
    // It gets its name once its lock is held: whoever sees it can tell whether it is in use.
    const making = mkdtempSync(path.join(place, makingPrefix));
    chmodSync(making, 0o755);
    const held = tryLock(path.join(making, lockName))!;
    const folder = path.join(place, prefix + path.basename(making).slice(makingPrefix.length));
    renameSync(making, folder);
    return {
      folder,
      remove: () => {
        rmSync(folder, { recursive: true, force: true });
        held.release();
      },
    };
  }
  throw new UserError(`no temporary folder will do (${places().map((place) => `${place}: ${whyNotHere(place, folderBytes)}`).join('; ')}); set TMPDIR to a writable folder on a file system mounted exec`);
}

/** Boot folders of this user that no process holds: left by one that was killed. */
export function deadBootFolders(): { readonly folder: string; remove(): void }[] {
  const dead: { folder: string; remove(): void }[] = [];
  for (const place of places()) {
    let entries: string[];
    try {
      entries = readdirSync(place).filter((entry) => entry.startsWith(prefix) || entry.startsWith(makingPrefix));
    } catch {
      continue;
    }
    for (const entry of entries) {
      const folder = path.join(place, entry);
      let held: Lock | null;
      try {
        const { uid, mtimeMs } = statSync(folder);
        if (uid !== process.getuid!() || (entry.startsWith(makingPrefix) && Date.now() - mtimeMs < 10_000)) continue;
        if (!existsSync(path.join(folder, lockName))) continue; // the name alone does not make it ours
        held = tryLock(path.join(folder, lockName));
      } catch {
        continue; // gone meanwhile, or not ours to look into
      }
      if (held === null) continue;
      held.release();
      dead.push({ folder, remove: () => { rmSync(folder, { recursive: true, force: true }); } });
    }
  }
  return dead;
}
