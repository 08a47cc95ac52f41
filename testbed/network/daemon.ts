/**
 * The userspace bottleneck of a plan's network: what it is told, and its process (daemon/main.ts, bundled as dist/daemon.mjs) beside the
 * agent, in the wires' namespace. It lives from before the first packet to after the last, and ends when the agent does.
 */

import { spawn, type ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DaemonConfig, DaemonLine, DaemonSummary } from '../../daemon/config.js';
import { realTimeBounds } from '../agent/realtime.js';
import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';
import type { Finding } from '../records/raw.js';
import type { Layout } from './steps.js';

/** Of all packets it holds. */
const memoryBytes = 256 << 20;

/** @returns null when the plan has nothing for it to do @param folder where records go; null: none */
export function daemonConfig(plan: Plan, layout: Layout, clock: 'virtual' | 'real', folder: string | null): DaemonConfig | null {
  const directions = [...layout.directions.values()].flatMap(({ direction, link, daemon }) => daemon === null ? [] : [{
    direction, mtuBytes: link.mtuBytes, in: daemon.in.ifindex, out: daemon.out.ifindex,
    record: link.role === 'bottleneck' && direction.rateBps !== null && direction.queue?.in === 'daemon',
  }]);
  if (directions.length === 0) return null;
  const names = new Set(directions.map(({ direction }) => direction.name));
  return {
    // In a run the agent looks after the devices.
    schema: 1, port: 'packet', tuns: [], watch: folder === null ? watched(layout) : [], clock, seed: plan.seed, directions, events: plan.events.filter((event) => names.has(event.direction)),
    records: folder === null ? null : {
      folder, packets: plan.collect.packets, queueIntervalNs: plan.collect.queueIntervalNs, warmupNs: plan.warmupNs, endNs: plan.warmupNs + plan.durationNs,
      flows: plan.flows, probes: plan.probes,
    },
    statisticsNs: null, spinNs: 0, memoryBytes,
  };
}

const watched = (layout: Layout): DaemonConfig['watch'] =>
  [...layout.directions.values()].flatMap(({ daemon }) => (daemon === null ? [] : [{ name: daemon.in.device, ifindex: daemon.in.ifindex }]));

/** The bundled program, beside the agent's or in the checkout's dist folder. */
export function daemonFile(): string {
  for (let folder = path.dirname(fileURLToPath(import.meta.url)); ; folder = path.dirname(folder)) {
    for (const file of [path.join(folder, 'daemon.mjs'), path.join(folder, 'dist', 'daemon.mjs')]) if (fs.existsSync(file)) return file;
    if (folder === path.dirname(folder)) throw new UserError('the userspace bottleneck (dist/daemon.mjs) is not built: npm run setup');
  }
}

/**
 * Memory that is collected seldom and never by a thread of its own; in a guest one thread for all (as the agent's).
 * @returns arguments of node
 */
export const daemonArguments = (clock: 'virtual' | 'real'): readonly string[] =>
  [clock === 'virtual' ? '--single-threaded' : '--single-threaded-gc', '--min-semi-space-size=32', '--max-semi-space-size=32', '--expose-gc', daemonFile()];

/** Lines of JSON as they come. */
function onLines(child: ChildProcess, call: (line: DaemonLine) => void): void {
  let partial = '';
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    const lines = (partial + text).split('\n');
    partial = lines.pop() ?? '';
    for (const line of lines) call(JSON.parse(line) as DaemonLine);
  });
}

export class DaemonProcess {
  private summary: DaemonSummary | null = null;
  private readonly ended: Promise<void>;
  private diedOf: string | null = null;
  private ending = false;
  realTimePriority = false;

  private constructor(private readonly child: ChildProcess, private readonly onStatistics: (line: DaemonSummary) => void) {
    this.ended = new Promise((resolve) => {
      child.on('error', (error) => { this.diedOf ??= error.message; resolve(); });
      child.on('close', (code, signal) => {
        if (!this.ending || code !== 0) this.diedOf ??= signal === null ? `exit code ${code}` : `signal ${signal}`;
        resolve();
      });
    });
  }

