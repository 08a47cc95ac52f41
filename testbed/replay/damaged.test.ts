/** Replay of a run whose records were damaged after it. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { needsUml, Place } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import { replayRun } from './replay.js';

describe('testbed replay of damaged records', function () {
  this.timeout(120_000);
  before(needsUml);
  const place = new Place();
  after(() => place.remove());
  let dir = '';

  before(async () => {
    const file = place.write('a.yaml', dumbbellText({ queue: 'codel', measure: '{ warmup: 500ms, duration: 2s }' }));
    const ended = await place.testbed(['run', file, '--machine', 'uml', '--no-report', '--out', place.path('out')]);
    assert.equal(ended.code, 0, ended.stderr);
    dir = place.run('out');
  });

  it('says of records that are cut off or damaged that they cannot be judged, not that the kernel disagrees', async () => {
    const whole = await replayRun(dir, { keep: false });
    assert.equal(whole.verdicts[0]!.verdict, 'agree');
    const captures = fs.readdirSync(path.join(dir, 'raw')).find((name) => /^captures-.*\.rec$/.test(name))!;
    const bytes = fs.statSync(path.join(dir, 'raw', captures)).size;
    const damages: readonly (readonly [string, (copy: string) => void, RegExp])[] = [
      ['half', (copy) => fs.truncateSync(path.join(copy, 'raw', captures), Math.floor(bytes / 2) + 3), /captures-.*\.rec is cut off at \d+\.\d+ s, packets\.parquet has BL until/],
      ['no-rows', (copy) => fs.truncateSync(path.join(copy, 'raw', captures), 4096), /captures-.*\.rec is cut off, packets\.parquet/],
      ['header', (copy) => fs.truncateSync(path.join(copy, 'raw', captures), 100), /captures-.*\.rec is cut off or damaged/],
      ['dictionary', (copy) => fs.writeFileSync(path.join(copy, 'raw', captures.replace('.rec', '.json')), '{"dir'), /captures-.*\.json is cut off or damaged/],
      ['samples', (copy) => fs.truncateSync(path.join(copy, 'raw', 'queue-BL.rec'), 50), /queue-BL\.rec is cut off or damaged/],
      ['parquet', (copy) => {
        for (const name of [captures, captures.replace('.rec', '.json')]) fs.rmSync(path.join(copy, 'raw', name));
        fs.truncateSync(path.join(copy, 'packets.parquet'), 2000);
      }, /packets\.parquet is cut off or damaged/],
    ];
    for (const [name, damage, said] of damages) {
      const copy = place.path(`damaged-${name}`);
      fs.cpSync(dir, copy, { recursive: true });
      damage(copy);
      const result = await replayRun(copy, { keep: false });
      const verdict = result.verdicts[0]!;
      assert.ok(verdict.verdict === 'not judged', `${name}: ${verdict.verdict}`);
      assert.match(verdict.reason, said);
      assert.equal(result.exitCode, 2);
    }
  });
});
