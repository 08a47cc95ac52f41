/**
 * Waiting for a child process while Node's event loop does not turn: waitid(2) with WNOWAIT leaves the child to be
 * reaped by Node later.
 */

import koffi from 'koffi';
import { stable } from './libc.js';

const libc = koffi.load(null);
const waitid = libc.func('int waitid(int idtype, uint32_t id, void *info, int options)') as unknown as (idtype: number, id: number, info: Uint8Array, options: number) => number;
const poll = libc.func('int poll(void *fds, unsigned long count, int timeout)') as unknown as (fds: null, count: number, timeoutMs: number) => number;

const P_PID = 1;
const [WNOHANG, WEXITED, WNOWAIT] = [1, 4, 0x01000000] as const;
const info = stable(128);

/** @returns true when the child has ended (or is no child of this process any more) */
export function hasEnded(pid: number): boolean {
  info.fill(0);
  if (waitid(P_PID, pid, info, WEXITED | WNOHANG | WNOWAIT) < 0) return true;
  return info.readInt32LE(0) !== 0; // si_signo: SIGCHLD when there is news
}

/** Waits at most `limitMs` for it to end, looking every 5 ms. @returns whether it has */
export function waitForEnd(pid: number, limitMs: number): boolean {
  for (let waited = 0; ; waited += 5) {
    if (hasEnded(pid)) return true;
    if (waited >= limitMs) return false;
    poll(null, 0, 5);
  }
}
