/** Writing much to a stream: waits while its reader is slower, so that nothing piles up. */

import { once } from 'node:events';
import type { Writable } from 'node:stream';

export const writeAll = (stream: Writable) => async (text: string | Uint8Array): Promise<void> => {
  if (!stream.write(text)) await once(stream, 'drain');
};
