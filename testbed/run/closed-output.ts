/**
 * A terminal that was closed, or a reader such as `head` that has read enough. For a command whose result is its output
 * that is the end, and no error. While runs go on, their result is in their folders: they go to their end unseen.
 */

import { endNow } from './end-now.js';

let going = 0;

/** Until the returned function is called, closed output does not end the process. */
export function keepGoing(): () => void {
  going += 1;
  let released = false;
  return () => {
    if (!released) going -= 1;
    released = true;
  };
}

/** EPIPE: the reader is gone; EIO, ENXIO: the terminal is. */
const closed: ReadonlySet<string | undefined> = new Set(['EPIPE', 'EIO', 'ENXIO', 'ERR_STREAM_DESTROYED']);

export function watchOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (!closed.has(error.code)) throw error;
      if (going === 0) endNow(typeof process.exitCode === 'number' ? process.exitCode : 0);
    });
  }
}
