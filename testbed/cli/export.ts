/** `testbed export RUN --format …`: a run for other tools. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Command } from 'commander';
import { Option } from 'commander';
import { UserError } from '../errors.js';
import { exportTables } from '../export/format.js';
import type { ExportFormat, ExportTable } from '../export/format.js';
import { openOutput } from '../export/output.js';
import { exportFormats } from '../export/registry.js';
import { readPlan } from '../records/ingest.js';
import { interruptible } from '../run/interrupt.js';
import { readRun } from '../store/run-row.js';
import { defaultResults, folderOfRuns, resolveRun } from './runs.js';
import type { FoundRun } from './runs.js';

interface Options { readonly format: string; readonly table?: ExportTable; readonly out?: string; readonly results: string; readonly force?: boolean; readonly bottleneck?: string }

export function register(program: Command): void {
  program.command('export').description('write a run for other tools').argument('<run>', 'id, unique beginning of an id, folder, or `last`')
    .addOption(new Option('--format <format>', 'what to write').choices(Object.keys(exportFormats)).makeOptionMandatory())
    .addOption(new Option('--table <table>', 'only this table (csv, json, parquet)').choices([...exportTables]))
    .option('--bottleneck <name>', 'only packets of this direction: BL1, BL1.reverse (qlog, pcapng)')
    .option('--out <file>', 'file or folder to write to; `-` for standard output; default: a name made of the run, here')
    .option('--results <dir>', 'folder of the runs', folderOfRuns, defaultResults)
    .option('--force', 'overwrite files that are there')
    .action((run: string, options: Options) => exportRun(run, options));
}

async function exportRun(name: string, options: Options): Promise<void> {
  const format = await exportFormats[options.format]!();
  if (options.table !== undefined && !format.tables.includes(options.table)) {
    throw new UserError(format.tables.length === 0 ? `--table is not for --format ${options.format}: it takes what it needs from all tables` : `--format ${options.format} has no table ${options.table}; it has ${format.tables.join(', ')}`, 2);
  }
  if (options.bottleneck !== undefined && format.byBottleneck !== true) throw new UserError(`--bottleneck is not for --format ${options.format}`, 2);
  const entry = resolveRun(name, options.results);
  const manyFiles = entry.set || (format.files === 'table' && options.table === undefined);
  if (options.out === '-' && manyFiles && format.files !== 'none') {
    throw new UserError(`standard output takes one file: ${entry.set ? `${entry.id} is a set of ${entry.runs.length} runs; name one (${entry.runs[0]!.id})` : 'choose one with --table'}, or a folder with --out`, 2);
  }
  const interrupt = interruptible('Ending the export … (again to stop at once)', options.out === '-');
  const written: string[] = [];
  try {
    for (const run of entry.runs) {
      for (const line of await exportOne(run, entry.set, manyFiles, format, options, interrupt.signal, written)) process.stderr.write(`${line}\n`);
    }
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
    process.stderr.write(format.files === 'none' ? 'Interrupted: the same command goes on where it ended.\n' : 'Interrupted: the file that was being written is removed.\n');
    process.exitCode = 130;
    return;
  } finally {
    interrupt.release();
  }
  if (options.out !== '-') for (const file of written) process.stdout.write(`${file}\n`);
}

async function exportOne(found: FoundRun, inSet: boolean, manyFiles: boolean, format: ExportFormat, options: Options, signal: AbortSignal, written: string[]): Promise<readonly string[]> {
  const read = readRun(found.dir);
  if (read === null || read.run === null) throw new UserError(`${found.dir} cannot be exported: ${read === null ? 'it has no run.json' : read.why}`);
  const { run } = read;
  const warn = (text: string): void => { process.stderr.write(`warning: ${text}\n`); };
  if (run.status !== 'complete') warn(`${found.id} is ${run.status}: its records may end early or not be fit to use`);
  const plan = readPlan(found.dir);
  if (options.bottleneck !== undefined) {
    const known = plan.links.filter((link) => link.role === 'bottleneck').flatMap((link) => [link.forward.name, link.reverse.name]);
    if (!known.includes(options.bottleneck)) throw new UserError(`${found.id} has no bottleneck direction ${JSON.stringify(options.bottleneck)}; it has ${known.join(', ')}`, 2);
  }
  const base = found.id.replaceAll('/', '-');
  const out = options.out;
  const isFolder = out !== undefined && (out.endsWith(path.sep) || (fs.statSync(out, { throwIfNoEntry: false })?.isDirectory() ?? false));
  /** Of a folder of many files: below it a folder a run of a set, and a file a table. */
  const fileFor = (suffix: string, extension: string): string => {
    if (out === '-') return '-';
    if (manyFiles) {
      const folder = out ?? (format.files === 'table' ? `${(inSet ? found.id.split('/')[0]! : base)}-${options.format}` : '.');
      if (format.files === 'table') return path.join(folder, ...(inSet ? [found.id.split('/').at(-1)!] : []), `${suffix}${extension}`);
      return path.join(folder, `${base}${extension}`);
    }
    const name = `${base}${suffix === '' ? '' : `-${suffix}`}${extension}`;
    return out === undefined ? name : isFolder ? path.join(out, name) : out;
  };
  return format.write({
    runId: found.id, runDir: found.dir, plan, run, table: options.table ?? null, bottleneck: options.bottleneck ?? null, signal, onWarning: warn,
    output: async (suffix, extension) => {
      const file = fileFor(suffix, extension);
      const output = await openOutput(file, options.force ?? false);
      return { ...output, close: async () => { await output.close(); written.push(file); } };
    },
  });
}
