/** pfifo_fast: three bands by priority (TOS), each first in, first out, txqueuelen packets a band (net/sched/sch_generic.c). It has no parameters. */

import { z } from 'zod';
import type { Qdisc } from './qdisc.js';

export const pfifoFast: Qdisc = {
  kind: 'pfifo_fast',
  schema: z.strictObject({}),
  encode: () => Buffer.alloc(0),
  tcWords: () => [],
  state: [],
  decodeState: () => [],
  decodeMarks: () => Number.NaN,
};
