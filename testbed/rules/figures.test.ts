/** Figures that are known: those of a real kernel measured before (Linux 6.12 and 7.3, dumbbell of 20 Mbit/s, 50 ms, one Reno flow, 50 s), and the example of the documentation as it stands. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Metrics } from '../analysis/metrics.js';
import { needsUml, Place, runJson } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import { projectFile } from '../../kernel/project.js';

const metricsOf = (runDir: string): Metrics => JSON.parse(fs.readFileSync(path.join(runDir, 'metrics.json'), 'utf8')) as Metrics;

describe('one Reno flow through 20 Mbit/s and 50 ms', function () {
  this.timeout(300_000);
  before(needsUml);
  const place = new Place();
  after(() => place.remove());
  const bottleneckWith = async (queue: string): Promise<Metrics['bottlenecks'][string]> => {
    const out = place.path(queue.replace(/\W+/g, '-'));
    const ended = await place.testbed(['run', place.write('reno.yaml', dumbbellText({ queue, rtt: '50ms', cc: 'reno', measure: '{ warmup: 10s, duration: 50s }' })), '--machine', 'uml', '--no-report', '--out', out]);
    assert.equal(ended.code, 0, ended.stderr);
    return metricsOf(place.run(out)).bottlenecks['BL']!;
  };

  it('uses 83 to 84 % of it with codel', async () => {
    const { utilisation } = await bottleneckWith('codel');
    assert.ok(utilisation! > 0.83 && utilisation! < 0.84, `${utilisation}`);
  });

  it('fills a drop-tail queue of 1000 packets to between 250 and 380 ms, near 300 in the mean, and uses all of it', async () => {
    const { utilisation, queueDelayMs, lossRatio } = await bottleneckWith('{ kind: pfifo, limit: 1000 }');
    assert.ok(utilisation! > 0.99, `${utilisation}`);
    assert.ok(queueDelayMs.mean! > 280 && queueDelayMs.mean! < 370, JSON.stringify(queueDelayMs));
    // A queue of 1000 packets of 1514 bytes holds 606 ms at most.
    assert.ok(queueDelayMs.max! < 607, JSON.stringify(queueDelayMs));
    assert.ok(lossRatio! < 0.01);
    assert.equal(queueDelayMs.method, 'per-packet');
  });
});

describe('the parking lot of the documentation, as it stands but for its length', function () {
  this.timeout(300_000);
  before(needsUml);
  const place = new Place();
  after(() => place.remove());

  it('runs with every queue it varies, one seed, and has every figure of every part', async () => {
    const ended = await place.testbed(['run', projectFile('topologies', 'parking-lot.yaml'), '--machine', 'uml', '--seed', '1', '--set', 'measure={ warmup: 1s, duration: 2s }']);
    assert.equal(ended.code, 0, ended.stderr);
    const top = place.run();
    const runs = fs.readdirSync(top, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => path.join(top, name));
    assert.equal(runs.length, 4);
    for (const run of runs) {
      assert.equal(runJson(run).status, 'complete');
      const { bottlenecks, classes, probes, engine, windowS } = metricsOf(run);
      assert.deepEqual([engine, windowS], ['kernel', [1, 3]]);
      for (const name of ['BL1', 'BL2']) {
        const { utilisation, queueDelayMs, throughputBps } = bottlenecks[name]!;
        assert.ok(utilisation! > 0.5 && utilisation! < 1.001, // a packet at the window's edge counts whole
          `${run} ${name}: ${utilisation}`);
        assert.ok(Math.abs(throughputBps! - utilisation! * 20e6) < 0.05 * 20e6, `${throughputBps}`);
        assert.ok(queueDelayMs.n > 1000 && queueDelayMs.method === 'per-packet', JSON.stringify(queueDelayMs));
      }
      assert.deepEqual(Object.keys(classes).sort(), ['cross1', 'cross2', 'long', 'voice', 'web']);
      assert.deepEqual(['long', 'cross1', 'cross2'].map((name) => classes[name]!.flows), [2, 2, 2]);
      // Behind a full drop-tail queue no short flow need end within this window; where one does, it took three round trips at the least.
      const { completed, fctS } = classes['web']!;
      if (/fq_codel/.test(run)) assert.ok(completed > 0, run);
      if (completed > 0) assert.ok(fctS.p50! > 0.15, `${run}: ${JSON.stringify(fctS)}`);
      assert.ok(probes['ping']!.rttMs.p50! >= 50);
      assert.ok(fs.existsSync(path.join(run, 'report.html')));
      for (const end of ['client', 'server']) assert.ok(fs.statSync(path.join(run, 'raw', `iperf3-0-${end}.json`)).size > 100);
    }
    assert.ok(fs.existsSync(path.join(top, 'summary.json')));
    assert.ok(fs.existsSync(path.join(top, 'report.html')));
    await place.assertNothingLeft();
  });
});
