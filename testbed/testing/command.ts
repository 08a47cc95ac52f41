/**
 * Runs the whole command (`testbed …`) as a user would, in a process of its own, with a temporary folder that is the
 * working folder, TMPDIR and place of results at once: what a run leaves behind anywhere, and every process of it, can be found by
 * its path. Each call has a bound, so that a hang is a failed test.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findProgram, projectFile } from '../../kernel/project.js';
import { selectKernel } from '../../kernel/select.js';
import { readRunJson, type RunJson } from '../records/run-json.js';
import { temporaryFolder } from './temporary-folder.js';

export const program = projectFile('bin', 'testbed.cjs');

/** Any of these kept beyond a test is a fault; the bound of a hang, ms. */
export const boundMs = 120_000;

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Wall time, ms. */
  readonly tookMs: number;
}
export interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** What it printed so far. */
  output(): string;
}
export interface CommandOptions {
  readonly cwd?: string;
  /** Added to a minimal environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Before the command: `['setpriv', '--reuid=…']`, `['unshare', …]`. */
  readonly under?: readonly string[];
  readonly boundMs?: number;
}

/** A folder of one test, removed by `remove`. */
export class Place {
  readonly folder: string;
  constructor(name = 'testbed-test-', under = os.tmpdir()) {
    this.folder = temporaryFolder(name, under);
  }
  path(...parts: readonly string[]): string {
    return path.join(this.folder, ...parts);
  }
  write(name: string, text: string): string {
    fs.mkdirSync(path.dirname(this.path(name)), { recursive: true });
    fs.writeFileSync(this.path(name), text);
    return this.path(name);
  }
  remove(): void {
    fs.rmSync(this.folder, { recursive: true, force: true });
  }

  start(args: readonly string[], options: CommandOptions = {}): Started {
    const words = [...(options.under ?? []), process.execPath, program, ...args];
    const began = Date.now();
    const child = spawn(words[0]!, words.slice(1), {
      cwd: options.cwd ?? this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...(process.env['TESTBED_CACHE'] ? { TESTBED_CACHE: process.env['TESTBED_CACHE'] } : {}), TMPDIR: this.folder, NO_COLOR: '1', ...options.env },
    });
    const texts = { out: '', err: '' };
    child.stdout.on('data', (data: Buffer) => { texts.out += data.toString('utf8'); });
    child.stderr.on('data', (data: Buffer) => { texts.err += data.toString('utf8'); });
    const limit = options.boundMs ?? boundMs;
    let hung = false;
    const timer = setTimeout(() => { hung = true; child.kill('SIGKILL'); }, limit);
    const ended = new Promise<Ended>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code, signal) => {
        clearTimeout(timer);
        if (hung) reject(new Error(`hung: testbed ${args.join(' ')} did not end within ${limit / 1000} s\n${texts.out}\n${texts.err}`));
        else resolve({ code, signal, stdout: texts.out, stderr: texts.err, tookMs: Date.now() - began });
      });
    });
    return { child, ended, output: () => texts.out + texts.err };
  }
  testbed(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
    return this.start(args, options).ended;
  }

  /** Run folders below `out`, newest last; with the folders of a set's runs when `deep`. */
  runs(out = 'results/runs'): string[] {
    const folder = path.isAbsolute(out) ? out : this.path(out);
    if (!fs.existsSync(folder)) return [];
    return fs.readdirSync(folder).filter((name) => !name.startsWith('.')).map((name) => path.join(folder, name)).sort((a, b) => fs.statSync(a).ctimeMs - fs.statSync(b).ctimeMs);
  }
  /** The only run. */
  run(out = 'results/runs'): string {
    const runs = this.runs(out);
    assert.equal(runs.length, 1, `one run folder, not ${runs.join(', ') || 'none'}`);
    return runs[0]!;
  }

  /** Living processes (zombies aside) that carry this place in their environment, working folder or arguments. */
  processes(): { readonly pid: number; readonly command: string }[] {
    return fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid).flatMap((pid) => {
      try {
        const ours = fs.readFileSync(`/proc/${pid}/environ`, 'utf8').includes(this.folder) || fs.readlinkSync(`/proc/${pid}/cwd`).includes(this.folder);
        if (!ours || /^State:\s*[ZX]/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))) return [];
        return [{ pid: Number(pid), command: fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim() }];
      } catch {
        return [];
      }
    });
  }
  /** Files and folders directly in this place whose names are of our making (boot folders, memory files). */
  leftovers(): string[] {
    return fs.readdirSync(this.folder).filter((name) => name.startsWith('testbed-') || name.startsWith('vm_file') || name.startsWith('.uml'));
  }
  /** Everything of a run is gone but what is in its folder. */
  async assertNothingLeft(): Promise<void> {
    await eventually(() => `no process is left: ${JSON.stringify(this.processes())}`, () => this.processes().length === 0);
    assert.deepEqual(this.leftovers(), []);
  }
}

