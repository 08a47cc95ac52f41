/** `testbed validate FILE|FOLDER…`: both engines for every cell of every scenario, compared; an exit code for CI. */

import type { Command } from 'commander';
import path from 'node:path';
import { UserError } from '../errors.js';
import { validate } from '../validate/validate.js';
import { collectSet, memorySize, wholeNumber } from './options.js';

interface Options {
  readonly machine?: string; readonly kernel?: string; readonly out: string; readonly only: readonly string[]; readonly set: readonly string[];
  readonly jobs?: number; readonly memory?: number; readonly keep?: true; readonly table?: string; readonly dryRun?: true;
}

export function register(program: Command): void {
  program
    .command('validate')
    .summary('does the simulator say what the kernel does?')
    .description('Run scenarios through both engines and compare, by their expect: blocks and the default tolerances. Exit code: 0 all pass, 1 a difference, 2 something could not be judged. The same command again goes on where it was stopped, and runs only what has changed.')
    .argument('<paths...>', 'scenario files, or folders of them')
    .option('--machine <name>', 'whose kernel: uml, uml:6.12, uml:7.3, local (default: uml)')
    .option('--kernel <version>', 'short for --machine uml:VERSION')
    .option('--only <text>', 'only the cells called so, e.g. --only codel,rtt=50ms; may be given several times', collectSet, [])
    .option('--set <path=value>', 'change a value of every scenario, as in testbed run', collectSet, [])
    .option('--out <folder>', 'where runs and results go, and are looked for', path.join('results', 'runs', 'validation'))
    .option('--jobs <number>', 'runs at once in virtual time (default: one a core)', wholeNumber(1, 1024))
    .option('--memory <size>', 'memory of a UML guest (default: 1GiB)', memorySize)
    .option('--table <file>', 'write the outcome as a Markdown table')
    .option('--keep', 'keep the records of every packet, and write a report of every cell (default: reports of the cells that do not pass)')
    .option('--dry-run', 'check everything and say what would run, then stop')
    .action(async (paths: readonly string[], options: Options) => {
      if (options.machine !== undefined && options.kernel !== undefined) throw new UserError('--machine and --kernel: expected one of them (--kernel 6.12 is --machine uml:6.12)', 2);
      if (options.machine === 'auto' || options.machine === 'all') throw new UserError(`--machine ${options.machine}: expected one kernel for all scenarios, such as uml or local`, 2);
      process.exitCode = await validate({
        paths, set: options.set, only: options.only, out: options.out, keep: options.keep ?? false, dryRun: options.dryRun ?? false,
        machine: options.machine ?? (options.kernel === undefined ? 'uml' : `uml:${options.kernel}`),
        ...(options.jobs === undefined ? {} : { jobs: options.jobs }), ...(options.memory === undefined ? {} : { memoryBytes: options.memory }),
        ...(options.table === undefined ? {} : { table: options.table }),
      });
    });
}
