/** `testbed rm RUN…`: removes runs or sets after asking. All names are looked up before anything goes. */

import * as path from 'node:path';
import * as readline from 'node:readline/promises';
import type { Command } from 'commander';
import { UserError } from '../errors.js';
import { formatBytes } from '../report/bytes.js';
import { checkRemovable, refreshSet, removeRuns } from '../store/remove.js';
import { defaultResults, folderOfRuns, resolveRun } from './runs.js';
import type { Found } from './runs.js';

interface Options { readonly out: string; readonly yes?: boolean; readonly force?: boolean }

export function register(program: Command): void {
  program.command('rm').description('remove runs').argument('<run...>', 'ids, unique beginnings of ids, or folders')
    .option('--out <dir>', 'folder of the runs', folderOfRuns, defaultResults)
    .option('-y, --yes', 'do not ask')
    .option('--force', 'also runs that say they are running, when no process can be found')
    .action(async (names: readonly string[], { out, yes = false, force = false }: Options) => {
      const entries = new Map<string, Found>();
      for (const name of names) {
        const entry = resolveRun(name, out);
        checkRemovable(entry, out, force);
        entries.set(entry.dir, entry);
      }
      if (!yes && !(await confirmed([...entries.values()]))) {
        process.stdout.write('nothing was removed\n');
        process.exitCode = 1;
        return;
      }
      for (const entry of entries.values()) {
        const { bytes, left } = removeRuns(entry);
        process.stdout.write(`removed ${entry.id} (${formatBytes(bytes)})\n`);
        for (const file of left) process.stdout.write(`left alone: ${file} is no run\n`);
      }
      const sets = new Set([...entries.values()].filter(({ id }) => id.includes('/')).map(({ dir }) => path.dirname(dir)));
      for (const set of sets) if (await refreshSet(set)) process.stdout.write(`${path.basename(set)}: its summary is of the runs that are left\n`);
    });
}

async function confirmed(entries: readonly Found[]): Promise<boolean> {
  if (process.stdin.isTTY !== true) throw new UserError('there is no terminal to ask on: say --yes to remove without being asked', 2);
  const lines = readline.createInterface({ input: process.stdin, output: process.stderr });
  try {
    const list = entries.map((entry) => `  ${entry.dir}${entry.set ? ` (${entry.runs.length} runs)` : ''}\n`).join('');
    return /^y(es)?$/i.test((await lines.question(`${list}Remove ${entries.length === 1 ? 'it' : `these ${entries.length}`} for good? [y/N] `)).trim());
  } finally {
    lines.close();
  }
}
