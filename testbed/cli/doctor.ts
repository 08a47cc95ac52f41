/** `testbed doctor`: what this machine has and lacks, what to install, which machines are usable. */

import { stripVTControlCharacters } from 'node:util';
import pc from 'picocolors';
import type { Command } from 'commander';
import { diagnose, type Diagnosis } from '../doctor/doctor.js';
import { remoteTarget } from '../machines/registry.js';

const yes = pc.green('✓');
const no = pc.red('✗');
const maybe = pc.yellow('–');

/** Broken at spaces into lines of at most 80 columns; the first begins with `first`, the others with as many blanks, or `indent`. */
function broken(text: string, first: string, indent = ''.padEnd(stripVTControlCharacters(first).length), style: (line: string) => string = String): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && indent.length + last.length + 1 + word.length <= 80) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.map((line, i) => `${i === 0 ? first : indent}${style(line)}`);
}

/** What to type stays in one line, to be copied; what else there is to know, in brackets behind it, is broken. */
function fixLines(fix: string, indent: string, style: (line: string) => string = pc.dim): string[] {
  const [, command, note] = /^(.*?)(?: (\(.*\)))?$/s.exec(fix)!;
  return [`${indent}${style(`→ ${command!}`)}`, ...(note === undefined ? [] : broken(note, `${indent}  `, `${indent}  `, style))];
}

export function render({ system, machines, programs, containers, problems }: Diagnosis): string {
  const lines = [
    ...broken(`${system.os}, Linux ${system.kernel}, Node ${system.node}, ${system.cores} core${system.cores === 1 ? '' : 's'}, ${system.memoryGiB} GiB, ${system.root ? 'root' : 'not root'}`, ''),
    ...broken(`cache ${system.cache} (${system.cacheFreeGiB} GiB free)`, ''),
    '', pc.bold('Machines'),
  ];
  const width = Math.max(...machines.map((machine) => machine.name.length));
  for (const machine of machines) {
    const under = ''.padEnd(width + 6);
    lines.push(...broken(machine.usable ? `${machine.kernel ?? ''}, ${machine.clocks.join(' and ')} time` : machine.notes.join('; '), `  ${machine.usable ? yes : maybe} ${machine.name.padEnd(width)}  `));
    if (machine.usable) lines.push(...machine.notes.flatMap((note) => broken(note, under, under, pc.dim)));
    if (machine.fix !== null) lines.push(...fixLines(machine.fix, under));
  }
  lines.push('', pc.bold('Hosts in containers'), ...broken(containers.note, `  ${containers.image === null ? maybe : yes} `));
  if (containers.socket !== null) lines.push(pc.dim(`    ${containers.socket}`));
  if (containers.fix !== null) lines.push(...fixLines(containers.fix, '    '));
  lines.push('', pc.bold('Programs'));
  const nameWidth = Math.max(...programs.map((each) => each.name.length));
  for (const each of programs) {
    const under = ''.padEnd(nameWidth + 6);
    lines.push(...broken(`${each.path ?? 'missing'}${each.fix === null ? '' : `, for ${each.for}`}`, `  ${each.path === null ? (each.required ? no : maybe) : each.fix === null ? yes : maybe} ${each.name.padEnd(nameWidth)}  `));
    if (each.fix !== null) lines.push(...fixLines(each.fix, under));
  }
  lines.push('');
  if (problems.length === 0) lines.push(`${yes} ready to run`);
  else lines.push(pc.bold('To mend'), ...problems.flatMap(({ what, fix }) => [...broken(what, `  ${no} `), ...fixLines(fix, '      ', String)]));
  return lines.join('\n');
}

/** @throws UserError */
async function remote(name: string): Promise<Diagnosis> {
  const target = remoteTarget(name, 'testbed doctor tells about this computer by itself');
  return (await import('../machines/ssh/session.js')).diagnoseRemote(target);
}

export function register(program: Command): void {
  program
    .command('doctor')
    .description('what this machine has and lacks, what to install, which machines are usable')
    .option('--json', 'as JSON')
    .option('--machine <name>', 'ask a remote machine: ssh://user@host[:port], or one of testbed.config.yaml')
    .action(async (options: { json?: boolean; machine?: string }) => {
      const diagnosis = options.machine === undefined ? await diagnose() : await remote(options.machine);
      console.log(options.json ? JSON.stringify(diagnosis, null, 2) : render(diagnosis));
      // For scripts: 1 when something stands in the way of every run.
      if (!diagnosis.machines.some((machine) => machine.usable)) process.exitCode = 1;
    });
}
