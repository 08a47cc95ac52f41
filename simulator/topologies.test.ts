import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expandRuns } from '../testbed/plan/compile.js';
import { load } from '../testbed/scenario/load.js';
import { withRun } from './testing.js';

const folder = fileURLToPath(new URL('../../topologies/', import.meta.url));

describe('Every topology of the repo', () => {
  for (const file of fs.readdirSync(folder).filter((name) => name.endsWith('.yaml'))) {
    it(`runs in the simulator: ${file}`, () => {
      const { plan } = expandRuns(load(folder + file))[0]!;
      withRun(plan, (result) => {
        assert.equal(result.flows.length, plan.flows.length);
        for (const flow of result.flows) assert.notEqual(flow.status, 'failed', flow.error ?? '');
        assert.ok(result.flows.some((flow) => flow.bytes! > 0));
        assert.doesNotMatch(result.text('agent.jsonl'), /"type":"finding"/);
        const bottlenecks = result.summary.links.filter(({ role, sentPackets }) => role === 'bottleneck' && sentPackets > 0);
        assert.ok(bottlenecks.length > 0);
        for (const probe of plan.probes) assert.ok(result.rows('probes.rec').some((row) => row['probe_id'] === probe.id && row['rtt']! > 0), probe.name);
      });
    }).timeout(30_000);
  }
});
