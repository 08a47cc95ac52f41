/** Every kind of traffic, by the name `kind:` takes. */

import type { TrafficKind } from './kind.js';
import { bulk } from './bulk.js';
import { cbr } from './cbr.js';
import { chunks } from './chunks.js';
import { flent } from './flent.js';
import { onoff } from './onoff.js';
import { short } from './short.js';
import { web } from './web.js';

const all: readonly TrafficKind[] = [bulk, short, web, chunks, cbr, onoff, flent];

export const trafficKinds: ReadonlyMap<string, TrafficKind> = new Map(all.map((kind) => [kind.kind, kind]));
