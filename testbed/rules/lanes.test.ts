/** The lanes of `npm test` do not outlive it. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import * as path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { projectFile } from '../../kernel/project.js';
import { Place } from '../testing/command.js';

describe('a lane of the tests', function () {
  this.timeout(60_000);
  const place = new Place();
  after(() => place.remove());

  it('ends when what started it is killed', async () => {
    const pidFile = place.path('pid');
    const endless = place.write('endless.cjs', `it('waits', function (done) { this.timeout(0); require('node:fs').writeFileSync(${JSON.stringify(pidFile)}, String(process.pid)); setTimeout(done, 50000); });`);
    const mocha = path.join(path.dirname(createRequire(import.meta.url).resolve('mocha/package.json')), 'bin', 'mocha.js');
    const words = [mocha, '--config', projectFile('.ci', 'lane.cjs'), endless];
    const starter = spawn(process.execPath, ['-e', `require('node:child_process').spawn(process.execPath, ${JSON.stringify(words)}, { stdio: 'ignore' })`], { stdio: 'ignore' });
    const written = (): boolean => fs.existsSync(pidFile) && fs.statSync(pidFile).size > 0;
    for (let i = 0; i < 300 && !written(); i++) await delay(100);
    assert.ok(written(), 'the lane did not start');
    const lane = Number(fs.readFileSync(pidFile, 'utf8'));
    starter.kill('SIGKILL');
    // A process nobody waits for any more may stay as a zombie.
    const lives = (): boolean => {
      try {
        return !/\) Z /.test(fs.readFileSync(`/proc/${lane}/stat`, 'latin1'));
      } catch {
        return false;
      }
    };
    for (let i = 0; i < 100 && lives(); i++) await delay(100);
    const left = lives();
    if (left) process.kill(lane, 'SIGKILL');
    assert.ok(!left, 'the lane lives on');
  });
});
