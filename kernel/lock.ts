/**
 * A lock that dies with its owner: flock(2) on a file. Two builds of one kernel wait for each other, and a lock
 * that can be had means that whoever made the half-built folder beside it is gone.
 */

import { closeSync, mkdirSync, openSync } from 'node:fs';
import * as path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import koffi from 'koffi';

const flock = koffi.load(null).func('int flock(int fd, int operation)') as unknown as (fd: number, operation: number) => number;
const LOCK_EX = 2;
const LOCK_NB = 4;

export interface Lock { release(): void }

/** The lock, or null when another process (or another holder in this one) has it. The file stays: removing it would let two holders in. */
export function tryLock(file: string): Lock | null {
  mkdirSync(path.dirname(file), { recursive: true });
  const fd = openSync(file, 'a');
  if (flock(fd, LOCK_EX | LOCK_NB) !== 0) {
    closeSync(fd);
    return null;
  }
  return { release: () => closeSync(fd) };
}

/** Waits for the lock; `onWait` is called once if it has to. @throws the signal's reason when aborted */
export async function lock(file: string, signal: AbortSignal, onWait: () => void): Promise<Lock> {
  for (let first = true; ; first = false) {
    signal.throwIfAborted();
    const held = tryLock(file);
    if (held) return held;
    if (first) onWait();
    await sleep(250, undefined, { signal }).catch(() => undefined);
  }
}
