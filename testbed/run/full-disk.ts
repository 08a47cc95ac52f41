/**
 * A run on a disk that fills up. Some room is set aside when the run starts, so that its end can still be written to
 * run.json; and whether the disk is full is asked of it, for who failed by it may have had no room to say so.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';

const reserveName = '.reserve';
const reserveBytes = 256 * 1024;
/** Less room than this is none. */
const fullBytes = 64 * 1024;

/** Whether an error says that a disk is full: Node's and DuckDB's ways. */
export function isDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? error.code : undefined;
  return code === 'ENOSPC' || code === 'EDQUOT' || /no space left on device|disk quota exceeded/i.test(error.message);
}

export const diskFullMessage = (folder: string): string => `the disk that holds ${folder} is full: records are cut off here. Free some space or choose another folder (--out), then run again.`;

/** Sets room aside in a run folder. @throws the file system's error when there is none */
export function reserve(runDir: string): void {
  fs.writeFileSync(path.join(runDir, reserveName), Buffer.alloc(reserveBytes, 1));
}

/** Gives it back. @returns whether the disk was full but for it */
export function releaseReserve(runDir: string): boolean {
  let full = false;
  try {
    const { bavail, bsize } = fs.statfsSync(runDir);
    full = bavail * bsize < fullBytes;
  } catch {
    // gone: the next write says so
  }
  fs.rmSync(path.join(runDir, reserveName), { force: true });
  return full;
}
