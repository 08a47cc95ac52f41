/**
 * What the machine ssh (ssh.ts) does over connections: our program is shipped there (ship.ts), a run goes on apart from
 * the connection (remote-run.ts), its progress is followed, its records are brought back. A lost connection is taken up
 * again; when it cannot be, the run goes on and `testbed fetch` brings it.
 */

import { statSync } from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../../errors.js';
import type { Plan } from '../../plan/plan.js';
import type { Diagnosis } from '../../doctor/doctor.js';
import type { ImageSource } from '../../hosts/image.js';
import type { CleanReport } from '../../journal/clean.js';
import type { HostsKind, Missing, RunOutcome, RunRequest } from '../machine.js';
import { AgentLines } from '../tail.js';
import { Connection, ConnectionLost } from './connection.js';
import { bringLines, bringRecords, deadManS, endRemote, forgetRemoteRun, readRemoteRun, remoteStatus, startRemote, type RemoteRun } from './remote-run.js';
import { must, ship } from './ship.js';
import { formatTarget, type SshTarget } from './target.js';

export interface SshOptions {
  /** How often a lost connection is tried again. */
  readonly attempts?: number;
  /** Wait before each, ms. */
  readonly pauseMs?: number;
  /** The dead-man timer, s. */
  readonly limitS?: number;
}

const pollMs = 300;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => { setTimeout(resolve, ms); });

/** What our program prints there. @throws UserError with what it said */
async function ask<T>(target: SshTarget, words: readonly string[], input?: Buffer): Promise<T> {
  const connection = await Connection.open(target);
  try {
    const { command } = await ship(connection);
    const answer = JSON.parse(await must(connection, [...command, ...words], input)) as T | { readonly userError: string };
    if (typeof answer === 'object' && answer !== null && 'userError' in answer) throw new UserError(`${formatTarget(target)}: ${answer.userError}`, 3);
    return answer as T;
  } finally {
    connection.close();
  }
}

/** Commands of ours that mend a machine, told for one that has no testbed of its own. */
const fromHere = (fix: string, target: SshTarget): string => (/^testbed (image build|clean)$/.test(fix) ? `${fix} --machine ${formatTarget(target)}` : `${fix} (there)`);

/** What the plan needs and the machine there lacks. */
export async function checkRemote(target: SshTarget, plan: Plan, hosts: HostsKind): Promise<readonly Missing[]> {
  const missing = await ask<readonly Missing[]>(target, ['check', hosts], Buffer.from(JSON.stringify([plan])));
  return missing.map(({ what, fix }) => ({ what: `${what} (on ${target.host})`, fix: fromHere(fix, target) }));
}

/** What the machine there has and lacks: `testbed doctor --machine`. */
export const diagnoseRemote = (target: SshTarget): Promise<Diagnosis> => ask(target, ['doctor']);

/** Builds the image of hosts in the engine there: `testbed image build --machine`. @param say what the building printed, once it is over */
export async function buildImageRemote(target: SshTarget, from: ImageSource, say: (line: string) => void): Promise<'registry' | 'machine'> {
  const { how, said } = await ask<{ readonly how: 'registry' | 'machine'; readonly said: readonly string[] }>(target, ['image', from]);
  said.forEach(say);
  return how;
}

/** Removes what dead runs left there: `testbed clean --machine`. */
export const cleanRemote = (target: SshTarget, dryRun: boolean): Promise<CleanReport> => ask(target, ['clean', ...(dryRun ? ['dry'] : [])]);

export async function runRemote(target: SshTarget, request: RunRequest, options: SshOptions): Promise<RunOutcome> {
  const { plan, runDir, tag, hosts, signal } = request;
  let connection: Connection | undefined;
  let run: RemoteRun;
  try {
    connection = await Connection.open(target);
    const program = await ship(connection);
    run = await startRemote(connection, program, `${path.basename(runDir).replace(/[^A-Za-z0-9._-]/g, '-')}-${tag}`, plan, runDir, { tag, hosts, limitS: options.limitS ?? deadManS(plan) });
  } catch (error) {
    connection?.close();
    if (error instanceof ConnectionLost && readRemoteRun(runDir) !== null) return { status: 'failed', error: `${error.message}. Whether the run started there is not known: testbed fetch ${runDir} brings what there is` };
    if (error instanceof UserError) return { status: 'failed', error: error.message };
    throw error;
  }
  return follow(run, runDir, connection, { signal, onLine: request.onLine, ...options });
}

export interface FollowOptions extends SshOptions {
  readonly signal: AbortSignal;
  readonly onLine: RunRequest['onLine'];
}

/** Follows a run there to its end and brings its records; closes the connection. Used by `testbed run`, and again by `testbed fetch`. */
export async function follow(run: RemoteRun, runDir: string, connection: Connection, options: FollowOptions): Promise<RunOutcome> {
  const raw = path.join(runDir, 'raw');
  const lines = new AgentLines(path.join(raw, 'agent.jsonl'), options.onLine);
  const name = formatTarget(run.target);
  const attempts = options.attempts ?? Number(process.env['TESTBED_SSH_ATTEMPTS'] ?? 5);
  let left = attempts;
  let told = false;
  try {
    for (;;) {
      try {
        if (options.signal.aborted && !told) {
          await endRemote(connection, run);
          told = true;
        }
        await bringLines(connection, run, raw);
        lines.read();
        const { code, dead, full } = await remoteStatus(connection, run);
        left = attempts;
        if (code === null && !dead) {
          await sleep(pollMs);
          continue;
        }
        await bringRecords(connection, run, runDir);
        forgetRemoteRun(runDir);
        lines.read();
        if (code === 0) return { status: 'complete' };
        if (options.signal.aborted || code === 130) return { status: 'aborted' };
        const log = path.join(raw, 'console.log');
        const at = lines.count > 0 ? ` (at ${(lines.lastNs / 1e9).toFixed(1)} s of the run)` : '';
        const how = full ? `the disk there that holds ${run.folder} is full: records are cut off${at}. Free some space there, then run again` : lines.failure ?? (dead ? `the agent there is gone${at}: it was never started or was killed, or the machine was restarted; what it left is removed by: testbed clean --machine ${name}`
          : code === 124 || code === 137 ? `the run took longer than it may there and was ended${at}`
          : `the agent failed with exit code ${code}${at}`);
        return { status: 'failed', error: `${name}: ${how}${hasText(log) ? `; log: ${log}` : ''}` };
      } catch (error) {
        if (!(error instanceof ConnectionLost)) throw error;
        connection.close();
        if (left-- <= 0 || options.signal.aborted) {
          return { status: 'failed', error: `${error.message}. The run goes on there and ends by itself; bring its records with: testbed fetch ${runDir}` };
        }
        await sleep(options.pauseMs ?? 3000);
        try {
          connection = await Connection.open(run.target);
        } catch (again) {
          if (!(again instanceof ConnectionLost)) throw again;
        }
      }
    }
  } catch (error) {
    if (error instanceof UserError) return { status: 'failed', error: error.message };
    throw error;
  } finally {
    connection.close();
    lines.close();
  }
}

function hasText(file: string): boolean {
  try {
    return statSync(file).size > 0;
  } catch {
    return false;
  }
}
