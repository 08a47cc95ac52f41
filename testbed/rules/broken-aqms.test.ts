/**
 * Layer 3 notices a broken AQM: the simulator with one deliberate fault against the kernel, judged as `testbed validate` judges. The
 * same cell with the AQM as it is passes, so that it is the fault that fails.
 */

import assert from 'node:assert/strict';
import { simulate } from '../../simulator/simulate.js';
import { aqms } from '../../aqm/registry.js';
import { readMetrics } from '../analysis/summary.js';
import { openMachine } from '../machines/registry.js';
import { kernelEngine, type Engine } from '../run/engine.js';
import { execute } from '../run/execute.js';
import { needsUml, Place } from '../testing/command.js';
import { brokenAqm } from '../testing/broken-aqms.js';
import { dumbbellText } from '../testing/scenarios.js';
import { loadCells, planOf, type Cell } from '../validate/cells.js';
import { judgeCell, type CellVerdict } from '../validate/judge-cell.js';
import type { Evidence } from '../expect/judge.js';

const simulator = (disciplines: typeof aqms): Engine => ({
  name: 'sim', machine: 'sim', clock: 'virtual', parallel: 1,
  execute: ({ plan, runDir }) => {
    simulate(plan, `${runDir}/raw`, { records: true, aqms: disciplines });
    return Promise.resolve({ status: 'complete' });
  },
});

describe('a broken AQM in the simulator', function () {
  this.timeout(600_000);
  before(needsUml);
  const place = new Place();
  after(() => place.remove());
  const seeds = [1, 2];
  let folder = 0;
  const evidence = async (cell: Cell, engine: Engine): Promise<Evidence> => {
    const metrics = [];
    for (const seed of seeds) {
      const runDir = place.path(`run-${folder++}`);
      const result = await execute({ plan: planOf(cell, seed), engine, runDir, scenario: null, gitCommit: null, report: false, signal: new AbortController().signal });
      assert.equal(result.status, 'complete', result.error ?? '');
      metrics.push(readMetrics(runDir)!);
    }
    return { metrics, missing: null };
  };
  const cellOf = (queue: string): Cell => {
    const file = place.write(`${folder}.yaml`, dumbbellText({
      queue, rate: '20mbit', rtt: '50ms', measure: '{ warmup: 5s, duration: 20s }', more: 'seeds: [1, 2]\ncollect: { queue: none, sockets: none }',
      traffic: '{ bulk: { kind: bulk, from: S, to: D, flows: 4, rtt: 50ms, cc: cubic, tool: builtin, start: "uniform(0s, 1s)" } }',
    }));
    const { cells, bad } = loadCells([file], []);
    assert.deepEqual(bad, []);
    return cells[0]!;
  };
  const against = async (cell: Cell, kernel: Evidence, disciplines: typeof aqms): Promise<CellVerdict> => judgeCell(cell, { kernel, sim: await evidence(cell, simulator(disciplines)) });
  const differing = ({ figures }: CellVerdict): string => figures.filter(({ verdict }) => verdict === 'differs').map(({ title }) => title).join(', ');
  const kernelOf = (cell: Cell): Promise<Evidence> => evidence(cell, kernelEngine(openMachine('uml'), 'virtual', 'netns', 1));

  it('is noticed with CoDel: a target of 50 ms by its queueing; CoDel as it is passes', async () => {
    const cell = cellOf('codel');
    const kernel = await kernelOf(cell);
    const right = await against(cell, kernel, aqms);
    assert.equal(right.status, 'pass', differing(right));
    const broken = await against(cell, kernel, brokenAqm('codel-target-50ms').aqms);
    assert.equal(broken.status, 'fail');
    assert.match(differing(broken), /queueing, median/);
    // A square root 3 % off makes drops 3 % rarer, which is within what whole runs can tell: decision replay (layer 2) and the arithmetic (layer 1) notice it.
  });

  it('is noticed with RED: its count ignored, by its queueing; RED as it is passes', async () => {
    const cell = cellOf('{ kind: red, min: 20p, max: 60p, probability: 0.02 }');
    const kernel = await kernelOf(cell);
    const right = await against(cell, kernel, aqms);
    assert.equal(right.status, 'pass', differing(right));
    const broken = await against(cell, kernel, brokenAqm('red-count-ignored').aqms);
    assert.match(differing(broken), /queueing/);
  });
});
