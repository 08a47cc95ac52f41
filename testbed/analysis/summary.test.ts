import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { writeRunJson } from '../records/run-json.js';
import type { RunJson } from '../records/run-json.js';
import { runJson } from '../records/synthetic-raw.js';
import { summarise } from './summary.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

describe('summary of a folder of runs', () => {
  let folder: string;
  beforeEach(() => { folder = temporaryFolder('testbed-summary-'); });
  afterEach(() => { fs.rmSync(folder, { recursive: true, force: true }); });

  function addRun(name: string, over: Partial<RunJson>, delay: number | null): void {
    fs.mkdirSync(path.join(folder, name));
    writeRunJson(path.join(folder, name), runJson(over));
    if (delay === undefined) return;
    fs.writeFileSync(path.join(folder, name, 'metrics.json'), JSON.stringify({
      bottlenecks: { 'BL1.reverse': { queueDelayMs: { p50: delay, n: 5, method: 'per-packet' }, methods: { queueDelayMs: { how: 'x', n: 5 } } } }, classes: {}, probes: {},
    }));
  }
  const figure = 'bottlenecks.BL1.reverse.queueDelayMs.p50';

  it('gives each combination its values by seed, their median and an interval', async () => {
    addRun('r1', { seed: 3, varied: { queue: 'codel' } }, 30);
    addRun('r2', { seed: 1, varied: { queue: 'codel' } }, 10);
    addRun('r10', { seed: 2, varied: { queue: 'codel' } }, 20);
    addRun('r11', { seed: 1, varied: { queue: 'pfifo' } }, null);
    const summary = await summarise(folder);
    assert.deepEqual(summary.combinations.map(({ varied, seeds, runs }) => [varied, seeds, runs]), [[{ queue: 'codel' }, [1, 2, 3], ['r2', 'r10', 'r1']], [{ queue: 'pfifo' }, [1], ['r11']]]);
    assert.deepEqual(summary.combinations[0]!.metrics[figure], { values: [10, 20, 30], median: 20, ci95: [10, 30], n: 3 });
    assert.deepEqual(summary.combinations[1]!.metrics[figure], { values: [null], median: null, ci95: null, n: 0 });
    assert.deepEqual(summary.varies, ['queue']);
    assert.ok(!Object.keys(summary.combinations[0]!.metrics).some((key) => key.includes('methods')));
    assert.deepEqual(summary, JSON.parse(fs.readFileSync(path.join(folder, 'summary.json'), 'utf8')));
  });

  it('counts only complete runs and gives the reason for each of the others', async () => {
    addRun('a', { seed: 1 }, 10);
    addRun('b', { seed: 2, status: 'invalid', findings: [{ level: 'warning', rule: 'late', message: 'x' }, { level: 'invalid', rule: 'netem-dropped', message: 'netem dropped 3' }] }, 1000);
    addRun('c', { seed: 3, status: 'incomplete', error: 'interrupted' }, 1000);
    addRun('d', { seed: 4, status: 'running' }, 1000);
    addRun('e', { seed: 5 }, 20);
    fs.rmSync(path.join(folder, 'e', 'metrics.json'));
    addRun('f', { seed: 6 }, 20);
    fs.writeFileSync(path.join(folder, 'f', 'run.json'), '{"schema": 1, "sta');
    const summary = await summarise(folder);
    assert.deepEqual(summary.combinations.map(({ seeds, metrics }) => [seeds, metrics[figure]!.values]), [[[1], [10]]]);
    assert.deepEqual(summary.notCounted.map(({ run, status }) => [run, status]), [['b', 'invalid'], ['c', 'incomplete'], ['d', 'running'], ['e', 'complete'], ['f', 'unknown']]);
    assert.equal(summary.notCounted[0]!.reason, 'netem-dropped: netem dropped 3');
    assert.equal(summary.notCounted[1]!.reason, 'interrupted');
  });

  it('writes the same bytes twice', async () => {
    for (const seed of [1, 2, 3, 4]) addRun(`r${seed}`, { seed }, seed * Math.PI);
    await summarise(folder);
    const first = fs.readFileSync(path.join(folder, 'summary.json'), 'utf8');
    await summarise(folder);
    assert.equal(fs.readFileSync(path.join(folder, 'summary.json'), 'utf8'), first);
  });

  it('says so when there is no run in the folder, or no folder', async () => {
    await assert.rejects(summarise(folder), UserError);
    await assert.rejects(summarise(path.join(folder, 'nowhere')), UserError);
  });
});
