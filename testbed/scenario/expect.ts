/**
 * `expect`: what the figures of a run must satisfy: a comparison (`BL1.utilisation >= 0.95`), or one entry that holds
 * two sources of figures against each other (`sim ~ kernel: { BL1.utilisation: 2% }`). Only the form is checked here;
 * testbed/expect/parse.ts reads the language.
 */

import { z } from 'zod';

const words = 'a comparison such as BL1.utilisation >= 0.95, or one such as sim ~ kernel: { BL1.utilisation: 2% }';
const zScalar = z.union([z.string(), z.number(), z.boolean()]);
export const zExpect = z.array(z.union([
  z.string({ error: `expected ${words}` }).min(1, { error: `expected ${words}` }),
  z.record(z.string().min(1), z.union([zScalar, z.record(z.string(), z.union([zScalar, z.record(z.string(), zScalar)]))]), { error: `expected ${words}` })
    .refine((map) => Object.keys(map).length === 1, { error: `expected a map with a single key, ${words}` }),
])).max(1000);
export type Expectations = z.output<typeof zExpect>;
