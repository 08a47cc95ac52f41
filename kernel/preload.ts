/**
 * The small programs that go with every kernel, compiled once per content into the cache: preload.so (preload.c, into
 * the UML process on the host), poweroff (poweroff.c, what a guest ends itself with), patient.so (patient.c, into
 * iperf3 in a guest) and steady.so (steady.c, into irtt there).
 */

import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../testbed/errors.js';
import { howToInstall } from '../testbed/doctor/packages.js';
import { cacheFolder, findProgram, projectFile } from './project.js';
import { BuildLog, runStep } from './step.js';

export interface Companions { readonly preload: string; readonly poweroff: string; readonly patient: string; readonly steady: string }

const sources = ['preload.c', 'poweroff.c', 'patient.c', 'steady.c'].map((name) => () => projectFile('kernel', name));

function folderOf(): string {
  const hash = createHash('sha256');
  for (const source of sources) hash.update(readFileSync(source()));
  return cacheFolder('companions', hash.digest('hex').slice(0, 12));
}

/** Those already compiled from the present sources, or null. */
export function builtCompanions(): Companions | null {
  const folder = folderOf();
  const at = (name: string): string => path.join(folder, name);
  return existsSync(folder) ? { preload: at('preload.so'), poweroff: at('poweroff'), patient: at('patient.so'), steady: at('steady.so') } : null;
}

/** Compiles them unless they are there. @throws UserError when there is no compiler, or it fails (naming the log) */
export async function companions(signal: AbortSignal = new AbortController().signal): Promise<Companions> {
  const built = builtCompanions();
  if (built) return built;
  const gcc = findProgram('gcc') ?? findProgram('cc');
  if (gcc === null) throw new UserError(`no C compiler, needed once for the library preloaded into UML kernels: ${howToInstall(['gcc'])}`);
  const folder = folderOf();
  mkdirSync(path.dirname(folder), { recursive: true });
  const temporary = mkdtempSync(path.join(path.dirname(folder), '.building-'));
  const log = new BuildLog(cacheFolder('logs', 'companions.log'));
  try {
    const [preloadSource, poweroffSource, patientSource, steadySource] = sources.map((source) => source()) as [string, string, string, string];
    await runStep({ name: 'compile preload.so', command: [gcc, '-O2', '-Wall', '-shared', '-fPIC', '-o', path.join(temporary, 'preload.so'), preloadSource, '-ldl'], cwd: temporary, log, signal });
    await runStep({ name: 'compile poweroff', command: [gcc, '-O2', '-Wall', '-o', path.join(temporary, 'poweroff'), poweroffSource], cwd: temporary, log, signal });
    await runStep({ name: 'compile patient.so', command: [gcc, '-O2', '-Wall', '-shared', '-fPIC', '-o', path.join(temporary, 'patient.so'), patientSource, '-ldl'], cwd: temporary, log, signal });
    await runStep({ name: 'compile steady.so', command: [gcc, '-O2', '-Wall', '-shared', '-fPIC', '-o', path.join(temporary, 'steady.so'), steadySource], cwd: temporary, log, signal });
    chmodSync(temporary, 0o755);
    try {
      renameSync(temporary, folder);
    } catch (error) {
      if (!existsSync(folder)) throw error; // another process was quicker: the same content
    }
  } finally {
    log.close();
    rmSync(temporary, { recursive: true, force: true });
  }
  return builtCompanions()!;
}
