/** The daemon's process on real devices of a guest's kernel: frames in at one end, out at the other. */

import assert from 'node:assert/strict';
import { aqms } from '../aqm/registry.js';
import { guestResult, needsGuest } from '../testbed/testing/guest.js';
import type { Faults } from './config.js';

const script = new URL('./daemon.guest.js', import.meta.url);
const inGuest = <T>(mode: string): Promise<T> => guestResult<T>(script, { args: [mode], timeoutS: 240 });
const none: Faults = { ringLost: 0, noSlot: 0, superpackets: 0, unfinishedChecksums: 0, notSent: 0, lastErrno: 0 };

describe('the userspace bottleneck between two devices', function () {
  this.timeout(300_000);
  before(needsGuest);

  it('passes frames of every length and kind, broken or not IP at all, byte for byte and in order', async () => {
    const { sent, same, other, arrived, faults } = await inGuest<{ sent: number; same: number; other: number; arrived: number; faults: Faults }>('malformed');
    assert.deepEqual({ sent, same, other, arrived, faults }, { sent: 1500, same: 1500, other: 0, arrived: 1500, faults: none });
  });

  it('marks what is ECN-capable, with the checksum right and the DSCP kept, and leaves the rest alone', async () => {
    const out = await inGuest<{ marked4: number; marked6: number; badSums: number; dscpKept: number; plain: number; received: number; counted: number }>('marks');
    assert.equal(out.received, 20);
    assert.equal(out.badSums, 0);
    assert.ok(out.marked4 >= 2 && out.marked6 >= 2, JSON.stringify(out));
    assert.equal(out.dscpKept, out.marked4);
    assert.equal(out.marked4 + out.marked6, out.counted);
  });

  it('serialises and delays exactly, and changes rate, delay and queue at the times of the plan', async () => {
    const { before, after, limited } = await inGuest<{ before: number[]; after: number[]; limited: number }>('delays');
    // 12 packets of 1500 bytes (14 of them Ethernet's): the last leaves after 11 services less the burst of 1514 bytes.
    const last = (rateBps: number, delayNs: number): number => ((11 * 1500 - 1514) * 8e9) / rateBps + delayNs;
    for (const ns of before) assert.ok(Math.abs(ns - last(12e6, 25e6)) < 50e3, `${ns} of ${last(12e6, 25e6)}`);
    for (const ns of after) assert.ok(Math.abs(ns - last(6e6, 5e6)) < 50e3, `${ns} of ${last(6e6, 5e6)}`);
    // The burst takes 7 of the 214 counted bytes each and the link one more; the queue's new limit is 10.
    assert.ok(limited >= 17 && limited <= 19, `${limited} packets`);
  });

  it('loses, duplicates and reorders in the shares asked for', async () => {
    const { count, received, distinct, early, lost } = await inGuest<{ count: number; received: number; distinct: number; early: number; lost: number }>('wires');
    const near = (value: number, share: number, of: number, what: string): void => assert.ok(Math.abs(value - share * of) < 4 * Math.sqrt(of * share * (1 - share)), `${what}: ${value} of ${of}`);
    near(lost, 0.1, count, 'lost');
    assert.equal(distinct, count - lost);
    near(received - distinct, 0.05, count - lost, 'duplicates');
    near(early, 0.02, count - lost, 'reordered');
  });

  it('runs every discipline of aqm/, and no packet is lost track of', async () => {
    const out = await inGuest<Record<string, { received: number; sent: number; drops: number; arrived: number; backlog: number }>>('kinds');
    assert.deepEqual(Object.keys(out), [...aqms.keys()]);
    for (const [kind, { received, sent, drops, arrived, backlog }] of Object.entries(out)) {
      assert.equal(arrived, 240, kind);
      assert.equal(received, sent, kind);
      assert.equal(sent + drops + backlog, arrived, kind);
      assert.ok(received > 100, `${kind}: ${received}`);
    }
  });
});
