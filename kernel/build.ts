/**
 * Builds a UML kernel: `make ARCH=um tinyconfig`, uml.config merged over it, `olddefconfig`, `make linux`, always
 * out of the source tree (`O=`), in a hidden folder of the cache that becomes the kernel's folder by a rename at
 * the very end. Interrupted or failed, nothing is left but the log.
 */

import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import * as os from 'node:os';
import * as path from 'node:path';
import { UserError } from '../testbed/errors.js';
import { howToInstall } from '../testbed/doctor/packages.js';
import { builtKernels, buildFolder, findKernel, kernelsFolder, lockFile, sweepDeadBuilds, type BuiltKernel, type KernelRecord } from './cache.js';
import { configFile, configHash, enabledOptions, notAsAsked, parseConfig } from './config.js';
import { lock } from './lock.js';
import { findSource, obtainArchive, type SourcePackage } from './obtain.js';
import { companions } from './preload.js';
import { cacheFolder, findProgram } from './project.js';
import { BuildLog, runStep } from './step.js';
import { debianName, kernelVersion } from './versions.js';

export type BuildRequest =
  /** From Debian: `6.12`, `7.3`, `newest`. */
  | { readonly version: string }
  /** A tree the user has; `name` defaults to its folder's name. */
  | { readonly source: string; readonly name?: string };

export interface BuildProgress {
  /** What is being done, for people. */
  readonly step: string;
  /** 0 … 1 of the compilation; null in other steps. */
  readonly fraction: number | null;
  readonly elapsedS: number;
  /** null while unknown. */
  readonly remainingS: number | null;
}

export interface BuildOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: BuildProgress) => void;
  /** Build even when it is there. */
  readonly again?: boolean;
}

/** Commands a build starts. */
export const buildTools: readonly string[] = ['gcc', 'make', 'flex', 'bison', 'bc', 'xz', 'tar'];
/** Those of them that this machine lacks. */
export const missingBuildTools = (): string[] => buildTools.filter((tool) => findProgram(tool) === null);

/** Lines `make` prints for 6.12 with uml.config: what progress is counted against until a build has been counted. */
const usualMakeLines = 1313;
/** Source and objects, measured 1.9 GB for 7.3. */
const roomBytes = 2.5e9;

let builds = 0;

