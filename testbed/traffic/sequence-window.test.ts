import assert from 'node:assert/strict';
import { random } from '../records/synthetic-raw.js';
import { SequenceWindow } from './sequence-window.js';

const counts = (window: SequenceWindow): number[] => [window.received, window.duplicates, window.tooLate, window.reordered];

describe('the window of datagrams received', () => {
  it('counts each once, copies apart, in any order', () => {
    const window = new SequenceWindow(64);
    for (const sequence of [0, 1, 1, 3, 2, 2, 3, 0, 7]) window.add(sequence);
    assert.deepEqual(counts(window), [5, 4, 0, 1]);
  });

  it('agrees with a set of all numbers ever seen, under loss, duplication and reordering within its size', () => {
    const draw = random(3);
    for (const size of [64, 128, 1024]) {
      const window = new SequenceWindow(size);
      const arrivals: (readonly [number, number])[] = [];
      for (let sequence = 0; sequence < 20_000; sequence++) {
        if (draw() < 0.1) continue;
        for (let copies = draw() < 0.2 ? 2 : 1; copies > 0; copies--) arrivals.push([sequence + draw() * (size - 1), sequence]);
      }
      // One that comes `size − 1` later than it was sent has at most size − 1 numbers before it.
      arrivals.sort((a, b) => a[0] - b[0]);
      for (const [, sequence] of arrivals) window.add(sequence);
      const different = new Set(arrivals.map(([, sequence]) => sequence)).size;
      assert.deepEqual(counts(window).slice(0, 3), [different, arrivals.length - different, 0], `size ${size}`);
    }
  });

  it('forgets what it must after gaps of any length, and says so of what comes later still', () => {
    for (const gap of [1, 31, 32, 33, 63, 64, 65, 1000, 2 ** 32, 2 ** 33 + 5]) {
      const window = new SequenceWindow(64);
      for (let i = 0; i < 64; i++) window.add(i);
      window.add(63 + gap);
      assert.deepEqual(counts(window), [65, 0, 0, 0], `gap ${gap}`);
      for (let back = 1; back < Math.min(gap, 64); back++) window.add(63 + gap - back); // lost ones that come after all
      assert.equal(window.received, 65 + Math.min(gap, 64) - 1, `gap ${gap}`);
      window.add(63 + gap);
      assert.equal(window.duplicates, 1);
      if (gap >= 1) window.add(Math.max(0, 63 + gap - 64));
      assert.equal(window.tooLate, 1, `gap ${gap}`);
    }
  });

  it('takes size / 8 bytes, rounded up to a power of two', () => {
    assert.deepEqual([1, 64, 65, 1000].map((size) => new SequenceWindow(size).size), [64, 64, 128, 1024]);
  });
});
