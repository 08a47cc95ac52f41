/** From what a user writes after `uml` to a kernel that can be booted: one we built, or Debian's ready-made. */

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import * as path from 'node:path';
import { howToInstall } from '../testbed/doctor/packages.js';
import { builtKernels, findKernel } from './cache.js';
import { enabledOptions, parseConfig } from './config.js';
import { findProgram } from './project.js';
import { debianName, defaultVersion, testedVersions } from './versions.js';

export interface BootableKernel {
  /** After `uml:`. */
  readonly name: string;
  readonly release: string;
  readonly binary: string;
  readonly seccomp: boolean;
  readonly virtualTime: boolean;
  /** Whether it has one of these options (built in or as a module). */
  has(options: readonly string[]): boolean;
  /** Folder with a folder of modules a release; null when everything is built in. */
  readonly modulesFolder: string | null;
}
/** `kernel` null: it is not there; `fix` says how to get it. */
export type Selection = { readonly kernel: BootableKernel } | { readonly kernel: null; readonly name: string; readonly fix: string };

const debianModules = '/usr/lib/uml/modules';

/** @param name what follows `uml:`; empty for the default */
export function selectKernel(name: string): Selection {
  const wanted = name === '' ? defaultVersion : name === 'newest' ? testedVersions[testedVersions.length - 1]! : name;
  if (wanted === debianName) return debianKernel();
  const built = findKernel(wanted);
  if (built) {
    const options = new Set(built.options);
    return {
      kernel: {
        name: wanted, release: built.release, binary: built.binary, seccomp: built.seccomp, virtualTime: built.virtualTime, modulesFolder: null,
        has: (any) => any.length === 0 || any.some((option) => options.has(option)),
      },
    };
  }
  const known = /^\d+\.\d+$/.test(wanted);
  const others = [...new Set(builtKernels().map((kernel) => kernel.name))];
  return {
    kernel: null, name: wanted,
    fix: known ? `testbed kernel build ${wanted}` : `built kernels: ${others.join(', ') || 'none'}; build one with: testbed kernel build [${testedVersions.join('|')}|newest], or --source DIR --name ${wanted}`,
  };
}

function debianKernel(): Selection {
  const binary = findProgram('linux.uml');
  if (binary === null) return { kernel: null, name: debianName, fix: howToInstall(['linux.uml']) };
  let release: string;
  let options: ReadonlySet<string>;
  try {
    const print = (what: string): string => execFileSync(binary, [what], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    release = print('--version').trim();
    options = new Set(enabledOptions(parseConfig(print('--showconfig'))));
  } catch {
    return { kernel: null, name: debianName, fix: `${binary} cannot be run; install it again: ${howToInstall(['linux.uml'])}` };
  }
  if (!existsSync(path.join(debianModules, release))) return { kernel: null, name: debianName, fix: `${debianModules}/${release} is missing; install the package again: ${howToInstall(['linux.uml'])}` };
  return {
    kernel: {
      name: debianName, release, binary, seccomp: false, virtualTime: options.has('UML_TIME_TRAVEL_SUPPORT'), modulesFolder: debianModules,
      has: (any) => any.length === 0 || any.some((option) => options.has(option)),
    },
  };
}
