/** The queue disciplines a bottleneck's queue can be: one line each. Those set-up makes for itself (htb, tbf, netem, prio) are not here. */

import { bfifo } from './bfifo.js';
import { cake } from './cake.js';
import { choke } from './choke.js';
import { codel } from './codel.js';
import { drr } from './drr.js';
import { dualpi2 } from './dualpi2.js';
import { fq } from './fq.js';
import { fqCodel } from './fq_codel.js';
import { fqPie } from './fq_pie.js';
import { hhf } from './hhf.js';
import { pfifo } from './pfifo.js';
import { pfifoFast } from './pfifo_fast.js';
import { pie } from './pie.js';
import type { Qdisc } from './qdisc.js';
import { red } from './red.js';
import { sfb } from './sfb.js';
import { sfq } from './sfq.js';

export const qdiscs: ReadonlyMap<string, Qdisc> = new Map(
  [pfifo, bfifo, pfifoFast, red, choke, sfq, sfb, codel, fqCodel, pie, fqPie, cake, hhf, fq, drr, dualpi2].map((qdisc) => [qdisc.kind, qdisc]),
);
