/**
 * The source of a Debian kernel: the archive `linux-source-X.Y.tar.xz`, from the installed package when that is
 * the newest, else from the package downloaded and unpacked beside the build. Nothing is installed.
 */

import { existsSync, readFileSync, rmSync } from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../testbed/errors.js';
import { candidate, freshCandidate, hasApt, installedVersion, unpackPackage, type Candidate } from './apt.js';
import type { BuildLog } from './step.js';
import type { KernelVersion } from './versions.js';

export interface SourcePackage {
  readonly version: KernelVersion;
  /** Debian's version of the source package: `6.12.117-1~deb12u1`. */
  readonly packageVersion: string;
  /** null: it is installed, its archive is in /usr/src. */
  readonly download: Candidate | null;
}

const installedArchive = (version: KernelVersion): string => `/usr/src/${version.package}.tar.xz`;

/** Which source package a build of this version would use. @throws UserError when there is none to be had, with what to do */
export async function findSource(version: KernelVersion, log: BuildLog, signal: AbortSignal): Promise<SourcePackage> {
  if (!hasApt()) {
    const osName = existsSync('/etc/os-release') ? (/^PRETTY_NAME="?([^"\n]*)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'this system') : 'this system';
    throw new UserError(`${osName} has no apt to take Debian's ${version.package} from; unpack the source of Linux ${version.name} and build it: testbed kernel build --source DIR --name ${version.name}`);
  }
  const installed = existsSync(installedArchive(version)) ? await installedVersion(version.package) : null;
  let found: Candidate | null;
  try {
    found = await candidate(version.package, version.suite, { log, signal });
  } catch (error) {
    signal.throwIfAborted();
    if (installed === null) throw error;
    found = null; // offline: what is installed will do
  }
  if (installed !== null && (found === null || found.version === installed)) return { version, packageVersion: installed, download: null };
  if (found === null) {
    throw new UserError(`neither this machine's apt sources nor Debian's ${version.suite} have ${version.package}; add a suite that has it to the apt sources, or build a tree of your own: testbed kernel build --source DIR`);
  }
  return { version, packageVersion: found.version, download: found };
}

/** The archive's path; what had to be downloaded is in `folder`. */
export async function obtainArchive(source: SourcePackage, folder: string, log: BuildLog, signal: AbortSignal): Promise<string> {
  if (source.download === null) return installedArchive(source.version);
  const file = path.join(folder, 'usr', 'src', `${source.version.package}.tar.xz`);
  try {
    await unpackPackage(source.download, folder, { log, signal });
  } catch (error) {
    signal.throwIfAborted();
    // The machine's lists may name a version the archive has since replaced.
    const fresh = source.download.options.length === 0 ? await freshCandidate(source.version.package, { log, signal }) : null;
    if (fresh === null || fresh.version === source.download.version) throw error;
    rmSync(folder, { recursive: true, force: true });
    await unpackPackage(fresh, folder, { log, signal });
  }
  if (!existsSync(file)) throw new UserError(`${source.version.package} holds no usr/src/${path.basename(file)}; log: ${log.file}`);
  return file;
}
