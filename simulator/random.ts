/**
 * Seeded randomness: sfc32 (Chris Doty-Humphrey, PractRand), one independent stream a use, so that adding a random
 * decision at one link does not change those at another.
 */

/** FNV-1a over the text's UTF-16 units, then mixed (MurmurHash3's finaliser). @returns u32 */
export function hash32(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return mix32(h);
}

/** MurmurHash3's 32-bit finaliser. @returns u32 */
export function mix32(value: number): number {
  let h = value | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

export class Random {
  private a: number;
  private b: number;
  private c = 0;
  private counter = 1;

  /** @param seed the run's seed @param stream what the numbers are for: `BL1 queue` */
  constructor(seed: number, stream: string) {
    this.a = mix32(seed) | 0;
    this.b = hash32(`${seed} ${stream}`) | 0;
    for (let i = 0; i < 12; i++) this.u32();
  }

  /** Uniform, 0 … 2^32 − 1. */
  u32(): number {
    const t = (((this.a + this.b) | 0) + this.counter) | 0;
    this.counter = (this.counter + 1) | 0;
    this.a = this.b ^ (this.b >>> 9);
    this.b = (this.c + (this.c << 3)) | 0;
    this.c = (this.c << 21) | (this.c >>> 11);
    this.c = (this.c + t) | 0;
    return t >>> 0;
  }

  /** Uniform, [0, 1). */
  fraction(): number { return this.u32() / 4294967296; }
}
