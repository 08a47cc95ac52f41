/**
 * The table of docs/replay.md, whole: `npm run replay-table [-- --out DIR]`. Runs every scenario of scenarios/replay on every kernel
 * named, then replays all runs. Runs that are there already are kept, so it may be interrupted and started again; `--scenarios host,tbf` runs a part,
 * and the rows of the others stay as they are.
 */

import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { parseArgs } from 'node:util';
import { projectFile } from '../../kernel/project.js';
import { UserError } from '../errors.js';
import { plainMistakes } from '../script.js';

plainMistakes();
const { values } = parseArgs({ options: { out: { type: 'string', default: path.join('results', 'runs', 'replay') }, kernels: { type: 'string', default: '6.12,7.3' }, scenarios: { type: 'string' }, page: { type: 'string', default: projectFile('docs', 'replay.md') } } });
/** DualPI2 is in the kernel since 6.17. */
const scenarios: readonly { readonly name: string; readonly not?: readonly string[] }[] = [{ name: 'exact' }, { name: 'overload' }, { name: 'host' }, { name: 'rehash' }, { name: 'flows' }, { name: 'chance' }, { name: 'single' }, { name: 'several' }, { name: 'tbf' }, { name: 'dualpi2', not: ['6.1', '6.12'] }];

function testbed(args: readonly string[]): number {
  const { status, error } = spawnSync(process.execPath, [projectFile('bin', 'testbed.cjs'), ...args], { stdio: 'inherit' });
  if (error) throw error;
  return status ?? 1;
}

const folders: string[] = [];
const wanted = values.scenarios?.split(',') ?? scenarios.map(({ name }) => name);
for (const name of wanted) if (!scenarios.some((one) => one.name === name)) throw new UserError(`no scenario ${name} in scenarios/replay; there are ${scenarios.map((one) => one.name).join(', ')}`, 2);
for (const { name: scenario, not = [] } of scenarios) {
  if (!wanted.includes(scenario)) continue;
  for (const kernel of values.kernels.split(',')) {
    if (not.includes(kernel)) continue;
    const out = path.join(values.out, `${scenario}-${kernel}`);
    if (!fs.existsSync(path.join(out, 'done'))) {
      // What an interrupted one left is no set of runs.
      fs.rmSync(out, { recursive: true, force: true });
      // 1: a run of the set is invalid, which the replay judges for itself.
      const code = testbed(['run', projectFile('scenarios', 'replay', `${scenario}.yaml`), '--machine', `uml:${kernel}`, '--no-report', '--out', out]);
      if (code > 1) throw new UserError(`${scenario} on ${kernel} could not be run (exit code ${code})`);
      fs.writeFileSync(path.join(out, 'done'), '');
    }
    folders.push(...fs.readdirSync(out).map((name) => path.join(out, name)).filter((name) => fs.statSync(name).isDirectory()));
  }
}
process.exitCode = testbed(['replay', ...folders, '--update', values.page]);
