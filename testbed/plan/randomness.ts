/**
 * Where every random number of a plan comes from: one stream a purpose, made from the seed and the purpose's name,
 * so that adding a flow class changes no draw of another. xoroshiro128+ of pure-rand, its state from SHA-256.
 */

import { createHash } from 'node:crypto';
import { xoroshiro128plusFromState } from 'pure-rand/generator/xoroshiro128plus';
import type { Distribution } from '../scenario/quantity.js';

export interface Random {
  /** Uniform in [0, 1), 53 bits. */
  uniform(): number;
  /** A value of the distribution, in its unit; not rounded. */
  draw(distribution: Distribution): number;
}

/** @param purpose names of what it is for, from the scenario: `['traffic', 'web', '0', '0']` */
export function stream(seed: number, ...purpose: readonly string[]): Random {
  const digest = createHash('sha256').update(JSON.stringify([seed, ...purpose])).digest();
  const generator = xoroshiro128plusFromState([digest.readInt32LE(0), digest.readInt32LE(4), digest.readInt32LE(8), digest.readInt32LE(12) | 1]);
  const uniform = (): number => ((generator.next() >>> 5) * 0x4000000 + (generator.next() >>> 6)) / 0x20000000000000;
  return {
    uniform,
    draw(d) {
      switch (d.kind) {
        case 'fixed': return d.value;
        case 'uniform': return d.min + (d.max - d.min) * uniform();
        case 'exponential': return -d.mean * Math.log(1 - uniform());
        case 'pareto': {
          // Inverse of F(x) = 1 − (min/x)^shape, cut off at max by conditioning (bounded Pareto).
          const most = d.max === null ? 1 : 1 - (d.min / d.max) ** d.shape;
          return Math.min(d.max ?? 1e15, d.min / (1 - most * uniform()) ** (1 / d.shape));
        }
      }
    },
  };
}
