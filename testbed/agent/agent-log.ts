/**
 * raw/agent.jsonl: what the agent tells the orchestrator while it runs, one AgentLine a line, written at once
 * (an agent that is killed has told all it knew).
 */

import * as fs from 'node:fs';
import type { AgentLine, Finding } from '../records/raw.js';

export class AgentLog {
  private readonly fd: number;
  private readonly worst = new Map<Finding['level'], number>();

  constructor(path: string) {
    this.fd = fs.openSync(path, 'a');
  }

  /** @throws the file system's error (ENOSPC …) */
  write(line: AgentLine): void {
    if (line.type === 'finding') {
      const { level } = line as Finding;
      this.worst.set(level, (this.worst.get(level) ?? 0) + 1);
    }
    const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
    for (let from = 0; from < bytes.length;) from += fs.writeSync(this.fd, bytes, from);
  }

  /** Findings of that level so far. */
  count(level: Finding['level']): number {
    return this.worst.get(level) ?? 0;
  }

  close(): void {
    fs.closeSync(this.fd);
  }
}
