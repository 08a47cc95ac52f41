/**
 * The machine `local`: network namespaces on this host's own kernel, real time. It needs the rights to make them.
 * What the kernel has is found by trying it in a throw-away network namespace, where nothing of the host is touched.
 */

import { execFile, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { findProgram } from '../../kernel/project.js';
import { howToInstall } from '../doctor/packages.js';
import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';
import type { HostsKind, Machine, MachineInfo, Missing, RunOutcome, RunRequest } from './machine.js';
import { describeNeed, needsOf, type Need } from './needs.js';
import { AgentLines } from './tail.js';
import { agentFile, fixOf, missingPrograms, placeOf } from './uml.js';
import { defaultWatchdogMs, watch } from './watch.js';

export interface LocalOptions {
  readonly watchdogMs?: number;
  /** The agent's program; default dist/agent.mjs. */
  readonly agent?: string;
}

/** Bits of CapEff: linux/capability.h. */
const CAP_NET_ADMIN = 12n;
const CAP_SYS_ADMIN = 21n;

/** Whether this process may make network namespaces and set up queues in them. */
export function mayUseNamespaces(status: string = readFileSync('/proc/self/status', 'utf8')): boolean {
  const bits = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)/m.exec(status)?.[1] ?? '0'}`);
  return [CAP_NET_ADMIN, CAP_SYS_ADMIN].every((capability) => (bits >> capability) & 1n);
}

export const needsRight = { what: 'the right to make network namespaces (CAP_NET_ADMIN and CAP_SYS_ADMIN)', fix: 'run as root (sudo), or use --machine uml, which needs no rights' } as const;

/** Arguments without which tc itself refuses a queue discipline; the values do not matter. */
const fewestArguments: Readonly<Record<string, readonly string[]>> = {
  red: ['limit', '100000', 'avpkt', '1000'],
  choke: ['limit', '100', 'bandwidth', '10mbit'],
  gred: ['setup', 'DPs', '1', 'default', '0'],
  tbf: ['rate', '10mbit', 'burst', '10kb', 'limit', '100kb'],
  ets: ['bands', '2'],
  hfsc: ['default', '1'],
};

interface Tried { readonly ok: boolean; readonly message: string }

/** Runs tc commands in a network namespace that exists only meanwhile. */
function inThrowAwayNamespace(commands: readonly (readonly string[])[]): Promise<Tried> {
  return new Promise((resolve) => {
    const child = execFile(findProgram('unshare') ?? 'unshare', ['--net', findProgram('tc') ?? 'tc', '-batch', '-'], { timeout: 20_000 }, (error, _out, stderr) => {
      resolve({ ok: error === null, message: stderr });
    });
    child.stdin!.on('error', () => undefined);
    child.stdin!.end(commands.map((words) => `${words.join(' ')}\n`).join(''));
  });
}

/** tc's batch format splits at blanks and takes `#` and `\` for its own: only plain words can go through it. */
const plain = (words: readonly string[]): boolean => words.every((word) => /^[\w.,:/%+=@-]+$/.test(word));

async function hasQdisc(need: Need): Promise<Tried> {
  if (need.name === 'ingress' || need.name === 'clsact') return inThrowAwayNamespace([['qdisc', 'add', 'dev', 'lo', need.name]]);
  if (need.options.length === 0 && !need.words) return { ok: true, message: '' };
  const words = need.words && plain(need.words) ? need.words : [need.name, ...(Object.hasOwn(fewestArguments, need.name) ? fewestArguments[need.name]! : [])];
  const tried = await inThrowAwayNamespace([['qdisc', 'add', 'dev', 'lo', 'root', 'handle', '1:', ...words]]);
  if (tried.ok || need.words) return tried;
  // Any other complaint comes from the queue discipline itself, so it is there.
  return { ok: !/unknown|No such file|not supported/i.test(tried.message), message: tried.message };
}

/** Whether any of several ways works; if none, what the last one said. */
async function firstOf(ways: readonly (readonly (readonly string[])[])[]): Promise<Tried> {
  let tried: Tried = { ok: false, message: '' };
  for (const commands of ways) {
    tried = await inThrowAwayNamespace(commands);
    if (tried.ok) break;
  }
  return tried;
}

const availableCongestionControls = (): readonly string[] => readFileSync('/proc/sys/net/ipv4/tcp_available_congestion_control', 'utf8').trim().split(/\s+/);

