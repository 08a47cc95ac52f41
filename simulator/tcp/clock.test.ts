import assert from 'node:assert/strict';
import { jiffyNs, timerNs, usToJiffies } from './clock.js';

describe('The clocks of TCP', () => {
  it('round microseconds up to jiffies, also where an int32 ends', () => {
    for (const us of [0, 1, 9999, 10_000, 10_001, 120_000_000, 1_999_999_999, 2_000_000_001, 2 ** 31 + 1, 2 ** 40]) assert.equal(usToJiffies(us), Math.ceil(us / 10_000), `${us} µs`);
  });

  it('fire a timer never early and at most a slot of its wheel level late (calc_index of kernel/time/timer.c)', () => {
    for (const nowNs of [0, 1, 999_999_999, 123_456_789_012, 3.6e12]) {
      for (const delta of [0, 1, 5, 62, 63, 64, 503, 504, 4031, 4032, 12_000]) {
        const expires = Math.floor(nowNs / jiffyNs) + delta;
        let slot = 1;
        for (let reach = 63; delta >= reach; reach *= 8) slot *= 8;
        const fires = timerNs(nowNs, delta) / jiffyNs;
        assert.equal(fires % slot, 0, 'at the edge of a slot');
        assert.ok(fires > expires && fires <= expires + slot, `${delta} jiffies from ${nowNs} ns: ${fires}`);
      }
    }
  });
});
