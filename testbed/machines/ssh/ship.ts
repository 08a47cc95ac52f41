/**
 * Our program on the remote machine: one archive (dist/remote.mjs and koffi, which it calls the C library with),
 * unpacked into ~/.cache/testbed/program-<hash>, once a version. Node is the remote side's own.
 */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import * as path from 'node:path';
import { companionSources } from '../../../kernel/preload.js';
import { projectFile, projectRoot } from '../../../kernel/project.js';
import { UserError } from '../../errors.js';
import type { Connection } from './connection.js';
import { formatTarget } from './target.js';

export interface RemoteProgram {
  /** ~/.cache/testbed there, absolute. */
  readonly cache: string;
  /** Node and our program: the first words of a command. */
  readonly command: readonly [node: string, program: string];
}

const leastNode = 20;

/** The files of the archive, from the project's root. */
function parts(): string[] {
  const native = path.join('node_modules', '@koromix', `koffi-linux-${process.arch}`);
  const files = ['dist/remote.mjs', 'dist/daemon.mjs', 'dist/containers.mjs', 'package.json', 'testbed/doctor/packages.json', ...['uml.config', ...companionSources].map((name) => `kernel/${name}`), 'node_modules/koffi/package.json', 'node_modules/koffi/index.js', 'node_modules/koffi/src/koffi/index.js', 'node_modules/koffi/src/koffi/src/static.js'];
  return [...files, ...['package.json', 'index.js', `linux_${process.arch}`].map((name) => path.join(native, name))];
}

let archive: { readonly hash: string; readonly data: Buffer } | undefined;
/** The archive, made once a process. @throws UserError when the program is not built */
function packed(): { readonly hash: string; readonly data: Buffer } {
  if (archive !== undefined) return archive;
  const missing = parts().find((name) => !existsSync(projectFile(name)));
  if (missing !== undefined) throw new UserError(`${projectFile(missing)} is missing: npm run setup`, 3);
  const sum = createHash('sha256');
  for (const name of parts()) {
    sum.update(`${name}\n`);
    if (statSync(projectFile(name)).isFile()) sum.update(readFileSync(projectFile(name)));
  }
  const hash = sum.digest('hex').slice(0, 16);
  const data = execFileSync('tar', ['--create', '--gzip', '--dereference', '--owner=0', '--group=0', ...parts()], { cwd: projectRoot, maxBuffer: 64 * 2 ** 20 });
  archive = { hash, data };
  return archive;
}

/**
 * Makes sure that our program is there and can run.
 * @throws UserError: no Node, one too old, another processor, a full disk
 */
export async function ship(connection: Connection): Promise<RemoteProgram> {
  const name = formatTarget(connection.target);
  const node = connection.target.node ?? 'node';
  const asked = await connection.exec([node, '-p', '[process.version, process.arch, process.platform].join(" ")']);
  const [version = '', arch, platform] = asked.stdout.trim().split(' ');
  if (asked.code !== 0 || !version.startsWith('v')) throw new UserError(`${name} has no ${connection.target.node ?? 'Node in its PATH'}: install Node ${leastNode} or newer there, or name its program in testbed.config.yaml (node: PATH)`, 3);
  if (Number.parseInt(version.slice(1), 10) < leastNode) throw new UserError(`${name} has Node ${version}; ${leastNode} or newer is needed`, 3);
  if (platform !== 'linux' || arch !== process.arch) throw new UserError(`${name} is ${platform} on ${arch}; the program shipped there is for Linux on ${process.arch}, as this machine is`, 3);
  const { hash, data } = packed();
  const cache = path.posix.join(await connection.home(), '.cache', 'testbed');
  const folder = path.posix.join(cache, `program-${hash}`);
  const command = [node, path.posix.join(folder, 'dist', 'remote.mjs')] as const;
  if ((await connection.size(path.posix.join(folder, 'whole'))) !== null) return { cache, command };
  // Unpacked beside and renamed: never half a program, also when two arrive at once.
  const part = `${folder}.part-${process.pid}-${Date.now().toString(36)}`;
  await must(connection, ['mkdir', '-p', part]);
  try {
    await must(connection, ['tar', '-xzf', '-', '-C', part], data);
    await must(connection, ['touch', path.posix.join(part, 'whole')]);
    const moved = await connection.exec(['mv', '-T', part, folder]);
    if (moved.code !== 0 && (await connection.size(path.posix.join(folder, 'whole'))) === null) throw new UserError(`${name}: ${moved.stderr.trim()}`, 3);
  } finally {
    if (!connection.lost) await connection.exec(['rm', '-rf', part]);
  }
  return { cache, command };
}

/** @throws UserError with what the command said */
export async function must(connection: Connection, words: readonly string[], input?: Buffer): Promise<string> {
  const { code, stdout, stderr } = await connection.exec(words, input);
  if (code === 0) return stdout;
  const lines = stderr.trim().split('\n').filter((line) => line !== '');
  // tar says last that something was wrong, and what it was before.
  const full = lines.find((line) => /No space left|Disk quota/.test(line));
  const said = full ?? lines.findLast((line) => /Error: /.test(line)) ?? lines.at(-1) ?? `exit code ${code}`;
  throw new UserError(`${formatTarget(connection.target)}: ${path.posix.basename(words[0]!)} failed: ${said}.${full === undefined ? '' : ' Free some space on its disk.'}`, 3);
}
