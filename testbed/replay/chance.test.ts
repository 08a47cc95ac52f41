import assert from 'node:assert/strict';
import { KernelChance, tallyAgrees, zBound, zLimit, type Tally } from './chance.js';
import { SENT } from './fates.js';
import { Fates, ReplayPackets } from './packet.js';

const tally = (z: number, worstDecileZ = 0): Tally => ({ asked: 10_000, happened: 1000 + 30 * z, expected: 1000, deviation: 30, z, worstDecileZ });

describe('drops and marks by chance', () => {
  it('have bounds of the normal distribution, wider the more runs are judged together', () => {
    // Two-sided quantiles of 0.001, 0.00005, 0.001 / 20 and 0.001 / 1000 (tables of the normal distribution).
    assert.ok(Math.abs(zLimit - 3.2905) < 1e-4 && Math.abs(zBound(1, 0.00005) - 4.0556) < 1e-4, `${zLimit} ${zBound(1, 0.00005)}`);
    assert.ok(Math.abs(zBound(20) - 4.0556) < 1e-4 && Math.abs(zBound(1000) - 4.8916) < 1e-4, `${zBound(20)} ${zBound(1000)}`);
    assert.deepEqual([tallyAgrees(tally(3.2)), tallyAgrees(tally(3.4)), tallyAgrees(tally(-3.4))], [true, false, false]);
    assert.deepEqual([tallyAgrees(tally(3.4), 432), tallyAgrees(tally(-4.6), 432), tallyAgrees(tally(4.8), 432)], [true, true, false]);
    assert.deepEqual([tallyAgrees(tally(0, 4.2)), tallyAgrees(tally(0, 4.2), 432)], [false, true]);
  });

  it('that are certain, or impossible, have a deviation of 0 though their shares add up to a bit more than 1', () => {
    const fates = new Fates();
    for (let i = 0; i < 9; i++) if (fates.add() >= 6) fates.set(i, SENT);
    const chance = new KernelChance({ fates, decided: 9 }, 1);
    const packet = new ReplayPackets().take();
    for (packet.seq = 0; packet.seq < 9; packet.seq++) chance.signals(packet, packet.seq < 6 ? 1 + 2 ** -52 : 0);
    const signals = chance.outcome().tallies.signals!;
    assert.deepEqual([signals.happened, Math.round(signals.expected), signals.deviation, signals.z], [6, 6, 0, 0]);
    assert.ok(tallyAgrees(signals));
  });
});
