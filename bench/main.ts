/**
 * `npm run bench [name …]`: the speed figures of README and issues, measured and printed as a table. Whole commands are
 * timed (boot, set-up, run, analysis, report), each pinned to one core; peers run beside in the same session, because
 * only ratios mean something on a shared machine. Not a test: nothing fails by being slow.
 */

import { execFileSync } from 'node:child_process';
import * as crypto from 'node:crypto';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import Table from 'cli-table3';
import { daemon } from './daemon.js';
import { simulator } from './simulator.js';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';
import { endWhenTold, forget, inTemporaryFolder, median, projectRoot, testbedRun, timed } from './measure.js';

interface Row { readonly what: string; readonly figure: string; readonly goal: string; readonly met: boolean | null }
const rows: Row[] = [];
const say = (what: string, figure: string, goal: string, met: boolean | null): void => {
  rows.push({ what, figure, goal, met });
  process.stderr.write(`  ${what}: ${figure}${goal === '' ? '' : `  (goal ${goal}${met === null ? '' : met ? ', met' : ', MISSED'})`}\n`);
};

const machine = process.env['BENCH_MACHINE'] ?? 'uml';
const core = 0;
const dumbbell = path.join(projectRoot, 'bench', 'dumbbell.yaml');
const virtual = ['--machine', machine, '--clock', 'virtual', '--seed', '1'];
const set = (...pairs: readonly string[]): string[] => pairs.flatMap((pair) => ['--set', pair]);
const bare = set('collect={queue: none, sockets: none, packets: false}');

interface Case { readonly what: string; readonly set: readonly string[]; readonly bare: number; readonly recorded: number; readonly ns3: readonly string[] }
const cases: readonly Case[] = [
  { what: '20 Mbit/s, 4 flows', set: [], bare: 25, recorded: 15, ns3: ['--pairs=4', '--rate=20Mbps'] },
  { what: '100 Mbit/s, 4 flows', set: set('topology.links.BL.rate=100mbit'), bare: 8, recorded: 5, ns3: ['--pairs=4', '--rate=100Mbps'] },
  {
    what: '100 Mbit/s, 60 pairs with access links',
    set: set('topology.links.BL.rate=100mbit', 'topology.hosts.S={count: 60, at: R1, rate: 100mbit}', 'topology.hosts.D={count: 60, at: R2, rate: 100mbit}'),
    bare: 5, recorded: 3, ns3: ['--pairs=60', '--rate=100Mbps', '--access=100Mbps'],
  },
];

/** Builds the ns-3 program; null, with the reason printed, where ns-3 is not installed. */
function ns3Program(): string | null {
  const include = ['/usr/include/ns3.37', '/usr/include'].find((folder) => fs.existsSync(path.join(folder, 'ns3', 'core-module.h')) || fs.existsSync(path.join(folder, 'core-module.h')));
  if (include === undefined) {
    process.stderr.write('  ns-3 is left out: apt-get install libns3-dev g++ brings it\n');
    return null;
  }
  const program = path.join(temporaryFolder('testbed-bench-ns3-'), 'dumbbell');
  const libraries = ['applications', 'core', 'internet', 'network', 'point-to-point', 'traffic-control'].map((name) => `-lns3-${name}`);
  execFileSync('g++', ['-O2', '-std=c++17', `-I${include}`, '-o', program, path.join(projectRoot, 'bench', 'ns3', 'dumbbell.cc'), ...libraries], { stdio: 'inherit' });
  return program;
}

