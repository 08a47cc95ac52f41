/** pfifo: first in, first out, limited in packets (net/sched/sch_fifo.c; iproute2 q_fifo.c). No `limit`: the device's txqueuelen (1000 packets on veth). */

import { z } from 'zod';
import { zPackets } from '../units.js';
import type { Qdisc } from './qdisc.js';

export const pfifo: Qdisc = {
  kind: 'pfifo',
  schema: z.strictObject({ limit: zPackets.optional() }),
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
