/** `testbed plan FILE`: prints everything a run would do, as JSON or as a shell script to run by hand. */

import { Option, type Command } from 'commander';
import { UserError } from '../errors.js';
import { planToShell } from '../network/shell.js';
import { expandRuns, type Run } from '../plan/compile.js';
import { load } from '../scenario/load.js';
import { wholeNumber } from './options.js';
import { collect, parseSeed } from './scenario-options.js';

interface Options { readonly format: 'json' | 'sh'; readonly seed?: number; readonly set: string[]; readonly run?: number; readonly clock: 'virtual' | 'real' }

export function register(program: Command): void {
  program.command('plan')
    .description('print what a run would do, in full')
    .argument('<file>', 'scenario file')
    .addOption(new Option('--format <format>', 'json, or sh: a script to run by hand').choices(['json', 'sh']).default('json'))
    .option('--seed <n>', 'the seed; default: the first of the scenario', parseSeed)
    .option('--run <n>', 'which run, counted from 1, where the scenario varies something or has several seeds', wholeNumber(1, 1e9))
    .addOption(new Option('--clock <clock>', 'virtual or real time (decides whether every packet is recorded)').choices(['virtual', 'real']).default('virtual'))
    .option('--set <path=value>', 'change the scenario; may be given several times', collect, [])
    .action((file: string, options: Options) => {
      process.stdout.write(printPlan(file, options));
    });
}

/** @throws UserError */
export function printPlan(file: string, options: Options): string {
  const scenario = load(file, { set: options.set });
  const runs = expandRuns(scenario, { clock: options.clock, ...(options.seed === undefined ? {} : { seeds: [options.seed] }) });
  const plan = choose(runs, options.run).plan;
  return options.format === 'sh' ? planToShell(plan) : `${JSON.stringify(plan, null, 2)}\n`;
}

function choose(runs: readonly Run[], wanted: number | undefined): Run {
  const run = wanted === undefined ? runs[0] : runs[wanted - 1];
  if (!run) {
    const list = runs.slice(0, 30).map((r, i) => `  ${i + 1}: ${[...Object.entries(r.varied).map(([key, value]) => `${key}=${value}`), `seed=${r.seed}`].join(' ')}`);
    throw new UserError(`--run ${wanted}: there is no such run; expected 1 to ${runs.length}\n${list.join('\n')}`, 2);
  }
  return run;
}
