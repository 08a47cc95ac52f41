/**
 * The kernel versions that can be built from Debian's source packages, by the names users give them. `6.12` and
 * `7.3` are the tested ones; any other `X.Y` works too when the machine's suites have `linux-source-X.Y`.
 */

import { UserError } from '../testbed/errors.js';

export interface KernelVersion {
  readonly name: string;
  /** Debian's package with its source. */
  readonly package: string;
  /** A suite to look in beside the machine's own, and from there only this package. */
  readonly suite: string;
}

const backports = 'trixie-backports';
export const testedVersions = ['6.12', '7.3'] as const;
export const defaultVersion = '6.12';
/** Debian's ready `user-mode-linux`: not built by us, real time only. */
export const debianName = 'debian';

/** @param name `6.12`, `7.3`, another `X.Y`, or `newest`. @throws UserError otherwise */
export function kernelVersion(name: string): KernelVersion {
  const version = name === 'newest' ? testedVersions[testedVersions.length - 1]! : name;
  if (!/^\d{1,2}\.\d{1,3}$/.test(version)) {
    throw new UserError(`kernel version ${JSON.stringify(name)}: expected ${testedVersions.join(', ')}, newest, or another X.Y that Debian has as linux-source-X.Y; a kernel tree of your own is built with --source DIR`, 2);
  }
  return { name: version, package: `linux-source-${version}`, suite: backports };
}

/** Orders `6.12` before `7.3` and `6.9` before `6.12`. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => (text.match(/\d+/g) ?? []).map(Number)) as [number[], number[]];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
