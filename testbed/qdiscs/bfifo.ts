/** bfifo: first in, first out, limited in bytes (net/sched/sch_fifo.c; iproute2 q_fifo.c). No `limit`: the device's txqueuelen (1000 packets times its MTU, on veth). */

import { z } from 'zod';
import { zBytes } from './schemas.js';
import type { Qdisc } from './qdisc.js';

export const bfifo: Qdisc = {
  kind: 'bfifo',
  schema: z.strictObject({ limit: zBytes.optional() }),
  encode: ({ limit }) => {
    if (limit === undefined) return Buffer.alloc(0);
    const out = Buffer.alloc(4);
    out.writeUInt32LE(Number(limit));
    return out;
  },
  tcWords: ({ limit }) => (limit === undefined ? [] : ['limit', String(limit)]),
  state: [],
  decodeState: () => [],
  decodeMarks: () => Number.NaN,
};
