/** pfifo: first in, first out, limited in packets (net/sched/sch_fifo.c; iproute2 q_fifo.c). No `limit`: the device's txqueuelen (1000 packets on veth). */

import { z } from 'zod';
import { zPackets } from '../units.js';
import type { Qdisc } from './qdisc.js';

/** @param limit the unit in which the queue is limited */
export const fifo = (kind: 'pfifo' | 'bfifo', limit: z.ZodType<number>): Qdisc => ({
  kind,
  schema: z.strictObject({ limit: limit.optional() }),
  encode: (params) => {
    if (params['limit'] === undefined) return Buffer.alloc(0);
    const out = Buffer.alloc(4); // struct tc_fifo_qopt
    out.writeUInt32LE(Number(params['limit']));
    return out;
  },
  tcWords: (params) => (params['limit'] === undefined ? [] : ['limit', String(params['limit'])]),
  state: [],
  decodeState: () => [],
  decodeMarks: () => Number.NaN,
});

export const pfifo = fifo('pfifo', zPackets);
