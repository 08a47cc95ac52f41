/**
 * influx.json in a run's folder: which records each server has acknowledged, so that what is left (the spool: the rows in raw/ beyond
 * these positions) can be sent later. Never holds a token. Tags and start are kept too, so that points stay the same ones when the folder is renamed.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { writeJsonAtomically } from '../records/run-json.js';
import type { RunTags } from './points.js';

/** Rows acknowledged, by file. */
export type Positions = Readonly<Record<string, number>>;

export interface Ledger {
  readonly schema: 1;
  readonly tags: RunTags;
  /** Run time 0 on the wall clock, ns since 1970. */
  readonly startNs: string;
  /** By `targetOf` the server. */
  readonly acknowledged: Readonly<Record<string, Positions>>;
}

export const ledgerName = 'influx.json';

/** @returns null when nothing was sent yet. @throws UserError when it cannot be read */
export function readLedger(runDir: string): Ledger | null {
  const file = path.join(runDir, ledgerName);
  let text: string;
  try {
    text = fs.readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new UserError(`${file}: cannot be read (${String((error as NodeJS.ErrnoException).code)})`);
  }
  try {
    const ledger = JSON.parse(text) as Partial<Ledger> | null;
    if (ledger?.schema === 1 && typeof ledger.startNs === 'string' && typeof ledger.tags === 'object' && typeof ledger.acknowledged === 'object') return ledger as Ledger;
  } catch {
    // said below
  }
  throw new UserError(`${file} is damaged or of another version of testbed; remove it and everything is sent again, which leaves no duplicates`);
}

export const writeLedger = (runDir: string, ledger: Ledger): void => writeJsonAtomically(path.join(runDir, ledgerName), ledger);
