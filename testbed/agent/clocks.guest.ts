/** Run in a guest: CLOCK_REALTIME at monotonic 0, found three times. */

import { realtimeAt } from './clocks.js';

console.log(JSON.stringify(Array.from({ length: 3 }, () => String(realtimeAt(0, 'virtual')))));
