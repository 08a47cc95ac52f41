/** `testbed fetch RUN`: brings the records of runs on remote machines whose connection was lost, and analyses them. */

import type { Command } from 'commander';
import { UserError } from '../errors.js';
import { follow } from '../machines/ssh/session.js';
import { Connection } from '../machines/ssh/connection.js';
import { readRemoteRun } from '../machines/ssh/remote-run.js';
import { formatTarget } from '../machines/ssh/target.js';
import type { AgentLine, Finding } from '../records/raw.js';
import { finish } from '../run/execute.js';
import { interruptible } from '../run/interrupt.js';
import { defaultResults, folderOfRuns, resolveRun } from './runs.js';

export function register(program: Command): void {
  program.command('fetch')
    .description('bring the records of a run on a remote machine after its connection was lost; waits for a run that still goes on')
    .argument('<run>', 'id, unique beginning of an id, folder, or `last`; of a set, every run that is still to be brought')
    .option('--out <dir>', 'folder of the runs', folderOfRuns, defaultResults)
    .option('--no-report', 'no report.html')
    .action(async (name: string, options: { out: string; report: boolean }) => { process.exitCode = await fetchRuns(name, options.out, options.report); });
}

/** @returns exit code: 0 all complete, 1 otherwise. @throws UserError */
export async function fetchRuns(name: string, resultsDir: string, report: boolean): Promise<number> {
  const entry = resolveRun(name, resultsDir);
  const waiting = entry.runs.flatMap(({ dir, run }) => {
    const remote = readRemoteRun(dir);
    return remote !== null && run !== null ? [{ dir, run, remote }] : [];
  });
  if (waiting.length === 0) throw new UserError(`${entry.id}: nothing to bring: no run in it is waiting on a remote machine`);
  const interrupt = interruptible();
  let complete = true;
  try {
    for (const { dir, run, remote } of waiting) {
      process.stderr.write(`${dir}: from ${formatTarget(remote.target)}\n`);
      const findings: Finding[] = [];
      const facts: Record<string, unknown> = {};
      const onLine = (line: AgentLine): void => {
        if (line.type === 'finding') findings.push(line);
        else if (line.type === 'facts') Object.assign(facts, line);
      };
      const outcome = await follow(remote, dir, await Connection.open(remote.target), { signal: interrupt.signal, onLine });
      const { error: _error, ...started } = run;
      const result = await finish({ runDir: dir, started, outcome, findings, facts, report, besideOthers: false });
      process.stdout.write(`${dir}: ${result.status}${result.error === null ? '' : `: ${result.error}`}\n`);
      complete &&= result.status === 'complete';
    }
  } finally {
    interrupt.release();
  }
  if (entry.set && complete) {
    await (await import('../analysis/summary.js')).summarise(entry.dir);
    if (report) await (await import('../report/report.js')).writeReport(entry.dir);
  }
  return complete ? 0 : 1;
}
