/**
 * Files of a program written in Python (flent), for a file system that has no Python: the program, the interpreter that
 * its first line names, the standard library without its tests and windows, and the package that the program starts. The
 * interpreter itself is asked where they are.
 */

import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import * as path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Parts of the standard library that no program without a screen needs. */
const leftOut: ReadonlySet<string> = new Set(['test', 'tests', 'idlelib', 'tkinter', 'turtledemo', 'ensurepip', 'lib2to3', 'pydoc_data', 'site-packages', 'dist-packages']);

// The program's own folder comes first, as when it is started. What tells of a package's version and entry points is beside it.
const ask = `import importlib, importlib.metadata, json, os, sys, sysconfig
sys.path.insert(0, os.path.dirname(sys.argv[1]))
package = importlib.import_module(sys.argv[2])
beside = str(importlib.metadata.distribution(sys.argv[2]).locate_file(''))
about = [os.path.join(beside, name) for name in os.listdir(beside) if name.lower().startswith(sys.argv[2] + '-') and name.endswith('-info')]
print(json.dumps([sorted({sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib')}), [*package.__path__, *about]]))`;

export interface PythonProgram {
  /** The program as it is started, without links: it finds its package from there. */
  readonly program: string;
  /** As its first line names it. */
  readonly interpreter: string;
  /** Further files, by their own paths; shared objects among them (`.so`). */
  readonly files: readonly string[];
}

/**
 * @param file the program
 * @param name its package
 * @returns null when it is not a Python program, or its interpreter does not find the package
 */
export async function pythonProgram(file: string, name: string): Promise<PythonProgram | null> {
  const program = realpathSync(file);
  const interpreter = /^#! *(\/\S*python\S*)/.exec(readFileSync(program, 'latin1'))?.[1];
  if (interpreter === undefined) return null;
  try {
    const { stdout } = await run(interpreter, ['-c', ask, program, name]);
    const [library, own] = JSON.parse(stdout) as readonly [readonly string[], readonly string[]];
    return { program, interpreter, files: [...new Set([...library.flatMap((folder) => [...filesBelow(folder, leftOut)]), ...own.flatMap((folder) => [...filesBelow(folder)])])] };
  } catch {
    return null;
  }
}

function* filesBelow(place: string, without: ReadonlySet<string> = new Set()): Generator<string> {
  if (statSync(place).isFile()) {
    yield place;
    return;
  }
  for (const entry of readdirSync(place, { withFileTypes: true })) {
    const file = path.join(place, entry.name);
    if (entry.isDirectory()) {
      if (!without.has(entry.name)) yield* filesBelow(file, without);
    } else if (entry.isFile()) {
      yield file;
    }
  }
}