async function virtualTime(): Promise<void> {
  const program = ns3Program();
  for (const item of cases) {
    const plain = await testbedRun([dumbbell, ...virtual, ...item.set, ...bare], core);
    const bareSpeed = 300 / plain.wallS;
    say(`${item.what}, bare: virtual s a wall s`, `${bareSpeed.toFixed(1)} (utilisation ${(plain.metrics.bottlenecks['BL']!.utilisation * 100).toFixed(1)} %)`, `≥ ${item.bare}`, bareSpeed >= item.bare);
    forget(plain);
    const full = await testbedRun([dumbbell, ...virtual, ...item.set], core);
    const fullSpeed = 300 / full.wallS;
    say(`${item.what}, 10 ms samples and every packet`, fullSpeed.toFixed(1), `≥ ${item.recorded}`, fullSpeed >= item.recorded);
    forget(full);
    if (program) {
      const simulated = 60;
      const peer = await timed(program, [...item.ns3, `--seconds=${simulated}`], core);
      const peerSpeed = simulated / peer.wallS;
      say(`${item.what}: times ns-3's ${peerSpeed.toFixed(2)} (bare)`, (bareSpeed / peerSpeed).toFixed(1), '≥ 8', bareSpeed / peerSpeed >= 8);
    }
  }
  if (program) fs.rmSync(program);
}

async function iperf3(): Promise<void> {
  const run = await testbedRun([dumbbell, ...virtual, ...set('traffic.bulk.tool=iperf3', 'measure={warmup: 10s, duration: 50s}')], core);
  say('20 Mbit/s, 4 iperf3 flows: virtual s a wall s', (60 / run.wallS).toFixed(1), '≥ 1.5', 60 / run.wallS >= 1.5);
  forget(run);
}

async function fixedCost(): Promise<void> {
  const walls: number[] = [];
  for (let i = 0; i < 3; i++) {
    const run = await testbedRun([dumbbell, ...virtual, ...set('measure={warmup: 100ms, duration: 900ms}')], core);
    walls.push(run.wallS);
    forget(run);
  }
  say('fixed cost: a dumbbell run of 1 s, wall s', median(walls).toFixed(2), '≤ 4', median(walls) <= 4);
}

async function setup(): Promise<void> {
  // The same run with 60 pairs and with one pair: the difference is set-up (and take-down) of 118 hosts in the guest.
  const sized = async (pairs: number): Promise<number> => {
    const walls: number[] = [];
    for (let i = 0; i < 3; i++) {
      const run = await testbedRun([dumbbell, ...virtual, ...bare, '--no-report', ...set(`topology.hosts.S={count: ${pairs}, at: R1, rate: 100mbit}`, `topology.hosts.D={count: ${pairs}, at: R2, rate: 100mbit}`, 'measure={warmup: 10ms, duration: 90ms}')], core);
      walls.push(run.wallS);
      forget(run);
    }
    return median(walls);
  };
  const [one, sixty] = [await sized(1), await sized(60)];
  say('60-pair dumbbell with access links in the guest, set-up, wall s', (sixty - one).toFixed(2), '≤ 2', sixty - one <= 2);
}

async function upAndDown(): Promise<void> {
  const file = path.join(projectRoot, 'bench', 'parking-lot-183.yaml');
  const walls: number[] = [];
  const [ups, downs]: [number[], number[]] = [[], []];
  for (let i = 0; i < 3; i++) {
    const run = await testbedRun([file, '--machine', 'local', '--no-report', '--seed', '1'], null, true);
    const { facts } = JSON.parse(fs.readFileSync(path.join(run.runDir, 'run.json'), 'utf8')) as { facts: { network: { upNs: number; downNs: number } } };
    walls.push(run.wallS);
    ups.push(facts.network.upNs / 1e9);
    downs.push(facts.network.downNs / 1e9);
    forget(run);
  }
  const [up, down, whole] = [median(ups), median(downs), median(walls)];
  const ours = up + down;
  say('183-host parking lot up (and checked) and down on local, wall s', `${ours.toFixed(2)} (${up.toFixed(2)} + ${down.toFixed(2)})`, '≤ 3', ours <= 3);
  say('… the whole command: with Node, compiling, traffic, records', whole.toFixed(2), '', null);
  const python = '/usr/bin/python3';
  if (!fs.existsSync('/usr/lib/python3/dist-packages/mininet')) {
    process.stderr.write('  Mininet is left out: apt-get install --no-install-recommends mininet brings it\n');
    return;
  }
  const peer = await timed(python, [path.join(projectRoot, 'bench', 'mininet', 'parking-lot.py')], null);
  if (peer.code !== 0) throw new Error(`Mininet ended with ${peer.code}: ${peer.stderr}`);
  const { upS, downS } = JSON.parse(peer.stdout) as { upS: number; downS: number };
  const theirs = upS + downS;
  say("183 hosts: Mininet's up and down over ours", `${(theirs / ours).toFixed(1)} (Mininet ${theirs.toFixed(1)} s: ${upS.toFixed(1)} + ${downS.toFixed(1)})`, '> 1', theirs > ours);
  say('… over our whole command', (theirs / whole).toFixed(1), '', null);
}

