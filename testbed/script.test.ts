import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { projectFile } from '../kernel/project.js';

describe("the programs behind npm's scripts", () => {
  const says = (file: string, ...words: readonly string[]): string => {
    const { status, stderr } = spawnSync(process.execPath, [projectFile('dist', ...file.split('/')), ...words], { encoding: 'utf8', timeout: 60_000 });
    assert.equal(status, 2, stderr);
    assert.doesNotMatch(stderr, /^\s+at /m);
    return stderr;
  };

  it('name an option they do not have, and a value that is none, without a stack', () => {
    for (const file of ['testbed/replay/table.js', 'testbed/testing/six-ways.js', 'simulator/published-table.js']) assert.match(says(file, '--nosuch'), /Unknown option '--nosuch'/);
    assert.match(says('testbed/replay/table.js', '--scenarios', 'nosuch'), /^no scenario nosuch in scenarios\/replay; there are exact, /);
    assert.match(says('simulator/published-table.js', '--seeds', 'x'), /^--seeds x: expected a whole number/);
    assert.match(says('bench/main.js', 'nosuch'), /^no benchmark nosuch; there are virtual-time, /);
  });
});
