/** Integer arithmetic of the kernel in doubles and int32, exact where stated; no BigInt, nothing allocated. */

/** The upper half of a 32 × 32 bit product, u32: (a × b) >> 32. Exact: both partial products are below 2^48. */
export function mulHigh(a: number, b: number): number {
  return Math.floor((a * (b >>> 16) + Math.floor((a * (b & 0xffff)) / 0x10000)) / 0x10000);
}

/** (a × b) >> shift for a < 2^37, b < 2^32, shift < 32 where the result is below 2^53. Exact. */
export function mulShift(a: number, b: number, shift: number): number {
  const high = a * Math.floor(b / 0x10000), low = a * (b & 0xffff);
  return shift >= 16
    ? Math.floor((high + Math.floor(low / 0x10000)) / 2 ** (shift - 16))
    : high * 2 ** (16 - shift) + Math.floor(low / 2 ** shift);
}

/** reciprocal_scale() of include/linux/kernel.h: a uniform u32 into 0 … range − 1, range ≤ 2^21. Exact. */
export function scaleHash(hash: number, range: number): number {
  return Math.floor((hash * range) / 0x100000000);
}

/**
 * Mixes a flow key with a perturbation, u32. Stands for skb_get_hash_perturb(), whose SipHash of the addresses this
 * cannot repeat: packets carry a key that is mixed already. murmur3's finaliser (Appleby, public domain).
 */
export function perturbHash(hash: number, perturbation: number): number {
  let h = (hash ^ perturbation) | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** get_random_u32_below() of Linux's include/linux/random.h without its rejection step: off from uniform by less than ceiling / 2^32. */
export function randomBelow(randomU32: () => number, ceiling: number): number {
  return mulHigh(randomU32(), ceiling);
}
