/**
 * Debian packages without installing them. The machine's own sources are asked first; another suite is asked
 * through an apt configuration of its own (`Dir::Etc::SourceList` and `Dir::State::Lists` in the cache), so that
 * the machine's sources stay as they are. That, and downloading, need no root.
 */

import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import * as path from 'node:path';
import { execa } from 'execa';
import { UserError } from '../testbed/errors.js';
import { cacheFolder, findProgram } from './project.js';
import { buildEnvironment, runStep, type BuildLog } from './step.js';

const inEnvironment = () => ({ env: buildEnvironment(), extendEnv: false }) as const;

export const hasApt = (): boolean => findProgram('apt-get') !== null && findProgram('apt-cache') !== null && findProgram('dpkg-deb') !== null;

export interface Candidate {
  readonly package: string;
  readonly version: string;
  /** Options that make apt see it; empty for the machine's own sources and lists. */
  readonly options: readonly string[];
  /** The suite, when it is not one of the machine's own. */
  readonly suite: string | null;
}

async function policy(name: string, options: readonly string[]): Promise<{ candidate: string | null; installed: string | null }> {
  const { stdout } = await execa('apt-cache', [...options, 'policy', name], inEnvironment());
  const field = (key: string): string | null => {
    const value = new RegExp(`^ *${key}: (\\S+)`, 'm').exec(stdout)?.[1];
    return value === undefined || value === '(none)' ? null : value;
  };
  return { candidate: field('Candidate'), installed: field('Installed') };
}

/** Version of an installed package, or null. */
export async function installedVersion(name: string): Promise<string | null> {
  if (!hasApt()) return null;
  return (await policy(name, [])).installed;
}

const privateFolders = (name: string): { lists: string; archives: string; sources: string } => {
  const folder = cacheFolder('apt', name);
  for (const part of ['lists/partial', 'cache/archives/partial']) mkdirSync(path.join(folder, part), { recursive: true });
  return { lists: path.join(folder, 'lists'), archives: path.join(folder, 'cache'), sources: path.join(folder, 'suite.sources') };
};
/** apt would otherwise download as the user `_apt`, who cannot write to a private folder. */
const asOurselves = ['-o', 'APT::Sandbox::User=root', '-o', 'Dir::Cache::pkgcache=', '-o', 'Dir::Cache::srcpkgcache='];

/** Where this machine gets Debian from: the base address of its main suite, as its own sources name it. */
async function debianMirror(): Promise<string | null> {
  if (!existsSync('/etc/os-release') || !/^ID=debian$/m.test(readFileSync('/etc/os-release', 'utf8'))) return null;
  // Without release info it also answers on a machine that has fetched no lists yet.
  const { stdout } = await execa('apt-get', ['indextargets', '--no-release-info', '--format', '$(REPO_URI) $(RELEASE) $(COMPONENT)', 'Created-By: Packages'], inEnvironment());
  const repositories = stdout.split('\n').map((line) => line.split(' ') as [string, string?, string?]).filter(([, , component]) => component === 'main');
  // A plain codename (bookworm), not bookworm-updates or bookworm-security, whose archive has other suites.
  const main = repositories.find(([, release]) => /^[a-z]+$/.test(release ?? ''));
  return main?.[0] ?? null;
}

const keyring = (): string | undefined => ['gpg', 'pgp'].map((end) => `/usr/share/keyrings/debian-archive-keyring.${end}`).find((file) => existsSync(file));

/** apt's options for one suite of Debian's main archive and nothing else. @throws UserError when this machine's sources name no Debian archive */
async function suiteOptions(suite: string): Promise<string[]> {
  const mirror = await debianMirror();
  if (mirror === null) throw new UserError(`cannot look in Debian's ${suite}: this machine's apt sources name no Debian archive`);
  const { lists, archives, sources } = privateFolders(suite);
  const key = keyring();
  writeFileSync(sources, `Types: deb\nURIs: ${mirror}\nSuites: ${suite}\nComponents: main\n${key === undefined ? '' : `Signed-By: ${key}\n`}`);
  return ['-o', `Dir::Etc::SourceList=${sources}`, '-o', 'Dir::Etc::SourceParts=/nonexistent', '-o', `Dir::State::Lists=${lists}`, '-o', `Dir::Cache=${archives}`, ...asOurselves];
}

/** The machine's own sources with lists of our own: for a machine whose lists are empty, without root. */
function ownOptions(): string[] {
  const { lists, archives } = privateFolders('own');
  return ['-o', `Dir::State::Lists=${lists}`, '-o', `Dir::Cache=${archives}`, ...asOurselves];
}

interface Steps { readonly log: BuildLog; readonly signal: AbortSignal }

/** The newest version of a package in the machine's own suites, else in `suite`; null when neither has it. */
export async function candidate(name: string, suite: string, { log, signal }: Steps): Promise<Candidate | null> {
  const own = await policy(name, []);
  if (own.candidate !== null && (await listsPresent())) return { package: name, version: own.candidate, options: [], suite: null };
  // Also when there are lists: they may lack a suite that the sources name (an image often holds bookworm's and not bookworm-security's).
  const places: [string | null, string[]][] = [[null, ownOptions()]];
  if ((await debianMirror()) !== null) places.push([suite, await suiteOptions(suite)]);
  for (const [from, options] of places) {
    await runStep({ name: `list the packages of ${from ?? 'the machine\'s own suites'}`, command: ['apt-get', ...options, '-q', 'update'], cwd: '/', log, signal });
    const found = await policy(name, options);
    if (found.candidate !== null) return { package: name, version: found.candidate, options, suite: from };
  }
  return null;
}

/** As `candidate`, from the machine's own sources with freshly fetched lists: for lists so old that the archive no longer has what they name. */
export async function freshCandidate(name: string, { log, signal }: Steps): Promise<Candidate | null> {
  const options = ownOptions();
  await runStep({ name: 'list the packages of the machine\'s own suites', command: ['apt-get', ...options, '-q', 'update'], cwd: '/', log, signal });
  const found = await policy(name, options);
  return found.candidate === null ? null : { package: name, version: found.candidate, options, suite: null };
}

/** Whether apt has any package lists: a fresh container has none, and then knows only installed packages. */
async function listsPresent(): Promise<boolean> {
  const { stdout } = await execa('apt-get', ['indextargets', '--format', '$(FILENAME)', 'Created-By: Packages'], { ...inEnvironment(), reject: false });
  return stdout.split('\n').some((file) => file !== '' && ['', '.lz4', '.gz', '.xz'].some((end) => existsSync(file + end)));
}

/** Downloads the package and unpacks it into `folder`; installs nothing. */
export async function unpackPackage(wanted: Candidate, folder: string, { log, signal }: Steps): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const sandbox = wanted.options.length > 0 ? [] : ['-o', 'APT::Sandbox::User=root'];
  await runStep({ name: `download ${wanted.package} ${wanted.version}`, command: ['apt-get', ...wanted.options, ...sandbox, '-q', 'download', `${wanted.package}=${wanted.version}`], cwd: folder, log, signal });
  const file = readdirSync(folder).find((entry) => entry.startsWith(`${wanted.package}_`) && entry.endsWith('.deb'));
  if (file === undefined) throw new UserError(`apt downloaded nothing for ${wanted.package}; log: ${log.file}`);
  await runStep({ name: `unpack ${file}`, command: ['dpkg-deb', '-x', file, folder], cwd: folder, log, signal });
  rmSync(path.join(folder, file));
}
