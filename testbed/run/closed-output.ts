/**
 * A terminal that was closed, or a reader such as `head` that has read enough. For a command whose result is its output
 * that is the end, and no error. While runs go on, their result is in their folders: they go to their end unseen. What has to put
 * something back first (a router's rules) is told.
 */

import { endNow } from './end-now.js';

const told: (() => void)[] = [];

/** @param act called instead of ending the process, until the returned function is called */
export function whenOutputCloses(act: () => void): () => void {
  told.push(act);
  return () => {
    const at = told.indexOf(act);
    if (at >= 0) told.splice(at, 1);
  };
}

/** EPIPE: the reader is gone; EIO, ENXIO: the terminal is. */
const closed: ReadonlySet<string | undefined> = new Set(['EPIPE', 'EIO', 'ENXIO', 'ERR_STREAM_DESTROYED']);

/** For the whole command, once. */
export function watchOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (!closed.has(error.code)) throw error;
      if (told.length === 0) endNow(typeof process.exitCode === 'number' ? process.exitCode : 0);
      for (const act of [...told]) act();
    });
  }
}
