import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { gitCommit } from './git-commit.js';

describe('the commit of the repository', () => {
  let folder: string;
  before(() => { folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'testbed-git-'))); });
  after(() => { fs.rmSync(folder, { recursive: true, force: true }); });

  const git = (directory: string, ...args: string[]): string =>
    execFileSync('git', ['-c', 'user.name=A', '-c', 'user.email=a@localhost', '-c', 'commit.gpgsign=false', ...args], { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();

  it('is what git says: on a branch, packed, in a folder below, with a detached HEAD, in a further working tree', () => {
    const top = path.join(folder, 'top');
    fs.mkdirSync(path.join(top, 'below'), { recursive: true });
    git(top, 'init', '-q');
    assert.equal(gitCommit(top), null, 'no commit yet');
    const same = (directory: string): void => { assert.equal(gitCommit(directory), git(directory, 'rev-parse', 'HEAD')); };
    git(top, 'commit', '-q', '--allow-empty', '-m', 'one');
    same(top);
    same(path.join(top, 'below'));
    git(top, 'pack-refs', '--all');
    same(top);
    const other = path.join(folder, 'other');
    git(top, 'worktree', 'add', '-q', '-b', 'group/side', other);
    git(other, 'commit', '-q', '--allow-empty', '-m', 'two');
    same(other);
    assert.notEqual(gitCommit(other), gitCommit(top));
    git(other, 'pack-refs', '--all');
    same(other);
    git(other, 'checkout', '-q', '--detach', 'HEAD~1');
    same(other);
  });

  it('is none where there is no repository', () => {
    assert.equal(gitCommit(folder), null);
  });
});
