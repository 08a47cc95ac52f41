/** FQ's trees of flows: what a lookup forgets. */

import assert from 'node:assert/strict';
import { FqRoots } from './fq-roots.js';

/** A fraction of 2^64 a step of the hash, so three neighbours of few trees. */
const inOneTree = (count: number): readonly number[] => {
  const place = (key: number): bigint => ((BigInt(key) * 2n + 1n) * 0x61c8864680b583ebn % (1n << 64n)) / ((1n << 64n) / BigInt(count));
  return Array.from({ length: 100 }, (_, key) => key).filter((key) => place(key) === place(0)).slice(0, 4);
};

describe("FQ's flows", () => {
  const [a, b, c, d] = inOneTree(16) as [number, number, number, number];

  it('are forgotten when another is looked up past them, not when they are looked up themselves nor while they are in use', () => {
    const roots = new FqRoots(16);
    roots.add(a);
    roots.add(b);
    assert.deepEqual(roots.forget(a, () => true), [], 'the root is what is looked for');
    assert.deepEqual(roots.forget(b, () => false), []);
    assert.deepEqual(roots.forget(b, () => true), [a]);
    assert.deepEqual(roots.forget(b, () => true), []);
  });

  it('are passed on one side of the tree only, the middle of three being its root', () => {
    const roots = new FqRoots(16);
    for (const key of [a, b, c]) roots.add(key);
    assert.deepEqual(roots.forget(d, (key) => key !== b), [c], 'larger than the root b, so not past a');
    assert.deepEqual(roots.forget(a, () => true), [b]);
  });

  it('of another tree are never passed', () => {
    const roots = new FqRoots(1024);
    for (let key = 0; key < 8; key++) roots.add(key * 100);
    assert.deepEqual(roots.forget(50, () => true), []);
  });
});
