/** `testbed list`: the runs on disk, newest last. */

import type { Command } from 'commander';
import { formatVaried } from '../report/format.js';
import { textTable } from '../report/terminal.js';
import { defaultResults, findRuns } from './runs.js';
import type { Found } from './runs.js';

export function register(program: Command): void {
  program.command('list').description('list the runs on disk, newest last')
    .option('--out <dir>', 'folder of the runs', defaultResults)
    .option('-n, --last <count>', 'only the newest', (text) => Number.parseInt(text, 10))
    .option('--json', 'one JSON object a line')
    .action((options: { out: string; last?: number; json?: true }) => {
      const all = findRuns(options.out);
      const shown = options.last !== undefined && options.last > 0 ? all.slice(-options.last) : all;
      if (options.json) process.stdout.write(shown.map((entry) => `${JSON.stringify(row(entry))}\n`).join(''));
      else process.stdout.write(shown.length === 0 ? `no runs in ${options.out}; start one with: testbed run FILE\n` : `${listTable(shown)}\n`);
    });
}

interface Row { readonly id: string; readonly scenario: string; readonly machine: string; readonly varied: string; readonly seeds: string; readonly status: string; readonly started: string; readonly runs: number }

export function row(entry: Found): Row {
  const runs = entry.runs.flatMap(({ run }) => (run === null ? [] : [run]));
  const distinct = (values: readonly string[]): string[] => [...new Set(values)];
  const statuses = new Map<string, number>();
  for (const { run } of entry.runs) statuses.set(run?.status ?? 'unreadable', (statuses.get(run?.status ?? 'unreadable') ?? 0) + 1);
  const seeds = [...new Set(runs.map((run) => run.seed))].sort((a, b) => a - b);
  const varies = distinct(runs.flatMap((run) => Object.keys(run.varied)));
  return {
    id: entry.id,
    scenario: distinct(runs.map((run) => run.name)).join(', ') || '?',
    machine: distinct(runs.map((run) => `${run.machine}${run.kernel?.release ? ` ${run.kernel.release}` : ''}`)).join(', '),
    varied: entry.set ? varies.map((key) => `${key} × ${new Set(runs.map((run) => run.varied[key])).size}`).join(', ') : formatVaried(runs[0]?.varied ?? {}),
    seeds: seeds.length > 4 ? `${seeds.slice(0, 3).join(',')}…${seeds.at(-1)}` : seeds.join(','),
    status: statuses.size === 1 && !entry.set ? [...statuses.keys()][0]! : [...statuses].map(([status, count]) => `${count} ${status}`).join(', '),
    started: entry.started,
    runs: entry.runs.length,
  };
}

export function listTable(entries: readonly Found[]): string {
  const when = (iso: string): string => (iso === '' ? '?' : iso.slice(0, 16).replace('T', ' '));
  const rows = entries.map(row);
  // The id must stay whole to be of use, so it is a column only where all ids fit, and otherwise a line of its own.
  const widest = Math.max(...rows.map(({ id }) => id.length));
  const cells = (entry: Row): string[] => [entry.scenario, entry.machine, entry.varied, entry.seeds, entry.status, when(entry.started)];
  const head = ['Scenario', 'Machine', 'Varied', 'Seeds', 'Status', 'Started'];
  if (widest <= 20) return textTable(['Run', ...head], rows.map((entry) => [entry.id, ...cells(entry)]));
  const compact = ['Machine', 'Varied', 'Seeds', 'Status', 'Started'];
  const lines = textTable(compact, rows.map((entry) => cells(entry).slice(1))).split('\n');
  return rows.map((entry, index) => `${entry.id}\n  ${lines[index + 2]!}`).join('\n');
}
