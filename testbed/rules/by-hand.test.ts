/** `testbed plan FILE --format sh`: the printed script, run as root, makes what the agent makes of the same plan, carries its traffic, and takes it down. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import { projectFile } from '../../kernel/project.js';
import { needsUml, Place } from '../testing/command.js';
import { guestResult } from '../testing/guest.js';

interface ByHand {
  readonly agent: Readonly<Record<string, readonly string[]>>;
  readonly script: Readonly<Record<string, readonly string[]>> | null;
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly left: readonly string[];
}

describe('a plan run by hand', function () {
  this.timeout(240_000);
  before(needsUml);
  // Not below /tmp, which is the guest's own.
  const place = new Place('by-hand-', projectFile('dist'));
  after(() => place.remove());

  for (const [name, set] of [['dumbbell', []], ['parking-lot', []], ['ipv6', []], ['dumbbell', ['topology.links.BL.shaper=tbf', 'topology.links.BL.queue={ kind: cake }']]] as const) {
    it(`stands as the agent makes it: ${name}${set.length > 0 ? `, ${set.join(', ')}` : ''}`, async () => {
      const args = [projectFile('topologies', `${name}.yaml`), '--set', 'measure={ warmup: 100ms, duration: 900ms }', ...set.flatMap((each) => ['--set', each])];
      for (const [format, file] of [['json', 'plan.json'], ['sh', 'plan.sh']] as const) {
        const { code, stdout, stderr } = await place.testbed(['plan', ...args, '--format', format]);
        assert.equal(code, 0, stderr);
        fs.writeFileSync(place.path(file), stdout);
      }
      const { agent, script, code, stdout, stderr, left } = await guestResult<ByHand>(new URL('./by-hand.guest.js', import.meta.url), { args: [place.folder], timeoutS: 200 });
      assert.equal(code, 0, stderr);
      assert.ok(Object.keys(agent).length > 20);
      assert.deepEqual(script, agent);
      assert.deepEqual(left, [], 'the script removes what it made');
      // Its last words are the bottlenecks' statistics: its flows sent something.
      const sent = [...stdout.matchAll(/qdisc (?!ingress)[^\n]*\n Sent (\d+) bytes/g)].map((match) => Number(match[1]));
      assert.ok(Math.max(...sent) > 300_000, stdout);
    });
  }
});
