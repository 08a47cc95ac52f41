/**
 * One step of obtaining or building a kernel: a program run to its end with everything it prints in the build's
 * log. A failure names the step, what the program said last, and where the log is.
 */

import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import * as path from 'node:path';
import { execa } from 'execa';
import { UserError } from '../testbed/errors.js';
import { findProgram } from './project.js';

export class BuildLog {
  readonly #fd: number;
  constructor(readonly file: string) {
    mkdirSync(path.dirname(file), { recursive: true });
    this.#fd = openSync(file, 'w');
  }
  write(text: string | Uint8Array): void {
    if (typeof text === 'string') writeSync(this.#fd, text);
    else writeSync(this.#fd, text);
  }
  close(): void {
    closeSync(this.#fd);
  }
}

export interface Step {
  /** As the user reads it: `unpack the source`. */
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  readonly log: BuildLog;
  readonly signal: AbortSignal;
  readonly env?: NodeJS.ProcessEnv;
  /** Each whole line of standard output. */
  readonly onLine?: (line: string) => void;
}

/** What a build's programs see: no CFLAGS, MAKEFLAGS or locale of the caller's. */
export function buildEnvironment(): NodeJS.ProcessEnv {
  const kept: NodeJS.ProcessEnv = {};
  for (const name of ['PATH', 'HOME', 'USER', 'TMPDIR', 'http_proxy', 'https_proxy', 'no_proxy']) {
    if (process.env[name] !== undefined) kept[name] = process.env[name];
  }
  const path_ = (kept['PATH'] ?? '/usr/bin:/bin').split(':');
  for (const folder of ['/usr/sbin', '/sbin']) if (!path_.includes(folder)) path_.push(folder);
  // A fixed build identity: `uname -v` and every byte of the kernel are the same whoever builds it, and when.
  return { ...kept, PATH: path_.join(':'), LC_ALL: 'C', KBUILD_BUILD_USER: 'testbed', KBUILD_BUILD_HOST: 'testbed', KBUILD_BUILD_VERSION: '1', KBUILD_BUILD_TIMESTAMP: 'Thu Jan  1 00:00:00 UTC 1970' };
}

const lastLines = 12;

/** Runs it to its end. @returns standard output @throws UserError when it fails, the signal's reason when aborted (after its whole process group is gone) */
export async function runStep(step: Step): Promise<string> {
  step.signal.throwIfAborted();
  const [program, ...args] = step.command;
  step.log.write(`\n== ${step.name}: ${step.command.join(' ')}\n`);
  // If we are killed, make gets SIGTERM and ends its own children; nothing goes on building.
  const guard = findProgram('setpriv');
  const argv: readonly [string, ...string[]] = guard ? [guard, '--pdeathsig', 'TERM', program, ...args] : [program, ...args];
  // A group of its own, to be killed whole. Its output is kept here: execa would hold all that a build says twice.
  const child = execa(argv[0], argv.slice(1), { cwd: step.cwd, env: step.env ?? buildEnvironment(), extendEnv: false, stdin: 'ignore', detached: true, cleanup: false, buffer: false, reject: false });
  const killGroup = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // already gone
    }
  };
  step.signal.addEventListener('abort', killGroup);
  let out = '';
  let partial = '';
  const tail: string[] = [];
  const remember = (text: string): void => {
    tail.push(...text.split('\n').filter((line) => line.trim() !== ''));
    tail.splice(0, tail.length - lastLines);
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    step.log.write(text);
    remember(text);
    out += text;
    if (!step.onLine) return;
    const lines = (partial + text).split('\n');
    partial = lines.pop()!;
    lines.forEach(step.onLine);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    step.log.write(text);
    remember(text);
  });
  try {
    const { exitCode, signal, originalMessage } = await child;
    const status = exitCode === 0 ? null : signal !== undefined ? `killed by ${signal}` : exitCode !== undefined ? `exit code ${exitCode}` : originalMessage ?? 'it could not be started';
    step.signal.throwIfAborted();
    if (status !== null) {
      throw new UserError(`step "${step.name}" failed (${path.basename(program)}: ${status})${tail.length ? `; it said last:\n  ${tail.join('\n  ')}` : ''}\nlog: ${step.log.file}`);
    }
    return out;
  } finally {
    step.signal.removeEventListener('abort', killGroup);
    killGroup();
  }
}
