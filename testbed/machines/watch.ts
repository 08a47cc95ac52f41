/**
 * Watches a running agent from outside: passes its lines on, and ends it when nothing has come for too long in wall
 * time (no line, no growth of the raw folder), so that a hung guest or a stuck agent is a message and not a wait.
 */

import { readdirSync, statSync } from 'node:fs';
import * as path from 'node:path';
import type { AgentLines } from './tail.js';

/** Without any sign of progress, ms of wall time. Generous: a loaded host may take long over one busy virtual second. */
export const defaultWatchdogMs = 120_000;

export interface Watch {
  /** Set when the watchdog has called `kill`. */
  readonly expired: boolean;
  stop(): void;
}

export function folderBytes(folder: string): number {
  let sum = 0;
  try {
    for (const entry of readdirSync(folder)) sum += statSync(path.join(folder, entry), { throwIfNoEntry: false })?.size ?? 0;
  } catch {
    // The folder is gone or cannot be read: who executes the run says so (testbed/run/execute.ts).
  }
  return sum;
}

export function watch(raw: string, lines: AgentLines, limitMs: number, kill: () => void): Watch {
  let expired = false;
  let seen = -1;
  let since = Date.now();
  let ticks = 0;
  const tickMs = Math.min(200, limitMs / 4);
  const timer = setInterval(() => {
    const before = lines.count;
    lines.read();
    if (lines.count !== before) since = Date.now();
    if (++ticks % 10 === 0) {
      const now = folderBytes(raw);
      if (now !== seen) since = Date.now();
      seen = now;
    }
    if (Date.now() - since > limitMs && !expired) {
      expired = true;
      kill();
    }
  }, tickMs);
  return { get expired() { return expired; }, stop: () => { clearInterval(timer); } };
}