async function has(need: Need): Promise<Tried> {
  const ingress = ['qdisc', 'add', 'dev', 'lo', 'ingress'];
  const u32 = ['u32', 'match', 'u32', '0', '0'];
  const onIngress = ['filter', 'add', 'dev', 'lo', 'ingress', 'protocol', 'all', 'prio', '1'];
  switch (need.type) {
    case 'qdisc':
      return hasQdisc(need);
    case 'filter': {
      if (need.name === 'matchall or u32') return firstOf([['matchall'], u32].map((words) => [ingress, [...onIngress, ...words]]));
      const tried = await inThrowAwayNamespace([ingress, [...onIngress, ...(need.name === 'u32' ? u32 : need.name === 'flow' ? ['handle', '1', 'flow', 'hash', 'keys', 'dst', 'divisor', '2'] : [need.name])]]);
      // Any other complaint comes from the classifier itself, so it is there.
      return { ok: tried.ok || !/not found|unknown|No such file|not supported/i.test(tried.message), message: tried.message };
    }
    case 'action':
      return firstOf([['matchall'], u32].map((words) => [ingress, [...onIngress, ...words, 'action', need.name, 'egress', 'redirect', 'dev', 'lo']]));
    case 'congestion control': {
      return { ok: availableCongestionControls().includes(need.name) || await moduleExists(need.modules[0]), message: '' };
    }
    case 'device':
      return need.name === 'tun' ? { ok: existsSync('/dev/net/tun'), message: '' } : hasLink(need);
    case 'feature':
      if (need.name === 'IPv6') return { ok: existsSync('/proc/net/if_inet6'), message: '' };
      return { ok: need.name !== 'network namespaces' || existsSync('/proc/self/ns/net'), message: '' };
    case 'program':
      return { ok: true, message: '' };
  }
}

function moduleExists(name: string | undefined): Promise<boolean> {
  const modprobe = findProgram('modprobe');
  if (name === undefined || modprobe === null) return Promise.resolve(false);
  return new Promise((resolve) => { execFile(modprobe, ['--dry-run', '--quiet', name], (error) => { resolve(error === null); }); });
}

function hasLink(need: Need): Promise<Tried> {
  return new Promise((resolve) => {
    execFile(findProgram('unshare') ?? 'unshare', ['--net', findProgram('ip') ?? 'ip', 'link', 'add', 'probe0', 'type', need.name], { timeout: 20_000 }, (error, _out, stderr) => {
      resolve({ ok: error === null, message: stderr });
    });
  });
}

/** A kernel does not change under us: each question is tried once a process. */
const answers = new Map<string, Promise<Tried>>();
function hasOnce(need: Need): Promise<Tried> {
  const key = JSON.stringify([need.type, need.name, need.words]);
  let answer = answers.get(key);
  if (!answer) answers.set(key, answer = has(need));
  return answer;
}

/** Needs (other than programs) this host's kernel lacks, with what it said. @throws nothing: without rights every need is reported by `check` first */
export async function lacking(needs: readonly Need[]): Promise<readonly { readonly need: Need; readonly message: string }[]> {
  const tried = await Promise.all(needs.filter((need) => need.type !== 'program').map(async (need) => ({ need, ...(await hasOnce(need)) })));
  return tried.filter((each) => !each.ok).map(({ need, message }) => ({ need, message: message.trim().split('\n')[0] ?? '' }));
}

/** What hosts in containers need and this machine lacks. */
async function containers(): Promise<readonly Missing[]> {
  const [{ openEngine }, { checkImage }] = await Promise.all([import('../hosts/engine.js'), import('../hosts/image.js')]);
  try {
    await checkImage(await openEngine());
    return [];
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    const [, what, fix] = /^(.*?): (.*)$/s.exec(error.message) ?? [null, error.message, 'see the engine'];
    return [{ what: `containers: ${what!}`, fix: fix! }];
  }
}
let containersAnswer: Promise<readonly Missing[]> | undefined;
const containersOnce = (): Promise<readonly Missing[]> => (containersAnswer ??= containers());

export class Local implements Machine {
  readonly info: MachineInfo = { name: 'local', kernel: os.release(), clocks: ['real'], givenKernel: true };
  readonly #options: LocalOptions;

  constructor(options: LocalOptions = {}) {
    this.#options = options;
  }

