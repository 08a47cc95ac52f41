/** Makes the AgentContext that traffic and collectors work with from the agent's parts. */

import * as path from 'node:path';
import type { Plan } from '../plan/plan.js';
import type { Finding } from '../records/raw.js';
import { CLOCK_MONOTONIC, CLOCK_REALTIME, clockNs, clockNsBig, close, epollCreate1, stable, tryEpollWait } from '../linux/libc.js';
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
    realtimeAtStart: realtimeAt(loop.originNs),
    monotonicAtStart: loop.originNs,
    raw: (name) => path.join(rawDir, name),
    inNode: (node, call) => nodes.inNode(node, call),
    netnsPath: (node) => nodes.netnsPath(node),
    command: (node, words) => nodes.command(node, words),
    finding: (level, rule, message) => parts.finding({ type: 'finding', level, rule, message, tNs: loop.wokeNs }),
    facts: (facts) => parts.facts(facts),
  };
}

/**
 * CLOCK_REALTIME at an instant of CLOCK_MONOTONIC, ns. Monotonic is read before and after and the closest of several tries kept. In a guest
 * in virtual time a reading is repeated until this thread waits (kernel/thrifty.c), of each clock for itself, though readings move it: so
 * it waits, for no time, before each. Else the packets, which are stamped with the one, seem some 256 ns earlier than what is timed with the other.
 */
function realtimeAt(monotonicNs: number): bigint {
  const epoll = epollCreate1(0);
  const event = stable(12);
  const afresh = <T>(read: () => T): T => {
    tryEpollWait(epoll, event, 1, 0);
    return read();
  };
  let best = { width: Infinity, realtime: 0n };
  for (let i = 0; i < 8; i++) {
    const before = afresh(() => clockNs(CLOCK_MONOTONIC));
    const realtime = afresh(() => clockNsBig(CLOCK_REALTIME));
    const after = afresh(() => clockNs(CLOCK_MONOTONIC));
    const width = after - before;
    if (width < best.width) best = { width, realtime: realtime + BigInt(Math.round(monotonicNs - (before + after) / 2)) };
  }
  close(epoll);
  return best.realtime;
}
