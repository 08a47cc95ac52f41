import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { compiledFile } from '../../kernel/project.js';
import { temporaryFolder } from './temporary-folder.js';

describe('a temporary folder', () => {
  let place: string;
  before(() => { place = temporaryFolder('testbed-folders-'); });
  after(() => { fs.rmSync(place, { recursive: true }); });

  const script = (then: string): string[] => ['--input-type=module', '-e', `
    import * as fs from 'node:fs';
    import { temporaryFolder } from ${JSON.stringify(compiledFile('testbed/testing/temporary-folder.js'))};
    for (const name of ['one-', 'two-']) fs.writeFileSync(temporaryFolder(name, process.argv[1]) + '/file', 'x');
    ${then}`, place];

  it('is removed at the end of its process', () => {
    const printed = execFileSync(process.execPath, script('console.log(fs.readdirSync(process.argv[1]).length)'), { encoding: 'utf8' });
    assert.equal(printed, '2\n');
    assert.deepEqual(fs.readdirSync(place), []);
  });

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    it(`is removed by ${signal}, which ends the process as ever`, async () => {
      const child = spawn(process.execPath, script("console.log('made'); setInterval(() => {}, 1000);"), { stdio: ['ignore', 'pipe', 'inherit'] });
      await once(child.stdout, 'data');
      assert.equal(fs.readdirSync(place).length, 2);
      child.kill(signal);
      assert.deepEqual(await once(child, 'exit'), [null, signal]);
      assert.deepEqual(fs.readdirSync(place), []);
    });
  }

  it('stays where another listener keeps the process going', async () => {
    const child = spawn(process.execPath, script("process.on('SIGTERM', () => { fs.writeFileSync(process.argv[1] + '/seen', String(fs.readdirSync(process.argv[1]).length)); process.exit(3); }); console.log('made'); setInterval(() => {}, 1000);"), { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    child.kill('SIGTERM');
    assert.deepEqual(await once(child, 'exit'), [3, null]);
    assert.deepEqual(fs.readdirSync(place), ['seen']);
    assert.equal(fs.readFileSync(path.join(place, 'seen'), 'utf8'), '2');
  });
});
