/** `testbed clean`: removes what crashed runs left behind, and says what it was. */

import type { Command } from 'commander';
import { deadBootFolders } from '../../kernel/boot-folder.js';
import { UserError } from '../errors.js';
import { cleanContainers } from '../hosts/clean-containers.js';
import { clean, type CleanReport } from '../journal/clean.js';
import { remoteTarget } from '../machines/registry.js';

export function register(program: Command): void {
  program.command('clean')
    .description('remove what runs that crashed left on this machine: namespaces, processes, folders, mounts; runs that are going are left alone')
    .option('--dry-run', 'only say what would be removed')
    .option('--machine <name>', 'on a remote machine instead: ssh://user@host[:port], or one of testbed.config.yaml')
    .action(async ({ dryRun = false, machine }: { dryRun?: boolean; machine?: string }) => {
      const { removed, failed, live } = machine === undefined ? await cleanHere(dryRun) : await cleanThere(machine, dryRun);
      for (const what of removed) console.log(`${dryRun ? 'would remove' : 'removed'} ${what}`);
      const bootFolders = machine === undefined ? deadBootFolders() : [];
      for (const dead of bootFolders) {
        if (!dryRun) dead.remove();
        console.log(`${dryRun ? 'would remove' : 'removed'} boot folder ${dead.folder} of a guest that is gone`);
      }
      if (removed.length === 0 && bootFolders.length === 0) console.log('nothing to clean');
      if (live.length > 0) console.log(`left alone: ${live.length === 1 ? 'run' : 'runs'} ${live.join(', ')}, still going`);
      if (failed.length > 0) throw new UserError(`could not remove:\n  ${failed.join('\n  ')}\n${process.getuid?.() === 0 ? 'Mend the reason, then run testbed clean again.' : 'Run testbed clean as the user who ran the scenario, or as root.'}`);
    });
}

async function cleanHere(dryRun: boolean): Promise<CleanReport> {
  const containers = await cleanContainers({ dryRun });
  const others = clean({ dryRun });
  return { ...others, removed: [...containers.removed, ...others.removed], failed: [...containers.failed, ...others.failed] };
}

async function cleanThere(machine: string, dryRun: boolean): Promise<CleanReport> {
  const target = remoteTarget(machine, 'testbed clean is about this computer by itself');
  return (await import('../machines/ssh/session.js')).cleanRemote(target, dryRun);
}
