/** Where things are on this host: the project's own files, and the per-user cache that outlives it. */

import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder that holds our package.json, above the compiled or source file that runs. */
export const projectRoot: string = (() => {
  for (let folder = path.dirname(fileURLToPath(import.meta.url)); ; folder = path.dirname(folder)) {
    const file = path.join(folder, 'package.json');
    if (existsSync(file) && (JSON.parse(readFileSync(file, 'utf8')) as { name?: unknown }).name === 'testbed') return folder;
    if (folder === path.dirname(folder)) throw new Error('no package.json of testbed above this file');
  }
})();

/** A file of the project by its path from the root, e.g. `kernel/uml.config`. */
export const projectFile = (...parts: string[]): string => path.join(projectRoot, ...parts);

/** A compiled file that is started by its name, a thread's: the bundled one when this is the bundle (setup.mjs), so that both are of one build. */
export const compiledFile = (name: string): string => projectFile('dist', ...(fileURLToPath(import.meta.url).startsWith(projectFile('dist', 'bundle') + path.sep) ? ['bundle'] : []), name);

/** `$TESTBED_CACHE`, else `$XDG_CACHE_HOME/testbed`, else `~/.cache/testbed`. Read at each call: tests set it. */
export function cacheFolder(...parts: string[]): string {
  const own = process.env['TESTBED_CACHE'];
  const xdg = process.env['XDG_CACHE_HOME'];
  const root = own ? path.resolve(own) : path.join(xdg && path.isAbsolute(xdg) ? xdg : path.join(os.homedir(), '.cache'), 'testbed');
  return path.join(root, ...parts);
}

/** Absolute path of a program, searched in PATH and the administrator's folders (an ordinary user's PATH often lacks sbin); null when absent. */
export function findProgram(name: string): string | null {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/local/bin', '/usr/bin', '/bin'];
  for (const folder of folders) {
    if (!folder) continue;
    const file = path.join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // not here, or not to be run
    }
  }
  return null;
}
