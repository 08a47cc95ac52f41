import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { dumbbell, queue } from '../../simulator/fixture.js';
import type { Plan } from '../plan/plan.js';
import type { EngineRequest } from './engine.js';
import { simulatorEngine } from './simulator-engine.js';
import { temporaryFolder } from '../testing/temporary-folder.js';

describe('the simulator as an engine', () => {
  let folder: string;
  beforeEach(() => { folder = temporaryFolder('testbed-engine-'); });
  afterEach(() => { fs.rmSync(folder, { recursive: true, force: true }); });

  function request(name: string, plan: Plan, changes: Partial<EngineRequest>): EngineRequest {
    const runDir = path.join(folder, name);
    fs.mkdirSync(path.join(runDir, 'raw'), { recursive: true });
    return { plan, runDir, tag: 'abcd1234', besideOthers: false, signal: new AbortController().signal, onLine: () => undefined, ...changes };
  }

  it('leaves the same files alone, in the thread of the command, as beside other runs, in one of its own', async () => {
    const plan = dumbbell({ rateBps: 5e6, rttNs: 30e6, queue: queue('codel'), pairs: 2, durationNs: 2e9, flows: [{ cc: 'cubic' }, { cc: 'reno' }], probes: [{ intervalNs: 20e6 }] });
    for (const [name, besideOthers] of [['alone', false], ['beside', true]] as const) {
      assert.deepEqual(await simulatorEngine(2).execute(request(name, plan, { besideOthers })), { status: 'complete' });
    }
    const files = fs.readdirSync(path.join(folder, 'beside', 'raw')).sort();
    assert.deepEqual(fs.readdirSync(path.join(folder, 'alone', 'raw')).sort(), files);
    assert.ok(files.some((file) => file.startsWith('packets-')));
    for (const file of files) assert.ok(fs.readFileSync(path.join(folder, 'alone', 'raw', file)).equals(fs.readFileSync(path.join(folder, 'beside', 'raw', file))), file);
  });

  for (const besideOthers of [false, true]) {
    it(`ends when it is told to, ${besideOthers ? 'beside other runs' : 'alone'}, with what was recorded until then`, async () => {
      const controller = new AbortController();
      const plan = dumbbell({ queue: queue('codel'), pairs: 4, rateBps: 20e6, rttNs: 30e6, durationNs: 3600e9, flows: [{ cc: 'cubic' }, { cc: 'cubic' }, { cc: 'cubic' }, { cc: 'cubic' }], probes: [] });
      const outcome = await simulatorEngine(2).execute(request('told', plan, {
        besideOthers, signal: controller.signal, onLine: (line) => { if (line.type === 'progress') controller.abort(); },
      }));
      assert.deepEqual(outcome, { status: 'aborted' });
      assert.match(fs.readFileSync(path.join(folder, 'told', 'raw', 'agent.jsonl'), 'utf8'), /"phase":"traffic"/);
      for (const fd of fs.readdirSync('/proc/self/fd')) {
        let target = '';
        try {
          target = fs.readlinkSync(`/proc/self/fd/${fd}`);
        } catch {
          continue; // the folder's own
        }
        assert.ok(besideOthers || !target.startsWith(folder), target);
      }
    });
  }

  it('takes what is wrong with a plan for a failure of the run, not of the program', async () => {
    const plan = { ...dumbbell({ queue: queue('codel'), rateBps: 5e6, pairs: 1, rttNs: 30e6, durationNs: 1e9, flows: [{}] }), events: [{ atNs: 0, direction: 'nowhere', set: {} }] } as unknown as Plan;
    const outcome = await simulatorEngine(2).execute(request('wrong', plan, {}));
    assert.equal(outcome.status, 'failed');
    assert.match(outcome.error ?? '', /nowhere/);
  });
});
