import assert from 'node:assert/strict';
import { guestResult, needsGuest, runInGuest } from './guest.js';

const script = new URL('./hello.guest.js', import.meta.url);

describe('A guest for tests', function () {
  this.timeout(180_000);
  before(needsGuest);

  it('runs a script with its arguments and environment and returns what it printed', async () => {
    const said = await guestResult<{ release: string; args: string[]; variable: string }>(script, { args: ["it's", 'a b'], env: { VARIABLE: '$HOME `x`' } });
    assert.match(said.release, /^\d+\.\d+/);
    assert.deepEqual([said.args, said.variable], [["it's", 'a b'], '$HOME `x`']);
  });

  it("returns the script's exit code", async () => {
    assert.equal((await runInGuest(script, { args: ['fail'] })).code, 3);
  });
});
