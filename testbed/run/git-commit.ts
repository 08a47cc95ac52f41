/** The commit of the repository the command was given in, for run.json; null outside of one. */

import { execFileSync } from 'node:child_process';

export function gitCommit(directory = process.cwd()): string | null {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 2000 }).trim() || null;
  } catch {
    return null;
  }
}
