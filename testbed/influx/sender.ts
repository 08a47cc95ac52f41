/**
 * Sends the points of runs to a server: one batch at a time, the oldest records first, trying again with growing pauses while the
 * server is away. It holds one batch in memory and nothing else; what is not acknowledged is in the runs' record files (run-points.ts).
 *
 * When a connection ends, what was acknowledged shortly before is sent again: a server that was killed may have lost it, and a
 * point sent twice is there once.
 */

import type { Batch, RunPoints } from './run-points.js';
import { type Answer, InfluxServer } from './server.js';
import { type InfluxSettings, targetOf } from './settings.js';

export interface SenderTiming {
  /** Bound of one request, ms. */
  readonly requestMs: number;
  /** First pause after a failure, ms; doubled up to the longest. */
  readonly pauseMs: number;
  readonly longestPauseMs: number;
  /** How often growing files are looked at, ms. */
  readonly pollMs: number;
  /** After the last run: how long a server in trouble is waited for, ms, from when its trouble began … */
  readonly patienceMs: number;
  /** … and one that takes its time, ms; one that keeps taking points briskly is let go on. */
  readonly closeMs: number;
  /** Points a second that are not slow. */
  readonly briskPerSecond: number;
  /** What was acknowledged so long before a connection ended counts as safe, ms. victoria-metrics writes to disk each 5 s. */
  readonly safeMs: number;
}
export const liveTiming: SenderTiming = { requestMs: 10_000, pauseMs: 500, longestPauseMs: 30_000, pollMs: 500, patienceMs: 5_000, closeMs: 60_000, briskPerSecond: 2000, safeMs: 15_000 };

export interface SenderTotals {
  /** Points acknowledged. */
  readonly sent: number;
  readonly pending: number;
  /** Folders that have points left. */
  readonly left: readonly string[];
  /** What was wrong last; null when all went well. */
  readonly trouble: string | null;
}

/** Lines of a batch, as InfluxData advises. */
const batchLines = 5000;

export class Sender {
  private readonly runs: RunPoints[] = [];
  private readonly server: InfluxServer;
  private turn = 0;
  private limit = batchLines;
  private trouble: string | null = null;
  /** When the trouble began, performance.now(); null while all is well. */
  private troubledSince: number | null = null;
  private failures = 0;
  private refused = false;
  private warned = false;
  private closingSince: number | null = null;
  private closing: Pick<SenderTiming, 'patienceMs' | 'closeMs' | 'briskPerSecond'>;
  private triedSinceClose = false;
  private acknowledgedSinceClose = 0;
  private stopped = false;
  private wake: (() => void) | null = null;

  /**
   * @param onWarning called once at most; `final`: it is not tried any more
   */
  constructor(private readonly settings: InfluxSettings, private readonly onWarning: (message: string, final: boolean) => void, private readonly timing: SenderTiming = liveTiming) {
    this.server = new InfluxServer(settings, timing.requestMs);
    this.closing = timing;
  }

  add(run: RunPoints): void {
    this.runs.push(run);
    this.wake?.();
  }

  /** The run's records are whole. */
  end(runDir: string): void {
    const run = this.runs.find((each) => each.runDir === runDir);
    if (run !== undefined) run.ended = true;
    this.wake?.();
  }

  /** No more runs: `work` returns when everything is sent, or the server has had its time. */
  close(within: Partial<Pick<SenderTiming, 'patienceMs' | 'closeMs' | 'briskPerSecond'>> = {}): void {
    this.closing = { ...this.closing, ...within };
    this.closingSince ??= performance.now();
    this.wake?.();
  }

  /** At once. */
  stop(): void {
    this.stopped = true;
    this.wake?.();
  }

