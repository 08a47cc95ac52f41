/**
 * One run inside the machine: makes the network, starts collectors and traffic, turns the event loop from before
 * run time 0 to the end of the window and a little beyond, and takes everything down again. What it records is
 * in raw/ (records/raw.ts); what it has to say is in raw/agent.jsonl.
 *
 * Node's own event loop turns for a moment between slices of one second: signals and ends of child processes
 * arrive there. A signal interrupts the slice, so it is seen at once.
 */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { CLOCK_MONOTONIC, clockNs, prctl, stable, trySchedSetscheduler } from '../linux/libc.js';
import type { Plan, PlanEvent, PlanFlow } from '../plan/plan.js';
import type { Finding } from '../records/raw.js';
import { AgentLog } from './agent-log.js';
import { assembleContext } from './assemble.js';
import type { NodeAccess } from './assemble.js';
import { AlreadyTold } from './context.js';
import type { AgentContext, BottleneckQueues, Collector, CollectorFactory, Traffic, TrafficFactory } from './context.js';
import { Loop } from './loop.js';
import { hostTime, judgeRealTime } from './realtime.js';

export interface AgentOptions {
  readonly rawDir: string;
  readonly clock: 'virtual' | 'real';
  readonly tag: string;
  /** `local`: on a host that goes on living, so everything made is removed and a dead parent ends the run. `guest`: the kernel ends with the run. */
  readonly mode: 'local' | 'guest';
  /** How nodes are isolated; `netns` unless told. */
  readonly hosts?: 'netns' | 'docker';
}

/** What of the network the agent needs; Network (network.ts) has it. */
export interface AgentNetwork extends NodeAccess, BottleneckQueues {
  /** @returns what went wrong with it */
  applyEvent(event: PlanEvent): readonly Finding[];
  /** Packets that wait in the bottlenecks' queues now. */
  queued(): number;
  /** The rules of the field before traffic: offloads off, rates as asked, … */
  verify(): readonly Finding[];
  /** And after it: nothing dropped where nothing may be, no superpackets, … */
  verifyEnd(): readonly Finding[];
  /** Run time 0, ns of CLOCK_MONOTONIC: for programs that are part of the network. */
  begin?(originNs: number): void;
  /** Such a program died: the run is over. */
  failure?(): Finding | null;
  /** After traffic: ends them, their records written. @returns what they have to say */
  end?(): Promise<{ readonly findings: readonly Finding[]; readonly facts: Readonly<Record<string, unknown>> }>;
  remove(): void | Promise<void>;
}

export interface AgentWiring {
  network(plan: Plan, options: AgentOptions): AgentNetwork | Promise<AgentNetwork>;
  readonly traffic: Readonly<Record<string, TrafficFactory>>;
  readonly collectors: readonly CollectorFactory[];
}

export const exitCode = { complete: 0, failed: 1, interrupted: 130 } as const;

const second = 1e9;
const PR_SET_PDEATHSIG = 1;
const SCHED_OTHER = 0;
const SCHED_FIFO = 1;
const SCHED_RESET_ON_FORK = 0x40000000;
/** Limit of the wait for flows to close and queues to drain after the end, ns. */
const longestDrain = 30 * second;

/** Runs the plan in `rawDir`. Never throws for what a run can meet: it is told as findings. @returns the process's exit code */
export async function runAgent(options: AgentOptions, wiring: AgentWiring): Promise<number> {
  const run = new AgentRun(options, wiring);
  return run.go();
}

class AgentRun {
  private readonly log: AgentLog;
  private readonly plan: Plan;
  private network: AgentNetwork | undefined;
  private loop: Loop | undefined;
  private context: AgentContext | undefined;
  private readonly traffic: Traffic[] = [];
  private readonly collectors: Collector[] = [];
  private readonly startedCollectors: Collector[] = [];
  private interruptedBy: string | undefined;
  private failed = false;
  private ranToEnd = false;
  private readonly parent = process.ppid;
  /** What it took to make the network and check it, ns of CLOCK_MONOTONIC; real time only (in virtual time reading the clock moves it). */
  private networkUpNs: number | undefined;

