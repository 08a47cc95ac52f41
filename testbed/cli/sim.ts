/** `testbed sim FILE`: the same scenario in the packet-level simulator, with the same tables as a run on a kernel. */

import type { Command } from 'commander';
import { runScenario } from '../run/run-scenario.js';
import { maxSeed } from '../scenario/schema.js';
import { collectSet, type CommonRunOptions, commonRunOptions, wholeNumber } from './options.js';
import { defaultResults } from './runs.js';

export function register(program: Command): void {
  program
    .command('sim')
    .summary('run a scenario in the simulator')
    .description('Run a scenario in the packet-level simulator: every varied value with every seed. Results go to a new folder in results/runs.')
    .argument('<file>', 'scenario file (YAML)')
    .option('--seed <number>', 'run this seed only', wholeNumber(0, maxSeed))
    .option('--set <path=value>', "change a value of the scenario, e.g. --set 'topology.links.BL.queue={kind: codel}'", collectSet, [])
    .option('--out <folder>', 'where run folders go', defaultResults)
    .option('--jobs <number>', 'runs at once (default: one a core)', wholeNumber(1, 1024))
    .option('--no-packets', 'no record of every packet: faster, less exact delays')
    .option('--no-report', 'no report.html')
    .option('--influx', 'send queue, probe, socket and summary points to InfluxDB as well (INFLUX_URL, INFLUX_TOKEN, INFLUX_ORG, INFLUX_BUCKET)')
    .option('--dry-run', 'check everything and say what would run, then stop')
    .action(async (file: string, options: CommonRunOptions) => {
      process.exitCode = await runScenario({
        file,
        engine: { kind: 'sim' },
        ...commonRunOptions(options),
      });
    });
}
