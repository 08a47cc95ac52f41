/** Follows raw/agent.jsonl while the agent appends to it: each whole line, parsed, once. */

import { closeSync, openSync, readSync } from 'node:fs';
import type { AgentLine } from '../records/raw.js';

export class AgentLines {
  #fd: number | null = null;
  #closed = false;
  #partial = Buffer.alloc(0);
  readonly #chunk = Buffer.alloc(65536);
  /** Lines so far. */
  count = 0;
  /** Message of the first finding of level `failed`. */
  failure: string | null = null;
  /** ns of the run at the last progress line. */
  lastNs = 0;

  constructor(readonly file: string, readonly onLine: (line: AgentLine) => void) {}

  /** Takes what was appended since the last call. A line that is not JSON (a write cut off by a kill) is passed over. */
  read(): void {
    if (this.#closed) return;
    if (this.#fd === null) {
      try {
        this.#fd = openSync(this.file, 'r');
      } catch {
        return; // not there yet
      }
    }
    for (let n; (n = readSync(this.#fd, this.#chunk, 0, this.#chunk.length, null)) > 0;) {
      this.#partial = Buffer.concat([this.#partial, this.#chunk.subarray(0, n)]);
      for (let end; (end = this.#partial.indexOf(10)) >= 0;) {
        this.#take(this.#partial.subarray(0, end).toString('utf8'));
        this.#partial = this.#partial.subarray(end + 1);
      }
    }
  }

  #take(text: string): void {
    let line: AgentLine;
    try {
      line = JSON.parse(text) as AgentLine;
    } catch {
      return;
    }
    this.count++;
    if (line.type === 'finding' && line.level === 'failed') this.failure ??= line.message as string;
    if (line.type === 'progress') this.lastNs = line.tNs as number;
    this.onLine(line);
  }

  /** Reads the rest and closes. */
  close(): void {
    this.read();
    this.#closed = true;
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}
