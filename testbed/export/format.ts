/**
 * What an export format is: it takes a run and writes it somewhere else, as files through `ExportRequest.output` or, for a
 * format that sends (a database server), without any. A new one is one file and one line in registry.ts.
 */

import type { Plan } from '../plan/plan.js';
import type { RunJson } from '../records/run-json.js';
import type { Output } from './output.js';

/** What `--table` may name: the record tables, and the figures in long form. */
export const exportTables = ['flows', 'queue', 'packets', 'probes', 'sockets', 'metrics'] as const;
export type ExportTable = (typeof exportTables)[number];

export interface ExportRequest {
  readonly runId: string;
  readonly runDir: string;
  readonly plan: Plan;
  readonly run: RunJson;
  /** `--table`; null = all the format takes. */
  readonly table: ExportTable | null;
  /** `--bottleneck`: only this direction; null = all. */
  readonly bottleneck: string | null;
  /** Where a file of the run goes: `suffix` tells several files of one run apart (`packets`), '' where there is one. */
  output(suffix: string, extension: string): Promise<Output>;
  readonly signal: AbortSignal;
  onWarning(text: string): void;
}

export interface ExportFormat {
  /** For --help. */
  readonly summary: string;
  /** Tables that `--table` may choose from; empty where it makes no sense. */
  readonly tables: readonly ExportTable[];
  /** One file a run, or one a table: then an export without `--table` makes a folder. */
  readonly files: 'one' | 'table' | 'none';
  /** Whether it knows `--bottleneck`. */
  readonly byBottleneck?: boolean;
  /** @returns lines to tell the user, besides the files written. @throws UserError when the run lacks what the format needs */
  write(request: ExportRequest): Promise<readonly string[]>;
}
