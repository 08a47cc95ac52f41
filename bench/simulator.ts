/** `npm run bench simulator`: packets through the bottleneck a wall second, and whole commands, with ns-3 beside them. One core. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';
import { inTemporaryFolder, median, projectRoot, timed } from './measure.js';
import type { SimulatorFigures } from './simulate.js';

type Say = (what: string, figure: string, goal: string, met: boolean | null) => void;

const core = 0;
const simulatedS = 60;
const bare = ['collect={queue: none, sockets: none, packets: false}', `measure={warmup: 10s, duration: ${simulatedS - 10}s}`];
const recorded = ['collect={queue: 10ms, sockets: 100ms, packets: true}'];
const pairs = (count: number, access: string): string[] => [`topology.hosts.S={count: ${count}, at: R1, rate: ${access}}`, `topology.hosts.D={count: ${count}, at: R2, rate: ${access}}`];

interface Case { readonly what: string; readonly set: readonly string[]; readonly ns3: readonly string[]; /** Bounds of the whole command. */ readonly wholeS?: number; readonly wholeMB?: number }
const cases: readonly Case[] = [
  { what: '20 Mbit/s, 4 flows, CoDel', set: ['topology.links.BL.queue=codel'], ns3: ['--pairs=4', '--rate=20Mbps', '--queue=ns3::CoDelQueueDisc'] },
  { what: '20 Mbit/s, 4 flows, FQ-CoDel', set: [], ns3: ['--pairs=4', '--rate=20Mbps'], wholeS: 0.6 },
  { what: '100 Mbit/s, 60 pairs with access links', set: ['topology.links.BL.rate=100mbit', ...pairs(60, '100mbit')], ns3: ['--pairs=60', '--rate=100Mbps', '--access=100Mbps'] },
  { what: '1 Gbit/s, 100 flows', set: ['topology.links.BL.rate=1gbit', 'topology.hosts.S={count: 100, at: R1}', 'topology.hosts.D={count: 100, at: R2}'], ns3: ['--pairs=100', '--rate=1Gbps'], wholeS: 10, wholeMB: 250 },
];

/** @param ns3 the program built of bench/ns3, or null */
export async function simulator(say: Say, ns3: string | null): Promise<void> {
  for (const { what, set, ns3: options, wholeS, wholeMB } of cases) {
    const words = [...set, ...bare].flatMap((each) => [each]);
    const child = await timed(process.execPath, [path.join(projectRoot, 'dist', 'bench', 'simulate.js'), ...words], core, undefined, inTemporaryFolder());
    if (child.code !== 0) throw new Error(child.stderr);
    const figures = JSON.parse(child.stdout) as SimulatorFigures;
    const rate = figures.packets / figures.warmS;
    say(`${what}: packets a wall second, warm`, `${(rate / 1e6).toFixed(2)} M (cold ${(figures.packets / figures.coldS / 1e6).toFixed(2)} M)`, '≥ 0.5 M', rate >= 0.5e6);
    if (ns3 !== null) {
      const seconds = Math.min(simulatedS, Math.ceil(2e5 / (figures.packets / simulatedS)) + 2);
      const peer = await timed(ns3, [...options, `--seconds=${seconds}`], core);
      const peerRate = (figures.packets / simulatedS * seconds) / peer.wallS;
      say(`… times ns-3's ${(peerRate / 1000).toFixed(1)} k`, (rate / peerRate).toFixed(0), '≥ 50', rate / peerRate >= 50);
    }
    // Records are asked for in the plan, so the same file is timed with them.
    const full = await timed(process.execPath, [path.join(projectRoot, 'dist', 'bench', 'simulate.js'), ...set, ...recorded, bare[1]!], core, undefined, inTemporaryFolder());
    const withRecords = JSON.parse(full.stdout) as SimulatorFigures;
    say('… with every packet recorded, times as long', (withRecords.recordedS / figures.warmS).toFixed(2), '≤ 1.5', withRecords.recordedS / figures.warmS <= 1.5);
    if (wholeS === undefined) continue;
    const walls: number[] = [];
    for (let i = 0; i < 3; i++) {
      const out = temporaryFolder('testbed-bench-');
      const run = await timed(process.execPath, [path.join(projectRoot, 'bin', 'testbed.cjs'), 'sim', path.join(projectRoot, 'bench', 'dumbbell.yaml'), '--seed', '1', '--out', out, ...words.flatMap((word) => ['--set', word])], core);
      if (run.code !== 0) throw new Error(run.stderr);
      fs.rmSync(out, { recursive: true, force: true });
      walls.push(run.wallS);
    }
    say('… the whole command, start, analysis and report included', `${median(walls).toFixed(2)} s`, `≤ ${wholeS} s`, median(walls) <= wholeS);
    if (wholeMB !== undefined) say('… memory of the simulation', `${(figures.peakBytes / 1e6).toFixed(0)} MB`, `≤ ${wholeMB} MB`, figures.peakBytes <= wholeMB * 1e6);
  }
}
