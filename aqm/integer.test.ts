import assert from 'node:assert/strict';
import fc from 'fast-check';
import { mulHigh, mulShift, scaleHash } from './integer.js';

const u32 = fc.oneof(fc.integer({ min: 0, max: 0xffffffff }), fc.constantFrom(0, 1, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff));

describe('kernel integers in doubles', () => {
  it('multiplies to the upper 32 bits exactly', () => {
    fc.assert(fc.property(u32, u32, (a, b) => assert.equal(BigInt(mulHigh(a, b)), (BigInt(a) * BigInt(b)) >> 32n)), { numRuns: 5000 });
  });
  it('multiplies and shifts exactly while the result fits', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 37 - 1 }), fc.nat(255), fc.integer({ min: 0, max: 23 }), fc.nat(0x7fffffff), (a, cell, shift, low) => {
        // As RED uses it: b < 256 × 2^shift
        const b = Math.min(0xffffffff, cell * 2 ** shift + (low % 2 ** shift));
        assert.equal(BigInt(mulShift(a, b, shift)), (BigInt(a) * BigInt(b)) >> BigInt(shift));
      }),
      { numRuns: 5000 },
    );
  });
  it('scales a hash into a range as reciprocal_scale() does', () => {
    fc.assert(fc.property(u32, fc.integer({ min: 1, max: 65536 }), (hash, range) => assert.equal(BigInt(scaleHash(hash, range)), (BigInt(hash) * BigInt(range)) >> 32n)));
  });
});
