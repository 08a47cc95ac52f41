/** `testbed query "select …"`: the results folder as a database, read only. */

import * as fs from 'node:fs';
import type { Command } from 'commander';
import { Option } from 'commander';
import { UserError } from '../errors.js';
import { printRows, rowFormats } from '../store/print-rows.js';
import type { RowFormat } from '../store/print-rows.js';
import { query } from '../store/store.js';
import { ownColumns, sharedColumns, viewNames } from '../store/views.js';
import { wholeNumber } from './options.js';
import { defaultResults, folderOfRuns } from './runs.js';
import { writeAll } from './write-all.js';

interface Options { readonly out: string; readonly format: RowFormat; readonly allRuns?: true; readonly views?: true; readonly threads?: number; readonly file?: string }

export function register(program: Command): void {
  program.command('query').description('ask the recorded runs with SQL: views runs, metrics, flows, queue, packets, probes, sockets')
    .argument('[sql]', 'one SELECT; `-` reads it from standard input')
    .option('--out <dir>', 'folder of the runs', folderOfRuns, defaultResults)
    .addOption(new Option('--format <format>', 'how to print the rows').choices([...rowFormats]).default('table'))
    .option('--all-runs', 'count runs that are not complete (invalid, incomplete, failed) too')
    .option('--views', 'list the views and their columns')
    .option('--threads <count>', 'threads; with more than one, sums may differ in their last digit from time to time', wholeNumber(1, 1024))
    .action(async (sql: string | undefined, options: Options) => {
      if (options.views) {
        process.stdout.write(viewsText());
        return;
      }
      if (sql === undefined) throw new UserError('no query; try: testbed query "select run_id, scenario, seed, status from runs" (testbed query --views lists the views)', 2);
      const text = sql === '-' ? fs.readFileSync(0, 'utf8') : sql;
      const tty = process.stderr.isTTY === true;
      let shown = false;
      const rows = await query(text, {
        resultsDir: options.out, allRuns: options.allRuns ?? false, ...(options.threads === undefined ? {} : { threads: options.threads }),
        onProgress: (progress) => { if (tty) { process.stderr.write(`\r\x1b[K${progress}`); shown = true; } },
        onWarning: (warning) => process.stderr.write(`warning: ${warning}\n`),
      });
      if (shown) process.stderr.write('\r\x1b[K');
      try {
        const { rows: count, cut } = await printRows(rows, options.format, writeAll(process.stdout));
        if (cut > 0) process.stderr.write(`${cut} of ${count} rows are not shown; --format csv, json or markdown prints all\n`);
      } finally {
        rows.close();
      }
    });
}

export function viewsText(): string {
  const list = (columns: readonly { readonly name: string; readonly type: string; readonly meaning: string }[]): string =>
    columns.map(({ name, type, meaning }) => `  ${name.padEnd(22)} ${type.padEnd(10)} ${meaning}\n`).join('');
  return `Every view has\n${list(sharedColumns)}  and a column for each varied parameter, by its name: queue, "topology.links.BL.rate"\n`
    + viewNames.map((view) => `\n${view}\n${list(ownColumns(view))}`).join('');
}
