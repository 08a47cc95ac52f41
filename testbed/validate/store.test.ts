import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Plan } from '../plan/plan.js';
import { writeRunJson, type RunJson, type RunStatus } from '../records/run-json.js';
import { Place } from '../testing/command.js';
import { dumbbell } from '../testing/plans.js';
import { codeVersion } from './code-version.js';
import { Store, type Making } from './store.js';

const making: Making = { engine: 'sim', machine: 'sim', clock: 'virtual', kernel: '', code: 'a' };
const plan: Plan = dumbbell();

describe('the runs of a validation on disk', () => {
  const place = new Place();
  after(() => place.remove());
  const run = (folder: string, status: RunStatus): void => {
    fs.mkdirSync(folder, { recursive: true });
    writeRunJson(folder, { schema: 1, status } as RunJson);
    fs.writeFileSync(path.join(folder, 'metrics.json'), '{ "bottlenecks": {}, "classes": {}, "probes": {} }');
  };

  it('are found again by plan, engine, kernel and code, and by nothing less', () => {
    const store = new Store(place.path('out'));
    const { folder, done } = store.find(plan, making);
    assert.equal(done, false);
    run(folder, 'complete');
    assert.deepEqual(store.find(plan, making), { folder, done: true });
    for (const other of [{ engine: 'kernel' }, { machine: 'uml:7.3' }, { kernel: '7.3' }, { code: 'b' }, { clock: 'real' }] as Partial<Making>[]) assert.equal(store.find(plan, { ...making, ...other }).done, false, JSON.stringify(other));
    assert.equal(store.find({ ...plan, seed: 2 }, making).done, false);
    assert.equal(store.find({ ...plan, durationNs: 1e9 }, making).done, false);
  });

  it('that failed or never ended are made again; invalid ones would be invalid again', () => {
    const store = new Store(place.path('statuses'));
    const { folder } = store.find(plan, making);
    for (const [status, done] of [['failed', false], ['running', false], ['incomplete', false], ['invalid', true]] as const) {
      run(folder, status);
      assert.equal(store.find(plan, making).done, done, status);
    }
    run(folder, 'complete');
    fs.rmSync(path.join(folder, 'metrics.json'));
    assert.equal(store.find(plan, making).done, false);
  });

  it('take their place only when they have ended, and those of a process that is gone are swept', () => {
    const store = new Store(place.path('parts'));
    const { folder } = store.find(plan, making);
    const part = store.partOf(folder);
    run(part, 'complete');
    assert.equal(store.find(plan, making).done, false);
    store.sweep();
    assert.ok(fs.existsSync(part), 'of this process, which lives');
    store.keep(folder, part);
    assert.equal(store.find(plan, making).done, true);
    run(part, 'incomplete');
    store.keep(folder, part);
    assert.equal(fs.existsSync(part), false);
    assert.equal(store.find(plan, making).done, true, 'what was there stays');
    const gone = `${folder}.part-${spawnSync('true').pid}`;
    run(gone, 'running');
    store.sweep();
    assert.equal(fs.existsSync(gone), false);
  });
});

describe('the version of the code that makes runs', () => {
  it('changes with what an engine depends on, however far down, and with nothing else', () => {
    const place = new Place();
    const write = (name: string, text: string): void => { place.write(name, text); };
    write('simulator/worker.js', "import { a } from './a.js';\nconst later = import('./later.js');\nnew Worker(new URL('./thread.js', import.meta.url));\n");
    write('simulator/a.js', "export { b } from '../aqm/b.js';\n");
    for (const name of ['aqm/b.js', 'simulator/later.js', 'simulator/thread.js', 'testbed/records/ingest.js', 'testbed/analysis/metrics.js', 'agent.mjs', 'testbed/report/page.js']) write(name, '1');
    const versions = (): [string, string] => [codeVersion('sim', place.folder), codeVersion('kernel', place.folder)];
    const before = versions();
    assert.deepEqual(versions(), before);
    for (const [name, sim, kernel] of [['aqm/b.js', true, false], ['simulator/later.js', true, false], ['simulator/thread.js', true, false], ['testbed/records/ingest.js', true, true], ['agent.mjs', false, true], ['testbed/report/page.js', false, false]] as const) {
      write(name, '2');
      const now = versions();
      assert.deepEqual([now[0] !== before[0], now[1] !== before[1]], [sim, kernel], name);
      write(name, '1');
    }
    place.remove();
  });
  it('of this build follows the simulator into aqm/', () => {
    assert.match(codeVersion('sim'), /^[0-9a-f]{16}$/);
    assert.notEqual(codeVersion('sim'), codeVersion('kernel'));
  });
});
