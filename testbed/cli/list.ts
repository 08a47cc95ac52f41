/** `testbed list`: the runs on disk, newest last. Reads the results folder's index, so ten thousand runs are no wait. */

import type { Command } from 'commander';
import pc from 'picocolors';
import { UserError } from '../errors.js';
import { formatVaried } from '../report/format.js';
import { statusText } from '../report/terminal.js';
import { indexedRuns, scanRuns } from '../store/run-index.js';
import type { Scan } from '../store/run-index.js';
import type { RunRow } from '../store/run-row.js';
import { wholeNumber } from './options.js';
import { defaultResults, folderOfRuns } from './runs.js';

interface Options { readonly out: string; readonly last?: number; readonly json?: true; readonly where?: string }

export function register(program: Command): void {
  program.command('list').description('list the runs on disk, newest last')
    .option('--out <dir>', 'folder of the runs', folderOfRuns, defaultResults)
    .option('-n, --last <count>', 'only the newest', wholeNumber(1, 1e6))
    .option('--where <condition>', "only runs for which it holds: SQL over the columns of the view runs, such as \"queue = 'codel' and seed < 4\"")
    .option('--json', 'one JSON object a line')
    .action(async (options: Options) => {
      const tty = process.stderr.isTTY === true;
      const scan = scanRuns(options.out, (read) => { if (tty) process.stderr.write(`\r\x1b[K${read} runs read for the index`); });
      const rows = indexedRuns(scan.index).map(({ row }) => row);
      if (tty && scan.read >= 500) process.stderr.write('\r\x1b[K');
      if (options.where?.trim() === '') throw new UserError("--where: is empty; expected a condition such as queue = 'codel'", 2);
      const wanted = options.where === undefined ? null : await runsWhere(options.where, scan);
      const all = entriesOf(wanted === null ? rows : rows.filter((each) => wanted.has(each.run_id)));
      const shown = options.last !== undefined ? all.slice(-options.last) : all;
      if (options.json) process.stdout.write(shown.map((entry) => `${JSON.stringify(row(entry))}\n`).join(''));
      else if (shown.length > 0) process.stdout.write(`${listTable(shown)}\n`);
      else process.stdout.write(options.where === undefined ? `no runs in ${options.out}; start one with: testbed run FILE\n` : `no run in ${options.out} is so\n`);
    });
}

/** @throws UserError when the condition is not one */
async function runsWhere(condition: string, scan: Scan): Promise<ReadonlySet<string>> {
  const { query } = await import('../store/store.js');
  const { pieces, close } = await query(`SELECT run_id FROM runs WHERE (\n${condition}\n)`, { resultsDir: scan.resultsDir, scan, placeName: (line, column) => `--where:${line - 1}:${column}` });
  try {
    const found = new Set<string>();
    for await (const piece of pieces) for (const [id] of piece) found.add(String(id));
    return found;
  } finally {
    close();
  }
}

/** A run of its own, or a set. */
export interface Listed {
  readonly id: string;
  readonly set: boolean;
  /** Earliest start, ISO 8601; '' when no run.json tells. */
  readonly started: string;
  readonly runs: readonly RunRow[];
}

/** @returns oldest first */
export function entriesOf(rows: readonly RunRow[]): Listed[] {
  const entries = new Map<string, RunRow[]>();
  for (const each of rows) {
    const id = each.set_id ?? each.run_id;
    const runs = entries.get(id);
    if (runs === undefined) entries.set(id, [each]);
    else runs.push(each);
  }
  return [...entries].map(([id, runs]): Listed => ({
    id, set: runs[0]!.set_id !== null, runs,
    started: runs.reduce<string | null>((least, { started }) => (started !== null && (least === null || started < least) ? started : least), null) ?? '',
  })).sort((a, b) => (a.started < b.started ? -1 : a.started > b.started ? 1 : a.id < b.id ? -1 : 1));
}

interface Row { readonly id: string; readonly scenario: string; readonly machine: string; readonly varied: string; readonly seeds: string; readonly status: string; readonly started: string; readonly runs: number; readonly tags: readonly string[] }

export function row(entry: Listed): Row {
  const { runs } = entry;
  const distinct = (values: readonly (string | null)[]): string[] => [...new Set(values.filter((value) => value !== null))];
  const statuses = new Map<string, number>();
  for (const { status } of runs) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const seeds = [...new Set(runs.flatMap(({ seed }) => (seed === null ? [] : [seed])))].sort((a, b) => a - b);
  const varies = distinct(runs.flatMap((run) => Object.keys(run.varied)));
  // A run that still goes on may not know its kernel yet: its machine is told with the others'.
  const machines = distinct(runs.map(({ machine, kernel }) => (machine === null ? null : `${machine}${kernel === null ? '' : ` ${kernel}`}`)));
  return {
    id: entry.id,
    scenario: distinct(runs.map(({ scenario }) => scenario)).join(', ') || '?',
    machine: machines.filter((name) => !machines.some((other) => other.startsWith(`${name} `))).join(', '),
    varied: entry.set ? varies.map((key) => `${key} × ${new Set(runs.map((run) => run.varied[key])).size}`).join(', ') : formatVaried(runs[0]!.varied),
    seeds: seeds.length > 4 ? `${seeds.slice(0, 3).join(',')}…${seeds.at(-1)}` : seeds.join(','),
    status: statuses.size === 1 && !entry.set ? [...statuses.keys()][0]! : [...statuses].sort().map(([status, count]) => `${count} ${status}`).join(', '),
    started: entry.started,
    runs: runs.length,
    tags: distinct(runs.flatMap(({ tags }) => tags)).sort(),
  };
}

/** By this place's clock, as in the names of the folders. @param iso of UTC */
export function localTime(iso: string): string {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return iso;
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

/** Two lines an entry: an id must stay whole to be of use, and is often longer than a column of a table can be. */
export function listTable(entries: readonly Listed[]): string {
  return entries.map((entry) => {
    const { id, scenario, machine, varied, seeds, status, started, tags } = row(entry);
    const when = started === '' ? 'start unknown' : localTime(started);
    const [first] = entry.runs;
    // What nobody was left to write: of a run that ended by itself, its status says enough here.
    const why = !entry.set && (first!.status === 'unreadable' || (first!.status === 'incomplete' && first!.ended === null)) ? first!.error ?? '' : '';
    const details = [id.startsWith(`${scenario}-`) ? '' : scenario, machine, varied, seeds === '' ? '' : `seed${seeds.includes(',') ? 's' : ''} ${seeds}`, when, why, tags.length === 0 ? '' : `tagged ${tags.join(', ')}`];
    return `${pc.bold(id)}  ${entry.set ? status : statusText(status)}\n  ${details.filter((part) => part !== '').join(' · ')}`;
  }).join('\n');
}
