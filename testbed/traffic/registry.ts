/** Traffic tools by the name a scenario's `tool:` has: one line each. */

import type { TrafficFactory } from '../agent/context.js';
import { builtin } from './builtin.js';
import { flent } from './flent.js';
import { iperf3 } from './iperf3.js';

export const traffic: Readonly<Record<string, TrafficFactory>> = { builtin, iperf3, flent };
