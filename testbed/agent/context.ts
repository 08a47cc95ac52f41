/**
 * What the agent's parts (traffic, collectors) work with. The agent is one process, one thread, with an event
 * loop of its own (loop.ts) that blocks in epoll: in virtual time every system call is a cost and busy-waiting
 * hangs the guest, so everything is timers and file descriptors. Node's own event loop does not turn while it runs,
 * except for a moment between slices of one second of run time (signals, ends of child processes).
 */

import type { Plan, PlanFlow } from '../plan/plan.js';
import type { Finding } from '../records/raw.js';

/** Ends the run after its finding was written: nothing more is told of it. */
export class AlreadyTold extends Error {}

export interface Timer { cancel(): void }

export interface EventLoop {
  /** CLOCK_MONOTONIC, ns (exact: below 2^53). */
  monotonicNs(): number;
  /** ns of the run when the loop last woke up. In virtual time the clock is read when this is asked for, at most once a wake-up. */
  readonly wokeNs: number;
  /** Calls once at that time of the run (ns from the start of the run); equal times in the order they were set. */
  at(runNs: number, call: (nowNs: number) => void): Timer;
  /** Calls at start, start + interval, … until `stopNs` (inclusive) or cancelled; on a fixed schedule, never drifting; late ticks are not caught up in bursts but counted. */
  every(startNs: number, intervalNs: number, stopNs: number, call: (nowNs: number) => void): Timer;
  /** epoll: EPOLLIN 1, EPOLLOUT 4, EPOLLERR 8, EPOLLHUP 16, EPOLLRDHUP 0x2000, EPOLLET 1<<31. */
  watch(fd: number, events: number, call: (events: number) => void): void;
  rewatch(fd: number, events: number): void;
  /** Before the descriptor is closed. `closing`: it is closed right after, which takes it out of epoll without a system call of its own. */
  unwatch(fd: number, closing?: boolean): void;
}

export interface AgentContext {
  readonly plan: Plan;
  readonly loop: EventLoop;
  /** 'virtual' | 'real': real time checks lateness. */
  readonly clock: 'virtual' | 'real';
  /** End of the measurement window, ns of the run. */
  readonly endNs: number;
  /** ns of the run now. */
  now(): number;
  /** CLOCK_REALTIME ns at run time 0: what packet and socket time stamps are relative to. */
  readonly realtimeAtStart: bigint;
  /** CLOCK_MONOTONIC ns at run time 0: what queue disciplines and the kernel's timers go by. */
  readonly monotonicAtStart: number;
  /** Path in the run's raw/ folder. */
  raw(name: string): string;
  /** Runs `call` with this thread in the node's network namespace (setns); sockets created in it belong to that node. Synchronous, not nested. */
  inNode<T>(node: string, call: () => T): T;
  /** Path of the node's network namespace, for programs started in it (`nsenter --net=PATH`). */
  netnsPath(node: string): string;
  /** A program of the node, to be started inside `inNode`: its words as they are, or those that enter the node's container first. */
  command(node: string, words: readonly [string, ...string[]]): readonly [string, ...string[]];
  finding(level: Finding['level'], rule: string, message: string): void;
  facts(facts: Readonly<Record<string, unknown>>): void;
}

/** A source of records: one file in collectors/, one line in collectors/registry.ts. */
export interface Collector {
  readonly name: string;
  /** After set-up, before run time 0. Registers its timers and descriptors on the loop. */
  start(): void;
  /** Each second of the run: what was recorded so far goes to its file, so that a killed run loses little. */
  flush(): void;
  /** After the loop ended: takes the last records, closes its files. */
  stop(): void;
}
export type CollectorFactory = (context: AgentContext, network: BottleneckQueues) => Collector | null;

/** Where the queue of a bottleneck direction is, once the network is set up. Network (network.ts) has it. */
export interface BottleneckQueues {
  /** @param direction `BL1` or `BL1.reverse`, of a kernel queue */
  bottleneck(direction: string): BottleneckQueue;
}
export interface BottleneckQueue {
  readonly node: string;
  readonly device: string;
  readonly ifindex: number;
  /** tc handle of the queue discipline under test (not of the shaper above it): 0x00100000 is `10:`. */
  readonly handle: number;
}

/** A traffic tool: one file in testbed/traffic/, one line in its registry. Given the flows of the plan whose `tool` it is. */
export interface Traffic {
  readonly name: string;
  /** After set-up, before run time 0: opens listeners, registers start times on the loop. */
  start(): void;
  /** At run time ≥ endNs, in the loop: stop sending, close sockets, ask children to end. The loop goes on until `finished()` or a time limit. */
  end(): void;
  finished(): boolean;
  /** After the loop: wait for children (real or virtual time, bounded), write raw/flows.jsonl rows (append), close. May use Node's event loop. */
  stop(): Promise<void>;
}
export type TrafficFactory = (context: AgentContext, flows: readonly PlanFlow[]) => Traffic;
