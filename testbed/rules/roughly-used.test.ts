/**
 * A command roughly used: its folder removed under it, Ctrl-C twice at any moment, its terminal closed, its working folder gone, a limit of the
 * system reached. It ends, in bounded time, with a message and never as "a bug in testbed".
 */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually, Place, runJson, type Started } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';

describe('a command roughly used', function () {
  this.timeout(120_000);
  let place: Place;
  beforeEach(() => { place = new Place(); });
  afterEach(() => place.remove());

  const long = (): string => place.write('long.yaml', dumbbellText({ measure: '{ warmup: 1s, duration: 3000s }', more: 'seeds: [1, 2]' }));
  const recording = (): boolean => place.runs('out').some((set) => fs.existsSync(`${set}/seed1/raw/agent.jsonl`));
  const startSim = async (): Promise<Started> => {
    const started = place.start(['sim', long(), '--jobs', '2', '--no-report', '--out', place.path('out')]);
    await eventually('it records', () => recording() || started.child.exitCode !== null);
    return started;
  };

  it('whose folder is removed while it goes on ends and says so', async () => {
    const started = await startSim();
    fs.rmSync(place.path('out'), { recursive: true });
    const { code, stderr } = await started.ended;
    assert.equal(code, 1, stderr);
    assert.match(stderr, /was removed/);
    assert.doesNotMatch(stderr, /This is a bug/);
    assert.equal(fs.existsSync(place.path('out')), false, 'and is not made again');
  });

  it('of which one run is removed keeps the others, and says which', async () => {
    const started = await startSim();
    const [set] = place.runs('out');
    fs.rmSync(`${set!}/seed1`, { recursive: true });
    await eventually('the end of seed 1 is told', () => /seed 1: failed/.test(started.output()) || started.child.exitCode !== null);
    started.child.kill('SIGINT');
    const { code, stderr } = await started.ended;
    assert.equal(code, 130, stderr);
    assert.match(stderr, /seed1: failed.*was removed/);
    assert.equal(JSON.parse(fs.readFileSync(`${set!}/seed2/run.json`, 'utf8')).status, 'incomplete');
  });

  it('ended by Ctrl-C twice says incomplete of its runs, not that they go on', async () => {
    const started = await startSim();
    started.child.kill('SIGINT');
    await sleep(20);
    started.child.kill('SIGINT');
    const { code, stderr } = await started.ended;
    assert.equal(code, 130, stderr);
    const runs = fs.readdirSync(place.runs('out')[0]!).filter((name) => name.startsWith('seed'));
    assert.ok(runs.length > 0);
    for (const run of runs) assert.equal(runJson(path.join(place.runs('out')[0]!, run)).status, 'incomplete');
  });

  for (const waitMs of [10, 150, 400]) {
    it(`ended by SIGINT and, ${waitMs} ms later, SIGTERM is gone at once, with its folder removed too`, async () => {
      const started = await startSim();
      started.child.kill('SIGINT');
      await sleep(waitMs);
      started.child.kill('SIGTERM');
      removeWhileWritten(place.path('out'));
      const { code, signal, stderr } = await started.ended;
      assert.equal(signal, null, `${signal} ${stderr}`);
      assert.equal(code, 130, stderr);
      assert.doesNotMatch(stderr, /Napi|This is a bug/);
    });
  }

  it('whose output nobody reads any more goes to its end', async () => {
    const file = place.write('short.yaml', dumbbellText({ measure: '{ warmup: 1s, duration: 20s }' }));
    const started = place.start(['sim', file, '--out', place.path('out')], { under: ['sh', '-c', 'exec "$0" "$@" >&- 2>&-'] });
    await started.ended;
    assert.equal(JSON.parse(fs.readFileSync(`${place.run('out')}/run.json`, 'utf8')).status, 'complete');
  });

  it('in a working folder that is gone, or writing below a file, is told so', async () => {
    const file = place.write('a.yaml', dumbbellText({ measure: '{ warmup: 1s, duration: 1s }' }));
    fs.mkdirSync(place.path('gone'));
    const gone = await place.testbed(['sim', file, '--out', place.path('out')], { cwd: place.path('gone'), under: ['sh', '-c', 'rmdir ../gone; exec "$0" "$@"'] });
    assert.equal(gone.code, 1, gone.stderr);
    assert.match(gone.stderr, /the working folder was removed/);
    assert.equal((await place.testbed(['sim', file, '--out', place.path('out')])).code, 0);
    const below = await place.testbed(['export', place.run('out'), '--format', 'csv', '--out', file]);
    assert.equal(below.code, 1, below.stderr);
    assert.match(below.stderr, /is a file, not a folder/);
  });
});

/** rmSync looks into a folder once only: what is written meanwhile makes it fail. */
function removeWhileWritten(folder: string): void {
  for (let triesLeft = 100; ; triesLeft--) {
    try {
      fs.rmSync(folder, { recursive: true, force: true });
      return;
    } catch (error) {
      if (triesLeft === 0) throw error;
    }
  }
}