async function parallel(): Promise<void> {
  const cores = os.availableParallelism();
  const args = [dumbbell, '--machine', machine, '--clock', 'virtual', ...set('topology.links.BL.rate=100mbit', 'measure={warmup: 10s, duration: 110s}')];
  const one = await testbedRun([...args, '--seed', '1'], null);
  const seeds = Array.from({ length: cores }, (_, i) => i + 1);
  const many = await testbedRun([...args, '--set', `seeds=[${seeds.join(', ')}]`], null);
  const digest = (file: string): string => crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex');
  const same = digest(path.join(one.runDir, 'metrics.json')) === digest(path.join(many.runDir, 'seed1', 'metrics.json'));
  say(`${cores} runs on ${cores} cores over one run, wall time`, (many.wallS / one.wallS).toFixed(2), '≤ 1.15', many.wallS / one.wallS <= 1.15);
  say('… and seed 1 gives the same bytes beside another run as alone', same ? 'yes' : 'no', 'yes', same);
  forget(one);
  forget(many);
}

async function analysis(): Promise<void> {
  const run = await timed(process.execPath, [path.join(projectRoot, 'dist', 'bench', 'analysis.js')], null, undefined, inTemporaryFolder());
  process.stderr.write(run.stdout);
  if (run.code !== 0) throw new Error(`analysis benchmark ended with ${run.code}: ${run.stderr}`);
}

async function simulatorSpeed(): Promise<void> {
  const program = ns3Program();
  try {
    await simulator(say, program);
  } finally {
    if (program) fs.rmSync(program);
  }
}

const benchmarks: Readonly<Record<string, () => Promise<void>>> = { 'virtual-time': virtualTime, iperf3, 'fixed-cost': fixedCost, setup, 'up-and-down': upAndDown, parallel, analysis, simulator: simulatorSpeed, daemon: () => daemon(say), store: async () => (await import('./store.js')).store(say) };

endWhenTold();
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !Object.hasOwn(benchmarks, name));
if (unknown.length > 0) {
  process.stderr.write(`no benchmark ${unknown.join(', ')}; there are ${Object.keys(benchmarks).join(', ')}\n`);
  process.exit(2);
}
for (const [name, run] of Object.entries(benchmarks)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  process.stderr.write(`${name}\n`);
  try {
    await run();
  } catch (error) {
    say(name, `failed: ${error instanceof Error ? error.message : String(error)}`, '', false);
    process.exitCode = 1;
  }
}
// 80 columns; goals only where there are any.
const goals = rows.some(({ goal, met }) => goal !== '' || met !== null);
const table = new Table({ head: ['what', 'measured', ...(goals ? ['goal', 'met'] : [])], style: { head: [], border: [] }, colWidths: goals ? [39, 21, 10, 5] : [48, 29], wordWrap: true });
for (const { what, figure, goal, met } of rows) table.push([what, figure, ...(goals ? [goal || '–', met === null ? '–' : met ? 'yes' : 'NO'] : [])]);
process.stdout.write(`${table.toString()}\n`);
