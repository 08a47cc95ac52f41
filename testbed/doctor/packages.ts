/**
 * Which package brings a command, by distribution. The table is packages.json because setup.mjs, which runs
 * before anything is compiled, reads it too.
 */

import { readFileSync } from 'node:fs';
import { projectFile } from '../../kernel/project.js';

interface Entry { readonly debian: string | null; readonly fedora: string | null; readonly arch: string | null; readonly for: string }
export type Family = 'debian' | 'fedora' | 'arch' | 'other';

let table: Readonly<Record<string, Entry>> | undefined;
function entryOf(command: string): Entry | undefined {
  table ??= JSON.parse(readFileSync(projectFile('testbed', 'doctor', 'packages.json'), 'utf8')) as Record<string, Entry>;
  return Object.hasOwn(table, command) ? table[command] : undefined;
}

/** @param osRelease the text of /etc/os-release */
export function familyOf(osRelease: string): Family {
  const value = (key: string): string => new RegExp(`^${key}=(.*)$`, 'm').exec(osRelease)?.[1]?.replaceAll('"', '') ?? '';
  const ids = `${value('ID')} ${value('ID_LIKE')}`.split(/\s+/);
  if (ids.some((id) => id === 'debian' || id === 'ubuntu')) return 'debian';
  if (ids.some((id) => id === 'fedora' || id === 'rhel' || id === 'centos')) return 'fedora';
  return ids.includes('arch') ? 'arch' : 'other';
}

function hostFamily(): Family {
  try {
    return familyOf(readFileSync('/etc/os-release', 'utf8'));
  } catch {
    return 'other';
  }
}

/** What the command is for, in a few words. */
export const purposeOf = (command: string): string => entryOf(command)?.for ?? '';

/** How to get commands on this distribution: one line to type, or the names for every distribution when it is another one. */
export function howToInstall(commands: readonly string[], family: Family = hostFamily()): string {
  const packages = (of: 'debian' | 'fedora' | 'arch'): string =>
    [...new Set(commands.flatMap((command) => {
      const entry = entryOf(command);
      return entry ? (entry[of]?.split(' ') ?? []) : [command];
    }))].join(' ');
  if (family === 'debian') return `apt-get install --no-install-recommends ${packages('debian')}`;
  if (family === 'fedora') return `dnf install ${packages('fedora')}`;
  if (family === 'arch') return `pacman -S ${packages('arch')}`;
  return `install ${packages('debian')} (Debian, Ubuntu), ${packages('fedora')} (Fedora) or ${packages('arch')} (Arch)`;
}