  /**
   * @param inside runs its call where the daemon belongs
   * @param file where its configuration is put
   * @returns when it passes packets @throws UserError with what it says
   */
  static async start(config: DaemonConfig, file: string, inside: <T>(call: () => T) => T, options: { readonly detached?: boolean; readonly onStatistics?: (line: DaemonSummary) => void } = {}): Promise<DaemonProcess> {
    fs.writeFileSync(file, `${JSON.stringify(config)}\n`);
    const child = inside(() => spawn(process.execPath, [...daemonArguments(config.clock), file], { stdio: ['pipe', 'pipe', 'inherit'], detached: options.detached ?? false }));
    child.stdin!.on('error', () => undefined);
    const daemon = new DaemonProcess(child, options.onStatistics ?? (() => undefined));
    let refused: string | null = null;
    const ready = new Promise<void>((resolve) => {
      onLines(child, (line) => {
        if (line.type === 'ready') {
          daemon.realTimePriority = line.realTimePriority;
          resolve();
        } else if (line.type === 'error') daemon.diedOf = refused = line.message;
        else if (line.type === 'statistics') daemon.onStatistics(line);
        else daemon.summary = line;
      });
    });
    await Promise.race([ready, daemon.ended]);
    const died = refused ?? daemon.diedOf;
    if (died !== null) throw new UserError(refused ?? `the userspace bottleneck did not start: ${died}`, 3);
    return daemon;
  }

  get pid(): number { return this.child.pid!; }
  /** When it is gone, for whatever reason. */
  get gone(): Promise<void> { return this.ended; }

  /** Run time 0, ns of CLOCK_MONOTONIC. */
  begin(originNs: number): void { this.child.stdin!.write(`begin ${originNs}\n`); }

  /** What it died of, once it has on its own. */
  get endedBy(): string | null { return this.diedOf; }
  /** The same as a finding of a run. */
  failure(): Finding | null {
    if (this.diedOf === null) return null;
    return { type: 'finding', level: 'failed', rule: 'daemon-died', message: `the userspace bottleneck ended in the middle of the run (${this.diedOf}): packets no longer passed; see raw/console.log` };
  }

  /** Ends it and waits for its records. @returns its last statistics; null if it died */
  async end(): Promise<DaemonSummary | null> {
    this.ending = true;
    this.child.stdin!.end();
    await this.ended;
    return this.summary;
  }
}

/** Share of time from which a slow processor can be why 1 of 100 packets was late. */
const slowProcessor = 0.005;

/** What of a summary bears on the run's validity. @param clock in real time, being late counts */
export function daemonFindings({ directions, lateness, pace, faults }: DaemonSummary, clock: 'virtual' | 'real'): Finding[] {
  const out: Finding[] = [];
  const invalid = (rule: string, message: string): void => { out.push({ type: 'finding', level: 'invalid', rule, message }); };
  const ms = (ns: number): string => `${(ns / 1e6).toFixed(2)} ms`;
  if (clock === 'real' && (lateness.p99Ns > realTimeBounds.lateP99Ns || lateness.maxNs > realTimeBounds.lateMaxNs)) {
    invalid('late', `the userspace bottleneck sent packets late: 1 of 100 by ${ms(lateness.p99Ns)} or more (bound ${ms(realTimeBounds.lateP99Ns)}), the worst by ${ms(lateness.maxNs)} (bound ${ms(realTimeBounds.lateMaxNs)}). `
      + (pace === null || pace.slowShare < slowProcessor ? '' : `The processor itself was slowed down (by its power or temperature limits, or by its host): it ran at less than half its speed ${(100 * pace.slowShare).toFixed(1)} % of the time, at worst at 1/${(1 / pace.slowest).toFixed(0)}; while it kept its speed, 1 of 100 packets was late by ${ms(pace.lateness.p99Ns)}. `)
      + 'Run it again on an idle machine, as root (real-time priority), at a lower rate, or in virtual time (--machine uml --clock virtual).');
  }
  for (const { name, overflowed } of directions) if (overflowed > 0) invalid('wire-dropped', `link ${name}: its wire dropped ${overflowed} packets for want of room, so delay was not all it did; report it, or lower rate × delay`);
  if (faults.ringLost > 0) invalid('daemon-overrun', `the userspace bottleneck did not keep up: ${faults.ringLost} packets were lost before its queue; lower the rate, or use virtual time`);
  if (faults.noSlot > 0) invalid('daemon-memory', `the userspace bottleneck had no memory for ${faults.noSlot} packets; use shorter queues or a lower rate × delay`);
  if (faults.superpackets > 0) invalid('superpacket', `${faults.superpackets} packets larger than the MTU came to the userspace bottleneck and were not passed on: an offload was on`);
  if (faults.unfinishedChecksums > 0) invalid('offloads-on', `${faults.unfinishedChecksums} packets came to the userspace bottleneck without a checksum: an offload was on`);
  if (faults.notSent > 0) invalid('daemon-not-sent', `the kernel did not take ${faults.notSent} packets of the userspace bottleneck (errno ${faults.lastErrno})`);
  return out;
}
