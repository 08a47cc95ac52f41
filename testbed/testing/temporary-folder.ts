/**
 * Temporary folders of tests and measurements. Whoever makes one removes it when it is through; what is there still when the
 * process ends is removed then, by Ctrl-C or SIGTERM too.
 */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

const made = new Set<string>();

/** @returns a new, empty folder, whose name begins with `prefix`. @param under an existing folder */
export function temporaryFolder(prefix: string, under = os.tmpdir()): string {
  if (made.size === 0) {
    process.on('exit', removeAll);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  }
  const folder = fs.mkdtempSync(path.join(under, prefix));
  made.add(folder);
  return folder;
}

function removeAll(): void {
  for (const folder of made) {
    try {
      fs.rmSync(folder, { recursive: true, force: true, maxRetries: 2 });
    } catch {
      // a mount in it, or someone who still writes: the others are removed all the same
    }
  }
}

/** Where another listens too (mocha for SIGINT, a command under test), it decides whether the process ends; then `exit` follows. */
function onSignal(signal: NodeJS.Signals): void {
  if (process.listenerCount(signal) > 1) return;
  removeAll();
  process.off(signal, onSignal);
  process.kill(process.pid, signal);
}
