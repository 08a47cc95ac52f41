/** The built-in generator (testbed/traffic/tcp-flows.ts): its receivers are woken when much waits, and their buffer starts large. */

import { receiveLowWater, receiveRoom } from '../../testbed/traffic/receive-buffer.js';
import type { Application, Stage } from './application.js';
import { ChunkedConnection } from './chunks.js';
import { OneConnection } from './one-connection.js';

const reading = { lowWaterBytes: receiveLowWater, roomBytes: receiveRoom, readBytes: Infinity, atOnce: true };

export const builtin = (stage: Stage): Application => (stage.plan.chunks === undefined ? new OneConnection(stage, reading) : new ChunkedConnection(stage, reading, stage.plan.chunks));
