/**
 * The process's end at once. `process.exit` waits for worker threads, and one that is inside a database or a file
 * system call then aborts the process (an exception of a native module) or is waited for without end. Here the clean-up of JavaScript runs
 * (`exit` listeners: child processes, temporary folders) and then the C library's `_exit`, which waits for nobody.
 */

import { createRequire } from 'node:module';
import type koffi from 'koffi';

type Koffi = typeof koffi;

/** @param code exit code */
export function endNow(code: number): never {
  try {
    process.emit('exit', code);
  } finally {
    (createRequire(import.meta.url)('koffi') as Koffi).load(null).func('void _exit(int)')(code);
  }
  throw new Error('_exit came back');
}
