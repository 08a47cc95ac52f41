/** `testbed daemon`: the userspace bottleneck on this router, between two of its devices, with live statistics. */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { randomBytes } from 'node:crypto';
import { InvalidArgumentError, type Command } from 'commander';
import type { DaemonConfig, DaemonDirection, DaemonSummary } from '../../daemon/config.js';
import { parseQueueWords } from '../../daemon/queue-words.js';
import { familiesForwarded, findDevice, Router, type Path } from '../../daemon/router.js';
import { UserError } from '../errors.js';
import { openJournal } from '../journal/journal.js';
import { CLOCK_MONOTONIC, clockNs } from '../linux/libc.js';
import { DaemonProcess } from '../network/daemon.js';
import { wireLimit } from '../plan/wire.js';
import type { PlanDirection } from '../plan/plan.js';
import { whenOutputCloses } from '../run/closed-output.js';
import { formatRate, parseRate, parseTime } from '../units.js';
import { parseSeed } from './scenario-options.js';

const rate = (text: string): number => {
  const bps = parseRate(text);
  if (bps === undefined || bps < 1e3 || bps > 1e12) throw new InvalidArgumentError('expected a rate from 1kbit to 1tbit, such as 20mbit');
  return bps;
};
const time = (text: string): number => {
  const ns = parseTime(text);
  if (ns === undefined || ns < 0 || ns > 60e9) throw new InvalidArgumentError('expected a time of at most 60s, such as 10ms');
  return ns;
};
const probability = (text: string): number => {
  const percent = /^(\d*\.?\d+)%$/.exec(text);
  const value = percent ? Number(percent[1]) / 100 : Number(text);
  if (text.trim() === '' || !(value >= 0 && value <= 1)) throw new InvalidArgumentError('expected a probability such as 1% or 0.01');
  return value;
};
const overhead = (text: string): number => {
  const bytes = Number(text);
  if (!/^-?\d+$/.test(text) || bytes < -64 || bytes > 256) throw new InvalidArgumentError('expected bytes from -64 to 256, such as 14');
  return bytes;
};

interface Options {
  readonly in?: string; readonly out?: string; readonly rate?: number; readonly queue: string; readonly limit?: string;
  readonly delay: number; readonly jitter: number; readonly loss: number; readonly reorder: number; readonly duplicate: number; readonly overhead: number;
  readonly reverseRate?: number; readonly reverseQueue: string; readonly reverseDelay: number; readonly reverseLoss: number;
  readonly spin: number; readonly seed: number; readonly duration?: number; readonly json?: true; readonly config?: string;
}

export function register(program: Command): void {
  program.command('daemon').description('put a queue discipline of aqm/ between two devices of this router, in user space')
    .option('--in <device>', 'packets that come in by it …')
    .option('--out <device>', '… and would go out by it are queued')
    .option('--rate <rate>', 'rate of the bottleneck, such as 20mbit', rate)
    .option('--queue <words>', "queue discipline, as tc has it: 'codel target 5ms', 'aqmrd'", 'pfifo')
    .option('--limit <size>', "the queue's limit, where --queue says none")
    .option('--delay <time>', 'delay after the queue', time, 0)
    .option('--jitter <time>', 'delay varies by this, up and down', time, 0)
    .option('--loss <probability>', 'packets lost at random', probability, 0)
    .option('--duplicate <probability>', 'packets sent twice', probability, 0)
    .option('--reorder <probability>', 'packets sent without delay', probability, 0)
    .option('--overhead <bytes>', 'link-layer bytes counted with each packet', overhead, 14)
    .option('--reverse-rate <rate>', 'a bottleneck in the other direction too', rate)
    .option('--reverse-queue <words>', 'its queue discipline', 'pfifo')
    .option('--reverse-delay <time>', 'delay in the other direction', time, 0)
    .option('--reverse-loss <probability>', 'packets lost there', probability, 0)
    .option('--spin <time>', 'read the clock in a loop for this long before a packet is due, such as 50us: more exact, and takes a processor', time, 0)
    .option('--seed <n>', 'of its random decisions', parseSeed, 1)
    .option('--duration <time>', 'end after this long', (text) => {
      const ns = parseTime(text);
      if (ns === undefined || ns < 1e6) throw new InvalidArgumentError('expected a time such as 30s');
      return ns;
    })
    .option('--json', 'statistics as one JSON object a second')
    .option('--config <file>', "a plan's bottleneck as `testbed plan --format sh` has it, in the network namespace of its wires")
    .addHelpText('after', "\nExample:\n  testbed daemon --in eth1 --out eth2 --rate 20mbit --queue 'codel target 5ms'\nEnds with Ctrl-C and leaves everything as it was. After a crash the packets flow\npast it, and `testbed clean` removes its rules.\n")
    .action(async (options: Options) => { process.exitCode = options.config === undefined ? await runDaemon(options) : await runConfig(options.config, options.json === true); });
}

