import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';
import { Worker } from 'node:worker_threads';
import { dumbbell, queue } from './fixture.js';
import { withRun } from './testing.js';
import type { SimulationReply, SimulationRequest } from './worker.js';
import { temporaryFolder } from '../testbed/testing/temporary-folder.js';

/** All replies to one request. */
const ask = async (request: SimulationRequest): Promise<SimulationReply[]> => {
  const worker = new Worker(new URL('./worker.js', import.meta.url));
  try {
    return await new Promise((resolve, reject) => {
      const replies: SimulationReply[] = [];
      worker.on('error', reject);
      worker.on('message', (reply: SimulationReply) => {
        replies.push(reply);
        if (reply.type !== 'progress') resolve(replies);
      });
      worker.postMessage(request);
    });
  } finally {
    await worker.terminate();
  }
};

describe('A simulation in a worker thread', () => {
  const plan = dumbbell({ rateBps: 5e6, queue: queue('codel'), pairs: 1, rttNs: 30e6, durationNs: 3e9, flows: [{}] });

  it('gives the same files as in this thread, and tells how far it is', async () => {
    const dir = temporaryFolder('simulate-');
    try {
      const replies = await ask({ plan, rawDir: dir, records: true });
      assert.equal(replies.at(-1)!.type, 'done');
      assert.equal(replies.filter(({ type }) => type === 'progress').length, 3);
      withRun(plan, (result) => {
        for (const [name, bytes] of result.files()) assert.ok(bytes.equals(fs.readFileSync(path.join(dir, name))), name);
      });
    } finally {
      fs.rmSync(dir, { recursive: true, force: true });
    }
  }).timeout(20_000);

  it("passes on what is wrong with a plan as the user's mistake", async () => {
    const wrong = { ...plan, flows: [{ ...plan.flows[0]!, cc: 'vegas' }] };
    const [reply] = await ask({ plan: wrong, rawDir: os.tmpdir(), records: false });
    assert.ok(reply !== undefined && reply.type === 'failed' && reply.user && reply.message.includes('vegas'));
    assert.ok(!('stack' in reply), 'one message is enough');
  }).timeout(20_000);

  it('hands over where it failed when that is no fault of the plan', async () => {
    const broken = { ...plan, links: null as unknown as typeof plan.links };
    const [reply] = await ask({ plan: broken, rawDir: os.tmpdir(), records: false });
    assert.ok(reply !== undefined && reply.type === 'failed' && !reply.user);
    assert.match(reply.stack, /^TypeError: .*null.*\n\s+at .*simulator.*\.js:\d+/);
  }).timeout(20_000);
});
