/** Every queue discipline the simulator and the userspace bottleneck know, by kind. A new one is one file and one line here. */

import type { AqmKind } from './aqm.js';
import { codel } from './codel.js';
import { bfifo, pfifo } from './fifo.js';

export const aqms: ReadonlyMap<string, AqmKind> = new Map(
  [
    pfifo,
    bfifo,
    codel,
  ].map((kind) => [kind.kind, kind]),
);