function directionOf(name: string, rateBps: number | null, queue: PlanDirection['queue'], overheadBytes: number, wire: { delayNs: number; jitterNs: number; loss: number; duplicate: number; reorder: number }): PlanDirection {
  const acts = Object.values(wire).some((value) => value > 0);
  return { name, rateBps, shaper: rateBps === null ? null : 'htb', overheadBytes, queue: rateBps === null ? null : queue, wire: acts ? [{ ...wire, limitPackets: wireLimit(wire, rateBps ?? 1e9) }] : [] };
}

async function runDaemon(options: Options): Promise<number> {
  const { in: inName, out: outName, rate: rateBps } = options;
  if (inName === undefined || outName === undefined || rateBps === undefined) throw new UserError("needs --in DEVICE, --out DEVICE and --rate RATE, such as: testbed daemon --in eth1 --out eth2 --rate 20mbit --queue 'codel target 5ms'", 2);
  if (inName === outName) throw new UserError(`--in and --out are both ${inName}; expected two devices of this router`, 2);
  const queue = parseQueueWords(options.queue, '--queue', options.limit === undefined ? {} : { limit: options.limit });
  const reverseQueue = parseQueueWords(options.reverseQueue, '--reverse-queue');
  const [into, out] = [findDevice(inName, '--in'), findDevice(outName, '--out')];
  const reverse = options.reverseRate !== undefined || options.reverseDelay > 0 || options.reverseLoss > 0;
  const tag = randomBytes(5).readUIntBE(0, 5).toString(36).padStart(8, '0').slice(-8);
  const tuns = [`tb${tag.slice(0, 6)}f`, ...(reverse ? [`tb${tag.slice(0, 6)}r`] : [])];
  const paths: Path[] = [{ in: into, out, tun: tuns[0]!, families: familiesForwarded(inName) }];
  if (reverse) paths.push({ in: out, out: into, tun: tuns[1]!, families: familiesForwarded(outName) });
  const directions: DaemonDirection[] = [{
    direction: directionOf(`${inName}→${outName}`, rateBps, queue, options.overhead, { delayNs: options.delay, jitterNs: options.jitter, loss: options.loss, duplicate: options.duplicate, reorder: options.reorder }),
    mtuBytes: out.mtuBytes, in: 0, out: 0, record: false,
  }];
  if (reverse) {
    directions.push({
      direction: directionOf(`${outName}→${inName}`, options.reverseRate ?? null, reverseQueue, options.overhead, { delayNs: options.reverseDelay, jitterNs: 0, loss: options.reverseLoss, duplicate: 0, reorder: 0 }),
      mtuBytes: into.mtuBytes, in: 1, out: 1, record: false,
    });
  }
  const config: DaemonConfig = {
    schema: 1, port: 'tun', tuns, watch: [into, out].map(({ name, ifindex }) => ({ name, ifindex })), clock: 'real', seed: options.seed, directions, events: [], records: null, statisticsNs: 1e9, spinNs: options.spin, memoryBytes: 512 << 20,
  };
  const journal = openJournal(tag);
  const folder = path.join(os.tmpdir(), `testbed-daemon-${tag}`);
  const [folderId] = journal.add({ kind: 'folder', path: folder });
  const router = new Router(journal);
  const ending = whenTold(options.duration);
  let daemon: DaemonProcess | null = null;
  let code = 0;
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
    // Children inherit it: `testbed clean` knows ours by it.
    Object.assign(process.env, journal.environment);
    const screen = new Screen(options.json === true, queue.kind);
    daemon = await DaemonProcess.start(config, path.join(folder, 'config.json'), (call) => call(), { detached: true, onStatistics: (line) => screen.show(line) });
    for (const [index, one] of paths.entries()) router.lead(one, index as 0 | 1);
    if (!options.json) {
      process.stderr.write(`${inName} → ${outName}: ${formatRate(rateBps)}, ${options.queue}${reverse ? `; ${outName} → ${inName} too` : ''}${daemon.realTimePriority ? '' : '; without real-time priority (CAP_SYS_NICE), so packets may be late'}. Ctrl-C ends it.\n`);
    }
    const died = await Promise.race([ending.told.then(() => false), daemon.gone.then(() => true)]);
    if (died) {
      process.stderr.write(`the daemon's process ended on its own (${daemon.endedBy ?? 'why is unknown'}): packets flow past it, and everything else is set back as it was\n`);
      code = 1;
    }
  } finally {
    ending.stop();
    const failed = router.restore();
    for (const message of failed) process.stderr.write(`${message}; run testbed clean\n`);
    if (failed.length > 0) code = 1;
    const summary = await daemon?.end();
    if (summary && options.json) process.stdout.write(`${JSON.stringify({ ...summary, type: 'summary' })}\n`);
    fs.rmSync(folder, { recursive: true, force: true });
    journal.removed(folderId!);
    journal.close();
  }
  return code;
}

