/**
 * The small programs that go with every kernel, compiled once per content into the cache: preload.so (preload.c, into
 * the UML process on the host), init (init.c, the first program of a guest), thrifty.so (thrifty.c, into the agent's
 * Node in a guest), patient.so (patient.c, into iperf3 in a guest), steady.so (steady.c, into irtt there) and held.so
 * (held.c, into iperf3's clients there).
 */

import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../testbed/errors.js';
import { howToInstall } from '../testbed/doctor/packages.js';
import { cacheFolder, findProgram, projectFile } from './project.js';
import { BuildLog, runStep } from './step.js';

export interface Companions { readonly preload: string; readonly init: string; readonly thrifty: string; readonly patient: string; readonly steady: string; readonly held: string }

interface Program {
  /** In kernel/. */
  readonly source: string;
  readonly file: string;
  /** For the compiler; where it takes more than one list, the first that it can do. */
  readonly options: readonly (readonly string[])[];
}

const library = [['-shared', '-fPIC']];
const programs: Readonly<Record<keyof Companions, Program>> = {
  preload: { source: 'preload.c', file: 'preload.so', options: library },
  // Static: without a linker's page faults; not every distribution brings the C library for that along with its compiler.
  init: { source: 'init.c', file: 'init', options: [['-static'], []] },
  thrifty: { source: 'thrifty.c', file: 'thrifty.so', options: library },
  patient: { source: 'patient.c', file: 'patient.so', options: library },
  steady: { source: 'steady.c', file: 'steady.so', options: library },
  held: { source: 'held.c', file: 'held.so', options: library },
};
/** Sources, in kernel/. */
export const companionSources: readonly string[] = Object.values(programs).map(({ source }) => source);

function folderOf(): string {
  const hash = createHash('sha256');
  for (const { source, options } of Object.values(programs)) hash.update(readFileSync(projectFile('kernel', source))).update(JSON.stringify(options));
  return cacheFolder('companions', hash.digest('hex').slice(0, 12));
}

/** Those already compiled from the present sources, or null. */
export function builtCompanions(): Companions | null {
  const folder = folderOf();
  const at = (name: keyof Companions): string => path.join(folder, programs[name].file);
  return existsSync(folder) ? { preload: at('preload'), init: at('init'), thrifty: at('thrifty'), patient: at('patient'), steady: at('steady'), held: at('held') } : null;
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
    for (const { source, file, options } of Object.values(programs)) {
      for (const [i, each] of options.entries()) {
        const command: [string, ...string[]] = [gcc, '-O2', '-Wall', ...each, '-o', path.join(temporary, file), projectFile('kernel', source), '-ldl'];
        try {
          await runStep({ name: `compile ${file}`, command, cwd: temporary, log, signal });
          break;
        } catch (error) {
          if (signal.aborted || i === options.length - 1) throw error;
        }
      }
    }
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
