/**
 * A run on a remote machine, which outlives the connection: started apart from it, under a limit of time (the
 * dead-man timer), with what it made removed at its end in any case. Its folder there:
 *
 *     ~/.cache/testbed/remote/<id>/raw/      as on any machine (records/raw.ts)
 *     ~/.cache/testbed/remote/<id>/run.sh    what runs
 *     ~/.cache/testbed/remote/<id>/pid       its process
 *     ~/.cache/testbed/remote/<id>/reserve   room kept for the next one, should the disk fill up meanwhile
 *     ~/.cache/testbed/remote/<id>/status    once everything is over: the agent's exit code, and `full` if the disk then was
 *
 * remote.json in the run folder here says where that is, so that `testbed fetch` finds it later.
 */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, createReadStream, createWriteStream, existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../../errors.js';
import type { Plan } from '../../plan/plan.js';
import { writeJsonAtomically } from '../../records/run-json.js';
import { type Connection, quote } from './connection.js';
import { must, type RemoteProgram } from './ship.js';
import { formatTarget, type SshTarget } from './target.js';

export interface RemoteRun {
  readonly schema: 1;
  readonly target: SshTarget;
  /** Absolute, there. */
  readonly folder: string;
  readonly command: readonly string[];
}

const remoteJson = 'remote.json';

export function readRemoteRun(runDir: string): RemoteRun | null {
  try {
    const value = JSON.parse(readFileSync(path.join(runDir, remoteJson), 'utf8')) as RemoteRun;
    return value.schema === 1 && typeof value.folder === 'string' && typeof value.target?.host === 'string' ? value : null;
  } catch {
    return null;
  }
}

/** Everything is here: nothing waits there any more. */
export const forgetRemoteRun = (runDir: string): void => { rmSync(path.join(runDir, remoteJson), { force: true }); };

/** Time a run may take there beyond its own, s: set-up, draining, take-down. Then it is ended, whoever still listens. */
export const deadManS = (plan: Plan): number => Math.ceil((plan.warmupNs + plan.durationNs) / 1e9) + 180;

const reserveBytes = 256 * 1024;
/** Less room than this is none. */
const leastRoomBytes = 64 * 1024;

function script(run: RemoteRun, limitS: number, agentArguments: readonly string[]): string {
  const program = run.command.map(quote).join(' ');
  return `#!/bin/sh
# Started by testbed for one run. It ends by itself: after the run, or ${limitS} s from its start.
cd ${quote(run.folder)} || exit 1
echo $$ >pid
timeout -k 20 ${limitS} ${program} agent ${agentArguments.map(quote).join(' ')} >>raw/console.log 2>&1 </dev/null &
child=$!
trap 'kill -TERM "$child" 2>/dev/null' TERM HUP INT
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
full=
head -c ${leastRoomBytes} /dev/zero >room 2>/dev/null || full=full
rm -f room reserve
${program} clean >clean.json 2>&1
echo "$code $full" >status.part && mv status.part status
`;
}

/** Starts the run there; when this returns, it no longer needs the connection. @throws UserError */
export async function startRemote(connection: Connection, program: RemoteProgram, id: string, plan: Plan, runDir: string, options: { readonly tag: string; readonly hosts: string; readonly limitS?: number }): Promise<RemoteRun> {
  const folder = path.posix.join(program.cache, 'remote', id);
  const run: RemoteRun = { schema: 1, target: connection.target, folder, command: program.command };
  const raw = path.posix.join(folder, 'raw');
  try {
    await must(connection, ['mkdir', '-p', raw]);
    await must(connection, ['dd', 'if=/dev/zero', `of=${path.posix.join(folder, 'reserve')}`, `bs=${reserveBytes}`, 'count=1', 'status=none']);
    await connection.write(path.posix.join(raw, 'plan.json'), readFileSync(path.join(runDir, 'raw', 'plan.json')));
    await connection.write(path.posix.join(folder, 'run.sh'), script(run, options.limitS ?? deadManS(plan), ['--raw', raw, '--clock', 'real', '--tag', options.tag, '--hosts', options.hosts, '--mode', 'local']), 0o755);
    // Before it starts: should we not get to know whether it did, fetch looks.
    writeJsonAtomically(path.join(runDir, remoteJson), run);
    await must(connection, ['sh', '-c', 'setsid nohup sh "$1" >/dev/null 2>&1 </dev/null &', 'start', path.posix.join(folder, 'run.sh')]);
  } catch (error) {
    if (!connection.lost) {
      await connection.exec(['rm', '-rf', folder]);
      forgetRemoteRun(runDir);
    }
    if (error instanceof UserError) throw error;
    throw new UserError(`${formatTarget(connection.target)}: the plan cannot be written to ${folder}: ${(error as Error).message}. Is its disk full?`, 3);
  }
  return run;
}

