import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { expandRuns } from '../testbed/plan/compile.js';
import { loadText } from '../testbed/scenario/load.js';
import { simulate } from './simulate.js';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';

describe('a flow that is cut while its packets wait in its own host', () => {
  it('leaves nothing that would send again', () => {
    // 1 kbit/s of access: a SYN takes half a second, the rest of the window waits for minutes.
    const scenario = loadText(`name: slow-access
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 20mbit, queue: codel } }
  hosts: { S: { count: 2, at: R1, rate: 1kbit }, D: { count: 2, at: R2, loss: 10%, delay: 1ms } }
traffic: { bulk: { kind: bulk, from: S, to: D } }
measure: { warmup: 200ms, duration: 500ms }
`, 'slow-access.yaml');
    const folder = temporaryFolder('testbed-cut-');
    try {
      const { packets } = simulate(expandRuns(scenario)[0]!.plan, folder, { records: false });
      assert.equal(packets.made, packets.delivered + packets.dropped + packets.inFlight);
    } finally {
      fs.rmSync(folder, { recursive: true, force: true });
    }
  });
});
