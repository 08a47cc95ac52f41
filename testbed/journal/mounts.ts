/** What is mounted where, as this process sees it (/proc/self/mountinfo, proc(5)). */

import { readFileSync } from 'node:fs';

export interface Mount {
  readonly id: string;
  /** Of the mount that its path lies in. */
  readonly parent: string;
  readonly path: string;
  /** It and others of its peer group see each other's mounts, in other mount namespaces too. */
  readonly shared: boolean;
}

export function readMounts(mountinfo: string = readFileSync('/proc/self/mountinfo', 'utf8')): Mount[] {
  return mountinfo.split('\n').filter((line) => line !== '').map((line) => {
    const fields = line.split(' ');
    return {
      id: fields[0]!, parent: fields[1]!,
      path: fields[4]!.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8))), // spaces and the like are octal
      shared: fields.slice(6, fields.indexOf('-', 6)).some((field) => field.startsWith('shared:')),
    };
  });
}

/**
 * The mount whose root is at `path`, found as the kernel walks a path: one below a folder that was mounted over since is not there.
 * @param path absolute, no symbolic link in it
 */
export function mountAt(path: string, mounts: readonly Mount[] = readMounts()): Mount | null {
  const ids = new Set(mounts.map(({ id }) => id));
  let at: Mount | undefined = mounts.find((mount) => mount.path === '/' && (!ids.has(mount.parent) || mount.parent === mount.id));
  const parts = path.split('/').filter((part) => part !== '');
  for (let depth = 0; depth <= parts.length; depth++) {
    const here = `/${parts.slice(0, depth).join('/')}`;
    for (let above: Mount | undefined = at; above !== undefined;) {
      at = above;
      const { id } = above;
      above = mounts.find((mount) => mount.parent === id && mount.id !== id && mount.path === here);
    }
  }
  return at !== undefined && at.path === `/${parts.join('/')}` ? at : null;
}
