import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { companions } from './preload.js';

/** A program that does nothing, held before its main(). */
async function held(): Promise<{ readonly child: ChildProcess; readonly end: Promise<number | string | null> }> {
  const { held: library } = await companions();
  const child = spawn('/bin/true', [], { stdio: 'ignore', env: { LD_PRELOAD: library } });
  const end = new Promise<number | string | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, signal) => resolve(signal ?? code));
  });
  // proc_pid_stat(5): the state follows the name in parentheses; T is stopped
  while (child.exitCode === null && !/\) T /.test(readFileSync(`/proc/${child.pid}/stat`, 'utf8'))) await sleep(5);
  return { child, end };
}

describe('a program that is held before its main()', () => {
  it('waits, and runs once it is sent SIGCONT', async () => {
    const { child, end } = await held();
    assert.equal(child.exitCode, null);
    child.kill('SIGCONT');
    assert.equal(await end, 0);
  });
  it('ends without having run when it is to end before it was let go', async () => {
    const { child, end } = await held();
    child.kill('SIGTERM');
    child.kill('SIGCONT');
    assert.equal(await end, 'SIGTERM');
  });
});
