/** The clocks of a guest as the agent reads them there: with readings that are repeated (kernel/thrifty.c). */

import assert from 'node:assert/strict';
import { companions } from '../../kernel/preload.js';
import { guestResult, needsGuest, testKernels } from '../testing/guest.js';

describe('Clocks of a guest', function () {
  this.timeout(120_000);
  before(needsGuest);

  it('lie to each other to the ns as they began, though readings are repeated: packets are stamped by one, queues and timers go by the other', async () => {
    const { thrifty } = await companions();
    for (const kernel of testKernels().slice(0, 2)) {
      const found = await guestResult<readonly string[]>(new URL('./clocks.guest.js', import.meta.url), { kernel, env: { LD_PRELOAD: thrifty, TESTBED_CLOCK: 'still' } });
      // The kernel's time-travel-start (testing/guest.ts), at which its monotonic clock is 0.
      assert.deepEqual(found, Array<string>(3).fill('1700000000000000000'), kernel);
    }
  });
});
