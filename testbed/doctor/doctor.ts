/**
 * What this machine has and lacks: which machines (kernels) a run could use here and why not, which programs are
 * missing and what installs them. It starts nothing and changes nothing.
 */

import { missedBy } from '../../kernel/config.js';
import { existsSync, readFileSync, statfsSync } from 'node:fs';
import * as os from 'node:os';
import { deadBootFolders } from '../../kernel/boot-folder.js';
import { missingBuildTools } from '../../kernel/build.js';
import { builtKernels, kernelsFolder } from '../../kernel/cache.js';
import { memoryFolder } from '../../kernel/memory.js';
import { builtCompanions } from '../../kernel/preload.js';
import { cacheFolder, findProgram } from '../../kernel/project.js';
import { debianName, testedVersions } from '../../kernel/versions.js';
import { UserError } from '../errors.js';
import { lacking, mayUseNamespaces, needsRight } from '../machines/local.js';
import { openMachine } from '../machines/registry.js';
import { agentFile } from '../machines/uml.js';
import type { Need } from '../machines/needs.js';
import { howToInstall, neededPrograms, purposeOf } from './packages.js';

export interface ProgramState { readonly name: string; readonly path: string | null; readonly for: string; readonly fix: string | null; readonly required: boolean }
export interface MachineState {
  readonly name: string;
  readonly usable: boolean;
  readonly kernel: string | null;
  readonly clocks: readonly string[];
  /** Why not, or what it lacks although usable. */
  readonly notes: readonly string[];
  readonly fix: string | null;
}
export interface ContainerState {
  /** The engine's socket; null: none is there. */
  readonly socket: string | null;
  /** Name and version, as it answered; null: nobody answers, or not to us. */
  readonly engine: string | null;
  /** The id of the image of hosts; null: not built. */
  readonly image: string | null;
  readonly note: string;
  readonly fix: string | null;
}
export interface Diagnosis {
  readonly system: { readonly os: string; readonly kernel: string; readonly node: string; readonly cores: number; readonly memoryGiB: number; readonly root: boolean; readonly cache: string; readonly cacheFreeGiB: number };
  readonly machines: readonly MachineState[];
  readonly programs: readonly ProgramState[];
  /** Of `--hosts docker`. */
  readonly containers: ContainerState;
  /** Things to mend, most important first; empty: nothing. */
  readonly problems: readonly { readonly what: string; readonly fix: string }[];
}

/** Queue disciplines a scenario may ask the local kernel for. */
const qdiscs = ['htb', 'tbf', 'netem', 'red', 'choke', 'sfq', 'sfb', 'codel', 'fq_codel', 'pie', 'fq_pie', 'cake', 'hhf', 'fq', 'drr', 'dualpi2', 'ingress'];

/** An engine that is asked only whether it is there has to answer soon, ms. */
const doctorPatienceMs = 5000;

const program = (name: string, required: boolean): ProgramState => {
  const found = findProgram(name);
  return { name, path: found, for: purposeOf(name), fix: found === null ? howToInstall([name]) : null, required };
};

async function localMachine(): Promise<MachineState> {
  const base = { name: 'local', kernel: os.release(), clocks: ['real'] };
  if (process.platform !== 'linux') return { ...base, usable: false, notes: ['this is not Linux'], fix: null };
  const tools = ['ip', 'tc', 'unshare'].filter((name) => findProgram(name) === null);
  if (tools.length > 0) return { ...base, usable: false, notes: [`needs ${tools.join(', ')}`], fix: howToInstall(tools) };
  if (!mayUseNamespaces()) return { ...base, usable: false, notes: [`needs ${needsRight.what}`], fix: needsRight.fix };
  const need = (name: string): Need => ({ type: 'qdisc', name, by: 'doctor', options: ['?'], modules: [`sch_${name}`] });
  const veth: Need = { type: 'device', name: 'veth', by: 'doctor', options: ['VETH'], modules: ['veth'] };
  const lacks = (await lacking([veth, ...qdiscs.map(need)])).map((each) => each.need.name);
  if (lacks.includes('veth')) return { ...base, usable: false, notes: ['this kernel has no network namespaces with veth'], fix: '--machine uml' };
  return {
    ...base, usable: true,
    notes: lacks.length > 0 ? [`its kernel has no ${lacks.join(', ')}${lacks.includes('netem') ? ': without netem no link can have a delay' : ''}`] : [],
    fix: lacks.length > 0 ? 'for those: --machine uml' : null,
  };
}

