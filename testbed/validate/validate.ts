/**
 * `testbed validate`: every cell of every scenario through both engines, judged as soon as its last run has ended. Runs go side
 * by side over the cores; what was run before and is the same is not run again.
 */

import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import pc from 'picocolors';
import { compareFromDisk } from '../compare/comparison.js';
import { comparisonPageName, writeComparison } from '../compare/write.js';
import { UserError } from '../errors.js';
import { evidenceOf, type RanRun } from '../expect/expectations-json.js';
import type { EngineName } from '../expect/parse.js';
import { chooseMachine } from '../machines/registry.js';
import { readRunJson, writeJsonAtomically } from '../records/run-json.js';
import { analyseInThread } from '../run/analysis.js';
import { kernelEngine, type Engine } from '../run/engine.js';
import { gitCommit } from '../run/git-commit.js';
import { interruptible } from '../run/interrupt.js';
import { clockTime } from '../run/progress.js';
import { makeFolders, runFolderName } from '../run/run-folder.js';
import { executeJobs } from '../run/run-set.js';
import { simulatorEngine } from '../run/simulator-engine.js';
import { StatusLine } from '../run/status-line.js';
import { cellVaried, findFiles, loadCells, only, planOf, type BadFile, type Cell } from './cells.js';
import { codeVersion, kernelVersion } from './code-version.js';
import { judgeCell, tolerancesText } from './judge-cell.js';
import { junitXml } from './junit.js';
import { validationPage } from './page.js';
import { replayOf } from './replay.js';
import { Store, type Making } from './store.js';
import { cellLine, markdownTable, summaryLines } from './text.js';
import { exitCode, type Validation, type ValidatedCell } from './validation.js';

export interface ValidateOptions {
  readonly paths: readonly string[];
  readonly set: readonly string[];
  readonly only: readonly string[];
  /** As `--machine` of run; not auto. */
  readonly machine: string;
  /** Where runs and results go; the same folder again resumes. */
  readonly out: string;
  readonly jobs?: number;
  readonly memoryBytes?: number;
  /** Keep the records of every packet, and write a report of every cell. */
  readonly keep: boolean;
  /** A Markdown file for the table; absent: none. */
  readonly table?: string;
  readonly dryRun: boolean;
}

export const names = { data: 'validation.json', page: 'index.html', junit: 'junit.xml' } as const;

export const method = 'Medians over seeds, the simulator’s against the kernel’s. A difference counts when it is beyond the tolerance and the means lie further apart than the noise floor: how far apart those of two sets of runs that differ only in their seeds would lie, 95 times in 100 (Student’s t, the spread over seeds pooled over both engines; assumes values near normal). A cell with a run that is not complete is invalid.';

/** One run to have, of one cell. */
interface Wanted { readonly cell: number; readonly engine: EngineName; readonly seed: number; readonly folder: string; done: boolean }

