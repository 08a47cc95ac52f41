/** The built-in generator (testbed/traffic/tcp-flows.ts): its receivers are woken when much waits, and their buffer starts large. */

import { receiveLowWater, receiveRoom } from '../../testbed/traffic/receive-buffer.js';
import type { Application, Stage } from './application.js';
import { OneConnection } from './one-connection.js';

export const builtin = (stage: Stage): Application => new OneConnection(stage, { lowWaterBytes: receiveLowWater, roomBytes: receiveRoom, readBytes: Infinity });
