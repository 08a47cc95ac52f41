/**
 * The machine `uml[:version]`: a Linux kernel of our own as an ordinary program (User-Mode Linux), in virtual time
 * or real, without root. The agent runs inside the guest and writes straight into the run's raw folder.
 */

import { existsSync, readFileSync, realpathSync } from 'node:fs';
import * as path from 'node:path';
import { bootGuest, guestRaw, inGuest, type GuestEnd } from '../../kernel/boot.js';
import { deadBootFolders, makeBootFolder } from '../../kernel/boot-folder.js';
import { takeCore } from '../../kernel/cores.js';
import { memoryFolder } from '../../kernel/memory.js';
import { companions } from '../../kernel/preload.js';
import { findProgram, projectFile } from '../../kernel/project.js';
import { selectKernel, type BootableKernel } from '../../kernel/select.js';
import { compareVersions, testedVersions } from '../../kernel/versions.js';
import { howToInstall } from '../doctor/packages.js';
import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';
import type { HostsKind, Machine, MachineInfo, Missing, RunOutcome, RunRequest } from './machine.js';
import { describeNeed, inUserspace, needsOf, otherCongestionControls, type Need } from './needs.js';
import { AgentLines } from './tail.js';
import { defaultWatchdogMs, watch } from './watch.js';

export interface UmlOptions {
  /** The guest's memory. */
  readonly memoryBytes?: number;
  readonly watchdogMs?: number;
  /** The agent's program, a JavaScript file; default dist/agent.mjs. */
  readonly agent?: string;
}

const defaultMemoryBytes = 2 ** 30;
const fewestMemoryBytes = 128 * 2 ** 20;
const gib = (bytes: number): string => `${Math.round((bytes / 2 ** 30) * 100) / 100} GiB`;

/**
 * Options of the agent's Node. V8's pool of helper threads is started in any case: with one.
 * Virtual time: they are not used, as they would spin for each other, which never ends on a guest's one processor.
 * Real time: they compile, as the event loop would stand still for the 10 to 25 ms that the optimising compiler takes over one of its
 * functions, and only what is worth it there (the budget, in bytes of code that ran, is 30 times V8's own): while a program of the
 * guest computes, each of the kernel's timers costs a stop of that program. They do not collect garbage: who waits for that
 * would wait for traffic, too. Nor is the whole heap collected because little happens (the memory reducer):
 * one such collection stopped the loop 28 times for up to 3 ms and once for 7.
 */
const nodeOptions: Readonly<Record<'virtual' | 'real', readonly string[]>> = {
  virtual: ['--single-threaded', '--v8-pool-size=1'],
  real: ['--single-threaded-gc', '--v8-pool-size=1', '--interrupt-budget=2000000', '--no-memory-reducer'],
};

/** The bundled agent. */
export const agentFile = (): string => projectFile('dist', 'agent.mjs');

export class Uml implements Machine {
  readonly info: MachineInfo;
  readonly #kernel: BootableKernel | null;
  readonly #missing: readonly Missing[];
  readonly #options: UmlOptions;

  /** @param version what follows `uml:`, empty for the default */
  constructor(version: string, options: UmlOptions = {}) {
    const selection = selectKernel(version);
    this.#kernel = selection.kernel;
    this.#missing = selection.kernel ? [] : [{ what: `UML kernel ${selection.name}`, fix: selection.fix }];
    this.#options = options;
    this.info = {
      name: `uml:${selection.kernel ? selection.kernel.name : selection.name}`,
      kernel: selection.kernel?.release ?? null,
      clocks: selection.kernel && !selection.kernel.virtualTime ? ['real'] : ['virtual', 'real'],
    };
  }

