/** The congestion controls by Linux's name: one line each. */

import type { Random } from '../random.js';
import { Bbr } from './bbr.js';
import type { CongestionControl } from './congestion.js';
import { Cubic } from './cubic.js';
import { Dctcp } from './dctcp.js';
import { Reno } from './reno.js';

/** One object a flow. @param random for controls that draw (BBR's phase) */
export const congestionControls: ReadonlyMap<string, (random: Random) => CongestionControl> = new Map<string, (random: Random) => CongestionControl>([
  ['reno', () => new Reno()],
  ['cubic', () => new Cubic()],
  ['bbr', (random) => new Bbr(random)],
  ['dctcp', () => new Dctcp()],
]);