  async work(): Promise<SenderTotals> {
    try {
      while (!this.stopped) {
        if (this.refused) {
          if (this.closingSince !== null) break;
          await this.pause(this.timing.pollMs); // what the runs record meanwhile is counted as left
          continue;
        }
        const endedMs = this.server.takeConnectionEnded();
        if (endedMs !== null) this.rewind(endedMs);
        const next = this.nextBatch();
        if (next === null) {
          if (this.closingSince !== null) break;
          await this.pause(this.timing.pollMs);
          continue;
        }
        if (this.outOfPatience()) break;
        this.triedSinceClose = this.closingSince !== null;
        const began = performance.now();
        const answer = await this.server.write(next.batch.lines);
        const waitMs = this.settle(answer, began, next);
        // Whoever asked for a pause gets it; one for the rest of our patience is none.
        if (waitMs > 0) await this.pauseUnlessClosed(waitMs);
      }
    } finally {
      this.server.close();
    }
    const left = this.runs.filter((run) => run.pending > 0);
    for (const run of left) run.save();
    if (left.length > 0) this.warn(this.trouble ?? 'too slow to take everything in time', true);
    return {
      sent: this.runs.reduce((sum, run) => sum + run.sent, 0), pending: left.reduce((sum, run) => sum + run.pending, 0),
      left: left.map(({ runDir }) => runDir), trouble: left.length > 0 ? this.trouble ?? 'too slow to take everything in time' : null,
    };
  }

  /** From the runs in turn, so that none waits for another's end. */
  private nextBatch(): { readonly run: RunPoints; readonly batch: Batch } | null {
    for (let i = 0; i < this.runs.length; i++) {
      const run = this.runs[(this.turn + i) % this.runs.length]!;
      const batch = run.next(this.limit);
      if (batch === null) continue;
      this.turn = (this.turn + i + 1) % this.runs.length;
      return { run, batch };
    }
    return null;
  }

  /** @returns how long to wait before the next request, ms */
  private settle(answer: Answer, began: number, { run, batch }: { readonly run: RunPoints; readonly batch: Batch }): number {
    switch (answer.kind) {
      case 'stored':
        run.acknowledged(batch, this.timing.safeMs);
        if (this.closingSince !== null) this.acknowledgedSinceClose += batch.lines.length;
        this.failures = 0;
        this.troubledSince = null;
        this.trouble = null;
        return 0;
      case 'too-large':
        this.trouble = answer.message;
        if (batch.lines.length === 1) this.refuse(answer.message);
        else this.limit = Math.max(1, Math.floor(batch.lines.length / 2));
        return 0;
      case 'refused':
        this.refuse(answer.message);
        return 0;
      case 'later': {
        this.trouble = answer.message;
        this.troubledSince ??= began;
        this.failures++;
        if (answer.lost && this.failures === 1) this.rewind(began);
        // A connection may end for no reason of interest: the second time counts.
        if (this.failures > 1 || !answer.lost) this.warn(answer.message, false);
        return answer.waitMs ?? Math.min(this.timing.longestPauseMs, this.timing.pauseMs * 2 ** (this.failures - 1));
      }
    }
  }

  private refuse(message: string): void {
    this.trouble = message;
    this.refused = true;
    this.warn(message, true);
  }

  private rewind(atMs: number): void {
    for (const run of this.runs) run.rewind(atMs - this.timing.safeMs);
  }

  private warn(message: string, final: boolean): void {
    if (this.warned) return;
    this.warned = true;
    this.onWarning(`${targetOf(this.settings)}: ${message}`, final);
  }

  private outOfPatience(): boolean {
    if (this.closingSince === null) return false;
    const now = performance.now();
    if (now < this.patienceEnds()) return false;
    if (this.troubledSince !== null) return true;
    // However loaded this machine is, the server gets its chance.
    return this.triedSinceClose && (1000 * this.acknowledgedSinceClose) / (now - this.closingSince) < this.closing.briskPerSecond;
  }
  private patienceEnds(): number {
    const slow = this.closingSince! + this.closing.closeMs;
    return this.troubledSince === null ? slow : Math.min(slow, this.troubledSince + this.closing.patienceMs);
  }

  private async pauseUnlessClosed(ms: number): Promise<void> {
    const until = performance.now() + ms;
    while (!this.stopped) {
      const now = performance.now();
      const end = this.closingSince === null ? until : Math.min(until, this.patienceEnds());
      if (now >= end) return;
      await this.pause(end - now);
    }
  }

  /** Until then, or until something is new. */
  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.wake = null;
        resolve();
      };
      const timer = setTimeout(done, Math.min(ms, 2 ** 31 - 1));
      this.wake = done;
    });
  }
}
