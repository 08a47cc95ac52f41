/**
 * The agent's command line: runs the plan of one run folder on the kernel it is started on.
 *
 *     agent --raw DIR --clock virtual|real --tag TAG --hosts netns|docker [--mode local|guest]
 *
 * Reads DIR/plan.json, appends to DIR/agent.jsonl. Exit code: 0 complete, 1 failed, 130 interrupted, 2 wrong arguments.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { collectors } from '../../collectors/registry.js';
import { projectFile } from '../../kernel/project.js';
import type * as ContainersModule from '../hosts/containers.js';
import type { Containers } from '../hosts/containers.js';
import { dockerHosts } from '../hosts/docker.js';
import { openJournal, type Journal } from '../journal/journal.js';
import { daemonConfig, daemonFindings, DaemonProcess } from '../network/daemon.js';
import { Network } from '../network/network.js';
import { wireNode } from '../network/steps.js';
import type { Plan } from '../plan/plan.js';
import { traffic } from '../traffic/registry.js';
import { runAgent } from './run.js';
import type { AgentNetwork, AgentOptions, AgentWiring } from './run.js';

const usage = 'usage: agent --raw DIR --clock virtual|real --tag TAG --hosts netns|docker [--mode local|guest]';

/** @throws Error with what is wrong */
export function agentOptions(args: readonly string[]): AgentOptions {
  const { values } = parseArgs({
    args: [...args],
    options: { raw: { type: 'string' }, clock: { type: 'string' }, tag: { type: 'string' }, hosts: { type: 'string', default: 'netns' }, mode: { type: 'string', default: 'guest' } },
  });
  const { raw, clock, tag, hosts, mode } = values;
  if (raw === undefined) throw new Error('--raw is missing: the folder with plan.json');
  if (clock !== 'virtual' && clock !== 'real') throw new Error(`--clock must be virtual or real, not ${clock}`);
  if (tag === undefined || !/^[a-z0-9]{8}$/.test(tag)) throw new Error(`--tag must be 8 of a–z and 0–9, not ${tag}`);
  if (hosts !== 'netns' && hosts !== 'docker') throw new Error(`--hosts must be netns or docker, not ${hosts}`);
  if (mode !== 'local' && mode !== 'guest') throw new Error(`--mode must be local or guest, not ${mode}`);
  return { rawDir: raw, clock, tag, mode, hosts };
}

export async function main(): Promise<number> {
  let options: AgentOptions;
  try {
    options = agentOptions(process.argv.slice(2));
  } catch (error) {
    fs.writeSync(2, `${(error as Error).message}\n${usage}\n`);
    return 2;
  }
  return runAgent(options, wiring);
}

/** The code for containers is a file of its own beside this one (setup.mjs): a run without them does not read it. */
async function makeContainers(plan: Plan, tag: string, journal: Journal | null): Promise<Containers> {
  const { programsInside, startContainers } = await import(projectFile('dist', 'containers.mjs')) as typeof ContainersModule;
  return startContainers(plan.nodes.map(({ name, netns }) => ({ node: name, netns })), tag, journal, programsInside(plan));
}

/** The agent's parts. */
export const wiring: AgentWiring = { network: makeNetwork, traffic, collectors };

async function makeNetwork(plan: Plan, { tag, mode, clock, rawDir, hosts }: AgentOptions): Promise<AgentNetwork> {
  const journal = mode === 'local' ? openJournal(tag) : null;
  // Children inherit it: `testbed clean` knows ours by it.
  if (journal !== null) Object.assign(process.env, journal.environment);
  try {
    const containers = hosts === 'docker' ? await makeContainers(plan, tag, journal) : null;
    let network: Network;
    try {
      network = Network.create(plan, { tag, journal, ...(containers === null ? {} : { hosts: dockerHosts(containers.pids, tag, journal) }) });
    } catch (error) {
      await containers?.close();
      throw error;
    }
    const config = daemonConfig(plan, network.layout, clock, rawDir);
    let daemon: DaemonProcess | null = null;
    try {
      if (config !== null) daemon = await DaemonProcess.start(config, path.join(rawDir, 'daemon.json'), (call) => network.inNode(wireNode, call));
    } catch (error) {
      network.remove();
      await containers?.close();
      throw error;
    }
    return {
      inNode: (node, call) => network.inNode(node, call),
      netnsPath: (node) => network.netnsPath(node),
      command: (node, words) => network.command(node, words),
      bottleneck: (direction) => {
        const bottleneck = network.bottleneck(direction);
        return { ...bottleneck, handle: bottleneck.leafHandle };
      },
      applyEvent: (event) => network.applyEvent(event),
      queued: () => network.queued(),
      verify: () => network.verify(),
      verifyEnd: () => network.verifyEnd(),
      ...(daemon === null ? {} : bottleneck(daemon, clock)),
      remove: async () => {
        network.remove();
        await containers?.close();
        journal?.close();
      },
    };
  } catch (error) {
    journal?.close();
    throw error;
  }
}

const bottleneck = (daemon: DaemonProcess, clock: 'virtual' | 'real'): Pick<AgentNetwork, 'begin' | 'failure' | 'end'> => ({
  begin: (originNs) => daemon.begin(originNs),
  failure: () => daemon.failure(),
  end: async () => {
    const died = daemon.failure();
    const summary = await daemon.end();
    if (summary === null) return { findings: [died ?? daemon.failure()].flatMap((finding) => finding ?? []), facts: {} };
    return {
      findings: daemonFindings(summary, clock),
      facts: { daemon: { realTimePriority: daemon.realTimePriority, lateness: summary.lateness, pace: summary.pace, faults: summary.faults } },
    };
  },
});

// Started as a program, not imported by a test.
if (process.argv[1] !== undefined && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) process.exit(await main());