  async check(plan: Plan, clock: 'virtual' | 'real', hosts: HostsKind = 'netns'): Promise<readonly Missing[]> {
    if (process.platform !== 'linux') return [{ what: 'Linux', fix: `local runs on Linux only, and this is ${process.platform}` }];
    const missing: Missing[] = [];
    if (clock === 'virtual') missing.push({ what: 'virtual time on the local kernel', fix: '--machine uml, or --clock real' });
    const needs = needsOf(plan);
    const missingTools = ['unshare', ...(hosts === 'docker' ? ['nsenter'] : [])].filter((name) => findProgram(name) === null);
    missing.push(...missingPrograms(needs), ...missingTools.map((name) => ({ what: `program ${name}`, fix: howToInstall([name]) })));
    if (hosts === 'docker') missing.push(...(await containersOnce()));
    if (!mayUseNamespaces()) return [...missing, needsRight];
    if (missing.some((each) => each.what.startsWith('program '))) return missing; // nothing to try with
    const lacks = await lacking(needs);
    const controls = new Set(availableCongestionControls().map((name) => `TCP_CONG_${name.toUpperCase()}`));
    missing.push(...lacks.map(({ need, message }) => ({ what: `${describeNeed(need)} in kernel ${os.release()}${need.words && message ? ` (tc says: ${message})` : ''}`, fix: fixOf(need, null, (options) => options.length === 0 || options.some((option) => controls.has(option))), ...placeOf(need) })));
    return missing;
  }

  async run(request: RunRequest): Promise<RunOutcome> {
    if (request.clock === 'virtual') return { status: 'failed', error: 'the local kernel has no virtual time: --machine uml, or --clock real' };
    if (!mayUseNamespaces()) return { status: 'failed', error: `local needs ${needsRight.what}: ${needsRight.fix}` };
    const agent = this.#options.agent ?? agentFile();
    if (!existsSync(agent)) return { status: 'failed', error: `the agent ${agent} is not built: npm run setup` };
    if (request.signal.aborted) return { status: 'aborted' };

    const raw = path.join(request.runDir, 'raw');
    const consoleFile = path.join(raw, 'console.log');
    const out = openSync(consoleFile, 'a');
    const command: [string, ...string[]] = [process.execPath, agent, '--raw', raw, '--clock', 'real', '--tag', request.tag, '--hosts', request.hosts, '--mode', 'local'];
    // Should we be killed, the agent is told to end, and takes down what it made.
    const guard = findProgram('setpriv');
    const argv: [string, ...string[]] = guard ? [guard, '--pdeathsig', 'TERM', ...command] : command;
    const child = spawn(argv[0], argv.slice(1), { cwd: '/', detached: true, stdio: ['ignore', out, out], env: { ...process.env, LANG: 'C.UTF-8', TZ: 'UTC' } });
    closeSync(out);
    const lines = new AgentLines(path.join(raw, 'agent.jsonl'), request.onLine);
    const signalGroup = (signal: NodeJS.Signals): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, signal);
      } catch {
        // already gone
      }
    };
    let force: NodeJS.Timeout | undefined;
    // The agent first, alone: it takes down what it made. Whoever is left after that has had its time.
    const end = (): void => {
      child.kill('SIGTERM');
      force ??= setTimeout(() => { signalGroup('SIGKILL'); }, 10_000);
    };
    const limitMs = this.#options.watchdogMs ?? defaultWatchdogMs;
    const watched = watch(raw, lines, limitMs, end);
    request.signal.addEventListener('abort', end);
    try {
      const how = await new Promise<string | null>((resolve) => {
        child.on('error', (error) => { resolve(`cannot be started: ${error.message}`); });
        child.on('exit', (code, signal) => { resolve(code === 0 ? null : signal ? `was killed by ${signal}` : `failed with exit code ${code}`); });
      });
      signalGroup('SIGKILL');
      lines.close();
      if (how === null) return { status: 'complete' };
      if (request.signal.aborted) return { status: 'aborted' };
      const at = lines.count > 0 ? ` (at ${(lines.lastNs / 1e9).toFixed(1)} s of the run)` : '';
      const what = watched.expired ? `no progress for ${limitMs / 1000} s${at}, so the agent was ended` : (lines.failure ?? `the agent ${how}${at}`);
      return { status: 'failed', error: `local: ${what}; log: ${consoleFile}${lines.failure === null ? '; what it left behind is removed by: testbed clean' : ''}` };
    } finally {
      watched.stop();
      clearTimeout(force);
      request.signal.removeEventListener('abort', end);
      lines.close();
    }
  }
}
