/** `testbed doctor`: what this machine has and lacks, what to install, which machines are usable. */

import pc from 'picocolors';
import type { Command } from 'commander';
import { diagnose, type Diagnosis } from '../doctor/doctor.js';
import { remoteTarget } from '../machines/registry.js';

const yes = pc.green('✓');
const no = pc.red('✗');
const maybe = pc.yellow('–');

/** Broken at spaces into lines of at most 80 columns that all begin with the indent. */
function wrapped(text: string, indent: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && indent.length + last.length + 1 + word.length <= 80) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.map((line) => `${indent}${pc.dim(line)}`);
}

export function render({ system, machines, programs, containers, problems }: Diagnosis): string {
  const lines = [
    `${system.os}, Linux ${system.kernel}, Node ${system.node}, ${system.cores} core${system.cores === 1 ? '' : 's'}, ${system.memoryGiB} GiB, ${system.root ? 'root' : 'not root'}`,
    `cache ${system.cache} (${system.cacheFreeGiB} GiB free)`,
    '', pc.bold('Machines'),
  ];
  const width = Math.max(...machines.map((machine) => machine.name.length));
  for (const machine of machines) {
    lines.push(`  ${machine.usable ? yes : maybe} ${machine.name.padEnd(width)}  ${machine.usable ? `${machine.kernel ?? ''}, ${machine.clocks.join(' and ')} time` : machine.notes.join('; ')}`);
    if (machine.usable) lines.push(...machine.notes.flatMap((note) => wrapped(note, ''.padEnd(width + 6))));
    if (machine.fix !== null) lines.push(`    ${''.padEnd(width)}  ${pc.dim(`→ ${machine.fix}`)}`);
  }
  lines.push('', pc.bold('Hosts in containers'), `  ${containers.image === null ? maybe : yes} ${containers.note}${containers.socket === null ? '' : pc.dim(`  ${containers.socket}`)}${containers.fix === null ? '' : pc.dim(`  → ${containers.fix}`)}`);
  lines.push('', pc.bold('Programs'));
  const nameWidth = Math.max(...programs.map((each) => each.name.length));
  for (const each of programs) {
    lines.push(`  ${each.path === null ? (each.required ? no : maybe) : each.fix === null ? yes : maybe} ${each.name.padEnd(nameWidth)}  ${each.path ?? 'missing'}${each.fix === null ? '' : pc.dim(`, for ${each.for}`)}`);
    if (each.fix !== null) lines.push(`    ${''.padEnd(nameWidth)}  ${pc.dim(`→ ${each.fix}`)}`);
  }
  lines.push('');
  if (problems.length === 0) lines.push(`${yes} ready to run`);
  else lines.push(pc.bold('To mend'), ...problems.map(({ what, fix }) => `  ${no} ${what}\n      → ${fix}`));
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
