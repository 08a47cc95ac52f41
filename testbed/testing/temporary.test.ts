import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { pathToFileURL } from 'node:url';
import { projectFile } from '../../kernel/project.js';
import { Place } from './command.js';

describe('a temporary folder', () => {
  it('is gone when the process ends without having removed it, also by process.exit', () => {
    const place = new Place();
    const program = `
      const { temporaryFolder } = await import(${JSON.stringify(pathToFileURL(projectFile('dist', 'testbed', 'testing', 'temporary.js')).href)});
      const { writeFileSync } = await import('node:fs');
      for (const prefix of ['a-', 'b-']) writeFileSync(temporaryFolder(prefix, ${JSON.stringify(place.folder)}) + '/file', 'x');
      process.exit(3);`;
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
    assert.equal(status, 3, stderr);
    assert.deepEqual(fs.readdirSync(place.folder), []);
    place.remove();
  });
});
