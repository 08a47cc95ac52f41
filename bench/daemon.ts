/**
 * `npm run bench daemon`: the userspace bottleneck on this host's own kernel in real time, rate by rate to where it breaks: what it
 * carries, and how much later than due packets leave. Beside each: what the machine itself does meanwhile (floor.ts, daemon/pace.ts), which no
 * program can better. Needs root (network namespaces, real-time priority). The host should be idle.
 */

import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { DaemonStatistics, LatenessReport } from '../daemon/config.js';
import { forget, projectRoot, testbedRun } from './measure.js';

type Say = (what: string, figure: string, goal: string, met: boolean | null) => void;
type DaemonFacts = Pick<DaemonStatistics, 'lateness' | 'pace' | 'faults'> & { readonly realTimePriority: boolean };
interface RunFile { readonly status: string; readonly facts: { readonly daemon?: DaemonFacts }; readonly findings: readonly { readonly rule: string; readonly level: string }[] }
type Floor = Omit<LatenessReport, 'packets'> & { readonly realTimePriority: boolean };

/** Lets `floor.ts` run beside a call. @throws Error when it fails */
async function besideFloor<T>(call: () => Promise<T>): Promise<readonly [T, Floor]> {
  const child = spawn(process.execPath, [path.join(projectRoot, 'dist', 'bench', 'floor.js')], { stdio: ['pipe', 'pipe', 'inherit'] });
  let printed = '';
  child.stdout.on('data', (data: Buffer) => { printed += data.toString(); });
  const ended = new Promise<void>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => { if (code === 0) resolve(); else reject(new Error(`the floor beside the benchmark ended with ${code}`)); });
  });
  ended.catch(() => undefined); // awaited only after the call
  try {
    return [await call(), await (async () => {
      child.stdin.end();
      await ended;
      return JSON.parse(printed) as Floor;
    })()];
  } finally {
    child.stdin.end();
  }
}

const us = (ns: number): string => `${(ns / 1000).toFixed(0)} µs`;
const three = ({ p50Ns, p99Ns, maxNs }: Omit<LatenessReport, 'packets'>): string => [p50Ns, p99Ns, maxNs].map(us).join(', ');

export async function daemon(say: Say): Promise<void> {
  for (const mbit of [20, 50, 100, 200, 300, 500, 700, 1000]) {
    const [run, floor] = await besideFloor(() => testbedRun([path.join(projectRoot, 'bench', 'daemon.yaml'), '--machine', 'local', '--seed', '1', '--set', `topology.links.BL.rate.forward=${mbit}mbit`], null, true));
    const { status, facts, findings } = JSON.parse(fs.readFileSync(path.join(run.runDir, 'run.json'), 'utf8')) as RunFile;
    const carried = (run.metrics.bottlenecks['BL']?.throughputBps ?? 0) / 1e6;
    const { lateness, pace, faults, realTimePriority } = facts.daemon!;
    const lost = Object.entries(faults).filter(([name, count]) => name !== 'lastErrno' && count > 0).map(([name, count]) => `, ${name} ${count}`).join('');
    const why = status === 'complete' ? '' : ` (${status}: ${[...new Set(findings.filter(({ level }) => level !== 'warning').map(({ rule }) => rule))].join(', ')})`;
    // The IP layer's share of a link that counts Ethernet headers is 1500 of 1514 bytes.
    const goal = mbit === 100 ? 97 : null;
    const late = (what: string, report: Omit<LatenessReport, 'packets'>): void => say(what, three(report), mbit === 100 ? 'p99 ≤ 150 µs' : '', mbit === 100 ? report.p99Ns <= 150e3 : null);
    say(`userspace bottleneck, ${mbit} Mbit/s: carried${realTimePriority ? '' : ', without real-time priority'}`, `${carried.toFixed(1)} Mbit/s${lost}${why}`, goal === null ? '' : `≥ ${goal}`, goal === null ? null : carried >= goal);
    late('… packets leave late by: median, p99, max', lateness);
    if (pace !== null) {
      late('… while the processor kept its speed', pace.lateness);
      say('… the processor ran at less than half its speed', `${(100 * pace.slowShare).toFixed(1)} % of the time, at worst at 1/${(1 / pace.slowest).toFixed(0)}`, '', null);
    }
    say(`… beside it, a thread that only looks at the clock wakes late by${floor.realTimePriority ? '' : ', without real-time priority'}`, three(floor), '', null);
    forget(run);
  }
}