  constructor(private readonly options: AgentOptions, private readonly wiring: AgentWiring) {
    this.plan = JSON.parse(fs.readFileSync(path.join(options.rawDir, 'plan.json'), 'utf8')) as Plan;
    this.log = new AgentLog(path.join(options.rawDir, 'agent.jsonl'));
  }

  async go(): Promise<number> {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => this.interrupt(signal));
    try {
      this.prepareProcess();
      await this.setUp();
      await this.turnLoop();
    } catch (error) {
      if (!(error instanceof AlreadyTold)) this.told('failed', ruleOf(error), messageOf(error, this.options.rawDir));
      this.failed = true;
    }
    await this.takeDown();
    if (this.interruptedBy !== undefined) {
      this.told('failed', 'interrupted', `ended early by ${this.interruptedBy}; what was recorded until then is kept, the run is incomplete`);
      return exitCode.interrupted;
    }
    if (this.failed) return exitCode.failed;
    try {
      this.log.write({ type: 'progress', phase: 'done', tNs: this.loop?.wokeNs ?? 0 });
      this.log.close();
    } catch (error) {
      this.told('failed', ruleOf(error), messageOf(error, this.options.rawDir));
      return exitCode.failed;
    }
    return exitCode.complete;
  }

  private prepareProcess(): void {
    if (this.options.mode === 'local') {
      prctl(PR_SET_PDEATHSIG, os.constants.signals.SIGTERM, 0, 0, 0);
      if (process.ppid !== this.parent) this.interrupt('the end of its parent process');
    }
    this.log.write({
      type: 'facts', clock: this.options.clock, kernel: os.release(), kernelVersion: os.version(), architecture: os.machine(), node: process.version,
    });
  }

  /** CLOCK_MONOTONIC, ns; undefined in virtual time. */
  private realNs(): number | undefined {
    return this.options.clock === 'real' ? clockNs(CLOCK_MONOTONIC) : undefined;
  }

  private async setUp(): Promise<void> {
    const { plan, options, wiring } = this;
    this.log.write({ type: 'progress', phase: 'setup', tNs: 0 });
    const unknown = plan.flows.find(({ tool }) => wiring.traffic[tool] === undefined);
    if (unknown !== undefined) this.end('unknown-tool', `flow ${unknown.id} (${unknown.class}): no traffic tool "${unknown.tool}"; there are ${Object.keys(wiring.traffic).join(', ')}`);
    const startedNs = this.realNs();
    this.network = await wiring.network(plan, options);
    const { network } = this;
    // What would make the run invalid is known before it has cost anything: it does not start.
    this.report(network.verify().map((finding) => ({ ...finding, level: finding.level === 'invalid' ? 'failed' : finding.level })));
    if (this.log.count('failed') > 0) throw new AlreadyTold();
    if (startedNs !== undefined) this.networkUpNs = this.realNs()! - startedNs;
    // Each was read back just now.
    const own = plan.nodes.filter(({ sysctls }) => sysctls !== undefined && Object.keys(sysctls).length > 0).map(({ name, sysctls }) => [name, sysctls]);
    this.log.write({ type: 'facts', sysctls: { hosts: plan.tcp.hostSysctls, routers: plan.tcp.routerSysctls, ...(own.length > 0 ? { nodes: Object.fromEntries(own) as Record<string, unknown> } : {}) } });

    const loop = new Loop(this.startOfRun(), options.clock);
    this.loop = loop;
    network.begin?.(loop.originNs);
    const context = assembleContext({
      plan, loop, clock: options.clock, nodes: network, rawDir: options.rawDir,
      finding: (finding) => this.log.write(finding),
      facts: (facts) => this.log.write({ type: 'facts', ...facts }),
    });
    this.context = context;
    for (const event of plan.events) loop.at(event.atNs, (now) => this.report(network.applyEvent(event).map((finding) => ({ tNs: now, ...finding }))));
    for (const factory of wiring.collectors) {
      const collector = factory(context, network);
      if (collector !== null) this.collectors.push(collector);
    }
    for (const [tool, flows] of byTool(plan)) this.traffic.push(wiring.traffic[tool]!(context, flows));
    for (const collector of this.collectors) {
      this.startedCollectors.push(collector);
      collector.start();
    }
    for (const tool of this.traffic) tool.start();
    await turn(); // signals so far, programs that failed to start
    if (loop.now() > 0) {
      this.told('invalid', 'late', `starting collectors and traffic took ${(loop.now() / 1e6).toFixed(0)} ms longer than was set aside: the first flows started late. Use fewer flows or virtual time.`);
    }
  }

  /** CLOCK_MONOTONIC of run time 0, ns: far enough ahead to start everything, and past second 1 (ping counts second 0 as "not started"). */
  private startOfRun(): number {
    const now = clockNs(CLOCK_MONOTONIC);
    if (this.options.clock === 'virtual') return Math.max(2, Math.ceil(now / second) + 1) * second; // whole seconds: nothing depends on how set-up went
    const programs = this.plan.flows.filter(({ tool }) => tool !== 'builtin').length;
    // On a host's own kernel without programs, 180 flows and their collectors start in 0.1 s; in a guest, or where programs have to begin to listen, it takes longer.
    const margin = this.options.mode === 'local' && programs === 0 && (this.plan.tests ?? []).length === 0 ? 0.3 * second : second;
    return Math.max(2 * second, Math.ceil(now + margin + programs * 40e6 + this.plan.flows.length * 1e6));
  }

  private async turnLoop(): Promise<void> {
    const loop = this.loop!;
    const { endNs } = this.context!;
    // Only while the loop turns: Node waits for threads of its own at exit, and would starve them.
    // Real-time policy: the kernel then adds no slack to waits (0.1 % of a wait, select_estimate_accuracy), and
    // other programs of a loaded host do not delay timers. Refused without the privilege: then it is a little late.
    const priority = stable(4);
    priority.writeInt32LE(1);
    const fifo = trySchedSetscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, priority) >= 0;
    this.log.write({ type: 'facts', realTimePriority: fifo });
    const before = hostTime();
    const startedNs = loop.now();
    loop.every(0, second, Infinity, (now) => {
      this.log.write({ type: 'progress', phase: now < endNs ? 'traffic' : 'teardown', tNs: now });
      for (const collector of this.startedCollectors) collector.flush();
      const failure = this.network!.failure?.() ?? null;
      if (failure !== null) this.end(failure.rule, failure.message);
      if (this.options.mode === 'local' && process.ppid !== this.parent) this.interrupt('the end of its parent process');
    });
    await this.runUntil(endNs, () => false);
    const ranNs = loop.now() - startedNs;
    if (this.options.clock === 'real' && this.interruptedBy === undefined) {
      const { facts, finding } = judgeRealTime(loop, before, hostTime(), ranNs / second);
      this.log.write({ type: 'facts', realTime: facts });
      if (finding !== null) this.log.write(finding);
    }
    for (const tool of this.traffic) tool.end();
    if (this.interruptedBy !== undefined) return;
    // Queues and wires empty themselves: what is under way is still recorded, and no packet's delay is cut off.
    const settle = endNs + 200e6 + 2 * Math.max(0, ...this.plan.flows.map(({ baseRttNs }) => baseRttNs));
    const finished = (): boolean => this.traffic.every((tool) => tool.finished()) && this.network!.queued() === 0;
    let until = settle;
    for (;;) {
      await this.runUntil(until, () => false);
      if (this.interruptedBy !== undefined) return;
      if (finished() || until >= endNs + longestDrain) break;
      until += 100e6;
    }
    this.ranToEnd = true;
  }

  /** Slices of at most a second; between them Node's event loop turns once. */
  private async runUntil(untilNs: number, isFinished: () => boolean): Promise<void> {
    const loop = this.loop!;
    while (this.interruptedBy === undefined) {
      const slice = Math.min(untilNs, (Math.floor(loop.wokeNs / second) + 1) * second);
      const why = loop.run(slice, isFinished);
      await turn();
      if (why === 'finished' || (why === 'time' && slice >= untilNs)) return;
    }
  }

  private async takeDown(): Promise<void> {
    trySchedSetscheduler(0, SCHED_OTHER, stable(4)); // Node's own threads must get on while this one waits for them at exit
    await this.guarded(() => { if (this.loop !== undefined) this.log.write({ type: 'progress', phase: 'teardown', tNs: this.loop.wokeNs }); });
    for (const collector of this.startedCollectors) await this.guarded(() => collector.stop());
    for (const tool of this.traffic) await this.guarded(() => tool.stop());
    const { network } = this;
    if (network !== undefined) {
      await this.guarded(async () => {
        const said = await network.end?.();
        if (said === undefined) return;
        this.report(said.findings);
        this.log.write({ type: 'facts', ...said.facts });
      });
      if (this.ranToEnd) await this.guarded(() => this.report(network.verifyEnd()));
      if (this.options.mode === 'local') {
        const startedNs = this.realNs();
        await this.guarded(() => network.remove());
        const downNs = startedNs === undefined ? {} : { downNs: this.realNs()! - startedNs };
        if (this.networkUpNs !== undefined) await this.guarded(() => this.log.write({ type: 'facts', network: { upNs: this.networkUpNs, ...downNs } }));
      }
    }
    this.loop?.close();
  }

  /** One part's failure must not keep the others from being closed. */
  private async guarded(call: () => void | Promise<void>): Promise<void> {
    try {
      await call();
    } catch (error) {
      this.failed = true;
      this.told('failed', ruleOf(error), messageOf(error, this.options.rawDir));
    }
  }

  private interrupt(by: string): void {
    this.interruptedBy ??= by;
    this.loop?.stop();
  }

  private readonly reported = new Set<string>();
  /** Each finding once, though checks are made before and after. */
  private report(findings: readonly Finding[]): void {
    for (const finding of findings) {
      const key = `${finding.rule} ${finding.message}`;
      if (this.reported.has(key)) continue;
      this.reported.add(key);
      this.log.write(finding);
    }
  }

  private end(rule: string, message: string): never {
    this.told('failed', rule, message);
    throw new AlreadyTold(message);
  }

  /** A finding in agent.jsonl, and on stderr where the disk may be full. */
  private told(level: Finding['level'], rule: string, message: string): void {
    const finding: Finding = { type: 'finding', level, rule, message, tNs: this.loop?.wokeNs ?? 0 };
    try {
      this.log.write(finding);
    } catch {
      // stderr has it
    }
    try {
      fs.writeSync(2, `${level}: ${rule}: ${message}\n`);
    } catch {
      // nobody listens any more
    }
  }
}

/** Node's event loop turns once: pending signals and ends of children are delivered. */
const turn = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve); });

function byTool(plan: Plan): Map<string, PlanFlow[]> {
  // A test may have no flow at all (flent's ping).
  const groups = new Map<string, PlanFlow[]>((plan.tests ?? []).map(({ tool }) => [tool, []]));
  for (const flow of plan.flows) {
    const group = groups.get(flow.tool);
    if (group === undefined) groups.set(flow.tool, [flow]);
    else group.push(flow);
  }
  return groups;
}

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '');
const fullDisk = new Set(['ENOSPC', 'EDQUOT']);

function ruleOf(error: unknown): string {
  if (fullDisk.has(codeOf(error))) return 'disk-full';
  if (error instanceof Error && error.name === 'UserError') return 'refused';
  return 'agent-failed';
}

function messageOf(error: unknown, rawDir: string): string {
  if (fullDisk.has(codeOf(error))) return `the disk that holds ${rawDir} is full (${codeOf(error)}): records are cut off here. Free some space or choose another folder (--out), then run again.`;
  if (!(error instanceof Error)) return String(error);
  return error.name === 'Error' || error.name === 'TypeError' ? (error.stack ?? error.message) : error.message;
}
