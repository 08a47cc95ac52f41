/**
 * `npm run bench daemon`: the userspace bottleneck on this host's own kernel in real time, rate by rate to where it breaks: what it
 * carries, and how much later than due packets leave. Needs root (network namespaces, real-time priority). The host should be idle.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { forget, projectRoot, testbedRun } from './measure.js';

type Say = (what: string, figure: string, goal: string, met: boolean | null) => void;
interface DaemonFacts { readonly realTimePriority: boolean; readonly lateness: { readonly p50Ns: number; readonly p99Ns: number; readonly maxNs: number }; readonly faults: Readonly<Record<string, number>> }
interface RunFile { readonly status: string; readonly facts: { readonly daemon?: DaemonFacts }; readonly findings: readonly { readonly rule: string; readonly level: string }[] }

export async function daemon(say: Say): Promise<void> {
  for (const mbit of [20, 50, 100, 200, 300, 500, 700, 1000]) {
    const run = await testbedRun([path.join(projectRoot, 'bench', 'daemon.yaml'), '--machine', 'local', '--seed', '1', '--set', `topology.links.BL.rate.forward=${mbit}mbit`], null, true);
    const { status, facts, findings } = JSON.parse(fs.readFileSync(path.join(run.runDir, 'run.json'), 'utf8')) as RunFile;
    const carried = (run.metrics.bottlenecks['BL']?.throughputBps ?? 0) / 1e6;
    const { lateness, faults, realTimePriority } = facts.daemon!;
    const us = (ns: number): string => `${(ns / 1000).toFixed(0)} µs`;
    const lost = Object.entries(faults).filter(([name, count]) => name !== 'lastErrno' && count > 0).map(([name, count]) => `, ${name} ${count}`).join('');
    const why = status === 'complete' ? '' : ` (${status}: ${[...new Set(findings.filter(({ level }) => level !== 'warning').map(({ rule }) => rule))].join(', ')})`;
    // The IP layer's share of a link that counts Ethernet headers is 1500 of 1514 bytes.
    const goal = mbit === 100 ? 97 : null;
    say(`userspace bottleneck, ${mbit} Mbit/s: carried${realTimePriority ? '' : ', without real-time priority'}`, `${carried.toFixed(1)} Mbit/s${lost}${why}`, goal === null ? '' : `≥ ${goal}`, goal === null ? null : carried >= goal);
    say('… packets leave late by: median, p99, max', `${us(lateness.p50Ns)}, ${us(lateness.p99Ns)}, ${us(lateness.maxNs)}`, mbit === 100 ? 'p99 ≤ 150 µs' : '', mbit === 100 ? lateness.p99Ns <= 150e3 : null);
    forget(run);
  }
}
