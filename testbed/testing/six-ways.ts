/**
 * The table of docs/six-ways.md: `npm run six-ways [-- --out DIR]`. Runs scenarios/six-ways/dumbbell.yaml, unchanged, with the kernel's queue and the
 * userspace bottleneck in UML, on this host's kernel, with hosts in containers (an engine of its own, which it starts and ends), over ssh
 * (an sshd of its own on loopback stands for the second machine) and in the simulator, compares them as `testbed compare`, and
 * writes the table between the page's marks. Runs in real time, so on a busy machine some may not count. Needs root, dockerd, sshd.
 */

import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { parseArgs } from 'node:util';
import { projectFile } from '../../kernel/project.js';
import type { ComparedCell, SideOfComparison } from '../compare/comparison.js';
import { compareFromDisk } from '../compare/comparison.js';
import { formatDifference, formatValue } from '../compare/wording.js';
import { writeComparison } from '../compare/write.js';
import { UserError } from '../errors.js';
import { plainMistakes } from '../script.js';
import { noEngine, PrivateEngine } from './private-engine.js';
import { noSshd, PrivateSshd } from './private-sshd.js';
import { temporaryFolder } from './temporary-folder.js';

plainMistakes();
const { values } = parseArgs({ options: { out: { type: 'string', default: path.join('results', 'runs', 'six-ways') }, page: { type: 'string', default: projectFile('docs', 'six-ways.md') } } });
const file = projectFile('scenarios', 'six-ways', 'dumbbell.yaml');

interface Way { readonly label: string; readonly words: readonly string[]; readonly env?: Readonly<Record<string, string>> }

/** The figures of the table, as metrics.json calls them. */
const figures: readonly (readonly [path: string, name: string])[] = [
  ['bottlenecks.BL.utilisation', 'utilisation'],
  ['bottlenecks.BL.queueDelayMs.mean', 'queueing, mean'],
  ['bottlenecks.BL.queueDelayMs.p50', 'queueing, median'],
  ['bottlenecks.BL.queueDelayMs.p95', 'queueing, p95'],
  ['bottlenecks.BL.queueDelayMs.p99', 'queueing, p99'],
  ['bottlenecks.BL.lossRatio', 'loss ratio'],
  ['bottlenecks.BL.lossSynchronisation', 'loss synchronisation'],
  ['classes.bulk.jain', "Jain's index of the flows"],
  ['probes.ping.rttMs.p50', 'ping, median'],
  ['probes.ping.rttMs.p99', 'ping, p99'],
];

const places = temporaryFolder('testbed-six-ways-');
// Engine and sshd are to be ended: not before the command that runs has, which a terminal tells as well.
let told = false;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => { told = true; });
const engine = new PrivateEngine();
let sshd: PrivateSshd | undefined;
try {
  const missing = noEngine() ?? noSshd() ?? (await engine.start());
  if (missing !== null) throw new UserError(missing, 3);
  sshd = await PrivateSshd.start(places);
  fs.mkdirSync(path.join(places, '.ssh'));
  fs.writeFileSync(path.join(places, '.ssh', 'known_hosts'), sshd.known());
  const config = path.join(places, 'testbed.config.yaml');
  fs.writeFileSync(config, `machines:\n  lab: { ssh: "${sshd.target}", key: ${sshd.key()} }\n`);
  const docker = { DOCKER_HOST: engine.host };
  if (testbed(['image', 'build', '--from', 'machine'], docker) !== 0) throw new UserError('the image of hosts in containers could not be built');

  const daemon = ['--queues', 'daemon'];
  const ways: readonly Way[] = [
    { label: 'UML, kernel qdisc', words: ['run', file, '--machine', 'uml', '--queues', 'kernel'] },
    { label: 'UML, daemon', words: ['run', file, '--machine', 'uml', ...daemon] },
    { label: 'local, daemon', words: ['run', file, '--machine', 'local', ...daemon] },
    { label: 'docker, daemon', words: ['run', file, '--machine', 'local', '--hosts', 'docker', ...daemon], env: docker },
    { label: 'ssh, daemon', words: ['run', file, '--machine', 'lab', ...daemon], env: { HOME: places, TESTBED_CONFIG: config, TESTBED_CACHE: process.env['TESTBED_CACHE'] ?? path.join(os.homedir(), '.cache', 'testbed') } },
    { label: 'simulator', words: ['sim', file] },
  ];
  const sides = ways.map((way) => ({ label: way.label, folder: runOnce(way) }));
  const result = await compareFromDisk(sides.map(({ folder }) => folder), { resultsDir: values.out, allow: [], labels: sides.map(({ label }) => label) });
  const { page } = await writeComparison(result, values.out, path.join(values.out, 'comparison'), true);
  const text = table(result.comparison.cells[0]!, result.comparison.sides);
  process.stdout.write(`${text}\npage: ${page}\n`);
  writeTable(values.page, text);
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = error.exitCode;
} finally {
  await sshd?.cutOff();
  await engine.stop();
  fs.rmSync(places, { recursive: true, force: true });
}

