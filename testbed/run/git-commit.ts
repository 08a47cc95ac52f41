/** The commit of the repository the command was given in, for run.json; null outside of one. */

import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';

export const gitCommit = (directory = process.cwd()): string | null => headCommit(directory) ?? askGit(directory);

/** As git's files say it (gitrepository-layout(5)), which spares a short run the start of a program; null where they say it in another way, or there is no repository. */
function headCommit(directory: string): string | null {
  if (Object.keys(process.env).some((name) => name.startsWith('GIT_'))) return null; // they may name another repository
  try {
    const git = gitFolder(directory);
    if (git === null) return null;
    // A further working tree has a HEAD of its own and shares the branches.
    const shared = path.resolve(git, read(path.join(git, 'commondir')) ?? '.');
    const head = fs.readFileSync(path.join(git, 'HEAD'), 'utf8').trim();
    const ref = /^ref: (refs\/.+)$/.exec(head)?.[1];
    const commit = ref === undefined ? head
      : read(path.join(git, ref)) ?? read(path.join(shared, ref)) ?? read(path.join(shared, 'packed-refs'))?.split('\n').find((line) => line.endsWith(` ${ref}`))?.split(' ')[0] ?? '';
    return /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(commit) ? commit : null;
  } catch {
    return null;
  }
}

/** `.git` of this folder or of the nearest above it: a folder, or a file that names one. */
function gitFolder(directory: string): string | null {
  for (let folder = path.resolve(directory); ; folder = path.dirname(folder)) {
    const git = path.join(folder, '.git');
    const stat = fs.statSync(git, { throwIfNoEntry: false });
    if (stat?.isDirectory() === true) return git;
    if (stat !== undefined) return path.resolve(folder, /^gitdir: (.+)$/m.exec(fs.readFileSync(git, 'utf8'))?.[1] ?? '.');
    if (folder === path.dirname(folder)) return null;
  }
}

function read(file: string): string | null {
  try {
    return fs.readFileSync(file, 'utf8').trim();
  } catch {
    return null;
  }
}

function askGit(directory: string): string | null {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 2000 }).trim() || null;
  } catch {
    return null;
  }
}
