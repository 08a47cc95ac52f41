/** Runs a command as its users do and says how long it took, whole process, and how much memory. */

import { spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';

export const projectRoot = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..', '..');
const cli = path.join(projectRoot, 'bin', 'testbed.cjs');

export interface Timed { readonly wallS: number; readonly stdout: string; readonly stderr: string; readonly code: number | null }

const running = new Set<ChildProcess>();
let told = false;

/** Told to end: when the command that runs has ended, so that nothing of it stays. A terminal tells it of Ctrl-C by itself. */
export function endWhenTold(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      told = true;
      if (running.size === 0) process.exit(130);
      if (signal !== 'SIGINT') for (const child of running) child.kill(signal);
    });
  }
}

/** @param core pins the command and what it starts to one core; null = not pinned. */
export function timed(program: string, args: readonly string[], core: number | null, timeoutS = 900, env: Readonly<Record<string, string>> = {}): Promise<Timed> {
  const [file, words] = core === null ? [program, args] : ['taskset', ['-c', String(core), program, ...args]];
  const started = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(file, words, { stdio: ['ignore', 'pipe', 'pipe'], timeout: timeoutS * 1000, env: { ...process.env, ...env } });
    running.add(child);
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data: Buffer) => { stdout += data.toString(); });
    child.stderr.on('data', (data: Buffer) => { stderr += data.toString(); });
    child.on('error', reject);
    child.on('close', (code) => {
      running.delete(child);
      if (told && running.size === 0) process.exit(130);
      resolve({ wallS: (performance.now() - started) / 1000, stdout, stderr, code });
    });
  });
}

/** For a program that cannot remove what it made when it is told to end: it is too busy. */
export const inTemporaryFolder = (): Readonly<Record<string, string>> => ({ TMPDIR: temporaryFolder('testbed-bench-') });

export interface TimedRun extends Timed { readonly runDir: string; readonly metrics: RunMetrics }
interface RunMetrics { readonly bottlenecks: Readonly<Record<string, { readonly utilisation: number; readonly throughputBps: number }>> }

/**
 * `testbed run …` into a temporary folder, which the caller removes by `forget`.
 * @param mayBeInvalid in real time, where only the time it takes matters: a run found too late is timed all the same
 * @throws Error with what it printed when it failed
 */
export async function testbedRun(args: readonly string[], core: number | null, mayBeInvalid = false): Promise<TimedRun> {
  const out = temporaryFolder('testbed-bench-');
  const result = await timed(process.execPath, [cli, 'run', ...args, '--out', out], core);
  const folders = fs.readdirSync(out);
  const judged = result.code === 0 || (mayBeInvalid && result.code === 1 && result.stdout.includes('invalid'));
  if (!judged || folders.length !== 1) throw new Error(`testbed run ${args.join(' ')} ended with ${result.code}:\n${result.stdout}${result.stderr}`);
  const runDir = path.join(out, folders[0]!);
  const metricsFile = path.join(runDir, 'metrics.json');
  const metrics = fs.existsSync(metricsFile) ? (JSON.parse(fs.readFileSync(metricsFile, 'utf8')) as RunMetrics) : { bottlenecks: {} };
  return { ...result, runDir, metrics };
}

export const forget = (run: TimedRun): void => fs.rmSync(path.dirname(run.runDir), { recursive: true, force: true });

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
};
