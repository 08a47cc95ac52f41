/** `testbed replay RUN…`: is every decision of the kernel's queue discipline the one that ours makes? */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { Option, type Command } from 'commander';
import { UserError } from '../errors.js';
import { writeJsonAtomically } from '../records/run-json.js';
import { replayName, replayRun, type ReplayResult } from '../replay/replay.js';
import { mergedMarkdown, replayMarkdown, replayText } from '../replay/text.js';
import { defaultResults, folderOfRuns, resolveRun } from './runs.js';

interface Options { readonly out: string; readonly bottleneck?: string; readonly format: 'text' | 'json' | 'markdown'; readonly json?: true; readonly update?: string }

export function register(program: Command): void {
  program.command('replay').summary("compare each decision of a kernel's queue with ours")
    .description("Give the arrivals and departures of a kernel's run in virtual time to the queue disciplines of aqm/ and compare each drop, mark and departure.\n"
      + 'Exit code: 0 all agree, 1 a disagreement, 2 something could not be judged.')
    .argument('<run...>', 'runs or sets: id, unique beginning of an id, folder, or `last`')
    .option('--bottleneck <name>', 'only this one: BL, BL.reverse')
    .option('--out <dir>', 'folder of the runs', folderOfRuns, defaultResults)
    .addOption(new Option('--format <format>', 'text, json or markdown').choices(['text', 'json', 'markdown']).default('text'))
    .option('--json', 'the same as --format json')
    .option('--update <page>', 'write the table into a Markdown page, between its marks; rows of other runs stay')
    .action(async (names: string[], options: Options) => { process.exitCode = await replay(names, options); });
}

/** @returns the exit code. @throws UserError when a run is not found */
async function replay(names: readonly string[], options: Options): Promise<0 | 1 | 2> {
  const results: ReplayResult[] = [];
  for (const name of names) {
    for (const { dir } of resolveRun(name, options.out).runs) {
      const result = await replayRun(dir, { keep: false, ...(options.bottleneck === undefined ? {} : { bottleneck: options.bottleneck }) });
      results.push(result);
      keep(dir, result);
    }
  }
  const format = options.json ? 'json' : options.format;
  process.stdout.write(`${format === 'json' ? JSON.stringify(results, null, 2) : format === 'markdown' ? replayMarkdown(results) : replayText(results)}\n`);
  if (options.update !== undefined) updatePage(options.update, replayMarkdown(results));
  const codes = results.map(({ exitCode }) => exitCode);
  return codes.includes(1) ? 1 : codes.includes(2) ? 2 : 0;
}

/** Of another user's run, or one on a read-only disk, the verdict is as good. */
function keep(runDir: string, result: ReplayResult): void {
  try {
    writeJsonAtomically(path.join(runDir, replayName), result);
  } catch (error) {
    process.stderr.write(`warning: ${runDir}: ${replayName} cannot be written (${(error as NodeJS.ErrnoException).code ?? String(error)})\n`);
  }
}

const [begin, end] = ['<!-- table: made by `testbed replay --update`; do not edit between the marks -->', '<!-- end of table -->'];

/** @throws UserError when the page has no marks */
function updatePage(page: string, table: string): void {
  const text = fs.existsSync(page) ? fs.readFileSync(page, 'utf8') : '';
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new UserError(`${page}: there is no place for the table; put these two lines where it shall go:\n${begin}\n${end}`, 2);
  fs.writeFileSync(page, `${text.slice(0, from + begin.length)}\n\n${mergedMarkdown(text.slice(from, to), table)}\n\n${text.slice(to)}`);
}
