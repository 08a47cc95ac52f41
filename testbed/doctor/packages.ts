/**
 * The programs that our code starts, and which package brings each, by distribution: the one list, for setup.mjs, doctor and
 * every message. It is packages.json because setup.mjs runs before anything is compiled. What every system has is not in it
 * (sh, coreutils), nor what tells one distribution (apt-get, dpkg-deb).
 */

import { readFileSync } from 'node:fs';
import { projectFile } from '../../kernel/project.js';

interface Entry {
  /** Packages, with blanks between them; null: none has it. */
  readonly debian: string | null;
  readonly fedora: string | null;
  readonly arch: string | null;
  readonly for: string;
  /**
   * `always`: no run works without. `usually`: the set-up installs it all the same. `sometimes`: doctor names it. Absent: only where
   * something asks for it.
   */
  readonly needed?: 'always' | 'usually' | 'sometimes';
  /** The set-up for tests installs it; `if offered`: where the machine's own package sources have it. */
  readonly tests?: true | 'if offered';
  /** A library: any of these files tells of it. */
  readonly files?: readonly string[];
  /** What else to know where that is the distribution. */
  readonly note?: { readonly debian?: string; readonly fedora?: string; readonly arch?: string };
}
export type Family = 'debian' | 'fedora' | 'arch' | 'other';

let read: Readonly<Record<string, Entry>> | undefined;
const table = (): Readonly<Record<string, Entry>> => (read ??= JSON.parse(readFileSync(projectFile('testbed', 'doctor', 'packages.json'), 'utf8')) as Record<string, Entry>);
const entryOf = (command: string): Entry | undefined => (Object.hasOwn(table(), command) ? table()[command] : undefined);

/** Programs by how much they are needed, in the list's order. */
export const neededPrograms = (...how: readonly NonNullable<Entry['needed']>[]): string[] =>
  Object.entries(table()).filter(([, { needed }]) => needed !== undefined && how.includes(needed)).map(([name]) => name);

/** Whether the list has it. */
export const isListed = (command: string): boolean => entryOf(command) !== undefined;

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
