import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as module from 'node:module';
import * as path from 'node:path';
import { projectFile } from '../../kernel/project.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

/** Node's own cache (22.1) is not ours to look into: there only what the program does counts. */
const ours = !('enableCompileCache' in module);

describe('the cache of compiled code', () => {
  let place: string;
  beforeEach(() => {
    place = temporaryFolder('testbed-cached-');
    fs.mkdirSync(path.join(place, 'bundle'));
    write('first', 'function twice(x) { return 2 * x; }\nexports.twice = twice;\nprocess.stdout.write(`${twice(21)} ${require("node:path").basename(__filename)} ${process.argv[2]}`);\nprocess.exitCode = process.argv[2] === "fails" ? 1 : 0;\n');
  });
  afterEach(() => { fs.rmSync(place, { recursive: true, force: true }); });

  const write = (build: string, main: string): void => {
    fs.writeFileSync(path.join(place, 'bundle', 'package.json'), JSON.stringify({ type: 'commonjs', build }));
    fs.writeFileSync(path.join(place, 'bundle', 'main.js'), `#!/usr/bin/env node\n${main}`);
  };
  const run = (what: string, cache = path.join(place, 'cache')): string => {
    const start = `require(${JSON.stringify(projectFile('bin', 'cached.cjs'))}).run(${JSON.stringify(path.join(place, 'bundle'))}, 'main.js', ${JSON.stringify(what)})`;
    const { stdout, stderr } = spawnSync(process.execPath, ['-e', start, '--', '-', what], { encoding: 'utf8', env: { ...process.env, TESTBED_CACHE: cache } });
    assert.equal(stderr, '');
    return stdout;
  };
  const kept = (): string[] => {
    const folder = path.join(place, 'cache', 'code');
    return fs.existsSync(folder) ? fs.readdirSync(folder).map((name) => path.join(folder, name)).sort() : [];
  };

  it('is written by the first command that ends well, and the next does the same with it', () => {
    assert.equal(run('fails'), '42 main.js fails');
    assert.equal(kept().length, 0);
    assert.equal(run('works'), '42 main.js works');
    if (ours) assert.equal(kept().length, 1);
    const before = kept().map((file) => fs.statSync(file).mtimeMs);
    assert.equal(run('works'), '42 main.js works');
    assert.deepEqual(kept().map((file) => fs.statSync(file).mtimeMs), before);
  });

  it('is of one build: another of the same length does not run the code of the first', () => {
    assert.equal(run('works'), '42 main.js works');
    write('second', fs.readFileSync(path.join(place, 'bundle', 'main.js'), 'utf8').replace(/^#!.*\n/, '').replace('2 * x', '3 * x'));
    assert.equal(run('works'), '63 main.js works');
  });

  it('does no harm when it is damaged, and is written anew', function () {
    if (!ours) this.skip();
    assert.equal(run('works'), '42 main.js works');
    const [file] = kept() as [string];
    const whole = fs.statSync(file).size;
    fs.truncateSync(file, 100);
    assert.equal(run('works'), '42 main.js works');
    assert.ok(fs.statSync(file).size > whole / 2);
  });

  it('is done without where it cannot be kept', () => {
    fs.writeFileSync(path.join(place, 'file'), '');
    assert.equal(run('works', path.join(place, 'file', 'below')), '42 main.js works');
  });

  it('keeps forty at most', function () {
    if (!ours) this.skip();
    fs.mkdirSync(path.join(place, 'cache', 'code'), { recursive: true });
    for (let i = 0; i < 50; i++) {
      const file = path.join(place, 'cache', 'code', `old${i}`);
      fs.writeFileSync(file, '');
      fs.utimesSync(file, 1000 + i, 1000 + i);
    }
    run('works');
    assert.equal(kept().length, 40);
    assert.ok(kept().some((file) => file.endsWith('-works')) && kept().some((file) => file.endsWith('old49')));
  });
});
