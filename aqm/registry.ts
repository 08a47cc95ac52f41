/** Every queue discipline of aqm/, by name. */

import type { AqmKind } from './aqm.js';

const all: readonly AqmKind[] = [];

export const aqms: ReadonlyMap<string, AqmKind> = new Map(all.map((aqm) => [aqm.kind, aqm]));
