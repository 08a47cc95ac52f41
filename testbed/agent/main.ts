/**
 * The agent's command line: runs the plan of one run folder on the kernel it is started on.
 *
 *     agent --raw DIR --clock virtual|real --tag TAG --hosts netns [--mode local|guest]
 *
 * Reads DIR/plan.json, appends to DIR/agent.jsonl. Exit code: 0 complete, 1 failed, 130 interrupted, 2 wrong arguments.
 */

import * as fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { collectors } from '../../collectors/registry.js';
import { openJournal } from '../journal/journal.js';
import { Network } from '../network/network.js';
import type { Plan } from '../plan/plan.js';
import { traffic } from '../traffic/registry.js';
import { runAgent } from './run.js';
import type { AgentNetwork, AgentOptions, AgentWiring } from './run.js';

const usage = 'usage: agent --raw DIR --clock virtual|real --tag TAG --hosts netns [--mode local|guest]';

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
  if (hosts !== 'netns') throw new Error(`--hosts must be netns, not ${hosts}`);
  if (mode !== 'local' && mode !== 'guest') throw new Error(`--mode must be local or guest, not ${mode}`);
  return { rawDir: raw, clock, tag, mode };
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

/** The agent's parts. */
export const wiring: AgentWiring = { network: makeNetwork, traffic, collectors };

function makeNetwork(plan: Plan, { tag, mode }: AgentOptions): AgentNetwork {
  const journal = mode === 'local' ? openJournal(tag) : null;
  // Children inherit it: `testbed clean` knows ours by it.
  if (journal !== null) Object.assign(process.env, journal.environment);
  try {
    const network = Network.create(plan, { tag, journal });
    return {
      inNode: (node, call) => network.inNode(node, call),
      netnsPath: (node) => network.netnsPath(node),
      bottleneck: (direction) => {
        const bottleneck = network.bottleneck(direction);
        return { ...bottleneck, handle: bottleneck.leafHandle };
      },
      applyEvent: (event) => network.applyEvent(event),
      verify: () => network.verify(),
      verifyEnd: () => network.verifyEnd(),
      remove: () => {
        network.remove();
        journal?.close();
      },
    };
  } catch (error) {
    journal?.close();
    throw error;
  }
}

// Started as a program, not imported by a test.
if (process.argv[1] !== undefined && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) process.exit(await main());
