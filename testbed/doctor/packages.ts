/**
 * Which package brings a command, by distribution. The table is packages.json because setup.mjs, which runs
 * before anything is compiled, reads it too.
 */

import { readFileSync } from 'node:fs';
import { projectFile } from '../../kernel/project.js';

interface Entry { readonly debian: string | null; readonly fedora: string | null; readonly arch: string | null; readonly for: string; /** What else to know where that is the distribution. */ readonly note?: { readonly debian?: string; readonly fedora?: string; readonly arch?: string } }
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

const installers = { debian: 'apt-get install --no-install-recommends', fedora: 'dnf install', arch: 'pacman -S' } as const;

/** How to get commands on this distribution: one line to type, or the names for every distribution when it is another one. */
export function howToInstall(commands: readonly string[], family: Family = hostFamily()): string {
  const packages = (of: 'debian' | 'fedora' | 'arch'): string =>
    [...new Set(commands.flatMap((command) => {
      const entry = entryOf(command);
      return entry ? (entry[of]?.split(' ') ?? []) : [command];
    }))].join(' ');
  const notes = [...new Set(commands.flatMap((command) => (family === 'other' ? [] : entryOf(command)?.note?.[family] ?? [])))];
  const noted = notes.length > 0 ? ` (${notes.join('; ')})` : '';
  if (family !== 'other') return packages(family) === '' ? `no package brings ${commands.join(', ')} here: install it from its source` : `${installers[family]} ${packages(family)}${noted}`;
  return `install ${packages('debian')} (Debian, Ubuntu), ${packages('fedora')} (Fedora) or ${packages('arch')} (Arch)`;
}
