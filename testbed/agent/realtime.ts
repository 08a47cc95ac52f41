/**
 * Whether a host kept real time: how late the agent woke and its timers ran, CPU time stolen by a hypervisor (/proc/stat),
 * and softirq budgets used up with packets still waiting (/proc/net/softnet_stat, column 3, time_squeeze).
 *
 * Two latenesses, as they mean different things. How late a wait for a timer ends is the machine's doing, and stands for how
 * late the kernel's own timers were, those of shapers and delays: it goes into every packet's delay as it is. How late a timer
 * runs has the agent's work before it in it as well, a garbage collection or a flow's start. Meanwhile the kernel's timers
 * interrupt the agent, packets go on, and what is recorded carries the time at which it happened (samples, probes, starts of
 * flows). That shifts only when the agent sends or samples next.
 */

import * as fs from 'node:fs';
import type { Finding } from '../records/raw.js';
import type { Lateness } from './loop.js';

/** Beyond any of these a run in real time is invalid. Queueing targets of the field are 5 ms and up. */
export const realTimeBounds = {
  /** 99 of 100 waits for a timer must end this punctually, ns; and 99 of 100 packets of the userspace bottleneck leave it so. */
  lateP99Ns: 1e6,
  /** 99 of 100 timers must run this punctually, the agent's own work before them included, ns: what starts or sends by it is shifted by less than a queue's target. */
  timerP99Ns: 5e6,
  /** No timer may be later, ns. */
  lateMaxNs: 50e6,
  /** Share of CPU time stolen. */
  steal: 0.02,
  /** time_squeeze events a second. */
  squeezesPerSecond: 50,
} as const;

export interface HostTime { readonly stealTicks: number; readonly allTicks: number; readonly squeezes: number }

/** From the texts of /proc/stat and /proc/net/softnet_stat. */
export function parseHostTime(stat: string, softnet: string): HostTime {
  const cpu = /^cpu\s+(.*)$/m.exec(stat)?.[1]?.trim().split(/\s+/).map(Number) ?? [];
  // user nice system idle iowait irq softirq steal (guest times are part of user): proc_stat(5)
  const allTicks = cpu.slice(0, 8).reduce((sum, ticks) => sum + ticks, 0);
  let squeezes = 0;
  for (const line of softnet.split('\n')) squeezes += parseInt(line.trim().split(/\s+/)[2] ?? '0', 16) || 0;
  return { stealTicks: cpu[7] ?? 0, allTicks, squeezes };
}

const read = (path: string): string => {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return ''; // not readable in some containers: then lateness alone decides
  }
};
export const hostTime = (): HostTime => parseHostTime(read('/proc/stat'), read('/proc/net/softnet_stat'));

export interface RealTimeReport {
  readonly facts: Readonly<Record<string, number>>;
  readonly finding: Finding | null;
}

/** Of the event loop: loop.ts. */
export interface LoopLateness { readonly lateness: Lateness; readonly wakeLateness: Lateness }

/** @param seconds how long the run took */
export function judgeRealTime({ lateness, wakeLateness }: LoopLateness, before: HostTime, after: HostTime, seconds: number): RealTimeReport {
  const lateP99Ns = Math.round(lateness.quantile(0.99));
  const wakeP99Ns = Math.round(wakeLateness.quantile(0.99));
  const ticks = after.allTicks - before.allTicks;
  const steal = ticks > 0 ? (after.stealTicks - before.stealTicks) / ticks : 0;
  const squeezesPerSecond = seconds > 0 ? (after.squeezes - before.squeezes) / seconds : 0;
  const facts = { timers: lateness.count, lateP99Ns, lateMaxNs: Math.round(lateness.maxNs), lateMaxAtNs: Math.round(lateness.maxAtNs), missedTicks: lateness.missedTicks, waits: wakeLateness.count, wakeP99Ns, wakeMaxNs: Math.round(wakeLateness.maxNs), wakeMaxAtNs: Math.round(wakeLateness.maxAtNs), steal, squeezesPerSecond };
  const bad: string[] = [];
  const ms = (ns: number): string => `${(ns / 1e6).toFixed(2)} ms`;
  if (wakeP99Ns > realTimeBounds.lateP99Ns) bad.push(`1 of 100 waits for a timer ended ${ms(wakeP99Ns)} late or more (bound ${ms(realTimeBounds.lateP99Ns)})`);
  if (lateP99Ns > realTimeBounds.timerP99Ns) bad.push(`1 of 100 timers ran ${ms(lateP99Ns)} late or more (bound ${ms(realTimeBounds.timerP99Ns)})`);
  if (lateness.maxNs > realTimeBounds.lateMaxNs) bad.push(`a timer ran ${ms(lateness.maxNs)} late, ${(lateness.maxAtNs / 1e9).toFixed(2)} s into the run (bound ${ms(realTimeBounds.lateMaxNs)})`);
  if (steal > realTimeBounds.steal) bad.push(`${(100 * steal).toFixed(1)} % of the CPU time was taken by other virtual machines (bound ${100 * realTimeBounds.steal} %)`);
  if (squeezesPerSecond > realTimeBounds.squeezesPerSecond) bad.push(`packet processing ran out of its budget ${squeezesPerSecond.toFixed(0)} times a second (bound ${realTimeBounds.squeezesPerSecond})`);
  if (bad.length === 0) return { facts, finding: null };
  return {
    facts,
    finding: {
      type: 'finding', level: 'invalid', rule: 'late',
      message: `this machine was too loaded to keep real time: ${bad.join('; ')}. Run it again on an idle machine, or use virtual time, which no load disturbs (--machine uml --clock virtual).`,
    },
  };
}
