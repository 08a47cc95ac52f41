/** netperf's streams, which flent's tests are made of (testbed/traffic/flent.ts): read as they come, from a buffer that starts at tcp_rmem[1]. Its control connection is left out. */

import type { Application, Stage } from './application.js';
import { OneConnection } from './one-connection.js';

export const netperf = (stage: Stage): Application => new OneConnection(stage, { lowWaterBytes: 1, roomBytes: 0, readBytes: Infinity, atOnce: true });
