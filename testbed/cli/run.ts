/** `testbed run FILE`: the scenario on a real kernel. */

import { type Command, Option } from 'commander';
import { type HostsKind, hostsKinds } from '../machines/machine.js';
import { queuePlacements, type QueuePlacement } from '../plan/queue-place.js';
import { runScenario, type KernelChoice, type RunScenarioOptions } from '../run/run-scenario.js';
import { maxSeed } from '../scenario/schema.js';
import { collectSet, type CommonRunOptions, commonRunOptions, memorySize, wholeNumber } from './options.js';
import { defaultResults } from './runs.js';

export function register(program: Command): void {
  program
    .command('run')
    .summary('run a scenario on a real kernel')
    .description('Run a scenario on a real kernel: every varied value with every seed. Results go to a new folder in results/runs.')
    .argument('<file>', 'scenario file (YAML)')
    .option('--machine <name>', 'whose kernel: auto, local, uml, uml:6.12, uml:7.3, uml:debian, ssh://user@host, or one of testbed.config.yaml (see: testbed doctor); all: every machine of testbed.config.yaml, one after the other, then compared', 'auto')
    .addOption(new Option('--clock <clock>', 'virtual: repeatable and as fast as the processor allows (uml only); real: wall-clock time').choices(['virtual', 'real']))
    .addOption(new Option('--hosts <kind>', 'how hosts are isolated: network namespaces, or containers of Docker or podman').choices(hostsKinds).default(undefined, 'netns'))
    .addOption(new Option('--queues <where>', 'where queues of links are that the scenario does not place itself (in: kernel or in: daemon)').choices(queuePlacements).default(undefined, 'kernel; what the kernel of local or ssh lacks comes from the daemon'))
    .option('--seed <number>', 'run this seed only', wholeNumber(0, maxSeed))
    .option('--set <path=value>', "change a value of the scenario, e.g. --set 'topology.links.BL.queue={kind: codel}'", collectSet, [])
    .option('--out <folder>', 'where run folders go', defaultResults)
    .option('--jobs <number>', 'runs at once in virtual time (default: one a core)', wholeNumber(1, 1024))
    .option('--memory <size>', 'memory of a UML guest (default: 1GiB)', memorySize)
    .option('--no-packets', 'no record of every packet: faster, less exact delays')
    .option('--no-report', 'no report.html')
    .option('--influx', 'send queue, probe, socket and summary points to InfluxDB as well (INFLUX_URL, INFLUX_TOKEN, INFLUX_ORG, INFLUX_BUCKET)')
    .option('--dry-run', 'check everything and say what would run, then stop')
    .action(async (file: string, options: CommonRunOptions & { machine: string; clock?: 'virtual' | 'real'; hosts?: HostsKind; queues?: QueuePlacement; memory?: number }) => {
      const { namedMachines, namedSettings } = await import('../machines/registry.js');
      const given = { ...(options.hosts ? { hosts: options.hosts } : {}), ...(options.clock ? { clock: options.clock } : {}), ...(options.queues ? { queues: options.queues } : {}) };
      /** What is said on the command line comes before what testbed.config.yaml says of the machine. */
      const on = (machine: string): RunScenarioOptions & { readonly engine: KernelChoice } => {
        const { hosts = 'netns', clock, queues } = { ...namedSettings(machine), ...given };
        return {
          file, ...commonRunOptions(options),
          engine: { kind: 'kernel', machine, hosts, ...(options.memory === undefined ? {} : { memoryBytes: options.memory }), ...(clock ? { clock } : {}), ...(queues ? { queues } : {}) },
        };
      };
      if (options.machine !== 'all') {
        process.exitCode = await runScenario(on(options.machine));
        return;
      }
      const { runOnEvery } = await import('../run/every-machine.js');
      process.exitCode = await runOnEvery(namedMachines().map(on));
    });
}
