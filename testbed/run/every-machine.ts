/**
 * `testbed run FILE --machine all`: one scenario on every machine of testbed.config.yaml, one set of runs each, one after the other, then
 * the kernels compared as `testbed compare` does. All are checked before the first starts; a machine that cannot run it,
 * or fails, does not stop the others.
 */

import pc from 'picocolors';
import { configFile, configName } from '../config/config.js';
import type { MissingSide } from '../compare/comparison.js';
import { UserError } from '../errors.js';
import { terminalColumns } from '../report/columns.js';
import { loadScenario, prepare, runPrepared, type KernelChoice, type PreparedSet, type RunScenarioOptions } from './run-scenario.js';

type Options = RunScenarioOptions & { readonly engine: KernelChoice };

/**
 * @param machines what to do on each; the first that gives a run is the reference of the comparison
 * @returns the exit code: 0 all went well, 1 a run failed or is invalid or an expectation does not hold, 3 a machine lacks
 *   something, 130 interrupted
 * @throws UserError when no machine can, or the scenario is wrong
 */
export async function runOnEvery(machines: readonly Options[]): Promise<number> {
  const [first] = machines;
  if (first === undefined) {
    const file = configFile();
    throw new UserError(`--machine all: ${file === null ? `there is no ${configName} here or above` : `${file} names no machines`}; write, e.g.:\nmachines:\n  old: { machine: "uml:6.12" }\n  new: { machine: "uml:7.3" }\n  lab: { ssh: root@lab.example }`, 2);
  }
  const scenario = await loadScenario(first);
  const ready: { readonly name: string; readonly options: Options; readonly set: PreparedSet }[] = [];
  const refused: string[] = [];
  const missing: MissingSide[] = [];
  for (const options of machines) {
    const name = options.engine.machine;
    try {
      ready.push({ name, options, set: await prepare(options, scenario) });
    } catch (error) {
      // A mistake in what was written would be the same everywhere.
      if (!(error instanceof UserError) || error.exitCode === 2) throw error;
      refused.push(name);
      missing.push({ label: name, reason: error.message.split('\n')[0]! });
      process.stderr.write(`${pc.red(name)}: ${error.message}\n`);
    }
  }
  if (ready.length === 0) throw new UserError('no machine of the configuration can run this', 3);

  const codes = new Map<string, number>();
  const sides: { readonly name: string; readonly topDir: string }[] = [];
  for (const { name, options, set } of ready) {
    process.stderr.write(`\n${pc.bold(`== ${name}`)}\n`);
    try {
      const { code, topDir, complete } = await runPrepared(options, set);
      codes.set(name, code);
      if (topDir !== null && complete > 0) sides.push({ name, topDir });
      else missing.push({ label: name, reason: `no run that counts${topDir === null ? '' : `; see ${topDir}`}` });
      if (code === 130) return 130;
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      codes.set(name, error.exitCode);
      missing.push({ label: name, reason: error.message.split('\n')[0]! });
      process.stderr.write(`${pc.red(name)}: ${error.message}\n`);
    }
  }
  if (first.dryRun) return refused.length > 0 ? 3 : 0;

  process.stderr.write('\n');
  const failed = [...codes].filter(([, code]) => code !== 0);
  if (refused.length > 0) process.stderr.write(`${pc.red('not run')}: ${refused.join(', ')}\n`);
  if (failed.length > 0) process.stderr.write(`${pc.red('not as it should be')}: ${failed.map(([name, code]) => `${name} (exit code ${code})`).join(', ')}\n`);
  if (sides.length >= 2) await compareSides(sides, missing, first);
  else process.stderr.write(`nothing to compare: ${sides.length === 0 ? 'no machine has a run that counts' : `only ${sides[0]!.name} has a run that counts`}\n`);
  return failed.length > 0 ? 1 : refused.length > 0 ? 3 : 0;
}

async function compareSides(sides: readonly { readonly name: string; readonly topDir: string }[], missing: readonly MissingSide[], { out, report }: Options): Promise<void> {
  const [{ compareFromDisk }, { writeComparison }, { comparisonText }] = await Promise.all([import('../compare/comparison.js'), import('../compare/write.js'), import('../compare/text.js')]);
  const result = await compareFromDisk(sides.map(({ topDir }) => topDir), { resultsDir: out, allow: [], labels: sides.map(({ name }) => name), missing });
  const { page } = await writeComparison(result, out, undefined, report);
  process.stdout.write(`${comparisonText(result.comparison, { all: false, columns: terminalColumns(), atLeast: 0.001 })}\npage: ${page}\n`);
}