/** Builds it unless it is there. @throws UserError: what is missing, or which step failed and where its log is */
export async function buildKernel(request: BuildRequest, options: BuildOptions = {}): Promise<{ readonly kernel: BuiltKernel; readonly built: boolean }> {
  const signal = options.signal ?? new AbortController().signal;
  const started = Date.now();
  const report = (step: string, fraction: number | null = null, remainingS: number | null = null): void =>
    options.onProgress?.({ step, fraction, elapsedS: (Date.now() - started) / 1000, remainingS });

  const own = 'source' in request ? ownTree(request.source, request.name) : null;
  const version = 'version' in request ? kernelVersion(request.version) : null;
  const name = own?.name ?? version!.name;
  const missing = missingBuildTools();
  if (missing.length > 0) throw new UserError(`building a kernel needs ${missing.join(', ')}: ${howToInstall(missing)}`);

  const log = new BuildLog(cacheFolder('logs', `kernel-${name}-${process.pid}-${++builds}.log`));
  const finalLog = cacheFolder('logs', `kernel-${name}.log`);
  let held: Awaited<ReturnType<typeof lock>> | null = null;
  let folder: string | null = null;
  try {
    report(version ? `look for Debian's ${version.package}` : 'look at the source');
    const source: SourcePackage | null = version ? await findSource(version, log, signal) : null;
    const key = source ? `${name}-${source.packageVersion.replaceAll(/[^\w.+~-]/g, '_')}-${configHash()}` : `source-${name}`;
    const destination = path.join(kernelsFolder(), key);
    held = await lock(lockFile(key), signal, () => { report(`wait for another process that builds ${name}`); });
    if (source && !options.again) {
      const there = builtKernels().find((kernel) => kernel.folder === destination);
      if (there) {
        await companions(signal);
        return { kernel: there, built: false };
      }
    }
    sweepDeadBuilds();
    folder = buildFolder(key);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    checkRoom(folder);

    let tree: string;
    if (source) {
      report(source.download ? `download ${source.download.package} ${source.packageVersion}` : `take ${source.version.package} ${source.packageVersion} from /usr/src`);
      const archive = await obtainArchive(source, path.join(folder, 'package'), log, signal);
      report('unpack the source');
      tree = path.join(folder, 'tree');
      mkdirSync(tree);
      await runStep({ name: 'unpack the source', command: ['tar', '-xJf', archive, '-C', tree, '--strip-components=1'], cwd: folder, log, signal });
      rmSync(path.join(folder, 'package'), { recursive: true, force: true });
    } else {
      tree = own!.folder;
      if (builtInPlace(tree)) {
        // Kbuild refuses O= from a tree that was built in; cleaning the user's tree is not ours to do.
        report('copy the source (it was built in place)');
        tree = path.join(folder, 'tree');
        mkdirSync(tree);
        const entries = readdirSync(own!.folder).filter((entry) => entry !== '.git').map((entry) => path.join(own!.folder, entry));
        await runStep({ name: 'copy the source', command: ['cp', '-a', '--reflink=auto', '--no-preserve=ownership', '-t', tree, ...entries], cwd: folder, log, signal });
        await runStep({ name: 'clean the copy', command: ['make', '-s', 'ARCH=um', 'mrproper'], cwd: tree, log, signal });
      }
    }

    const objects = path.join(folder, 'objects');
    mkdirSync(objects);
    const make = (...args: string[]): [string, ...string[]] => ['make', '-C', tree, `O=${objects}`, 'ARCH=um', 'LOCALVERSION=', ...args];
    report('configure');
    await runStep({ name: 'tinyconfig', command: make('-s', 'tinyconfig'), cwd: objects, log, signal });
    const config = path.join(objects, '.config');
    writeFileSync(config, `${readFileSync(config, 'utf8')}\n${readFileSync(configFile(), 'utf8')}`); // the last setting of an option counts
    await runStep({ name: 'olddefconfig', command: make('-s', 'olddefconfig'), cwd: objects, log, signal });
    const asked = parseConfig(readFileSync(configFile(), 'utf8'));
    const result = parseConfig(readFileSync(config, 'utf8'));
    for (const required of ['UML', 'NET_SCHED', 'NET_NS', 'HOSTFS', 'NET_SCH_HTB', 'NET_SCH_NETEM']) {
      if (result.get(required) !== 'y') throw new UserError(`step "configure" failed: this source ended without CONFIG_${required}; log: ${log.file}`);
    }

    const expected = findKernel(name)?.makeLines ?? builtKernels()[0]?.makeLines ?? usualMakeLines;
    let lines = 0;
    const compileStarted = Date.now();
    const onLine = (): void => {
      lines++;
      const fraction = Math.min(0.99, lines / expected);
      const spent = (Date.now() - compileStarted) / 1000;
      report('compile', fraction, lines < 30 ? null : (spent / fraction) * (1 - fraction));
    };
    await runStep({ name: 'compile', command: make(`-j${os.availableParallelism()}`, 'linux'), cwd: objects, log, signal, onLine });

    report('check the kernel');
    const binary = path.join(objects, 'linux');
    const release = (await runStep({ name: 'run the kernel (--version)', command: [binary, '--version'], cwd: objects, log, signal })).trim();
    // --help exits with 1 in some versions.
    const help = programText(binary, '--help');
    const record: KernelRecord = {
      schema: 1, name, release,
      package: source ? { name: source.version.package, version: source.packageVersion } : null,
      source: own?.folder ?? null,
      configHash: configHash(),
      options: enabledOptions(result),
      notAsAsked: notAsAsked(asked, result),
      seccomp: /^seccomp=/m.test(help),
      virtualTime: /^time-travel/m.test(help),
      compiler: programText('gcc', '--version').split('\n')[0] ?? '',
      builtAt: new Date().toISOString(),
      buildSeconds: Math.round((Date.now() - started) / 1000),
      makeLines: lines,
    };
    const finished = path.join(folder, 'finished');
    mkdirSync(finished);
    copyFileSync(binary, path.join(finished, 'linux'));
    copyFileSync(config, path.join(finished, 'config'));
    writeFileSync(path.join(finished, 'kernel.json'), `${JSON.stringify(record, null, 2)}\n`);
    await companions(signal);
    signal.throwIfAborted();
    if (existsSync(destination)) renameSync(destination, path.join(folder, 'replaced'));
    renameSync(finished, destination);
    return { kernel: { ...record, folder: destination, binary: path.join(destination, 'linux') }, built: true };
  } catch (error) {
    if (signal.aborted) throw new UserError(`building kernel ${name} was interrupted; nothing of it is left, log: ${finalLog}`, 130);
    throw error instanceof UserError ? new UserError(`kernel ${name}: ${error.message.replaceAll(log.file, finalLog)}`, error.exitCode) : error;
  } finally {
    if (folder !== null) rmSync(folder, { recursive: true, force: true });
    held?.release();
    log.close();
    renameSync(log.file, finalLog);
  }
}

/** What a program prints, whatever its exit code; empty when it cannot be started. */
function programText(program: string, argument: string): string {
  try {
    return execFileSync(program, [argument], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    return `${stdout ?? ''}${stderr ?? ''}`;
  }
}

function ownTree(source: string, given: string | undefined): { readonly folder: string; readonly name: string } {
  const folder = path.resolve(source);
  if (!existsSync(path.join(folder, 'arch', 'um', 'Makefile')) || !existsSync(path.join(folder, 'Kconfig'))) {
    throw new UserError(`--source ${source}: not a Linux source tree (it has no arch/um/Makefile)`, 2);
  }
  const name = given ?? path.basename(folder);
  if (!/^[A-Za-z0-9][\w.-]{0,63}$/.test(name) || name === debianName || name === 'newest') {
    throw new UserError(`kernel name ${JSON.stringify(name)}: expected letters, digits, dots, dashes and underscores, and not newest or ${debianName}; give one with --name`, 2);
  }
  if (/[\s:'"#]/.test(folder)) throw new UserError(`--source ${source}: make cannot build in a path with spaces, quotes, # or colons; reach the tree by a link without them`, 2);
  return { folder, name };
}

const builtInPlace = (tree: string): boolean => ['.config', 'include/config', 'arch/um/include/generated', 'arch/x86/include/generated'].some((made) => existsSync(path.join(tree, made)));

function checkRoom(folder: string): void {
  if (/[\s:'"#]/.test(folder)) throw new UserError(`the cache ${folder} has spaces, quotes, # or colons in its path, where make cannot build; set TESTBED_CACHE to another folder`);
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < roomBytes) {
    throw new UserError(`building a kernel needs ${(roomBytes / 1e9).toFixed(1)} GB in ${path.dirname(folder)}, which has ${((bavail * bsize) / 1e9).toFixed(1)} GB; make room, or set TESTBED_CACHE to another folder`);
  }
}
