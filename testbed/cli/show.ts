/** `testbed show RUN`: the figures of a run or set, by id, unique part of an id, folder, or `last`. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Command } from 'commander';
import { lookAtMetrics, summarise } from '../analysis/summary.js';
import { asItIs } from '../records/liveness.js';
import { reportName } from '../report/report.js';
import { readSummary } from '../report/set-report.js';
import { runTable, summaryTable } from '../report/terminal.js';
import { defaultResults, folderOfRuns, resolveRun } from './runs.js';

export function register(program: Command): void {
  program.command('show').description('show the figures of a run').argument('<run>', 'id, unique beginning of an id, folder, or `last`')
    .option('--out <dir>', 'folder of the runs', folderOfRuns, defaultResults)
    .option('--json', 'print metrics.json or summary.json')
    .action(async (name: string, options: { out: string; json?: true }) => {
      process.stdout.write(`${await show(name, options.out, options.json ?? false)}\n`);
    });
}

/** @throws UserError when the run is not found */
export async function show(name: string, resultsDir: string, json = false): Promise<string> {
  const entry = resolveRun(name, resultsDir);
  if (entry.set) {
    const summary = readSummary(entry.dir) ?? await summarise(entry.dir);
    return json ? JSON.stringify(summary, null, 2) : [summaryTable(summary), files(entry.dir)].join('\n\n');
  }
  const read = lookAtMetrics(entry.dir);
  const metrics = typeof read === 'string' ? null : read;
  if (json) return JSON.stringify(metrics, null, 2);
  const { run } = entry.runs[0]!;
  const text = runTable(metrics, run === null ? null : asItIs(run));
  return [text === '' ? `${entry.id}: nothing was recorded` : text, typeof read === 'string' ? `No figures: ${read}.` : '', files(entry.dir)].filter((part) => part !== '').join('\n\n');
}

function files(dir: string): string {
  const report = path.join(dir, reportName);
  return fs.existsSync(report) ? `Report: ${report}` : `Folder: ${dir}`;
}
