import assert from 'node:assert/strict';
import fc from 'fast-check';
import { syntheticPlan } from '../records/synthetic-raw.js';
import { bootstrapResamples, medianInterval } from './bootstrap.js';
import { capacityBits, rateSteps } from './capacity.js';
import { inWindow } from './flow-window.js';
import { jain } from './jain.js';
import { lossSynchronisation } from './loss-synchronisation.js';
import { sizeClasses } from './metrics.js';
import { roundNumber, rounded } from './round.js';

describe("Jain's index", () => {
  it('is 1 when all are equal, 1/n when one has everything, and undefined when nobody has anything', () => {
    assert.equal(jain([3, 3, 3, 3]), 1);
    assert.equal(jain([0, 0, 5, 0]), 0.25);
    assert.equal(jain([]), null);
    assert.equal(jain([0, 0]), null);
  });
  it('stays between 1/n and 1 and does not depend on the unit, for huge and tiny rates too', () => {
    fc.assert(fc.property(fc.array(fc.double({ min: 0.001, max: 1000, noNaN: true }), { minLength: 1, maxLength: 20 }), fc.constantFrom(1e-200, 1, 1e200), (values, unit) => {
      const index = jain(values.map((value) => value * unit))!;
      assert.ok(index >= 1 / values.length - 1e-9 && index <= 1 + 1e-9);
      assert.ok(Math.abs(index - jain(values)!) < 1e-9);
    }));
  });
});

describe('loss synchronisation', () => {
  const flows = [0, 1, 2, 3].map((id) => ({ id, tStart: 0, tEnd: null }));
  it('is the share of flows that lose packets in a loss event, averaged over events', () => {
    const drops = [{ t: 100, flow: 0 }, { t: 120, flow: 1 }, { t: 150, flow: 1 }, { t: 151, flow: 2 }, { t: 400, flow: 3 }];
    // Events of 50: {0, 1} at 100 … 150, {2} at 151, {3} at 400.
    assert.deepEqual(lossSynchronisation(drops, flows, 50), { ratio: (2 / 4 + 1 / 4 + 1 / 4) / 3, events: 3 });
  });
  it('counts only flows active at the time, and no event of a single flow', () => {
    const some = [{ id: 0, tStart: 0, tEnd: null }, { id: 1, tStart: 0, tEnd: 50 }, { id: 2, tStart: 200, tEnd: null }];
    assert.deepEqual(lossSynchronisation([{ t: 100, flow: 0 }], some, 10), { ratio: null, events: 0 });
    assert.deepEqual(lossSynchronisation([{ t: 300, flow: 0 }, { t: 305, flow: 9 }], some, 10), { ratio: 0.5, events: 1 });
    assert.deepEqual(lossSynchronisation([], some, 10), { ratio: null, events: 0 });
  });
});

describe('capacity of a bottleneck', () => {
  it('follows the rate changes of its own direction, whatever their order in the plan', () => {
    const { forward } = syntheticPlan({ packets: 1, rateBps: 10e6 }).links[0]!;
    const steps = rateSteps(forward, [{ atNs: 4e9, direction: 'BL1', set: { rateBps: 1e6 } }, { atNs: 2e9, direction: 'BL1', set: { rateBps: 20e6 } }, { atNs: 0, direction: 'BL1.reverse', set: { rateBps: 5 } }]);
    assert.equal(capacityBits(steps, 1e9, 5e9), 10e6 + 40e6 + 1e6);
    assert.equal(capacityBits(steps, 5e9, 5e9), 0);
    assert.equal(capacityBits([], 0, 1e9), null);
  });
});

