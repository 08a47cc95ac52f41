/**
 * Runs a compiled script inside a User-Mode Linux guest in virtual time, for tests that need what the host's kernel may lack (netem, AQMs).
 * The guest's root is the host's file system; /run and /tmp are its own. What the script prints comes back with its exit code.
 *
 * Kernel: $TESTBED_KERNEL, or the newest of $TESTBED_CACHE/kernels or ~/.cache/testbed/kernels (each folder's `linux`). Preload library (kernel/preload.c):
 * $TESTBED_PRELOAD, or preload.so beside the kernel or one folder up, or compiled here for the test.
 *
 *     const { code, stdout } = await runInGuest(new URL('./steps.guest.js', import.meta.url), { args: ['5'] });
 */

import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { cpus, homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from './temporary-folder.js';

export interface GuestOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Wall time after which the guest is ended; default 120. */
  readonly timeoutS?: number;
  /** MiB of guest memory; default 512. */
  readonly memoryMiB?: number;
  /** For getrandom; default 1. */
  readonly seed?: number;
  /** Path of another kernel than the newest. */
  readonly kernel?: string;
}
export interface GuestRun {
  /** The script's exit code; null if the guest ended before the script did (see `console`). */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The guest kernel's console. */
  readonly console: string;
}

const versionOf = (path: string): number[] => (/(\d+(?:\.\d+)*)/.exec(path.split('/').at(-2) ?? '')?.[1] ?? '0').split('.').map(Number);
function newerFirst(a: string, b: string): number {
  const [x, y] = [versionOf(a), versionOf(b)];
  for (let index = 0; index < Math.max(x.length, y.length); index++) {
    const difference = (y[index] ?? 0) - (x[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Every kernel a test can boot, newest first; $TESTBED_KERNEL, if set, comes first. */
export function testKernels(): string[] {
  const cache = join(process.env['TESTBED_CACHE'] ?? join(homedir(), '.cache', 'testbed'), 'kernels');
  const cached = existsSync(cache) ? readdirSync(cache).map((name) => join(cache, name, 'linux')).filter((path) => existsSync(path)).sort(newerFirst) : [];
  const chosen = process.env['TESTBED_KERNEL'];
  return chosen ? [chosen, ...cached] : cached;
}
/** Why no guest can be booted here, or undefined. */
export const noGuest = (): string | undefined => testKernels().length > 0 ? undefined : 'no UML kernel: set TESTBED_KERNEL, or build one with `testbed kernel build`';

/** Mocha: skips the suite or test with the reason when no guest can be booted. */
export function needsGuest(this: Mocha.Context): void {
  const reason = noGuest();
  if (reason === undefined) return;
  console.log(`      skipped: ${reason}`);
  this.skip();
}

function preloadFor(kernel: string, folder: string): string {
  const chosen = process.env['TESTBED_PRELOAD'];
  if (chosen) return chosen;
  const beside = [join(dirname(kernel), 'preload.so'), join(dirname(kernel), '..', 'preload.so')].find((path) => existsSync(path));
  if (beside !== undefined) return resolve(beside);
  let root = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(root, 'kernel', 'preload.c')) && root !== '/') root = dirname(root);
  const library = join(folder, 'preload.so');
  execFileSync('cc', ['-O2', '-shared', '-fPIC', '-o', library, join(root, 'kernel', 'preload.c'), '-ldl']);
  return library;
}

const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;

/** @param script path or file URL of compiled JavaScript. It sees its folder of the host as /mnt, too. */
export async function runInGuest(script: string | URL, options: GuestOptions = {}): Promise<GuestRun> {
  const kernel = options.kernel ?? testKernels()[0];
  if (kernel === undefined) throw new Error(noGuest());
  const path = typeof script === 'string' ? resolve(script) : fileURLToPath(script);
  statSync(path);
  const folder = temporaryFolder('testbed-guest-');
  try {
    const ownTmp = !path.startsWith('/tmp/') && !process.execPath.startsWith('/tmp/');
    const environment = Object.entries(options.env ?? {}).map(([name, value]) => `${name}=${quote(value)}`).join(' ');
    writeFileSync(join(folder, 'init.sh'), [
      '#!/bin/sh',
      'export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      'mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t tmpfs tmpfs /run',
      'mount -t hostfs none /mnt -o /proc/self/cwd', // the host's /proc/self: the kernel's own process, whose folder is ours
      ownTmp ? 'mount -t tmpfs tmpfs /tmp' : '',
      'ip link set lo up',
      `env ${environment} ${quote(process.execPath)} --enable-source-maps ${[path, ...(options.args ?? [])].map(quote).join(' ')} >/mnt/stdout 2>/mnt/stderr </dev/null`,
      'echo $? >/mnt/code',
      'halt -f -p',
      '',
    ].join('\n'), { mode: 0o755 });
    const seccomp = /^seccomp=/m.test(execFileSync(kernel, ['--help'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })) ? ['seccomp=on'] : [];
    const core = String(process.pid % cpus().length);
    const command = [
      '-k', '5', String(options.timeoutS ?? 120), 'taskset', '-c', core, kernel, `mem=${options.memoryMiB ?? 512}M`, ...seccomp, 'time-travel=inf-cpu', 'time-travel-start=1700000000000000000',
      'rootfstype=hostfs', 'rootflags=/', 'rw', // No path of this run on the command line: the kernel mixes it into its random pool (random_init_early), and runs would differ.
      'init=/proc/self/cwd/init.sh', 'con=null', 'con0=fd:0,fd:1', 'quiet', 'panic=-1',
    ];
    const guest = spawn('timeout', command, {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, LD_PRELOAD: preloadFor(kernel, folder), TESTBED_GETRANDOM_SEED: String(options.seed ?? 1) },
    });
    let output = '';
    guest.stdout.on('data', (data: Buffer) => { output += data.toString('utf8'); });
    guest.stderr.on('data', (data: Buffer) => { output += data.toString('utf8'); });
    await new Promise<void>((done, failed) => guest.on('close', () => done()).on('error', failed));
    const read = (name: string): string => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '');
    const code = read('code').trim();
    return { code: code === '' ? null : Number(code), stdout: read('stdout'), stderr: read('stderr'), console: output };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The last line the script printed, as JSON; throws with everything the guest said if the script failed. */
export async function guestResult<T>(script: string | URL, options: GuestOptions = {}): Promise<T> {
  const run = await runInGuest(script, options);
  if (run.code !== 0) throw new Error(`the script in the guest ended with ${run.code ?? 'the guest'}:\n${run.stdout}\n${run.stderr}\n${run.console}`);
  return JSON.parse(run.stdout.trimEnd().split('\n').at(-1) ?? '') as T;
}
