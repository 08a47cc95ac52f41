/**
 * Folders that are gone when the process has ended. Who makes one removes it when done; this is for the other ends: mocha runs no `after`
 * of a suite from which --grep leaves nothing, and Ctrl-C runs no `finally`.
 */

import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

const made = new Set<string>();

export function temporaryFolder(prefix: string, under = os.tmpdir()): string {
  if (made.size === 0) process.once('exit', () => { for (const folder of made) fs.rmSync(folder, { recursive: true, force: true }); });
  const folder = fs.mkdtempSync(path.join(under, prefix));
  made.add(folder);
  return folder;
}
