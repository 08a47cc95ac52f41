/**
 * The program shipped to a remote machine, all in one file (setup.mjs bundles it as dist/remote.mjs):
 *
 *     remote agent ARGS…     the agent (main.ts)
 *     remote check [docker]  what the plans on standard input (a JSON list) need and this machine lacks, as JSON
 *     remote doctor          what this machine has and lacks, as JSON
 *     remote image SOURCE    builds the image of hosts in containers; how, and what it said meanwhile, as JSON
 *     remote clean [dry]     removes what dead runs of this user left behind, as `testbed clean`; what it was, as JSON
 *
 * Instead of the JSON that was asked for: {"userError": MESSAGE}, what a user can mend.
 */

import * as fs from 'node:fs';
import { UserError } from '../errors.js';
import type { Plan } from '../plan/plan.js';

const [, , command] = process.argv;
const print = (value: unknown): void => { fs.writeSync(1, `${JSON.stringify(value)}\n`); };

async function remote(): Promise<number> {
  switch (command) {
    case 'agent': {
      process.argv.splice(1, 2, process.execPath); // main.ts sees its own arguments, and that it is not the program itself
      return (await import('./main.js')).main();
    }
    case 'check': {
      const { Local } = await import('../machines/local.js');
      const plans = JSON.parse(fs.readFileSync(0, 'utf8')) as readonly Plan[];
      const missing = new Map<string, unknown>();
      for (const plan of plans) for (const each of await new Local().check(plan, 'real', process.argv[3] === 'docker' ? 'docker' : 'netns')) missing.set(each.what, each);
      print([...missing.values()]);
      return 0;
    }
    case 'doctor':
      print(await (await import('../doctor/doctor.js')).diagnose());
      return 0;
    case 'image': {
      const [{ openEngine }, { buildImage, imageSources }] = await Promise.all([import('../hosts/engine.js'), import('../hosts/image.js')]);
      const said: string[] = [];
      const how = await buildImage(await openEngine(), imageSources.find((source) => source === process.argv[3]) ?? 'auto', (line) => { said.push(line); });
      print({ how, said });
      return 0;
    }
    case 'clean': {
      const dryRun = process.argv[3] === 'dry';
      const containers = await (await import('../hosts/clean-containers.js')).cleanContainers({ dryRun });
      const others = (await import('../journal/clean.js')).clean({ dryRun });
      const report = { ...others, removed: [...containers.removed, ...others.removed], failed: [...containers.failed, ...others.failed] };
      print(report);
      return 0;
    }
    default:
      fs.writeSync(2, `remote: no command ${JSON.stringify(command)}; there are agent, check, doctor, image, clean\n`);
      return 2;
  }
}

try {
  process.exitCode = await remote();
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  print({ userError: error.message });
}
process.exit();
