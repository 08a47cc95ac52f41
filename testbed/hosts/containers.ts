/**
 * The containers of a plan's hosts and routers: one each, without a network of the engine's (`NetworkMode: none`), with
 * NET_ADMIN and NET_RAW and nothing more. What is made of them: docker.ts. Bundled by itself (dist/containers.mjs), so that runs
 * without containers do not read it.
 */

import { lstatSync, readFileSync } from 'node:fs';
import type Docker from 'dockerode';
import { UserError } from '../errors.js';
import type { Journal } from '../journal/journal.js';
import { needsOf } from '../machines/needs.js';
import type { Plan } from '../plan/plan.js';
import { openEngine, type Engine } from './engine.js';
import type { NodeName } from './hosts.js';
import { checkImage, imageName, imagePrograms } from './image.js';

/** Creating and starting goes best four at a time (docker 20.10, podman 4.3). */
const atOnce = 4;

export const labels = { tag: 'org.testbed.tag', node: 'org.testbed.node', owner: 'org.testbed.owner' } as const;

/** What a container's first process does: nothing. */
const waiting = ['/usr/bin/sleep', 'infinity'] as const;

interface Running { readonly container: Docker.Container; readonly pid: number; readonly journalId: number | undefined }

export interface Containers {
  /** The engine's name and version. */
  readonly engine: string;
  /** First process of each node's container, by node. */
  readonly pids: ReadonlyMap<string, number>;
  /** Removes them all. @throws UserError when one stays */
  close(): Promise<void>;
}

/** Programs that run inside hosts of a plan, with who asks for them; the network itself is made from outside. */
export function programsInside(plan: Plan): ReadonlyMap<string, string> {
  return new Map([['sh', 'every program'], ...needsOf(plan).flatMap(({ type, name, by, place }): [string, string][] => (type === 'program' && place !== undefined ? [[name, by]] : []))]);
}

/**
 * Makes a container for every node.
 * @param programs what the image must have, with who asks for it
 * @throws UserError; nothing is left then
 */
export async function startContainers(nodes: readonly NodeName[], tag: string, journal: Journal | null, programs: ReadonlyMap<string, string> = new Map()): Promise<Containers> {
  const engine = await openEngine();
  const image = await checkImage(engine);
  const containers = new Map<string, Running>();
  const close = async (): Promise<void> => {
    const failures: string[] = [];
    await inParallel([...containers.values()], async ({ container, journalId }) => {
      try {
        await removeContainer(container);
        if (journalId !== undefined) journal?.removed(journalId);
      } catch (error) {
        failures.push((error as Error).message);
      }
    });
    containers.clear();
    if (failures.length > 0) throw new UserError(`${failures.length} containers could not be removed (${failures[0]}): testbed clean`, 1);
  };
  try {
    await inParallel(nodes, async (node) => { containers.set(node.node, await start(engine, image, node, tag, journal)); });
    const [any] = containers.values();
    const missing = any === undefined ? [] : [...programs].filter(([name]) => !hasProgram(any.pid, name));
    if (missing.length > 0) throw new UserError(`the image ${imageName} of hosts in containers has no ${missing.map(([name, by]) => `${name} (${by})`).join(', ')}: build one that has (testbed image build makes one with ${imagePrograms.join(', ')}), or use --hosts netns`, 3);
  } catch (error) {
    await close().catch(() => undefined);
    throw error;
  }
  return { engine: engine.name, pids: new Map([...containers].map(([node, { pid }]) => [node, pid])), close };
}

/**
 * This process's own limits, as hosts in namespaces have them, and no more processes than there are numbers for. Left alone, podman asks for 1048576 of each,
 * which an engine under smaller limits without CAP_SYS_RESOURCE is not allowed to give. Lines of /proc/self/limits: name, soft, hard, unit.
 */
function ulimits(): Docker.Ulimit[] {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const most = { nofile: Infinity, nproc: Number(readFileSync('/proc/sys/kernel/pid_max', 'utf8')) };
  return ([['nofile', 'Max open files'], ['nproc', 'Max processes']] as const).flatMap(([Name, line]) => {
    const found = new RegExp(`^${line}\\s+(\\d+)\\s+(\\d+)`, 'm').exec(limits);
    return found === null ? [] : [{ Name, Soft: Math.min(Number(found[1]), most[Name]), Hard: Math.min(Number(found[2]), most[Name]) }];
  });
}

/** Whether a program is in the usual folders of a container. Entries are not followed: an absolute link would lead to this machine's. */
const hasProgram = (pid: number, name: string): boolean =>
  ['usr/local/sbin', 'usr/local/bin', 'usr/sbin', 'usr/bin', 'sbin', 'bin'].some((folder) => lstatSync(`/proc/${pid}/root/${folder}/${name}`, { throwIfNoEntry: false }) !== undefined);

const nameOf = (tag: string, { netns }: NodeName): string => `testbed-${tag}-${netns}`;

async function start(engine: Engine, image: string, node: NodeName, tag: string, journal: Journal | null): Promise<Running> {
  const name = nameOf(tag, node);
  // Written before it is made: a crash in between leaves nothing unknown.
  const journalId = journal?.add({ kind: 'container', name, socket: engine.socket })[0];
  let container: Docker.Container | undefined;
  try {
    container = await engine.docker.createContainer({
      name, Image: image, Hostname: node.netns.replaceAll(/[^A-Za-z0-9-]/g, '-'), Cmd: [...waiting], StopSignal: 'SIGKILL',
      Labels: { [labels.tag]: tag, [labels.node]: node.node, [labels.owner]: String(process.pid) },
      HostConfig: { NetworkMode: 'none', CapAdd: ['NET_ADMIN', 'NET_RAW'], Privileged: false, AutoRemove: false, Ulimits: ulimits() },
    });
    await container.start();
    const { State } = await container.inspect();
    if (!State.Running || State.Pid === 0) throw new Error(State.Error || `it ended with code ${State.ExitCode}`);
    return { container, pid: State.Pid, journalId };
  } catch (error) {
    if (container !== undefined) await removeContainer(container).catch(() => undefined);
    if (container !== undefined || (error as { statusCode?: number }).statusCode === 409) { if (journalId !== undefined) journal?.removed(journalId); }
    const reason = ((error as { json?: { message?: string } }).json?.message ?? (error as Error).message).trim();
    if ((error as { statusCode?: number }).statusCode === 409) throw new UserError(`the container ${name} of ${node.node} exists already: run testbed clean, or end the run that uses it`, 1);
    const fix = reason.includes(waiting[0]) ? `; the image lacks ${waiting[0]}: testbed image build` : '';
    throw new UserError(`the container ${name} of ${node.node} does not start: ${reason}${fix}`, 1);
  }
}

/** Gone is as good as removed. */
async function removeContainer(container: Docker.Container): Promise<void> {
  try {
    await container.remove({ force: true, v: true });
  } catch (error) {
    const { statusCode } = error as { statusCode?: number };
    if (statusCode !== 404 && statusCode !== 409) throw error; // 409: its removal is under way
  }
}

async function inParallel<T>(all: readonly T[], call: (one: T) => Promise<void>): Promise<void> {
  const left = [...all];
  const failures: unknown[] = [];
  await Promise.all(Array.from({ length: Math.min(atOnce, left.length) }, async () => {
    for (let one = left.shift(); one !== undefined && failures.length === 0; one = left.shift()) {
      try {
        await call(one);
      } catch (error) {
        failures.push(error);
      }
    }
  }));
  if (failures.length > 0) throw failures[0];
}
