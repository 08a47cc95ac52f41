/** The commit of the repository the command was given in, for run.json; null outside of one, or without git. */

import { execFile } from 'node:child_process';

/** For a repository of another user too (a container's mounted folder): to name a commit runs nothing of it. */
const words = ['-c', 'safe.directory=*', 'rev-parse', '--verify', '--quiet', 'HEAD'] as const;

/** Never rejects. git answers while the caller goes on: ask before what takes long, and wait for it after. */
export const gitCommit = (directory = process.cwd()): Promise<string | null> =>
  new Promise((resolve) => {
    execFile('git', words, { cwd: directory, encoding: 'utf8', timeout: 2000 }, (error, stdout) => { resolve(error === null ? stdout.trim() || null : null); });
  });
