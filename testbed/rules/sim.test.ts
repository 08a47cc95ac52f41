/** `testbed sim`: the same file, the same tables as on a kernel, and figures near the kernel's. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Metrics } from '../analysis/metrics.js';
import { tables } from '../records/tables.js';
import { needsUml, Place, runJson } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';

const metricsOf = (runDir: string): Metrics => JSON.parse(fs.readFileSync(path.join(runDir, 'metrics.json'), 'utf8')) as Metrics;

describe('testbed sim', function () {
  this.timeout(300_000);
  const place = new Place();
  after(() => place.remove());
  const file = place.write('both.yaml', dumbbellText({ queue: 'codel', rtt: '50ms', cc: 'reno', measure: '{ warmup: 5s, duration: 20s }' }));

  it('writes every table and the figures, the same bytes twice', async () => {
    const folders: string[] = [];
    for (const out of ['first', 'second']) {
      const ended = await place.testbed(['sim', file, '--seed', '1', '--out', place.path(out)]);
      assert.equal(ended.code, 0, ended.stderr);
      folders.push(place.run(place.path(out)));
    }
    assert.deepEqual([runJson(folders[0]!).engine, runJson(folders[0]!).status], ['sim', 'complete']);
    for (const name of [...Object.keys(tables).map((table) => `${table}.parquet`), 'metrics.json']) {
      const [first, second] = folders.map((folder) => fs.readFileSync(path.join(folder, name)));
      assert.ok(first!.equals(second!), name);
    }
  });

  it('agrees with the kernel on utilisation within 2 % and on mean queueing within 1 ms', async function () {
    needsUml.call(this);
    const bottleneck: Metrics['bottlenecks'][string][] = [];
    for (const command of [['sim'], ['run', '--machine', 'uml']]) {
      const out = place.path(command[0]!);
      const ended = await place.testbed([...command, file, '--seed', '1', '--no-report', '--out', out]);
      assert.equal(ended.code, 0, ended.stderr);
      bottleneck.push(metricsOf(place.run(out)).bottlenecks['BL']!);
    }
    const [sim, kernel] = bottleneck;
    assert.ok(Math.abs(sim!.utilisation! - kernel!.utilisation!) < 0.02, `${sim!.utilisation} ${kernel!.utilisation}`);
    assert.ok(Math.abs(sim!.queueDelayMs.mean! - kernel!.queueDelayMs.mean!) < 1, `${sim!.queueDelayMs.mean} ${kernel!.queueDelayMs.mean}`);
  });

  it('refuses what it cannot simulate before anything starts, with its line', async () => {
    const ended = await place.testbed(['sim', place.write('raw.yaml', dumbbellText({ queue: "{ tc: 'plug limit 1000' }", rtt: '50ms', cc: 'reno', measure: '{ warmup: 1s, duration: 1s }' })), '--out', place.path('raw')]);
    assert.equal(ended.code, 2, ended.stdout);
    assert.match(ended.stderr, /raw\.yaml:4: topology\.links\.BL\.queue\.tc: the simulator has no tc/);
    assert.equal(fs.existsSync(place.path('raw')), false);
  });
});