  check(plan: Plan, clock: 'virtual' | 'real', hosts: HostsKind = 'netns'): Promise<readonly Missing[]> {
    if (hosts === 'docker') return Promise.resolve([{ what: 'hosts in containers inside a UML guest: no container engine runs there, and one outside would not be in its virtual time', fix: '--hosts netns, or --machine local' }]);
    const kernel = this.#kernel;
    if (!kernel) return Promise.resolve(this.#missing);
    const missing: Missing[] = [];
    if (process.platform !== 'linux' || process.arch !== 'x64') missing.push({ what: 'an x86-64 Linux host', fix: `UML runs on x86-64 Linux only, and this is ${process.platform} ${process.arch}` });
    if (!this.info.clocks.includes(clock)) missing.push({ what: `virtual time in ${this.info.name}`, fix: `--clock real, or --machine uml (our own build, kernel ${testedVersions.join(' or ')})` });
    const needs = needsOf(plan);
    const lacks = needs.filter((need) => need.type !== 'program' && !kernel.has(need.options));
    missing.push(...lacks.map((need) => ({ what: `${describeNeed(need)} in kernel ${kernel.release}`, fix: fixOf(need, kernel, (options) => kernel.has(options)), ...placeOf(need) })));
    missing.push(...missingPrograms(needs));
    if (kernel.modulesFolder && findProgram('modprobe') === null) missing.push({ what: 'program modprobe', fix: howToInstall(['modprobe']) });
    return Promise.resolve(missing);
  }

  async run(request: RunRequest): Promise<RunOutcome> {
    const kernel = this.#kernel;
    if (!kernel) return failed(`${this.#missing[0]!.what} is not there: ${this.#missing[0]!.fix}`);
    try {
      return await this.#run(kernel, request);
    } catch (error) {
      if (request.signal.aborted) return { status: 'aborted' };
      if (error instanceof UserError) return failed(error.message);
      throw error;
    }
  }

  async #run(kernel: BootableKernel, request: RunRequest): Promise<RunOutcome> {
    const memoryBytes = this.#options.memoryBytes ?? defaultMemoryBytes;
    if (memoryBytes < fewestMemoryBytes) return failed(`a guest with ${gib(memoryBytes)} of memory cannot boot and run Node: give it ${gib(fewestMemoryBytes)} or more`);
    const agent = this.#options.agent ?? agentFile();
    if (!existsSync(agent)) return failed(`the agent ${agent} is not built: npm run setup`);
    const raw = path.join(request.runDir, 'raw');
    const consoleFile = path.join(raw, 'console.log');
    const parts = await companions(request.signal);
    const memory = memoryFolder(memoryBytes);
    for (const dead of deadBootFolders()) dead.remove();

    const { core, release } = await takeCore(request.cpu);
    const boot = makeBootFolder();
    const lines = new AgentLines(path.join(raw, 'agent.jsonl'), request.onLine);
    try {
      request.signal.throwIfAborted();
      const node = realpathSync(process.execPath);
      const modules = projectFile('node_modules');
      const guest = bootGuest({
        binary: kernel.binary, seccomp: kernel.seccomp, companions: parts, boot,
        clock: request.clock, seed: request.plan.seed, memoryBytes, memoryFolder: memory, core, raw, console: consoleFile,
        needed: [path.dirname(path.dirname(node)), path.dirname(path.resolve(agent)), ...(existsSync(modules) ? [realpathSync(modules)] : [])].filter((folder) => inGuest(folder) === folder),
        modules: kernel.modulesFolder === null ? null : { folder: kernel.modulesFolder, names: needsOf(request.plan).flatMap((need) => need.modules) },
        command: [node, ...nodeOptions[request.clock], inGuest(agent), '--raw', guestRaw, '--clock', request.clock, '--tag', request.tag, '--hosts', request.hosts],
      });
      const limitMs = this.#options.watchdogMs ?? defaultWatchdogMs;
      const watched = watch(raw, lines, limitMs, () => { guest.kill(); });
      request.signal.addEventListener('abort', guest.kill);
      if (request.signal.aborted) guest.kill();
      let end: GuestEnd;
      try {
        end = await guest.ended;
      } finally {
        watched.stop();
        request.signal.removeEventListener('abort', guest.kill);
      }
      lines.close();
      if (end.status === 0) return { status: 'complete' };
      if (request.signal.aborted) return { status: 'aborted' };
      // The agent knows the folder of records by its name in the guest.
      const what = whatHappened(end, watched.expired ? limitMs : null, lines, consoleFile, memoryBytes).replaceAll(guestRaw, () => raw);
      return failed(`${this.info.name}: ${what}; log: ${consoleFile}`);
    } finally {
      lines.close();
      boot.remove();
      release();
    }
  }
}

const failed = (error: string): RunOutcome => ({ status: 'failed', error });

