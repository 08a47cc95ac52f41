/** Every queue discipline the simulator and the userspace bottleneck know, by kind. A new one is one file and one line here. */

import type { AqmKind } from './aqm.js';
import { cake } from './cake.js';
import { choke } from './choke.js';
import { codel } from './codel.js';
import { cobalt } from './cobalt.js';
import { drr } from './drr.js';
import { dualpi2 } from './dualpi2.js';
import { bfifo, pfifo } from './fifo.js';
import { fqCodel } from './fq-codel.js';
import { fqPie } from './fq-pie.js';
import { fq } from './fq.js';
import { hhf } from './hhf.js';
import { pfifoFast } from './pfifo-fast.js';
import { pie } from './pie.js';
import { red } from './red.js';
import { sfb } from './sfb.js';
import { sfq } from './sfq.js';

export const aqms: ReadonlyMap<string, AqmKind> = new Map(
  [
    pfifo,
    bfifo,
    pfifoFast,
    red,
    choke,
    codel,
    fqCodel,
    pie,
    fqPie,
    sfq,
    drr,
    sfb,
    hhf,
    fq,
    dualpi2,
    cobalt,
    cake,
  ].map((kind) => [kind.kind, kind]),
);