describe('what of a flow falls into the window', () => {
  const flow = { tStart: 0, tEnd: null, total: 100, atOpen: 10, atClose: 90 };
  it('is the difference of the counts at its edges', () => {
    assert.deepEqual(inWindow(flow, 10, 90, 100), { value: 80, interpolated: false });
  });
  it('needs no count at an edge the flow does not cross', () => {
    assert.deepEqual(inWindow({ ...flow, tStart: 20, tEnd: 50, atOpen: null, atClose: null }, 10, 90, 100), { value: 100, interpolated: false });
    assert.deepEqual(inWindow({ ...flow, tStart: 95 }, 10, 90, 100), { value: 0, interpolated: false });
    assert.deepEqual(inWindow({ ...flow, tEnd: 5 }, 10, 90, 100), { value: 0, interpolated: false });
    assert.deepEqual(inWindow({ ...flow, tStart: null }, 10, 90, 100), { value: 0, interpolated: false });
  });
  it('grows evenly where a count is missing, and says so', () => {
    assert.deepEqual(inWindow({ tStart: 0, tEnd: 20, total: 100, atOpen: null, atClose: null }, 10, 90, 100), { value: 50, interpolated: true });
    assert.deepEqual(inWindow({ tStart: 0, tEnd: 20, total: null, atOpen: null, atClose: null }, 10, 90, 100), { value: null, interpolated: true });
  });
});

describe('rounding', () => {
  it('keeps whole numbers, gives others seven digits and turns what is no number into null', () => {
    assert.deepEqual(rounded({ a: 123456789012, b: 0.12345678, c: [NaN, -0, 1 / 3e9], d: 'x', e: null }), { a: 123456789012, b: 0.1234568, c: [null, 0, 3.333333e-10], d: 'x', e: null });
    assert.equal(Object.is(roundNumber(-0), 0), true);
  });
});

describe('median and its bootstrap interval', () => {
  it('lies within the values, around the median, and is the same every time and in any order', () => {
    fc.assert(fc.property(fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 2, maxLength: 15 }), (values) => {
      const { median, ci95 } = medianInterval(values);
      assert.ok(ci95![0] <= median && median <= ci95![1]);
      assert.ok(ci95![0] >= Math.min(...values) && ci95![1] <= Math.max(...values));
      assert.deepEqual(medianInterval([...values].reverse()), { median, ci95 });
    }));
  });
  it('is undefined for one value and a point for equal ones', () => {
    assert.deepEqual(medianInterval([5]), { median: 5, ci95: null });
    assert.deepEqual(medianInterval([2, 2, 2]), { median: 2, ci95: [2, 2] });
  });
  it('matches the exact distribution of the median of three', () => {
    // The median of a resample of {1, 2, 3} is 1 with 7/27, so both ends of a 95 % interval are the extremes.
    assert.deepEqual(medianInterval([3, 1, 2]), { median: 2, ci95: [1, 3] });
    // Of n = 100 values 1 … 100 the interval is about 50.5 ± 1.96 × 1.2533 × 28.9 / 10 = 43.4 … 57.6.
    const { ci95 } = medianInterval(Array.from({ length: 100 }, (_, i) => i + 1));
    assert.ok(Math.abs(ci95![0] - 43.4) < 4 && Math.abs(ci95![1] - 57.6) < 4, String(ci95));
    assert.ok(bootstrapResamples >= 1000);
  });
});

describe('size classes', () => {
  const flow = syntheticPlan({ packets: 1, flows: 1 }).flows[0]!;
  it('are the sizes themselves while they are few, else decades', () => {
    assert.deepEqual(sizeClasses([{ ...flow, id: 1, bytes: 60000 }, { ...flow, id: 2, bytes: 10e6 }, { ...flow, id: 3, bytes: null }]), [[1, '60kB'], [2, '10MB']]);
    const many = Array.from({ length: 9 }, (_, i) => ({ ...flow, id: i, bytes: 1000 + i }));
    assert.deepEqual(new Set(sizeClasses([...many, { ...flow, id: 9, bytes: 999 }]).map(([, name]) => name)), new Set(['1kB-10kB', '100B-1kB']));
  });
});