/** One sentence or two for the user, from how the guest ended and what its console says. */
function whatHappened(end: GuestEnd, expiredMs: number | null, lines: AgentLines, consoleFile: string, memoryBytes: number): string {
  const text = readConsole(consoleFile);
  const started = lines.count > 0;
  const at = started ? ` (at ${(lines.lastNs / 1e9).toFixed(1)} s of the run)` : '';
  if (/Out of memory|oom-kill|invoked oom-killer/.test(text)) return `the guest ran out of its ${gib(memoryBytes)} of memory${at}; give it more`;
  if (expiredMs !== null) {
    // Short of memory a guest reads its programs from the host again and again instead of running them.
    const scarce = memoryBytes < defaultMemoryBytes ? `; its ${gib(memoryBytes)} of memory may be too little: give it more` : '';
    return started
      ? `no progress for ${expiredMs / 1000} s of wall time${at}, so the guest was ended; in virtual time a program that waits without sleeping stops the clock${scarce}`
      : `the guest did not start its agent within ${expiredMs / 1000} s of wall time, so it was ended${scarce}`;
  }
  const panic = /Kernel panic - not syncing: (.*)/.exec(text)?.[1];
  if (panic !== undefined && end.status === null) return `the kernel panicked${started ? at : ' at boot'}: ${panic.trim()}`;
  if (end.status !== null) {
    if (lines.failure !== null) return lines.failure;
    const last = lastLines(text);
    return `the agent failed with exit code ${end.status}${at}${last ? `: ${last}` : ''}`;
  }
  if (end.signal !== null) return `the kernel was killed by ${end.signal}${at}; was the host, or this process's memory limit, short of memory?`;
  const last = lastLines(text);
  return `the kernel ${started ? `ended before its agent did${at}` : 'did not boot'} (exit code ${end.code})${last ? `: ${last}` : ''}`;
}

function readConsole(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
/** What a program said last: its error if it names one (Node prints the stack and its version after it), else its last lines; not the kernel's farewell. */
function lastLines(text: string): string {
  const lines = text.split('\n').map((line) => line.trim()).filter((line) => line !== '' && !/reboot: (Power down|System halted)/.test(line) && !/^Node\.js v/.test(line));
  const error = lines.findLast((line) => /^[A-Z]\w*Error\b/.test(line) || /^Error: /.test(line));
  return (error ?? lines.slice(-3).join(' / ')).slice(-400);
}

/** Programs of the host a plan needs and the host lacks, each with its package. */
export function missingPrograms(needs: readonly Need[]): Missing[] {
  return needs.filter((need) => need.type === 'program' && findProgram(need.name) === null).map((need) => ({ what: describeNeed(need), fix: howToInstall([need.name]), ...placeOf(need) }));
}

export const placeOf = (need: Need): { place?: readonly string[] } => (need.place ? { place: need.place } : {});

/** Where a need that a kernel lacks can be had; for a congestion control also what else there is. @param has whether this kernel has any of these options */
export function fixOf(need: Need, than: { readonly name: string } | null, has: (options: readonly string[]) => boolean): string {
  return need.type === 'congestion control' ? `${otherCongestionControls(need.name, has)}; ${elsewhere(need, than)}` : elsewhere(need, than) + inUserspace(need);
}

/** Where a need the kernel lacks can be had. */
export function elsewhere(need: Need, than: { readonly name: string } | null): string {
  for (const name of [...testedVersions].filter((version) => version !== than?.name)) {
    if (need.since !== undefined && compareVersions(name, need.since) < 0) continue;
    const selection = selectKernel(name);
    if (selection.kernel?.has(need.options)) return `${need.since ? `Linux has it from ${need.since}: ` : ''}--machine uml:${name}`;
    if (!selection.kernel && need.since !== undefined) return `Linux has it from ${need.since}: ${selection.fix}, then --machine uml:${name}`;
  }
  if (than === null) {
    const built = selectKernel('');
    if (built.kernel === null) return `${built.fix}, then --machine uml`;
  }
  return need.options.length > 0
    ? `no kernel built here has it; check the name, or build one that sets CONFIG_${need.options[0]}: testbed kernel build --source DIR`
    : 'no kernel built here has it';
}
