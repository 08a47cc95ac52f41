/**
 * What code made a run: a hash of the compiled files an engine's results depend on, found by following their imports. A run is
 * taken again only if it is the same; a change to the simulator leaves the kernel's runs as they are.
 */

import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { projectFile } from '../../kernel/project.js';
import { selectKernel } from '../../kernel/select.js';
import type { EngineName } from '../expect/parse.js';

/** Where the code of an engine begins: what executes, and what turns its records into figures. */
const entries: Readonly<Record<EngineName | 'replay', readonly string[]>> = {
  sim: ['simulator/worker.js', 'testbed/records/ingest.js', 'testbed/analysis/metrics.js'],
  replay: ['testbed/replay/replay.js'],
  kernel: ['agent.mjs', 'testbed/records/ingest.js', 'testbed/analysis/metrics.js'],
};

/** @returns hexadecimal digits */
export function codeVersion(engine: EngineName | 'replay', dist = projectFile('dist')): string {
  const files = new Set<string>();
  const follow = (file: string): void => {
    if (files.has(file) || !fs.existsSync(file)) return;
    files.add(file);
    for (const [, name] of fs.readFileSync(file, 'utf8').matchAll(/(?:\bfrom|\bimport|\bimport\(|new URL\()\s*['"](\.{1,2}\/[^'"\n]+\.m?js)['"]/g)) follow(path.resolve(path.dirname(file), name!));
  };
  for (const entry of entries[engine]) follow(path.join(dist, entry));
  const hash = createHash('sha256');
  for (const file of [...files].sort()) hash.update(`${path.relative(dist, file)}\0`).update(fs.readFileSync(file)).update('\0');
  return hash.digest('hex').slice(0, 16);
}

/** What a machine's kernel is, beyond its name: a rebuilt kernel of the same release is another. */
export function kernelVersion(machine: string, release: string | null): string {
  const name = /^uml(?::(.*))?$/.exec(machine)?.[1];
  const selection = name === undefined ? null : selectKernel(name);
  if (selection === null || selection.kernel === null) return release ?? machine;
  return `${selection.kernel.release} ${createHash('sha256').update(fs.readFileSync(selection.kernel.binary)).digest('hex').slice(0, 16)}`;
}
