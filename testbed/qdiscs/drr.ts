/**
 * DRR, deficit round robin (net/sched/sch_drr.c; iproute2 q_drr.c). DRR only has the classes one gives it and drops what belongs to none, so as a
 * bottleneck's queue it stands for: `flows` classes of one `quantum` each (tc's key of the class), each with a pfifo of `limit` packets, and a
 * flow-hash filter over addresses, protocol and ports (net/sched/cls_flow.c) that spreads flows over the classes. Two flows may share a class, as in SFQ.
 * Defaults: flows 64, limit 1000p, quantum one packet.
 */

import { z } from 'zod';
import { attributeU32 } from '../linux/attributes.js';
import { zPackets } from '../units.js';
import { pfifo } from './pfifo.js';
import type { Qdisc, QdiscChild, QdiscContext, QueueParams } from './qdisc.js';
import { zBytes, zCount } from './schemas.js';

/** FLOW_KEY_SRC, DST, PROTO, PROTO_SRC, PROTO_DST (pkt_cls.h). */
const flowKeys = 0b11111;

function children(params: QueueParams, context: QdiscContext): QdiscChild[] {
  const flows = Number(params['flows'] ?? 64);
  const quantum = Number(params['quantum'] ?? context.mtuBytes + 14);
  const limit = { limit: Number(params['limit'] ?? 1000) };
  const out: QdiscChild[] = [];
  for (let minor = 1; minor <= flows; minor++) {
    out.push({ type: 'class', minor, options: attributeU32(1, quantum), words: ['quantum', String(quantum)] });
    out.push({ type: 'qdisc', parentMinor: minor, kind: 'pfifo', options: pfifo.encode(limit, context), words: pfifo.tcWords(limit, context) });
  }
  out.push({
    type: 'filter', kind: 'flow',
    // TCA_FLOW_KEYS, DIVISOR, BASECLASS, MODE (1: hash)
    options: (handle) => Buffer.concat([attributeU32(1, flowKeys), attributeU32(8, flows), attributeU32(3, handle + 1), attributeU32(2, 1)]),
    words: (handle) => ['hash', 'keys', 'src,dst,proto,proto-src,proto-dst', 'divisor', String(flows), 'baseclass', `${(handle >>> 16).toString(16)}:1`],
  });
  return out;
}

export const drr: Qdisc = {
  kind: 'drr',
  schema: z.strictObject({ flows: zCount(1, 1024).optional(), limit: zPackets.optional(), quantum: zBytes.optional() }),
  encode: () => Buffer.alloc(0),
  tcWords: () => [],
  children,
  state: [],
  decodeState: () => [],
  decodeMarks: () => Number.NaN,
};
