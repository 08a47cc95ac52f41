import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { writeRunJson } from '../records/run-json.js';
import type { RunJson } from '../records/run-json.js';
import { runJson } from '../records/synthetic-raw.js';
import { indexedRuns, scanRuns } from '../store/run-index.js';
import { entriesOf, listTable, row } from './list.js';
import type { Listed } from './list.js';
import { findRuns, nearest, resolveRun } from './runs.js';
import { show } from './show.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

describe('runs on disk', () => {
  let results: string;
  beforeEach(() => { results = temporaryFolder('testbed-runs-'); });
  afterEach(() => { fs.rmSync(results, { recursive: true, force: true }); });

  function add(id: string, over: Partial<RunJson> = {}): void {
    fs.mkdirSync(path.join(results, id), { recursive: true });
    writeRunJson(path.join(results, id), runJson(over));
  }
  const listed = (): Listed[] => entriesOf(indexedRuns(scanRuns(results).index).map((run) => run.row));
  const message = (name: string): string => {
    try {
      resolveRun(name, results);
    } catch (error) {
      assert.ok(error instanceof UserError);
      return error.message;
    }
    return assert.fail('it was found');
  };

  it('lists runs and sets by start, with machine, seeds, what varies and status', () => {
    add('dumbbell-2026-bbbb', { name: 'dumbbell', started: '2026-01-02T00:00:00Z', status: 'invalid' });
    add('lot-2026-aaaa/r1', { name: 'lot', started: '2026-01-01T10:00:00Z', seed: 1, varied: { queue: 'codel' } });
    add('lot-2026-aaaa/r2', { name: 'lot', started: '2026-01-01T09:00:00Z', seed: 2, varied: { queue: 'pie' }, status: 'failed' });
    fs.mkdirSync(path.join(results, 'not-a-run'));
    fs.writeFileSync(path.join(results, 'a-file'), '');
    const found = listed();
    assert.deepEqual(found.map(({ id, set }) => [id, set]), [['lot-2026-aaaa', true], ['dumbbell-2026-bbbb', false]]);
    assert.deepEqual(row(found[0]!), { id: 'lot-2026-aaaa', scenario: 'lot', machine: 'uml:6.12 6.12.117', varied: 'queue × 2', seeds: '1,2', status: '1 complete, 1 failed', started: '2026-01-01T09:00:00Z', runs: 2, tags: [] });
    const text = listTable(found);
    assert.match(text, /lot-2026-aaaa[^\n]*1 complete, 1 failed\n {2}[^\n]*queue × 2 · seeds 1,2 · 2026-01-01 09:00\n[^\n]*dumbbell-2026-bbbb/);
  });

  it('lists a folder whose run.json is torn, as unreadable', () => {
    add('torn-1');
    fs.writeFileSync(path.join(results, 'torn-1', 'run.json'), '{"sche');
    assert.equal(row(listed()[0]!).status, 'unreadable');
  });

  it('has no runs where there is no folder', () => {
    assert.deepEqual(findRuns(path.join(results, 'nowhere')), []);
    assert.deepEqual(indexedRuns(scanRuns(path.join(results, 'nowhere')).index), []);
    assert.equal(fs.existsSync(path.join(results, 'nowhere')), false, 'nothing is made by looking');
  });

  it('finds a run by id, unique beginning, ending, folder, and last', () => {
    add('dumbbell-20260101-k3x9', { started: '2026-01-01T00:00:00Z' });
    add('dumbbell-20260102-q7w2', { started: '2026-01-02T00:00:00Z' });
    add('lot-20251231-zz11/r1', { started: '2025-12-31T00:00:00Z' });
    add('lot-20251231-zz11/r10', { started: '2025-12-31T00:00:00Z' });
    const id = (name: string): string => resolveRun(name, results).id;
    assert.equal(id('dumbbell-20260101-k3x9'), 'dumbbell-20260101-k3x9');
    assert.equal(id('dumbbell-20260102'), 'dumbbell-20260102-q7w2');
    assert.equal(id('k3'), 'dumbbell-20260101-k3x9');
    assert.equal(id('last'), 'dumbbell-20260102-q7w2');
    assert.equal(id(path.join(results, 'lot-20251231-zz11', 'r1')), 'r1');
    assert.equal(id('lot'), 'lot-20251231-zz11');
    assert.equal(id('lot/r1'), 'lot-20251231-zz11/r1');
    assert.equal(id('zz11/r10'), 'lot-20251231-zz11/r10');
  });

  it('names the runs that come near when there is none, or several', () => {
    add('dumbbell-20260101-k3x9');
    add('dumbbell-20260102-q7w2');
    add('parking-lot-20260102-aaaa');
    assert.match(message('dumbell-20260101'), /no run "dumbell-20260101".*near: dumbbell-20260101-k3x9/);
    assert.match(message('dumb'), /any of 2 runs.*k3x9, dumbbell-20260102-q7w2/);
    assert.match(message('parking/r1'), /no run "r1" in parking-lot/);
    assert.equal(nearest('k3x8', findRuns(results).map((entry) => entry.id))[0], 'dumbbell-20260101-k3x9');
  });

  it('says how to start one when there is none', () => {
    assert.match(message('last'), /testbed run FILE/);
  });

  it('shows a run that has no figures yet, with its findings', async () => {
    add('x-1', { status: 'failed', error: 'iperf3 is missing: apt-get install iperf3', findings: [{ level: 'failed', rule: 'tool-missing', message: 'iperf3' }] });
    const text = await show('x-1', results);
    assert.match(text, /failed[^]*iperf3 is missing[^]*tool-missing[^]*metrics\.json is missing/);
  });

  it('says that metrics.json cannot be read, and why, where it is there', async () => {
    add('x-1');
    const file = path.join(results, 'x-1', 'metrics.json');
    fs.writeFileSync(file, '{ "bottlenecks": {');
    assert.match(await show('x-1', results), /No figures: metrics\.json cannot be read: it is no JSON \(/);
    fs.writeFileSync(file, '{ "bottlenecks": {}, "classes": {} }');
    assert.match(await show('x-1', results), /No figures: metrics\.json cannot be read: it has no probes\./);
  });
});
