/** `testbed list`: the runs on disk, newest last. */

import type { Command } from 'commander';
import pc from 'picocolors';
import { formatVaried } from '../report/format.js';
import { statusText } from '../report/terminal.js';
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

/** Two lines an entry: an id must stay whole to be of use, and is often longer than a column of a table can be. */
export function listTable(entries: readonly Found[]): string {
  return entries.map((entry) => {
    const { id, scenario, machine, varied, seeds, status, started } = row(entry);
    const when = started === '' ? 'start unknown' : started.slice(0, 16).replace('T', ' ');
    const details = [id.startsWith(`${scenario}-`) ? '' : scenario, machine, varied, seeds === '' ? '' : `seed${seeds.includes(',') ? 's' : ''} ${seeds}`, when];
    return `${pc.bold(id)}  ${entry.set ? status : statusText(status)}\n  ${details.filter((part) => part !== '').join(' · ')}`;
  }).join('\n');
}
