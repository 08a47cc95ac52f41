/**
 * The image of end hosts and routers in containers: iproute2, iperf3, ping and a shell, and flent with the programs it
 * starts. Built from a Dockerfile where the engine reaches a registry, else from this machine's own programs and the libraries they load.
 */

import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { findProgram } from '../../kernel/project.js';
import { howToInstall } from '../doctor/packages.js';
import { UserError } from '../errors.js';
import type { Engine } from './engine.js';
import { pythonProgram } from './python-program.js';

const run = promisify(execFile);

/** The image's name; another version of what is in it has another tag. */
export const imageName = 'testbed-host:1';

/** What it is built from: a Dockerfile, a machine's own programs, or the first of these that works. */
export const imageSources = ['auto', 'registry', 'machine'] as const;
export type ImageSource = (typeof imageSources)[number];

/** Debian 13: netperf, which flent's tests need, is in non-free in Debian 12. */
const dockerfile = `FROM debian:13-slim
RUN apt-get update && apt-get install -y --no-install-recommends iproute2 iperf3 iputils-ping flent netperf irtt fping netbase iperf && rm -rf /var/lib/apt/lists/*
`;

/** Programs of a host. `required`: an image without them is of no use. */
const programs = [
  { name: 'sh', required: true }, { name: 'sleep', required: true }, { name: 'ip', required: true }, { name: 'tc', required: true },
  { name: 'iperf3', required: true }, { name: 'ping', required: true }, { name: 'ss', required: false }, { name: 'cat', required: false }, { name: 'tcpdump', required: false },
  // flent's, and of the scripts that start it (testbed/traffic/flent.ts).
  { name: 'netperf', required: false }, { name: 'netserver', required: false }, { name: 'irtt', required: false }, { name: 'fping', required: false }, { name: 'iperf', required: false },
  { name: 'mktemp', required: false }, { name: 'rm', required: false }, { name: 'dd', required: false }, { name: 'uname', required: false },
] as const;

/** What every image of ours has, for messages. */
export const imagePrograms: readonly string[] = programs.filter(({ required }) => required).map(({ name }) => name);

/** The newest image that carries our label (engines name an imported one differently), by its id; null when there is none. */
export async function findImage({ docker }: Engine): Promise<string | null> {
  const images = await docker.listImages({ filters: { label: [`org.testbed.image=${imageName}`] } });
  return images.sort((a, b) => b.Created - a.Created)[0]?.Id ?? null;
}

/** @returns its id. @throws UserError with what to do when the image is not there */
export async function checkImage(engine: Engine): Promise<string> {
  const id = await findImage(engine);
  if (id === null) throw new UserError(`${engine.name} has no image ${imageName}: testbed image build`, 3);
  return id;
}

async function fromRegistry({ docker }: Engine, say: (line: string) => void): Promise<void> {
  const tar = await tarOf((folder) => { writeFileSync(path.join(folder, 'Dockerfile'), dockerfile); });
  const stream = await docker.buildImage(Readable.from([tar]), { t: imageName, labels: { 'org.testbed.image': imageName } });
  await new Promise<void>((resolve, reject) => {
    docker.modem.followProgress(stream,
      (error: Error | null) => { if (error) reject(error); else resolve(); },
      (event: { stream?: string; error?: string }) => {
        if (event.stream?.trim()) say(event.stream.trim());
        if (event.error) reject(new Error(event.error));
      });
  });
}

/** A tar archive of a folder that `fill` fills. */
async function tarOf(fill: (folder: string) => void | Promise<void>): Promise<Buffer> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'testbed-image-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove); // Ctrl-C: cli/image.ts
  try {
    await fill(folder);
    const { stdout } = await run('tar', ['--create', '--owner=0', '--group=0', '--numeric-owner', '--directory', folder, '.'], { encoding: 'buffer', maxBuffer: 2 ** 30 });
    return stdout;
  } finally {
    process.off('exit', remove);
    remove();
  }
}