function umlMachine(name: string): MachineState {
  const { info } = openMachine(`uml:${name}`);
  const base = { name: info.name, kernel: info.kernel, clocks: info.clocks };
  if (process.platform !== 'linux' || process.arch !== 'x64') return { ...base, usable: false, notes: ['UML needs Linux on x86-64'], fix: null };
  if (info.kernel === null) return { ...base, usable: false, clocks: [], notes: [name === debianName ? 'not installed' : 'not built'], fix: name === debianName ? howToInstall(['linux.uml']) : `testbed kernel build ${name}` };
  if (name === debianName && findProgram('modprobe') === null) return { ...base, usable: false, notes: ['its queue disciplines are modules: needs modprobe'], fix: howToInstall(['modprobe']) };
  if (!builtCompanions() && findProgram('gcc') === null && findProgram('cc') === null) return { ...base, usable: false, notes: ['needs a C compiler once'], fix: howToInstall(['gcc']) };
  try {
    memoryFolder(2 ** 30);
  } catch (error) {
    return { ...base, usable: false, notes: [(error as Error).message], fix: 'set TMPDIR' };
  }
  const kernel = builtKernels().find((built) => built.name === name);
  return { ...base, usable: true, notes: kernel && missedBy(kernel.notAsAsked).length > 0 ? [`without ${missedBy(kernel.notAsAsked).join(', ')}`] : [], fix: null };
}

/** Asks the container engine that a run would use for its version and the image of hosts. */
async function containerState(): Promise<ContainerState> {
  const none = { socket: null, engine: null, image: null };
  const { engineSocket, openEngine } = await import('../hosts/engine.js');
  let socket: string;
  try {
    socket = engineSocket();
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return process.env['DOCKER_HOST'] ? { ...none, note: error.message, fix: 'name a unix:// socket in DOCKER_HOST' } : { ...none, note: 'no container engine', fix: howToInstall(['docker']) };
  }
  try {
    const { findImage, imageName } = await import('../hosts/image.js');
    const engine = await openEngine(socket, doctorPatienceMs);
    const image = await findImage(engine);
    return { socket, engine: engine.name, image, note: image === null ? `${engine.name} answers; it has no image ${imageName}` : `${engine.name} answers; it has the image ${imageName}`, fix: image === null ? 'testbed image build' : null };
  } catch (error) {
    return { ...none, socket, note: (error as Error).message, fix: 'start the container engine, or see what it says' };
  }
}

function osName(): string {
  try {
    return /^PRETTY_NAME="?([^"\n]*)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? os.type();
  } catch {
    return os.type();
  }
}

function freeGiB(folder: string): number {
  for (let at = folder; ; at = at.slice(0, at.lastIndexOf('/')) || '/') {
    if (!existsSync(at)) continue;
    const { bavail, bsize } = statfsSync(at);
    return Math.round((bavail * bsize) / 2 ** 30);
  }
}

export async function diagnose(): Promise<Diagnosis> {
  const programs = [...neededPrograms('always').map((name) => program(name, true)), ...neededPrograms('usually', 'sometimes').map((name) => program(name, false))];
  const containers = await containerState();
  programs.push({ name: 'docker socket', path: containers.socket, for: purposeOf('docker'), fix: containers.engine === null ? containers.fix : null, required: false });
  const names = [...new Set([...testedVersions, ...builtKernels().map((kernel) => kernel.name), debianName])];
  const machines = [await localMachine(), ...names.map(umlMachine)];

  const problems: { what: string; fix: string }[] = [];
  const lackingPrograms = programs.filter((each) => each.required && each.path === null).map((each) => each.name);
  if (lackingPrograms.length > 0) problems.push({ what: `no run works without ${lackingPrograms.join(', ')}`, fix: howToInstall(lackingPrograms) });
  if (!existsSync(agentFile())) problems.push({ what: 'testbed is not built', fix: 'npm run setup' });
  if (!machines.some((machine) => machine.usable && machine.clocks.includes('virtual'))) {
    const tools = missingBuildTools();
    problems.push({ what: 'no kernel for virtual time', fix: tools.length > 0 ? `${howToInstall(tools)}; then testbed kernel build` : 'testbed kernel build' });
  }
  const traffic = ['iperf3', 'ping'].filter((name) => findProgram(name) === null);
  if (traffic.length > 0) problems.push({ what: `scenarios that use ${traffic.join(', ')} cannot run`, fix: howToInstall(traffic) });
  const dead = deadBootFolders();
  if (dead.length > 0) problems.push({ what: `${dead.length} boot folders of guests that were killed`, fix: 'testbed clean' });
  return {
    system: {
      os: osName(), kernel: os.release(), node: process.version, cores: os.availableParallelism(), memoryGiB: Math.round(os.totalmem() / 2 ** 30), root: process.getuid?.() === 0,
      cache: cacheFolder(), cacheFreeGiB: freeGiB(kernelsFolder()),
    },
    machines, programs, containers, problems,
  };
}
