/** Sources of records: one file and one line each. Started in this order, stopped in this order. */

import type { CollectorFactory } from '../testbed/agent/context.js';
import { packets } from './packets.js';
import { probes } from './probes.js';
import { queue } from './queue.js';
import { sockets } from './sockets.js';

export const collectors: readonly CollectorFactory[] = [packets, queue, sockets, probes];
