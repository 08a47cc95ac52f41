/**
 * A program that a traffic tool starts in a host (iperf3, flent, netserver): started in the thread's network namespace
 * of the moment, asked to end by signals, waited for without blocking Node's event loop for long.
 */

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import type { AgentContext } from '../agent/context.js';

/** In a UML guest: makes busy waits sleep, which in virtual time would be endless work (kernel/patient.c). */
const patientLibrary = '/run/testbed/boot/patient.so';

/** What a program that may wait busily needs in its environment on this machine. */
export const patience = ({ clock }: Pick<AgentContext, 'clock'>): Readonly<Record<string, string>> => (clock === 'virtual' && fs.existsSync(patientLibrary) ? { LD_PRELOAD: patientLibrary } : {});

/** In a UML guest: hides the host's cycle counter from programs written in Go (kernel/steady.c). */
const steadyLibrary = '/run/testbed/boot/steady.so';

/** What a program written in Go, or what starts one, needs in its environment on this machine so that its runs repeat. */
export const steadiness = ({ clock }: Pick<AgentContext, 'clock'>): Readonly<Record<string, string>> => (clock === 'virtual' && fs.existsSync(steadyLibrary) ? { LD_PRELOAD: steadyLibrary } : {});

/** In a UML guest in real time: stops a program before its main() until it is sent SIGCONT (kernel/held.c). */
const heldLibrary = '/run/testbed/boot/held.so';

/** Whether programs can be made before their time here: `Program.prepare`. */
export const canPrepare = ({ clock }: Pick<AgentContext, 'clock'>): boolean => clock === 'real' && fs.existsSync(heldLibrary);

export const firstLine = (text: string): string => text.trim().split('\n')[0] ?? '';

/** One program of a traffic tool, its output and errors kept in files. */
export class Program {
  child: ChildProcess | undefined;
  ended: { readonly code: number | null; readonly signal: string | null } | undefined;
  failure: string | undefined;
  /** We asked it to end. */
  interrupted = false;
  /** It was made, and waits for `release`. */
  private held = false;
  private readonly waiting: (() => void)[] = [];

  /** @param env added to this process's environment */
  constructor(readonly outPath: string, readonly logPath: string, private readonly env: Readonly<Record<string, string>>) {}

  start([program, ...args]: readonly [string, ...string[]], onEnd: () => void, env: Readonly<Record<string, string>> = {}): void {
    const files = [fs.openSync(this.outPath, 'w'), fs.openSync(this.logPath, 'w')];
    try {
      const child = spawn(program, args, { stdio: ['ignore', ...files], env: { ...process.env, ...this.env, ...env } });
      this.child = child;
      child.on('error', (error) => { this.failure = error.message; this.over({ code: null, signal: null }, onEnd); });
      child.on('exit', (code, signal) => this.over({ code, signal }, onEnd));
    } finally {
      for (const fd of files) fs.closeSync(fd);
    }
  }

  /** As `start`, but it does nothing before `release`. Only where `canPrepare`. */
  prepare(words: readonly [string, ...string[]], onEnd: () => void): void {
    this.start(words, onEnd, { LD_PRELOAD: heldLibrary });
    this.held = true;
  }

  /** Lets a prepared program begin: one signal. */
  release(): void {
    this.held = false;
    if (this.running) this.child!.kill('SIGCONT');
  }

  /** It was started, or released. */
  get began(): boolean {
    return this.child !== undefined && !this.held;
  }

  private over(how: { readonly code: number | null; readonly signal: string | null }, onEnd: () => void): void {
    if (this.ended !== undefined) return;
    this.ended = how;
    onEnd();
    for (const call of this.waiting) call();
  }

  get running(): boolean {
    return this.child !== undefined && this.ended === undefined;
  }

  interrupt(signal: 'SIGINT' | 'SIGTERM' | 'SIGKILL'): void {
    if (!this.running) return;
    this.interrupted = true;
    this.child!.kill(signal);
    if (this.held) this.child!.kill('SIGCONT'); // a stopped process takes no signal
  }

  /** Until it ended or `ms` went by. */
  async wait(ms: number): Promise<void> {
    if (!this.running) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.waiting.push(() => { clearTimeout(timer); resolve(); });
    });
  }

  output(): string {
    try {
      return fs.readFileSync(this.outPath, 'utf8');
    } catch {
      return '';
    }
  }
  errors(): string {
    try {
      return fs.readFileSync(this.logPath, 'utf8').trim();
    } catch {
      return '';
    }
  }
}
