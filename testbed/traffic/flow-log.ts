/**
 * raw/flows.jsonl: a FlowRow a line when a flow ends, kept in memory until the next flush (each second of run
 * time), so that a crash loses at most a second. A later line for the same flow replaces an earlier one.
 */

import * as fs from 'node:fs';
import type { AgentContext } from '../agent/context.js';
import type { FlowRow } from '../records/raw.js';

export class FlowLog {
  private readonly fd: number;
  private pending = '';

  constructor(context: AgentContext) {
    this.fd = fs.openSync(context.raw('flows.jsonl'), 'a');
    context.loop.every(1e9, 1e9, Infinity, () => this.flush());
  }

  append(row: FlowRow): void {
    this.pending += `${JSON.stringify(row)}\n`;
    if (this.pending.length > 65536) this.flush();
  }

  /** @throws the file system's error (ENOSPC …) */
  flush(): void {
    if (this.pending === '') return;
    const bytes = Buffer.from(this.pending);
    for (let from = 0; from < bytes.length;) from += fs.writeSync(this.fd, bytes, from);
    this.pending = '';
  }

  close(): void {
    this.flush();
    fs.closeSync(this.fd);
  }
}

/** A flow's row while it is being filled in. */
export type FlowDraft = { -readonly [K in keyof FlowRow]: FlowRow[K] };

export const emptyRow = (id: number): FlowDraft => ({
  id, t_start: null, t_connected: null, t_end: null, bytes: null, bytes_sent: null, packets_sent: null, packets_lost: null, packets_duplicated: null,
  bytes_at_warmup: null, bytes_at_end: null, retransmits: null, retransmits_at_warmup: null, retransmits_at_end: null,
  status: 'not-started', error: null,
});
