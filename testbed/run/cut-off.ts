/** Runs of a process that is made to end at once (Ctrl-C twice): their run.json says `incomplete`, not that they go on. What kills without asking (-9) leaves `running`, and the dead owner tells. */

import { readRunJson, writeRunJson } from '../records/run-json.js';
import { releaseReserve } from './full-disk.js';

const going = new Set<string>();

function mark(): void {
  for (const runDir of going) {
    const run = readRunJson(runDir);
    // Whatever has an end already keeps it.
    if (run?.status !== 'running') continue;
    const { owner: _owner, ...what } = run;
    try {
      releaseReserve(runDir);
      writeRunJson(runDir, { ...what, status: 'incomplete', ended: new Date().toISOString(), error: 'ended at once, before its records were read: they are in raw/' });
    } catch {
      // The folder is gone, or its disk is full: the dead owner tells.
    }
  }
}

/** @returns what to call when the run has ended by itself */
export function markedWhenCutOff(runDir: string): () => void {
  if (going.size === 0) process.on('exit', mark);
  going.add(runDir);
  return () => {
    going.delete(runDir);
    if (going.size === 0) process.off('exit', mark);
  };
}
