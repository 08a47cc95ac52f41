/** `testbed tag RUN NAME…`: names of the user's for a run or set; tagged runs are kept by gc and can be asked for. */

import type { Command } from 'commander';
import { UserError } from '../errors.js';
import { changeTags } from '../store/tags.js';
import { defaultResults, folderOfRuns, resolveRun } from './runs.js';

export function register(program: Command): void {
  program.command('tag').description('give a run or set a name that keeps it from gc').argument('<run>', 'id, unique beginning of an id, folder, or `last`').argument('[name...]', 'tags to add; none: print those it has')
    .option('--out <dir>', 'folder of the runs', folderOfRuns, defaultResults)
    .option('--remove <name>', 'take a tag away; may be repeated', (value: string, before: readonly string[]) => [...before, value], [] as readonly string[])
    .action((run: string, names: readonly string[], { out, remove }: { readonly out: string; readonly remove: readonly string[] }) => {
      const both = names.find((name) => remove.includes(name));
      if (both !== undefined) throw new UserError(`tag ${both}: add it or remove it, not both`, 2);
      const entry = resolveRun(run, out);
      const tags = changeTags(entry.dir, { add: names, remove });
      process.stdout.write(`${entry.id}: ${tags.length === 0 ? 'no tags' : tags.join(', ')}\n`);
    });
}
