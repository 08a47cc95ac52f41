/** bfifo: first in, first out, limited in bytes. No `limit`: the device's txqueuelen (1000 packets times its MTU, on veth). */

import { fifo } from './pfifo.js';
import { zBytes } from './schemas.js';

export const bfifo = fifo('bfifo', zBytes);