export interface RemoteStatus {
  /** The agent's exit code; null while it runs. */
  readonly code: number | null;
  /** It neither runs nor ended properly: it was never started, or it was killed, or the machine was restarted. */
  readonly dead: boolean;
  /** The disk there had no room when it ended. */
  readonly full: boolean;
}

export async function remoteStatus(connection: Connection, run: RemoteRun): Promise<RemoteStatus> {
  const said = await connection.exec(['sh', '-c', 'cd "$1" 2>/dev/null || { echo gone; exit; }; if [ -e status ]; then cat status; elif [ ! -e pid ]; then if [ -n "$(find run.sh -mmin -2 2>/dev/null)" ]; then echo starting; else echo dead; fi; elif kill -0 "$(cat pid)" 2>/dev/null; then echo running; elif [ -e status ]; then cat status; else echo dead; fi', 'status', run.folder]);
  const text = said.stdout.trim();
  const ended = /^(\d+)( full)?$/.exec(text);
  if (ended) return { code: Number(ended[1]), dead: false, full: ended[2] !== undefined };
  if (text === 'gone') throw new UserError(`${formatTarget(run.target)} has no ${run.folder} any more: its records are lost, or were brought before`, 3);
  return { code: null, dead: text === 'dead', full: false };
}

/** Asks the run to end; its records stay, its traces are removed. */
export async function endRemote(connection: Connection, run: RemoteRun): Promise<void> {
  await connection.exec(['sh', '-c', 'test -e "$1/status" || kill -TERM "$(cat "$1/pid")"', 'end', run.folder]);
}

/** Brings what raw/agent.jsonl has gained there. */
export async function bringLines(connection: Connection, run: RemoteRun, raw: string): Promise<void> {
  const file = path.join(raw, 'agent.jsonl');
  const from = existsSync(file) ? statSync(file).size : 0;
  const to = (await connection.size(path.posix.join(run.folder, 'raw', 'agent.jsonl'))) ?? 0;
  await connection.read(path.posix.join(run.folder, 'raw', 'agent.jsonl'), from, to, (chunk) => { appendFileSync(file, chunk); });
}

function sha256(file: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const hash = createHash('sha256');
    createReadStream(file).on('data', (chunk) => hash.update(chunk)).on('error', reject).on('end', () => { resolve(hash.digest('hex')); });
  });
}

/**
 * Brings all of raw/, each file from where an earlier attempt stopped, checks every one by its SHA-256, then removes
 * the folder there. Call it again after a failure: nothing is brought twice.
 * @throws UserError when a file stays different
 */
export async function bringRecords(connection: Connection, run: RemoteRun, runDir: string, onBytes: (done: number, all: number) => void = () => undefined): Promise<void> {
  const raw = path.join(runDir, 'raw');
  const there = path.posix.join(run.folder, 'raw');
  mkdirSync(raw, { recursive: true });
  const files = (await connection.list(there)) ?? [];
  const all = files.reduce((sum, { size }) => sum + size, 0);
  let done = 0;
  /** The bytes [from, size) of one file to the end of what is here; all of it for `from` 0. */
  const bring = async (name: string, from: number, size: number): Promise<void> => {
    const out = createWriteStream(path.join(raw, name), { flags: from === 0 ? 'w' : 'a' });
    const failed = once(out, 'error').then(([error]) => { throw error; });
    failed.catch(() => undefined);
    await Promise.race([failed, connection.read(path.posix.join(there, name), from, size, (chunk) => { out.write(chunk); onBytes(done += chunk.length, all); })]);
    out.end();
    await Promise.race([failed, once(out, 'close')]);
  };
  for (const { name, size } of files) {
    if (name.includes('/') || name === '.' || name === '..') continue;
    const file = path.join(raw, name);
    const here = existsSync(file) ? statSync(file).size : 0;
    const from = here > size ? 0 : here;
    await bring(name, from, size);
    done += from;
  }
  const sums = new Map((await must(connection, ['sh', '-c', 'cd "$1" && sha256sum -- *', 'sums', there])).split('\n').flatMap((line): [string, string][] => {
    const match = /^([0-9a-f]{64}) [ *](.*)$/.exec(line);
    return match ? [[match[2]!, match[1]!]] : [];
  }));
  for (const { name, size } of files) {
    if (sums.get(name) === (await sha256(path.join(raw, name)))) continue;
    done -= size;
    await bring(name, 0, size); // once more from its start
    if (sums.get(name) !== (await sha256(path.join(raw, name)))) throw new UserError(`${formatTarget(run.target)}: ${there}/${name} arrives changed; it is kept there`, 1);
  }
  await connection.exec(['rm', '-rf', run.folder]);
}
