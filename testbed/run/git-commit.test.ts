import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { gitCommit } from './git-commit.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

describe('the commit of the repository', () => {
  let folder: string;
  before(() => { folder = fs.realpathSync(temporaryFolder('testbed-git-')); });
  after(() => { fs.rmSync(folder, { recursive: true, force: true }); });

  const git = (directory: string, ...args: string[]): string =>
    execFileSync('git', ['-c', 'user.name=A', '-c', 'user.email=a@localhost', '-c', 'commit.gpgsign=false', ...args], { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();

  it('is what git says: on a branch, in a folder below, with a detached HEAD, in a further working tree; none before the first', async () => {
    const top = path.join(folder, 'top');
    fs.mkdirSync(path.join(top, 'below'), { recursive: true });
    git(top, 'init', '-q');
    assert.equal(await gitCommit(top), null, 'no commit yet');
    const same = async (directory: string): Promise<void> => { assert.equal(await gitCommit(directory), git(directory, 'rev-parse', 'HEAD')); };
    git(top, 'commit', '-q', '--allow-empty', '-m', 'one');
    assert.match(await gitCommit(top) ?? '', /^[0-9a-f]{40}$/);
    await same(top);
    await same(path.join(top, 'below'));
    const other = path.join(folder, 'other');
    git(top, 'worktree', 'add', '-q', '-b', 'group/side', other);
    git(other, 'commit', '-q', '--allow-empty', '-m', 'two');
    await same(other);
    assert.notEqual(await gitCommit(other), await gitCommit(top));
    git(other, 'checkout', '-q', '--detach', 'HEAD~1');
    await same(other);
  });

  it('is told of a repository that belongs to another user', async function () {
    if (process.getuid?.() !== 0) this.skip(); // only root can give a folder away
    const top = path.join(folder, 'foreign');
    fs.mkdirSync(top);
    git(top, 'init', '-q');
    git(top, 'commit', '-q', '--allow-empty', '-m', 'one');
    const commit = git(top, 'rev-parse', 'HEAD');
    for (const each of [top, path.join(top, '.git')]) fs.chownSync(each, 65534, 65534);
    assert.throws(() => git(top, 'rev-parse', 'HEAD'), 'git itself refuses');
    assert.equal(await gitCommit(top), commit);
  });

  it('is none where there is no repository, and none without git', async () => {
    assert.equal(await gitCommit(folder), null);
    const { PATH } = process.env;
    process.env['PATH'] = folder;
    try {
      assert.equal(await gitCommit(process.cwd()), null);
    } finally {
      process.env['PATH'] = PATH;
    }
  });
});
