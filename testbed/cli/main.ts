#!/usr/bin/env node
/** The command line: one thin file a command, loaded only when it is the one that runs (start-up time is part of every run). */

import { Command, CommanderError, Help } from 'commander';
import { UserError } from '../errors.js';
import { watchOutput } from '../run/closed-output.js';
import { systemMessage } from '../run/system-error.js';
import { strict } from './strict.js';

interface CommandModule { register(program: Command): void }

/** Each command's file and its line in the overview. */
const commands: Readonly<Record<string, { readonly summary: string; readonly load: () => Promise<CommandModule> }>> = {
  run: { summary: 'run a scenario on a real kernel', load: () => import('./run.js') },
  sim: { summary: 'run a scenario in the simulator', load: () => import('./sim.js') },
  validate: { summary: 'does the simulator say what the kernel does? both engines, compared', load: () => import('./validate.js') },
  plan: { summary: 'show everything a scenario will do, as JSON or as a shell script', load: () => import('./plan.js') },
  list: { summary: 'list the runs recorded so far', load: () => import('./list.js') },
  show: { summary: 'show the figures of a run', load: () => import('./show.js') },
  compare: { summary: 'compare runs or sets: figures, distributions, what is inside the noise', load: () => import('./compare.js') },
  replay: { summary: "compare each decision of a kernel's queue with ours", load: () => import('./replay.js') },
  query: { summary: 'ask the recorded runs with SQL', load: () => import('./query.js') },
  export: { summary: 'write a run as CSV, JSON, Parquet, qlog, pcapng or a flent data file, or send it to InfluxDB', load: () => import('./export.js') },
  fetch: { summary: 'bring the records of a remote run whose connection was lost', load: () => import('./fetch.js') },
  tag: { summary: 'give a run a name that keeps it from gc', load: () => import('./tag.js') },
  rm: { summary: 'remove runs', load: () => import('./rm.js') },
  gc: { summary: 'remove old runs that have no tag', load: () => import('./gc.js') },
  kernel: { summary: 'build, list and remove User-Mode Linux kernels', load: () => import('./kernel.js') },
  image: { summary: 'build the image of hosts in containers', load: () => import('./image.js') },
  daemon: { summary: 'put a queue discipline in user space on this router', load: () => import('./daemon.js') },
  doctor: { summary: 'say what this machine has and lacks', load: () => import('./doctor.js') },
  clean: { summary: 'remove what crashed runs left behind, and only that', load: () => import('./clean.js') },
  schema: { summary: "print the scenario files' JSON Schema, for editors", load: () => import('./schema.js') },
};

const version = '0.1.0';

/** `help run` and `--help run` are `run --help`, with all its options, which only the command's own file knows. */
function withoutHelpCommand(words: readonly string[]): readonly string[] {
  const [help, name, ...more] = words;
  if (help === undefined || !['help', '--help', '-h'].includes(help) || name === undefined || name.startsWith('-')) return words;
  return Object.hasOwn(commands, name) ? [name, ...more, '--help'] : [name];
}

async function main(given: readonly string[]): Promise<number> {
  const words = withoutHelpCommand(given);
  const program = new Command('testbed')
    .description('Network-emulation test bed: says whether a simulator says what a real Linux kernel does.')
    .version(version)
    .configureHelp({ optionDescription: (option) => new Help().optionDescription(option).replace(' (default: [])', '') }) // of options that may be repeated
    .exitOverride();
  const name = words.find((word) => !word.startsWith('-'));
  const command = name !== undefined && Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command) {
    process.cwd(); // throws where the working folder is gone: better now than half-way
    (await command.load()).register(program);
  } else {
    // The overview and "unknown command": names and summaries are enough.
    for (const [known, { summary }] of Object.entries(commands)) program.command(known).description(summary).allowUnknownOption();
    if (words.length === 0) program.outputHelp();
  }
  strict(program);
  if (words.length > 0) await program.parseAsync([...words], { from: 'user' });
  return typeof process.exitCode === 'number' ? process.exitCode : 0;
}

watchOutput();

main(process.argv.slice(2)).then(
  (code) => { process.exitCode = code; },
  (error: unknown) => {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? 0 : 2;
    } else if (error instanceof UserError) {
      process.stderr.write(`${error.message}\n`);
      process.exitCode = error.exitCode;
    } else if (systemMessage(error) !== null) {
      process.stderr.write(`${systemMessage(error)}\n`);
      process.exitCode = 1;
    } else {
      process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\nThis is a bug in testbed, not in your scenario: please report it with the lines above.\n`);
      process.exitCode = 70;
    }
  },
);
