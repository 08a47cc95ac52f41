/** Every queue discipline the simulator and the userspace bottleneck know, by kind. A new one is one file and one line here. */

import type { AqmKind } from './aqm.js';
import { aqmrd } from './aqmrd.js';
import { ared } from './ared.js';
import { blue } from './blue.js';
import { cake } from './cake.js';
import { choke } from './choke.js';
import { cobalt } from './cobalt.js';
import { codel } from './codel.js';
import { docsisPie } from './docsis-pie.js';
import { drr } from './drr.js';
import { dualpi2 } from './dualpi2.js';
import { bfifo, pfifo } from './fifo.js';
import { fqCodel } from './fq-codel.js';
import { fqPie } from './fq-pie.js';
import { fq } from './fq.js';
import { hhf } from './hhf.js';
import { mred } from './mred.js';
import { nlred } from './nlred.js';
import { pfifoFast } from './pfifo-fast.js';
import { pi } from './pi.js';
import { pi2 } from './pi2.js';
import { pie } from './pie.js';
import { redClassic } from './red-classic.js';
import { red } from './red.js';
import { rem } from './rem.js';
import { selfConfiguringRed } from './self-configuring-red.js';
import { sfb } from './sfb.js';
import { sfq } from './sfq.js';
import { threshold } from './threshold.js';
import { tred } from './tred.js';

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
    redClassic,
    ared,
    selfConfiguringRed,
    nlred,
    mred,
    tred,
    aqmrd,
    blue,
    rem,
    pi,
    pi2,
    docsisPie,
    threshold,
  ].map((kind) => [kind.kind, kind]),
);
