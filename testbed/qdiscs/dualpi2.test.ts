import assert from 'node:assert/strict';
import { guestResult, testKernels } from '../testing/guest.js';
import { parseAttributes } from '../linux/attributes.js';
import { dualpi2 } from './dualpi2.js';

const context = { mtuBytes: 1500, rateBps: 20e6 };
const u32 = (options: Buffer, type: number): number | undefined => parseAttributes(options).get(type)?.readUInt32LE(0);

describe('DualPI2', function () {
  this.timeout(300_000);

  it('chooses target, tupdate, alpha and beta from the longest and typical RTT as iproute2 does', () => {
    // q_dualpi2.c: tupdate = min(typical, max/3), alpha = 0.1 × tupdate / max², beta = 0.3 / max, in Hz × 256
    const options = dualpi2.encode({ max_rtt: 100e6, typical_rtt: 15e6 }, context);
    assert.deepEqual([3, 4, 5, 6].map((type) => u32(options, type)), [15_000, 15_000, 38, 768]);
  });

  it('takes a step threshold as a time or as packets', () => {
    assert.equal(u32(dualpi2.encode({ step_thresh: 2e6 }, context), 8), 2000);
    assert.equal(u32(dualpi2.encode({ step_thresh: '5p' }, context), 7), 5);
  });

  it('is set in a kernel as asked', async function () {
    const kernel = testKernels().find((path) => /(^|[^\d])([7-9]\.\d|6\.(1[7-9]|[2-9]\d))/.test(path));
    if (kernel === undefined) {
      console.log('      skipped: no UML kernel of Linux 6.17 or later (sch_dualpi2): testbed kernel build 7.3');
      this.skip();
    }
    const sets = await guestResult<{ params: unknown; sent: [number, string][]; said?: [number, string][]; error?: string }[]>(new URL('./dualpi2.guest.js', import.meta.url), { kernel });
    assert.ok(sets.length > 30);
    for (const { params, sent, said, error } of sets) {
      const what = JSON.stringify(params);
      assert.equal(error, undefined, what);
      for (const [type, value] of sent) {
        const actual = said?.find(([one]) => one === type)?.[1];
        // alpha and beta pass through the kernel's own scale and may lose their last bit
        if (type === 5 || type === 6) assert.ok(Math.abs(Buffer.from(actual ?? '', 'hex').readUInt32LE(0) - Buffer.from(value, 'hex').readUInt32LE(0)) <= 1, `${what}: attribute ${type}`);
        else assert.equal(actual, value, `${what}: attribute ${type}`);
      }
    }
  });
});