/** The bottleneck of a plan by hand. */
async function runConfig(file: string, json: boolean): Promise<number> {
  let config: DaemonConfig;
  try {
    config = JSON.parse(fs.readFileSync(file, 'utf8')) as DaemonConfig;
  } catch (error) {
    throw new UserError(`--config ${file}: ${(error as Error).message}; expected what testbed plan --format sh writes`, 2, { cause: error });
  }
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'testbed-daemon-'));
  const ending = whenTold(undefined);
  try {
    const screen = new Screen(json, 'plan');
    const daemon = await DaemonProcess.start({ ...config, statisticsNs: json || process.stdout.isTTY ? 1e9 : null }, path.join(folder, 'config.json'), (call) => call(), { detached: true, onStatistics: (line) => screen.show(line) });
    daemon.begin(clockNs(CLOCK_MONOTONIC));
    const died = await Promise.race([ending.told.then(() => false), daemon.gone.then(() => true)]);
    if (died) process.stderr.write(`the daemon's process ended on its own (${daemon.endedBy ?? 'why is unknown'}): no packet passes any more\n`);
    else await daemon.end();
    return died ? 1 : 0;
  } finally {
    ending.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** Resolves at a signal, or after a while. */
function whenTold(durationNs: number | undefined): { readonly told: Promise<void>; stop(): void } {
  let stop = (): void => undefined;
  const told = new Promise<void>((resolve) => {
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
    const on = (): void => { resolve(); };
    for (const signal of signals) process.on(signal, on);
    const timer = durationNs === undefined ? undefined : setTimeout(on, durationNs / 1e6);
    const watchAgain = whenOutputCloses(on);
    stop = () => {
      watchAgain();
      clearTimeout(timer);
      for (const signal of signals) process.off(signal, on);
    };
  });
  return { told, stop: () => { stop(); } };
}

const ms = (ns: number): string => (ns >= 100e6 ? (ns / 1e6).toFixed(0) : (ns / 1e6).toFixed(2)).padStart(7);

/** A line a direction and second; on a terminal rewritten in place. */
class Screen {
  private before: DaemonSummary | null = null;
  private lines = 0;
  constructor(private readonly json: boolean, private readonly title: string) {}

  show(line: DaemonSummary): void {
    if (this.json) {
      process.stdout.write(`${JSON.stringify(line)}\n`);
      return;
    }
    const { directions, lateness, faults } = line;
    const head = `${this.title.padEnd(16)}   Mbit/s  packets    bytes   mean ms    p99 ms   max ms    drops    marks`;
    const rows = directions.map((now, i) => {
      const last = this.before?.directions[i];
      const sent = now.sentBytes - (last?.sentBytes ?? 0);
      return `${now.name.slice(0, 16).padEnd(16)} ${((sent * 8) / 1e6).toFixed(2).padStart(8)} ${String(now.backlogPackets).padStart(8)} ${String(now.backlogBytes).padStart(8)}   ${ms(now.sojournMeanNs)}   ${ms(now.sojournP99Ns)}  ${ms(now.sojournMaxNs)} ${String(now.drops).padStart(8)} ${String(now.marks).padStart(8)}`;
    });
    const lost = faults.ringLost + faults.noSlot + faults.notSent + faults.superpackets;
    const foot = `sent late by ${(lateness.p50Ns / 1000).toFixed(0)} µs (median), ${(lateness.p99Ns / 1000).toFixed(0)} µs (p99)${lost > 0 ? `; ${lost} packets lost outside the queue: the machine does not keep up` : ''}`;
    const tty = process.stdout.isTTY;
    if (tty && this.lines > 0) process.stdout.write(`\x1b[${this.lines}A\x1b[J`);
    const shown = tty || this.before === null ? [head, ...rows, ...(tty ? [foot] : [])] : rows;
    process.stdout.write(`${shown.join('\n')}\n`);
    this.lines = shown.length;
    this.before = line;
  }
}
