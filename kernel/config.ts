/**
 * The kernel configuration (uml.config) as data: which options it asks for, its hash for the cache key, and
 * what of it a finished `.config` really has. Kconfig drops an option silently when its dependencies fail or
 * the version does not know it, so what was asked is always compared with what came out.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { projectFile } from './project.js';

export const configFile = (): string => projectFile('kernel', 'uml.config');

/** Options and values (`y`, `n`, `1000`) of a configuration text, without `CONFIG_`; "is not set" is `n`. */
export function parseConfig(text: string): Map<string, string> {
  const options = new Map<string, string>();
  for (const line of text.split('\n')) {
    const set = /^CONFIG_(\w+)=(.*)$/.exec(line.trim());
    if (set) options.set(set[1]!, set[2]!);
    const unset = /^# CONFIG_(\w+) is not set$/.exec(line.trim());
    if (unset) options.set(unset[1]!, 'n');
  }
  return options;
}

/** Of the options alone: a changed comment is no reason to build again. Hex, 12 digits. */
export function configHash(text: string = readFileSync(configFile(), 'utf8')): string {
  const lines = [...parseConfig(text)].map(([name, value]) => `${name}=${value}`).sort();
  return createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 12);
}

/** Options asked for that the result does not have as asked, e.g. `NET_SCH_DUALPI2` on 6.12. */
export function notAsAsked(asked: ReadonlyMap<string, string>, result: ReadonlyMap<string, string>): string[] {
  return [...asked].filter(([name, value]) => (result.get(name) ?? 'n') !== value).map(([name]) => name);
}

/** Names of the options that are built in or modules. */
export const enabledOptions = (config: ReadonlyMap<string, string>): string[] =>
  [...config].filter(([, value]) => value === 'y' || value === 'm').map(([name]) => name);

/** Of those, what a scenario could want: names come and go between versions (PROC_SYSCTL became SYSCTL), queue disciplines and congestion controls are missed. */
export const missedBy = (notAsAskedNames: readonly string[]): string[] => notAsAskedNames.filter((name) => /^(NET|TCP)_/.test(name));
