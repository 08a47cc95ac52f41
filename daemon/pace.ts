/**
 * Whether the processor itself keeps its speed. A host may slow its processors down (power and temperature limits), to a tenth for tens
 * of ms at a time, and a virtual machine sees nothing of it in its counters: it is not steal. So a fixed piece of arithmetic that needs no
 * memory is timed again and again; how much longer than at best it takes is how much slower the processor is. What else can lengthen it,
 * an interrupt or another program, does so once, so the shorter of two times counts.
 */

import { CLOCK_MONOTONIC, clockNs } from '../testbed/linux/libc.js';

export interface PaceReport {
  readonly samples: number;
  /** Share of the samples in which the processor ran at less than half its best speed. */
  readonly slowShare: number;
  /** Its speed in the slowest 1 of 1000 samples, of the best there was: 0.1 is a tenth. 1 without samples. */
  readonly slowest: number;
}

/** About 1 µs at 3 GHz. */
const rounds = 500;
/** Until the compiler has done with it. */
const warmUp = 2000;
/** Buckets of the histogram: powers of 2^⅛ from 64 ns. */
const [perOctave, leastNs, buckets] = [8, 64, 256] as const;

/** Marsaglia's xorshift32: each step needs the one before. */
function arithmetic(seed: number): number {
  let x = seed;
  for (let i = 0; i < rounds; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
  }
  return x;
}

export class Pace {
  private samples = 0;
  private readonly counts = new Uint32Array(buckets);
  private bestNs = Infinity;
  /** When it last was slow, ns of CLOCK_MONOTONIC. */
  slowNs = -Infinity;
  private x = 1;

  constructor() {
    for (let i = 0; i < warmUp; i++) this.once();
  }

  private once(): number {
    const before = clockNs(CLOCK_MONOTONIC);
    this.x = arithmetic(this.x);
    const ns = clockNs(CLOCK_MONOTONIC) - before;
    if (ns < this.bestNs) this.bestNs = ns;
    return ns;
  }

  /** Takes 2 to 3 µs at full speed. */
  sample(nowNs: number): void { this.add(nowNs, Math.min(this.once(), this.once())); }

  /** @param ns the time the arithmetic took */
  add(nowNs: number, ns: number): void {
    if (ns < this.bestNs) this.bestNs = ns;
    if (ns > 2 * this.bestNs) this.slowNs = nowNs;
    this.samples++;
    this.counts[Math.max(0, Math.min(buckets - 1, Math.floor(perOctave * Math.log2(ns / leastNs))))]!++;
  }

  /** Forgets the samples, but not what the best time is. */
  restart(): void {
    this.samples = 0;
    this.counts.fill(0);
  }

  report(): PaceReport {
    if (this.samples === 0) return { samples: 0, slowShare: 0, slowest: 1 };
    const { bestNs, counts, samples } = this;
    // From the first bucket that is wholly beyond twice the best.
    const from = Math.max(0, Math.ceil(perOctave * Math.log2((2 * bestNs) / leastNs)));
    let slow = 0;
    for (let i = from; i < buckets; i++) slow += counts[i]!;
    let slowest = buckets - 1;
    for (let more = samples / 1000; slowest > 0; slowest--) {
      more -= counts[slowest]!;
      if (more < 0) break;
    }
    return { samples, slowShare: slow / samples, slowest: Math.min(1, bestNs / (leastNs * 2 ** (slowest / perOctave))) };
  }
}
