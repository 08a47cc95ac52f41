/** Machines by the name a user writes after `--machine`. One line each. */

import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';
import { Local } from './local.js';
import type { HostsKind, Machine, Missing } from './machine.js';
import { readConfig, type MachineConfig } from '../config/config.js';
import { Ssh } from './ssh/ssh.js';
import { parseTarget, type SshTarget } from './ssh/target.js';
import { Uml } from './uml.js';

export interface MachineOptions {
  /** Memory of a UML guest, bytes; default 1 GiB. */
  readonly memoryBytes?: number;
  /** How hosts are isolated; `netns` unless told. */
  readonly hosts?: HostsKind;
  /** Wall time without any progress after which a run is ended, ms. */
  readonly watchdogMs?: number;
  /** The agent's program, for tests; default the bundled one. */
  readonly agent?: string;
  /** What to print before what is missing, for the place in a plan's scenario that asks for it: `x.yaml:10: traffic.long.cc: `. */
  readonly locate?: (place: readonly string[], plan: Plan) => string;
}

/** The part before a colon → the machine; `rest` is what follows it. */
const machines: Readonly<Record<string, (rest: string, options: MachineOptions) => Machine>> = {
  local: (rest, options) => {
    if (rest !== '') throw new UserError(`machine local:${rest}: local takes nothing after it`, 2);
    return new Local(options);
  },
  uml: (rest, options) => new Uml(rest, options),
  ssh: (rest) => new Ssh(parseTarget(rest)),
};

/** Machines of testbed.config.yaml by their names. */
export function namedMachines(): readonly string[] {
  return Object.keys(readConfig().machines ?? {});
}

/** What testbed.config.yaml says of a machine beside whose kernel it is; null for a name that is not in it. */
export function namedSettings(name: string): Pick<MachineConfig, 'hosts' | 'clock' | 'queues'> | null {
  const { machines: named = {} } = readConfig();
  return Object.hasOwn(named, name) && !Object.hasOwn(machines, name) ? named[name]! : null;
}

function namedMachine(name: string, options: MachineOptions): Machine | null {
  const { machines: named = {} } = readConfig();
  if (!Object.hasOwn(named, name)) return null;
  const { machine, ssh = '', key, node } = named[name]!;
  if (machine !== undefined) return openMachine(machine, options);
  return new Ssh({ ...parseTarget(ssh.startsWith('ssh://') ? ssh.slice('ssh:'.length) : `//${ssh}`), ...(key === undefined ? {} : { key }), ...(node === undefined ? {} : { node }) });
}

/** For help and messages. */
export const machineForms = ['auto', 'local', 'uml', 'uml:6.12', 'uml:7.3', 'uml:newest', 'uml:debian', 'uml:NAME (a kernel built with --source)', 'ssh://user@host[:port]', 'a machine of testbed.config.yaml', 'all (every machine of testbed.config.yaml)'] as const;

/** @throws UserError for a name that is none (not for `auto`, which chooseMachine resolves) */
export function openMachine(name: string, options: MachineOptions = {}): Machine {
  const colon = name.indexOf(':');
  const [kind, rest] = colon < 0 ? [name, ''] : [name.slice(0, colon), name.slice(colon + 1)];
  if (!Object.hasOwn(machines, kind)) {
    const named = namedMachine(name, options);
    if (named !== null) return named;
  }
  if (!Object.hasOwn(machines, kind) || (colon >= 0 && rest === '')) throw new UserError(`machine ${JSON.stringify(name)}: expected one of ${machineForms.join(', ')}`, 2);
  return machines[kind]!(rest, options);
}

/**
 * The remote machine of this name, for what a command does on another computer instead of this one.
 * @param instead what the command does without `--machine`
 * @throws UserError for a machine that is not remote
 */
export function remoteTarget(name: string, instead: string): SshTarget {
  const machine = openMachine(name);
  if (!(machine instanceof Ssh)) throw new UserError(`--machine ${name}: ${instead}; with --machine it is another computer: ssh://user@host[:port]`, 2);
  return machine.target;
}

export interface Choice {
  readonly machine: Machine;
  readonly clock: 'virtual' | 'real';
  /** Why `auto` did not take the local kernel; empty when it did, or a machine was named. */
  readonly notLocal: readonly Missing[];
  /** What this kernel lacks and the userspace bottleneck stands in for: the plans of `standIn` are to be run. Empty: the plans as they were given. */
  readonly stoodInFor: readonly Missing[];
}

export interface ChooseOptions extends MachineOptions {
  /** The same plans with the queues that the scenario does not place in user space, for a host's own kernel that lacks something. Absent: such a machine is refused. */
  readonly standIn?: () => readonly Plan[];
}

/**
 * The machine to run the plans on, checked against every one of them. `auto`: local if it has everything, else uml, else local
 * with the userspace bottleneck.
 * @param clock what the user asked for; absent: virtual where the machine can
 * @throws UserError with everything that is missing and how to get it
 */
export async function chooseMachine(name: string, plans: readonly Plan[], clock: 'virtual' | 'real' | undefined, options: ChooseOptions = {}): Promise<Choice> {
  if (name !== 'auto') {
    const machine = openMachine(name, options);
    const used = clock ?? (machine.info.clocks.includes('virtual') ? 'virtual' : 'real');
    const missing = await checkAll(machine, plans, used, options);
    if (missing.length === 0) return { machine, clock: used, notLocal: [], stoodInFor: [] };
    const left = await withStandIn(machine, used, options) ?? missing;
    if (left.length > 0) throw new UserError(`${machine.info.name} cannot run this; it lacks:\n${list(left)}`, 3);
    return { machine, clock: used, notLocal: [], stoodInFor: missing };
  }
  const local = openMachine('local', options);
  const notLocal = await checkAll(local, plans, clock ?? 'real', options);
  if (notLocal.length === 0) return { machine: local, clock: 'real', notLocal, stoodInFor: [] };
  const uml = openMachine('uml', options);
  const used = clock ?? 'virtual';
  const notUml = await checkAll(uml, plans, used, options);
  if (notUml.length === 0) return { machine: uml, clock: used, notLocal, stoodInFor: [] };
  if ((await withStandIn(local, clock ?? 'real', options))?.length === 0) return { machine: local, clock: 'real', notLocal: [], stoodInFor: notLocal };
  throw new UserError(`no machine here can run this.\nlocal lacks:\n${list(notLocal)}\n${uml.info.name} lacks:\n${list(notUml)}`, 3);
}

/** What the machine lacks for the plans of `standIn`; null where there are none for it. */
async function withStandIn(machine: Machine, clock: 'virtual' | 'real', options: ChooseOptions): Promise<readonly Located[] | null> {
  return machine.info.givenKernel === true && options.standIn !== undefined ? checkAll(machine, options.standIn(), clock, options) : null;
}

async function checkAll(machine: Machine, plans: readonly Plan[], clock: 'virtual' | 'real', { locate, hosts }: MachineOptions): Promise<Located[]> {
  const all = new Map<string, Located>();
  for (const plan of plans) {
    for (const missing of await machine.check(plan, clock, hosts)) {
      if (all.has(missing.what)) continue;
      all.set(missing.what, { ...missing, where: missing.place && locate ? locate(missing.place, plan) : '' });
    }
  }
  return [...all.values()];
}

/** Missing, and what to print before it. */
interface Located extends Missing { readonly where: string }

const list = (missing: readonly Located[]): string => missing.map(({ where, what, fix }) => `  ${where}${what}\n    → ${fix}`).join('\n');
