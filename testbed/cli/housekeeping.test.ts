/** `testbed list --where`, `tag`, `rm` and `gc` as commands: what they remove cannot be brought back. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { bootId } from '../journal/journal.js';
import { ownId } from '../journal/processes.js';
import type { RunJson } from '../records/run-json.js';
import { runJson } from '../records/synthetic-raw.js';
import { Place } from '../testing/command.js';
import type { Ended } from '../testing/command.js';

const day = 86_400_000;
const ago = (days: number): string => new Date(Date.now() - days * day).toISOString();

describe('keeping runs in order', () => {
  let place: Place;
  beforeEach(() => { place = new Place(); });
  afterEach(() => place.remove());

  const dirOf = (id: string): string => place.path('results/runs', id);
  function add(id: string, over: Partial<RunJson> = {}): void {
    fs.mkdirSync(path.join(dirOf(id), 'raw'), { recursive: true });
    fs.writeFileSync(path.join(dirOf(id), 'run.json'), JSON.stringify(runJson({ name: id.split('-')[0]!, ...over })));
    fs.writeFileSync(path.join(dirOf(id), 'packets.parquet'), Buffer.alloc(1000));
  }
  const run = (...args: readonly string[]): Promise<Ended> => place.testbed(args);
  const left = (): string[] => fs.readdirSync(place.path('results/runs')).filter((name) => name !== '.index').sort();

  it('list --where shows the runs for which a condition holds, of a set only those', async () => {
    add('lot-1-aaaa/a', { seed: 1, varied: { queue: 'codel' } });
    add('lot-1-aaaa/b', { seed: 2, varied: { queue: 'pie' }, status: 'failed' });
    add('dumb-2-bbbb', { seed: 7, varied: { queue: 'codel' } });
    const { stdout } = await run('list', '--where', "queue = 'codel' -- a remark", '--json');
    const rows = stdout.trim().split('\n').map((line) => JSON.parse(line) as { id: string; runs: number; status: string });
    assert.deepEqual(rows.map(({ id, runs, status }) => [id, runs, status]), [['dumb-2-bbbb', 1, 'complete'], ['lot-1-aaaa', 1, '1 complete']]);
    assert.match((await run('list', '--where', 'seed > 99')).stdout, /no run in .* is so/);
    const wrong = await run('list', '--where', "seed = 1 and queu = 'pie'");
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /^--where:1:14: no column queu; near: queue/);
    await run('list', '--where', "1); copy (select 1) to 'x.csv'; select (2");
    assert.equal(fs.existsSync(place.path('x.csv')), false);
    assert.deepEqual(left(), ['dumb-2-bbbb', 'lot-1-aaaa']);
  });

  it('list says when a run started by the clock of the place, as its name does', async () => {
    add('lot-20260101-083000-aaaaaa', { started: '2025-12-31T23:30:00.000Z', ended: '2025-12-31T23:31:00.000Z' });
    assert.match((await place.testbed(['list'], { env: { TZ: 'Asia/Tokyo' } })).stdout, /2026-01-01 08:30/);
    assert.match((await place.testbed(['list', '--json'], { env: { TZ: 'Asia/Tokyo' } })).stdout, /2025-12-31T23:30:00\.000Z/);
  });

  it('tag gives a set or a run a name that list shows, and takes it away', async () => {
    add('lot-1-aaaa/a');
    add('lot-1-aaaa/b');
    assert.equal((await run('tag', 'lot', 'paper-fig3', 'v2')).stdout, 'lot-1-aaaa: paper-fig3, v2\n');
    assert.equal((await run('tag', 'lot/a', 'best')).stdout, 'lot-1-aaaa/a: best\n');
    assert.match((await run('list')).stdout, /tagged best, paper-fig3, v2/);
    assert.equal((await run('tag', 'lot', '--remove', 'v2')).stdout, 'lot-1-aaaa: paper-fig3\n');
    const rows = JSON.parse((await run('query', 'select run_id, tags from runs order by 1', '--format', 'json')).stdout) as unknown;
    assert.deepEqual(rows, [{ run_id: 'lot-1-aaaa/a', tags: ['best', 'paper-fig3'] }, { run_id: 'lot-1-aaaa/b', tags: ['paper-fig3'] }]);
    assert.match((await run('tag', 'lot', '../x')).stderr, /"\.\.\/x" is not fit for a tag/);
    assert.match((await run('tag', 'lot', '--remove', 'v9')).stderr, /lot-1-aaaa has no tag v9; it has paper-fig3/);
  });

  it('rm removes the runs it is given when told to, and asks before', async () => {
    add('dumb-1-aaaa');
    add('dumb-2-bbbb');
    add('lot-3-cccc/a');
    const asked = await run('rm', 'aaaa');
    assert.equal(asked.code, 2);
    assert.match(asked.stderr, /no terminal to ask on: say --yes/);
    assert.deepEqual(left(), ['dumb-1-aaaa', 'dumb-2-bbbb', 'lot-3-cccc']);
    assert.equal((await run('rm', 'aaaa', 'nonesuch', '--yes')).code, 1, 'one unknown: none is removed');
    assert.deepEqual(left(), ['dumb-1-aaaa', 'dumb-2-bbbb', 'lot-3-cccc']);
    assert.match((await run('rm', 'aaaa', 'lot', '--yes')).stdout, /removed dumb-1-aaaa \([\d.]+ kB\)\nremoved lot-3-cccc/);
    assert.deepEqual(left(), ['dumb-2-bbbb']);
  });

  it('rm never removes what is no run: a folder, a link, or what lies beside the runs of a set', async () => {
    fs.mkdirSync(place.path('photos/2024'), { recursive: true });
    fs.writeFileSync(place.path('photos/2024/a.jpg'), 'x');
    fs.mkdirSync(place.path('results/runs'), { recursive: true });
    for (const name of ['photos', '.', '/', 'results/runs']) {
      const { code, stderr } = await run('rm', name, '--yes');
      assert.notEqual(code, 0, name);
      assert.match(stderr, /no run|not a run/, name);
    }
    add('dumb-1-aaaa');
    fs.mkdirSync(place.path('elsewhere'));
    for (const args of [['results/runs'], [place.path('results')], ['.'], ['results/runs', '--out', 'elsewhere']]) {
      const { code, stderr } = await run('rm', ...args, '--yes');
      assert.notEqual(code, 0, args.join(' '));
      assert.match(stderr, /is a folder of runs, not a run|no run/);
    }
    assert.deepEqual(left(), ['dumb-1-aaaa']);
    fs.writeFileSync(place.path('photos/run.json'), '{"name": "my marathon"}');
    assert.match((await run('rm', 'photos', '--yes')).stderr, /photos is not a run's folder \(neither a run\.json of testbed nor raw\/plan\.json\): it is left alone/);
    fs.symlinkSync(dirOf('dumb-1-aaaa'), place.path('link'));
    assert.match((await run('rm', 'link', '--yes')).stderr, /link is a link/);
    add('lot-3-cccc/a');
    fs.writeFileSync(place.path('results/runs/lot-3-cccc/summary.json'), '{}');
    fs.writeFileSync(place.path('results/runs/lot-3-cccc/notes.txt'), 'mine');
    fs.mkdirSync(place.path('results/runs/lot-3-cccc/drawings'));
    const { stdout, code } = await run('rm', 'lot', '--yes');
    assert.equal(code, 0);
    assert.match(stdout, /left alone: .*drawings is no run\nleft alone: .*notes\.txt is no run/);
    assert.deepEqual(fs.readdirSync(dirOf('lot-3-cccc')).sort(), ['drawings', 'notes.txt', 'summary.json']);
    assert.equal(fs.readFileSync(place.path('photos/2024/a.jpg'), 'utf8'), 'x');
    assert.ok(fs.existsSync(dirOf('dumb-1-aaaa')));
  });

  it('rm refuses a run that goes on, and knows one whose process is gone', async () => {
    add('alive-1-aaaa', { status: 'running', ended: null, owner: { ...ownId(), bootId: bootId() } });
    add('dead-1-bbbb', { status: 'running', ended: null, owner: { pid: ownId().pid, startTime: 1, bootId: bootId() } });
    add('unknown-1-cccc', { status: 'running', ended: null });
    assert.match((await run('rm', 'alive', '--yes', '--force')).stderr, new RegExp(`alive-1-aaaa is still running \\(process ${process.pid}\\)`));
    assert.match((await run('rm', 'unknown', '--yes')).stderr, /remove it with --force/);
    assert.equal((await run('rm', 'dead', '--yes')).code, 0);
    assert.equal((await run('rm', 'unknown', '--yes', '--force')).code, 0);
    assert.deepEqual(left(), ['alive-1-aaaa']);
  });

  it('list, show and query say of a run whose process is gone that it was killed, and not that it is running', async () => {
    add('alive-1-aaaa', { status: 'running', ended: null, owner: { ...ownId(), bootId: bootId() } });
    add('dead-1-bbbb', { status: 'running', ended: null, owner: { pid: ownId().pid, startTime: 1, bootId: bootId() } });
    add('reboot-1-cccc', { status: 'running', ended: null, owner: { ...ownId(), bootId: 'another' } });
    add('unknown-1-dddd', { status: 'running', ended: null });
    const { stdout } = await run('list');
    assert.match(stdout, /alive-1-aaaa {2}running\n/);
    assert.match(stdout, new RegExp(`dead-1-bbbb {2}incomplete\\n.*it was killed: its process \\(${process.pid}\\) is gone`));
    assert.match(stdout, /reboot-1-cccc {2}incomplete\n.*it was killed/);
    assert.match(stdout, /unknown-1-dddd {2}running\n/);
    assert.match((await run('show', 'dead')).stdout, /^incomplete: [^]*it was killed/);
    assert.match((await run('show', 'alive')).stdout, /^running: /);
    assert.match((await run('query', "select run_id from runs where status = 'running' order by 1", '--format', 'csv')).stdout, /^run_id\nalive-1-aaaa\nunknown-1-dddd\n$/);
  });

  it('rm of one run of a set brings the set\'s summary up to date, and removes it with the last', async () => {
    add('lot-1-aaaa/a', { seed: 1 });
    add('lot-1-aaaa/b', { seed: 2, status: 'failed' });
    await run('show', 'lot');
    const summary = place.path('results/runs/lot-1-aaaa/summary.json');
    const of = (): unknown => (JSON.parse(fs.readFileSync(summary, 'utf8')) as { notCounted: { run: string }[] }).notCounted.map((each) => each.run);
    assert.deepEqual(of(), ['a', 'b']);
    assert.match((await run('rm', 'lot/b', '--yes')).stdout, /removed lot-1-aaaa\/b .*\nlot-1-aaaa: its summary is of the runs that are left\n/);
    assert.deepEqual(of(), ['a']);
    assert.equal((await run('rm', 'lot/a', '--yes')).code, 0);
    assert.equal(fs.existsSync(summary), false);
  });

  it('gc removes what ended before, whole sets or none, and keeps tagged, running, young and unreadable ones', async () => {
    add('old-1-aaaa', { started: ago(41), ended: ago(40) });
    add('young-1-bbbb', { started: ago(3), ended: ago(2) });
    add('tagged-1-cccc', { started: ago(41), ended: ago(40) });
    await run('tag', 'tagged', 'keep');
    add('oldset-1-dddd/a', { started: ago(50), ended: ago(49) });
    add('oldset-1-dddd/b', { started: ago(50), ended: ago(48), status: 'failed' });
    add('mixed-1-eeee/a', { started: ago(50), ended: ago(49) });
    add('mixed-1-eeee/b', { started: ago(50), ended: ago(1) });
    add('setwithtag-1-ffff/a', { started: ago(50), ended: ago(49) });
    await run('tag', 'setwithtag/a', 'keep');
    add('goingon-1-gggg', { started: ago(45), ended: null, status: 'running', owner: { ...ownId(), bootId: bootId() } });
    add('newer-1-hhhh', { started: ago(50), ended: ago(49), schema: 9 as 1 });
    fs.mkdirSync(place.path('results/runs/photos'));
    fs.writeFileSync(place.path('results/runs/photos/a.jpg'), 'x');
    const before = left();
    const dry = await run('gc', '--keep', '30d', '--dry-run');
    assert.match(dry.stdout, /would remove oldset-1-dddd\nwould remove old-1-aaaa\nwould free [\d.]+ kB \(2 kept by tags; 1 left alone: their age cannot be read\)/);
    assert.deepEqual(left(), before);
    const { stdout, stderr, code } = await run('gc', '--keep', '30d');
    assert.match(stdout, /removed oldset-1-dddd\nremoved old-1-aaaa\nfreed/);
    assert.match(stderr, /left alone:\n {2}goingon-1-gggg is still running/);
    assert.equal(code, 1);
    assert.deepEqual(left(), before.filter((name) => !name.startsWith('old')));
    assert.match((await run('gc')).stderr, /--keep/);
    assert.match((await run('gc', '--keep', 'soon')).stderr, /expected an age such as 12h, 30d or 8w/);
  });
});
