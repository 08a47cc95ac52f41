/** `testbed gc --keep 30d`: removes runs that ended longer ago and have no tag. */

import * as path from 'node:path';
import type { Command } from 'commander';
import { InvalidArgumentError } from 'commander';
import { UserError } from '../errors.js';
import { formatBytes } from '../report/bytes.js';
import { oldRuns, parseAge } from '../store/gc.js';
import { checkRemovable, removeRuns, sizeOf } from '../store/remove.js';
import { indexedRuns, scanRuns } from '../store/run-index.js';
import { entriesOf } from './list.js';
import { defaultResults, folderOfRuns, found } from './runs.js';

interface Options { readonly out: string; readonly keep: number; readonly dryRun?: boolean }

const age = (text: string): number => {
  const ms = parseAge(text);
  if (ms === undefined) throw new InvalidArgumentError('expected an age such as 12h, 30d or 8w');
  return ms;
};

export function register(program: Command): void {
  program.command('gc').description('remove runs that ended longer ago and have no tag; a set goes whole or stays')
    .requiredOption('--keep <age>', 'keep what ended within: 12h, 30d, 8w', age)
    .option('--out <dir>', 'folder of the runs', folderOfRuns, defaultResults)
    .option('--dry-run', 'only say what would be removed')
    .action(({ out, keep, dryRun = false }: Options) => {
      const entries = entriesOf(indexedRuns(scanRuns(out).index).map(({ row }) => row));
      const { remove, tagged, unreadable } = oldRuns(entries, Date.now() - keep);
      let bytes = 0;
      const failed: string[] = [];
      for (const id of remove) {
        const entry = found(path.join(out, id));
        if (entry === null) continue; // another was quicker
        try {
          checkRemovable(entry, out);
          if (dryRun) {
            bytes += entry.runs.reduce((sum, run) => sum + sizeOf(run.dir), 0);
          } else {
            const removed = removeRuns(entry);
            bytes += removed.bytes;
            for (const file of removed.left) process.stdout.write(`left alone: ${file} is no run\n`);
          }
          process.stdout.write(`${dryRun ? 'would remove' : 'removed'} ${id}\n`);
        } catch (error) {
          if (!(error instanceof UserError)) throw error;
          failed.push(error.message);
        }
      }
      const kept = [tagged.length > 0 ? `${tagged.length} kept by tags` : '', unreadable.length > 0 ? `${unreadable.length} left alone: their age cannot be read` : ''].filter((part) => part !== '');
      process.stdout.write(`${remove.length === 0 ? 'nothing to remove' : `${dryRun ? 'would free' : 'freed'} ${formatBytes(bytes)}`}${kept.length > 0 ? ` (${kept.join('; ')})` : ''}\n`);
      if (failed.length > 0) throw new UserError(`left alone:\n  ${failed.join('\n  ')}`);
    });
}