function testbed(words: readonly string[], env: Readonly<Record<string, string>> = {}): number {
  if (told) throw new UserError('interrupted', 130);
  const { status, error } = spawnSync(process.execPath, [projectFile('bin', 'testbed.cjs'), ...words], { stdio: 'inherit', env: { ...process.env, ...env } });
  if (error) throw error;
  return status ?? 1;
}

/** @returns the set's folder; that of an earlier call where it is whole */
function runOnce({ label, words, env }: Way): string {
  const out = path.join(values.out, label.replaceAll(/\W+/g, '-'));
  const sets = (): string[] => fs.readdirSync(out).map((name) => path.join(out, name)).filter((name) => fs.statSync(name).isDirectory());
  if (!fs.existsSync(path.join(out, 'done'))) {
    // What an interrupted one left is no set of runs.
    fs.rmSync(out, { recursive: true, force: true });
    // 1: a run of the set does not count (in real time, too late); the comparison leaves it out and the table says so.
    const code = testbed([...words, '--no-report', '--out', out], env);
    if (code === 130) throw new UserError('interrupted', 130);
    if (code > 1) throw new UserError(`${label} could not be run (exit code ${code})`);
    fs.writeFileSync(path.join(out, 'done'), '');
  }
  return sets()[0]!;
}

/** Markdown: a column a way, a row a figure; bold where it differs from the first by more than other seeds would make of it. */
function table(cell: ComparedCell, sides: readonly SideOfComparison[]): string {
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const byFigure = (side: number, figure: string) => cell.comparisons.find((one) => one.side === side)?.figures.find((one) => one.figure === figure);
  const rows = figures.map(([figure, name]) => {
    const first = byFigure(1, figure);
    if (first === undefined) throw new Error(`no figure ${figure}`);
    return row([name, formatValue(first.unit, first.reference.mean), ...sides.slice(1).map((_, index) => {
      const one = byFigure(index + 1, figure)!;
      const value = formatValue(one.unit, one.other.mean);
      return one.verdict === 'outside' ? `**${value}** (${formatDifference(one.unit, one.difference)}, noise ${formatDifference(one.unit, one.noise, false)})` : value;
    })]);
  });
  const kernels = sides.map(({ runs }) => [...new Set(runs.map(({ engine: name, kernel }) => (name === 'sim' ? '' : `Linux ${kernel?.split('-')[0] ?? ''}`)))].join(', '));
  const clocks = sides.map(({ runs }) => [...new Set(runs.map(({ clock }) => clock))].join(', '));
  const seeds = sides.map(({ runs, notCompared }) => `${runs.length} of ${runs.length + notCompared.length}`);
  return [row(['', ...sides.map(({ label }) => label)]), row(['---', ...sides.map(() => '---:')]), row(['kernel', ...kernels]), row(['clock', ...clocks]), row(['runs that count', ...seeds]), ...rows].join('\n');
}

function writeTable(page: string, text: string): void {
  const [begin, end] = ['<!-- table: npm run six-ways -->', '<!-- end of table -->'];
  const before = fs.readFileSync(page, 'utf8');
  const [from, to] = [before.indexOf(begin), before.indexOf(end)];
  if (from < 0 || to < from) throw new UserError(`${page}: expected the marks ${begin} and ${end}`);
  fs.writeFileSync(page, `${before.slice(0, from + begin.length)}\n\n${text}\n\n${before.slice(to)}`);
}