/** Waits for what will come to be; a bound on a hang, not on speed. */
export async function eventually(what: string | (() => string), holds: () => boolean, limitMs = boundMs): Promise<void> {
  for (const until = Date.now() + limitMs; Date.now() < until;) {
    if (holds()) return;
    await sleep(20);
  }
  assert.fail(`never: ${typeof what === 'string' ? what : what()}`);
}

export function runJson(runDir: string): RunJson {
  const run = readRunJson(runDir);
  assert.ok(run !== null, `${runDir} has a readable run.json`);
  return run;
}
export const rulesOf = (runDir: string, level?: string): string[] => [...new Set(runJson(runDir).findings.filter((finding) => level === undefined || finding.level === level).map(({ rule }) => rule))];

/** Network namespaces of a run in real time that are on this machine now: their names begin with its tag (run/execute.ts), which its folder's name ends with. */
export function namespacesOf(runDir: string): string[] {
  const end = path.basename(runDir).replace(/[^a-z0-9]/g, '').slice(-6);
  return fs.existsSync('/run/netns') ? fs.readdirSync('/run/netns').filter((name) => name.slice(2).startsWith(`${end}-`)) : [];
}

/** SHA-256 of metrics.json and every record table, by name. */
export function digests(runDir: string): Record<string, string> {
  const names = fs.readdirSync(runDir).filter((name) => name === 'metrics.json' || name.endsWith('.parquet')).sort();
  return Object.fromEntries(names.map((name) => [name, createHash('sha256').update(fs.readFileSync(path.join(runDir, name))).digest('hex')]));
}

/** Skips, saying why, where no UML kernel is built. */
export function needsUml(this: Mocha.Context): void {
  const selection = selectKernel('');
  if (selection.kernel !== null) return;
  console.log(`      skipped: no UML kernel is built (${selection.fix})`);
  this.skip();
}
export function skip(context: Mocha.Context, reason: string): never {
  console.log(`      skipped: ${reason}`);
  context.skip();
}

/** Mocha: skips the suite or test where a program that flent's tests start is missing. */
export function needsFlent(this: Mocha.Context): void {
  const missing = ['flent', 'netperf', 'netserver', 'irtt', 'fping'].filter((name) => findProgram(name) === null);
  if (missing.length > 0) skip(this, `${missing.join(', ')} not installed (netperf is non-free in Debian 12: testbed doctor)`);
}

/** A run in real time went through: complete, or invalid for nothing but a machine too loaded to keep time, which is no fault of what is tested. */
export function assertWentThrough(runDir: string, ended: Ended): void {
  const { status } = runJson(runDir);
  const load = ['late', 'dropped-elsewhere', 'capture-lost', 'queue-samples-missing'];
  assert.ok(status === 'complete' || (status === 'invalid' && rulesOf(runDir, 'invalid').every((rule) => load.includes(rule))), `${status}: ${ended.stderr}`);
}