/** Shared libraries a program loads, and its interpreter, as ldd(1) tells. */
async function libraries(file: string): Promise<string[]> {
  const { stdout } = await run('ldd', [file]).catch(() => ({ stdout: '' })); // statically linked
  return stdout.split('\n').flatMap((line) => {
    const found = /(?:=>\s*)?(\/\S+)\s+\(0x/.exec(line)?.[1];
    return found === undefined ? [] : [found];
  });
}

async function fromMachine(engine: Engine): Promise<void> {
  const missing = programs.filter(({ name, required }) => required && findProgram(name) === null).map(({ name }) => name);
  if (missing.length > 0) throw new UserError(`the image cannot be built from this machine's programs: ${missing.join(', ')} is missing: ${howToInstall(missing)}`, 3);
  await importPrograms(engine, programs.map(({ name }) => name));
}

/** An image of those of these programs that this machine has, with the libraries they load. @throws UserError when the engine does not take it */
export async function importPrograms({ docker }: Engine, names: readonly string[]): Promise<void> {
  const tar = await tarOf(async (folder) => {
    for (const name of ['bin', 'usr/bin', 'usr/sbin', 'sbin', 'etc', 'tmp', 'proc', 'sys', 'dev', 'run', 'root', 'var']) mkdirSync(path.join(folder, name), { recursive: true });
    writeFileSync(path.join(folder, 'etc', 'passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
    writeFileSync(path.join(folder, 'etc', 'group'), 'root:x:0:\n');
    writeFileSync(path.join(folder, 'etc', 'nsswitch.conf'), 'hosts: files\nprotocols: files\n');
    writeFileSync(path.join(folder, 'etc', 'protocols'), 'icmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6-icmp 58 IPv6-ICMP\n'); // fping asks for icmp by its name
    const copied = new Set<string>();
    const copy = (from: string, to: string): void => {
      if (copied.has(to)) return;
      copied.add(to);
      mkdirSync(path.dirname(path.join(folder, to)), { recursive: true });
      const file = realpathSync(from);
      copyFileSync(file, path.join(folder, to));
      const { atime, mtime } = statSync(file);
      utimesSync(path.join(folder, to), atime, mtime); // Python compiles anew what is not of the time it was compiled at
    };
    for (const name of names) {
      const file = findProgram(name);
      if (file === null) continue;
      copy(file, `/usr/bin/${name}`);
      if (name === 'sh') symlinkSync('/usr/bin/sh', path.join(folder, 'bin', 'sh'));
      for (const library of await libraries(file)) copy(library, library);
    }
    const flent = findProgram('flent');
    const python = flent === null ? null : await pythonProgram(flent, 'flent');
    if (python === null) return;
    for (const file of [python.program, python.interpreter, ...python.files]) copy(file, file);
    if (python.program !== '/usr/bin/flent') symlinkSync(python.program, path.join(folder, 'usr', 'bin', 'flent'));
    for (const file of [python.interpreter, ...python.files.filter((each) => each.endsWith('.so'))]) for (const library of await libraries(file)) copy(library, library);
  });
  const stream = await docker.importImage(Readable.from([tar]), { repo: imageName.split(':')[0]!, tag: imageName.split(':')[1]!, changes: [`LABEL org.testbed.image=${imageName}`] } as object) as unknown as NodeJS.ReadableStream;
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  const failed = /"error":"([^"]*)"/.exec(text)?.[1];
  if (failed !== undefined) throw new UserError(`the engine does not take the image: ${failed}`, 3);
}

/**
 * Builds the image.
 * @param from `registry`: from the Dockerfile; `machine`: from this machine's programs; `auto`: the first, else the second
 * @returns how it was built
 * @throws UserError
 */
export async function buildImage(engine: Engine, from: ImageSource, say: (line: string) => void): Promise<'registry' | 'machine'> {
  if (from !== 'machine') {
    try {
      await fromRegistry(engine, say);
      return 'registry';
    } catch (error) {
      const reason = (error as Error).message.trim().split('\n').at(-1) ?? '';
      if (from === 'registry') throw new UserError(`the image cannot be built from its Dockerfile: ${reason}; without a registry: testbed image build --from machine`, 3);
      say(`no registry (${reason.slice(0, 200)}): built from this machine's own programs`);
    }
  }
  await fromMachine(engine);
  if ((await findImage(engine)) === null) throw new UserError(`${engine.name} took the image and does not have it`, 3);
  return 'machine';
}