/** @returns the exit code. @throws UserError */
export async function validate(options: ValidateOptions): Promise<number> {
  const loaded = loadCells(findFiles(options.paths), options.set);
  const { kernel, runnable, bad } = await chooseKernel(options, only(loaded.cells, options.only), loaded.bad);
  const sim = simulatorEngine(os.availableParallelism());
  const store = new Store(options.out);
  try {
    makeFolders(path.resolve(options.out));
    fs.accessSync(options.out, fs.constants.W_OK);
  } catch (error) {
    throw new UserError(`${options.out}: results cannot be written there (${(error as NodeJS.ErrnoException).code ?? String(error)}); name a folder you may write to with --out DIR`, 2);
  }
  if (options.table !== undefined) checkWritable(options.table);
  store.sweep();

  const making: Record<EngineName, Making> = {
    kernel: { engine: 'kernel', machine: kernel?.engine.machine ?? options.machine, clock: kernel?.engine.clock ?? 'virtual', kernel: kernelVersion(kernel?.engine.machine ?? options.machine, kernel?.release ?? null), code: codeVersion('kernel') },
    sim: { engine: 'sim', machine: 'sim', clock: 'virtual', kernel: '', code: codeVersion('sim') },
  };
  const wanted: Wanted[] = runnable.flatMap((cell, index) => cell.scenario.seeds.flatMap((seed) => {
    const plan = planOf(cell, seed);
    return (['kernel', 'sim'] as const).map((engine): Wanted => ({ cell: index, engine, seed, ...store.find(plan, making[engine]) }));
  }));
  const toRun = wanted.filter(({ done }) => !done);
  const machine = kernel?.engine.machine ?? options.machine;
  process.stderr.write(`${pc.bold(`${count(runnable.length, 'cell')}, ${count(wanted.length, 'run')} on ${machine} and in the simulator`)}${wanted.length > toRun.length ? `, ${wanted.length - toRun.length} of them done before` : ''}\n${pc.dim(`→ ${options.out}`)}\n`);
  for (const { message } of bad) process.stderr.write(`${pc.red('✗')} ${message}\n`);
  if (options.dryRun) {
    process.stdout.write(`${runnable.map(({ title, scenario }) => `  ${title}: ${count(scenario.seeds.length, 'seed')}\n`).join('')}Nothing was started (--dry-run).\n`);
    return bad.length > 0 ? 2 : 0;
  }

  const judged = new Map<number, ValidatedCell>();
  const interrupt = interruptible();
  const status = new StatusLine(process.stderr);
  const say = (cell: ValidatedCell): void => { if (runnable.length <= 40 || cell.status !== 'pass') status.line(cellLine(cell)); };
  const judgeWhenDone = async (index: number): Promise<void> => {
    const own = wanted.filter(({ cell }) => cell === index);
    if (judged.has(index) || own.some(({ done }) => !done)) return;
    const cell = await conclude(runnable[index]!, own, options, runnable.length);
    judged.set(index, cell);
    say(cell);
  };

  const began = performance.now();
  const active = new Map<number, string>();
  let ended = 0;
  const show = (): void => {
    const spentS = (performance.now() - began) / 1000;
    const left = ended >= 4 ? `${clockTime((spentS / ended) * (toRun.length - ended))} left` : null;
    status.set([`${ended} of ${toRun.length} runs`, ...active.values(), left].filter((part) => part !== null).join(' · '));
  };
  const timer = setInterval(show, 1000);
  try {
    const commit = gitCommit(); // git answers meanwhile
    for (const index of runnable.keys()) await judgeWhenDone(index);
    const engines: Record<EngineName, Engine | null> = { kernel: kernel?.engine ?? null, sim };
    await executeJobs({
      jobs: toRun.map(({ cell, engine, seed, folder }) => ({
        get plan() { return planOf(runnable[cell]!, seed); },
        engine: engines[engine]!, runDir: store.partOf(folder), scenario: runnable[cell]!.scenario, report: false,
      })),
      workers: Math.min(options.jobs ?? os.availableParallelism(), kernel?.engine.parallel ?? 1),
      gitCommit: await commit, signal: interrupt.signal,
      onStart: (index) => { active.set(index, `${toRun[index]!.engine}: ${runnable[toRun[index]!.cell]!.title}`); show(); },
      onEnd: async (index, result) => {
        const run = toRun[index]!;
        active.delete(index);
        if (codeVersion(run.engine) !== making[run.engine].code) {
          fs.rmSync(result.runDir, { recursive: true, force: true });
          throw new UserError('testbed was built anew while it validated, so runs would be of two versions: give the command again, it goes on where it stopped', 2);
        }
        store.keep(run.folder, result.runDir);
        if (result.status === 'incomplete') return;
        run.done = true;
        ended++;
        await judgeWhenDone(run.cell);
        show();
      },
    });
  } finally {
    clearInterval(timer);
    status.clear();
    interrupt.release();
  }

  const validation: Validation = {
    schema: 1, machine, kernel: kernelRelease(wanted), tolerances: tolerancesText(), method,
    cells: runnable.flatMap((_, index) => judged.get(index) ?? []), bad, interrupted: interrupt.signal.aborted && judged.size < runnable.length,
  };
  write(options, validation);
  process.stdout.write(`${summaryLines(validation).join('\n')}\npage: ${path.join(options.out, names.page)}\n`);
  if (validation.interrupted) process.stderr.write(`Interrupted after ${judged.size} of ${runnable.length} cells; the same command goes on where it stopped.\n`);
  return exitCode(validation);
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

function kernelRelease(wanted: readonly Wanted[]): string | null {
  for (const { engine, done, folder } of wanted) if (engine === 'kernel' && done) return readRunJson(folder)?.kernel?.release ?? null;
  return null;
}

interface Kernel { readonly engine: Engine; readonly release: string | null }

/** The kernel engine; files that its machine cannot run are told and do not stop the others. */
async function chooseKernel(options: ValidateOptions, cells: readonly Cell[], unreadable: readonly BadFile[]): Promise<{ readonly kernel: Kernel | null; readonly runnable: readonly Cell[]; readonly bad: readonly BadFile[] }> {
  const bad = [...unreadable];
  const runnable: Cell[] = [];
  let kernel: Kernel | null = null;
  for (const file of new Set(cells.map((cell) => cell.file))) {
    const own = cells.filter((cell) => cell.file === file);
    try {
      const { machine, clock } = await chooseMachine(options.machine, own.map((cell) => planOf(cell, cell.scenario.seeds[0]!)), undefined, options.memoryBytes === undefined ? {} : { memoryBytes: options.memoryBytes });
      kernel ??= { engine: kernelEngine(machine, clock, 'netns', os.availableParallelism()), release: machine.info.kernel };
      runnable.push(...own);
    } catch (error) {
      if (!(error instanceof UserError) || error.exitCode === 2) throw error; // 2: no machine of that name
      bad.push({ file, message: `${file}: ${error.message}` });
    }
  }
  return { kernel, runnable, bad };
}

/**
 * Judges a cell whose runs have all ended, writes what a person will want to see, and makes room.
 * @param cells of the whole validation
 */
async function conclude(cell: Cell, own: readonly Wanted[], options: ValidateOptions, cells: number): Promise<ValidatedCell> {
  const ran = (engine: EngineName): RanRun[] => own.filter((run) => run.engine === engine).map(({ folder, seed }) => {
    const run = readRunJson(folder);
    const finding = run?.findings.find(({ level }) => level === run.status);
    return { varied: cell.variant.varied, seed, runDir: folder, status: run?.status ?? null, reason: run === null ? 'its run.json cannot be read' : run.status === 'complete' ? null : run.error ?? finding?.message ?? null };
  });
  const runs = { kernel: ran('kernel'), sim: ran('sim') };
  const verdict = judgeCell(cell, { kernel: evidenceOf(runs.kernel), sim: evidenceOf(runs.sim) });
  const replay = runs.kernel[0] === undefined ? null : await replayOf(runs.kernel[0].runDir, cells);
  const below = (folder: string): string => path.relative(path.resolve(options.out), folder);
  const reports: { title: string; href: string }[] = [];
  for (const engine of ['kernel', 'sim'] as const) {
    const first = runs[engine][0];
    if (first === undefined) continue;
    if (options.keep || verdict.status !== 'pass') await writeReport(first.runDir);
    for (const [file, title] of [['report.html', engine], ['metrics.json', `${engine}’s figures`]] as const) {
      if (!fs.existsSync(path.join(first.runDir, file))) continue;
      reports.push({ title, href: path.join(below(first.runDir), file) });
      break;
    }
  }
  if (options.keep || verdict.status === 'fail') {
    const page = await compared(cell, runs, options);
    if (page !== null) reports.unshift({ title: 'compared', href: below(page) });
  }
  if (!options.keep) for (const { runDir } of [...runs.kernel, ...runs.sim]) Store.dropRecords(runDir);
  return {
    title: cell.title, file: cell.file, scenario: cell.scenario.name, varied: cellVaried(cell.variant.varied), seeds: cell.scenario.seeds,
    ...verdict, replay, reports,
    runs: { kernel: runs.kernel.map(({ runDir }) => below(runDir)), sim: runs.sim.map(({ runDir }) => below(runDir)) },
    tookS: own.reduce((sum, { folder }) => sum + tookS(folder), 0),
  };
}

/** The page of `testbed compare` of a cell's runs: distributions and curves beside the figures. null: it cannot be made. */
async function compared(cell: Cell, runs: Readonly<Record<EngineName, readonly RanRun[]>>, options: ValidateOptions): Promise<string | null> {
  const kernels = createHash('sha256').update(runs.kernel.map(({ runDir }) => path.basename(runDir)).join()).digest('hex').slice(0, 6);
  const folder = path.join(path.resolve(options.out), 'compared', cell.scenario.name, `${runFolderName(planOf(cell, runs.kernel[0]!.seed)).replace(/-?seed\d+$/, '') || 'all'}-${kernels}`);
  const page = path.join(folder, comparisonPageName);
  const records = [...runs.kernel, ...runs.sim].every(({ runDir }) => fs.existsSync(path.join(runDir, 'packets.parquet')));
  // Without every packet there is nothing to draw that the page of last time does not have.
  if (!records && fs.existsSync(page)) return page;
  try {
    const sides = [runs.kernel, runs.sim].map((side) => side.map(({ runDir }) => runDir));
    if (sides.flat().some((runDir) => runDir.includes(','))) return null; // a comma parts the runs of a side
    const result = await compareFromDisk(sides.map((side) => side.join(',')), { resultsDir: options.out, allow: [], labels: ['kernel', 'simulator'], distributions: records });
    return (await writeComparison(result, options.out, folder, records)).page;
  } catch (error) {
    if (error instanceof UserError) return null; // it refuses what is not comparable: the figures above are all there is to say
    throw error;
  }
}

function tookS(folder: string): number {
  const run = readRunJson(folder);
  return run?.ended ? Math.max(0, (Date.parse(run.ended) - Date.parse(run.started)) / 1000) : 0;
}

/** A page of a run whose packet records are gone would say less than the one it has. */
async function writeReport(runDir: string): Promise<void> {
  if (fs.existsSync(path.join(runDir, 'report.html')) && !fs.existsSync(path.join(runDir, 'packets.parquet'))) return;
  try {
    await analyseInThread({ task: 'report', runDir });
  } catch {
    // A run that failed may have nothing to draw: the cell says why.
  }
}

function write(options: ValidateOptions, validation: Validation): void {
  const at = (name: string): string => path.join(options.out, name);
  writeJsonAtomically(at(names.data), validation);
  replace(at(names.page), validationPage(validation));
  replace(at(names.junit), junitXml(validation));
  if (options.table !== undefined) {
    if (validation.interrupted) process.stderr.write(`${options.table} is left as it is: not every cell was judged.\n`);
    else replace(options.table, markdownTable(validation, options));
  }
}

/** Before an hour's work. @throws UserError */
function checkWritable(file: string): void {
  try {
    const folder = path.dirname(file);
    if (fs.statSync(file, { throwIfNoEntry: false })?.isDirectory()) throw Object.assign(new Error('it is a folder'), { code: 'EISDIR' });
    fs.accessSync(folder, fs.constants.W_OK);
    if (!fs.statSync(folder).isDirectory()) throw Object.assign(new Error('no folder'), { code: 'ENOTDIR' });
  } catch (error) {
    throw new UserError(`--table ${file}: cannot be written (${(error as NodeJS.ErrnoException).code ?? String(error)}); expected a file in a folder that is there`, 2);
  }
}

function replace(file: string, text: string): void {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    fs.writeFileSync(temporary, text);
    fs.renameSync(temporary, file);
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw new UserError(`${file} cannot be written (${(error as NodeJS.ErrnoException).code ?? String(error)})`);
  }
}
