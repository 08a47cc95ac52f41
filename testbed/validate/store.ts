/**
 * The runs of a validation on disk, each in a folder named by what it is: `<out>/runs/<scenario>/<varied>-seed1-kernel-<key>`. The
 * key is a hash of plan, engine, kernel and code, so a finished, identical run is found and not run again. A run is made in a
 * folder of its own (`….part-<pid>`) and renamed when it has ended: whatever stops it, the store never holds half of one.
 */

import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { readMetrics } from '../analysis/summary.js';
import type { EngineName } from '../expect/parse.js';
import { planHash } from '../plan/hash.js';
import type { Plan } from '../plan/plan.js';
import { readRunJson } from '../records/run-json.js';
import { runFolderName } from '../run/run-folder.js';

export interface StoredRun {
  readonly folder: string;
  /** Ended before, with figures: `complete`, or `invalid` (which it would be again). */
  readonly done: boolean;
}

/** What is the same in identical runs beside the plan. */
export interface Making { readonly engine: EngineName; readonly machine: string; readonly clock: 'virtual' | 'real'; readonly kernel: string; readonly code: string }

export class Store {
  readonly #folder: string;

  /** @param out the results folder of the validation */
  constructor(out: string) {
    this.#folder = path.resolve(out, 'runs');
  }

  find(plan: Plan, making: Making): StoredRun {
    const key = createHash('sha256').update(JSON.stringify([planHash(plan), making.engine, making.machine, making.clock, making.kernel, making.code])).digest('hex').slice(0, 12);
    const folder = path.join(this.#folder, plan.name, `${runFolderName(plan)}-${making.engine}-${key}`);
    const status = readRunJson(folder)?.status;
    return { folder, done: (status === 'complete' || status === 'invalid') && readMetrics(folder) !== null };
  }

  /** Where a run is made. */
  partOf(folder: string): string {
    return `${folder}.part-${process.pid}`;
  }

  /** An ended run takes its place; one that was interrupted goes. */
  keep(folder: string, part: string): void {
    if (readRunJson(part)?.status === 'incomplete') {
      fs.rmSync(part, { recursive: true, force: true });
      return;
    }
    fs.rmSync(folder, { recursive: true, force: true });
    fs.renameSync(part, folder);
  }

  /** Removes what a validation that was killed left half done. */
  sweep(): void {
    for (const scenario of folders(this.#folder)) {
      for (const name of folders(path.join(this.#folder, scenario))) {
        const pid = /\.part-(\d+)$/.exec(name)?.[1];
        if (pid !== undefined && !alive(Number(pid))) fs.rmSync(path.join(this.#folder, scenario, name), { recursive: true, force: true });
      }
    }
  }

  /** Takes away the records of single packets, which are most of a run's bytes; figures, samples and plan stay. */
  static dropRecords(folder: string): void {
    fs.rmSync(path.join(folder, 'packets.parquet'), { force: true });
    const raw = path.join(folder, 'raw');
    for (const name of fs.existsSync(raw) ? fs.readdirSync(raw) : []) if (name.endsWith('.rec')) fs.rmSync(path.join(raw, name), { force: true });
  }
}

function folders(folder: string): string[] {
  return fs.existsSync(folder) ? fs.readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name) : [];
}

function alive(pid: number): boolean {
  if (pid === process.pid) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
