/** Makes the AgentContext that traffic and collectors work with from the agent's parts. */

import * as path from 'node:path';
import type { Plan } from '../plan/plan.js';
import type { Finding } from '../records/raw.js';
import { realtimeAt } from './clocks.js';
import type { AgentContext } from './context.js';
import type { Loop } from './loop.js';

/** What of the network the context needs; the Network class has it. */
export interface NodeAccess {
  inNode<T>(node: string, call: () => T): T;
  netnsPath(node: string): string;
  command(node: string, words: readonly [string, ...string[]]): readonly [string, ...string[]];
}

export interface AgentParts {
  readonly plan: Plan;
  readonly loop: Loop;
  readonly clock: 'virtual' | 'real';
  readonly nodes: NodeAccess;
  readonly rawDir: string;
  finding(finding: Finding): void;
  facts(facts: Readonly<Record<string, unknown>>): void;
}

export function assembleContext(parts: AgentParts): AgentContext {
  const { plan, loop, clock, nodes, rawDir } = parts;
  return {
    plan,
    loop,
    clock,
    endNs: plan.warmupNs + plan.durationNs,
    now: () => loop.now(),
    realtimeAtStart: realtimeAt(loop.originNs, clock),
    monotonicAtStart: loop.originNs,
    raw: (name) => path.join(rawDir, name),
    inNode: (node, call) => nodes.inNode(node, call),
    netnsPath: (node) => nodes.netnsPath(node),
    command: (node, words) => nodes.command(node, words),
    finding: (level, rule, message) => parts.finding({ type: 'finding', level, rule, message, tNs: loop.wokeNs }),
    facts: (facts) => parts.facts(facts),
  };
}
