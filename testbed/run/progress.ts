/** How far a run or a set has come: virtual seconds done of those planned, and the wall time left by the pace so far. */

import { performance } from 'node:perf_hooks';
import type { AgentLine } from '../records/raw.js';
import type { Plan } from '../plan/plan.js';

export interface RunProgress { readonly phase: string; readonly fraction: number; readonly leftS: number | null }

/** Follows one run's agent lines. Time left is unknown until a few percent of the traffic is through. */
export class ProgressMeter {
  private readonly endNs: number;
  private trafficFrom: number | null = null;
  private phase = 'starting';
  private tNs = 0;

  constructor(plan: Plan, private readonly wallMs: () => number = () => performance.now()) {
    this.endNs = plan.warmupNs + plan.durationNs;
  }

  line(line: AgentLine): void {
    if (line.type !== 'progress') return;
    this.phase = line.phase === 'setup' ? 'setting up' : line.phase;
    if (line.phase === 'traffic') {
      this.trafficFrom ??= this.wallMs();
      this.tNs = line.tNs;
    }
  }

  analysing(): void {
    this.phase = 'analysing';
  }

  read(): RunProgress {
    const fraction = Math.min(1, this.tNs / this.endNs);
    const spentS = this.trafficFrom === null ? 0 : (this.wallMs() - this.trafficFrom) / 1000;
    return { phase: this.phase, fraction, leftS: fraction > 0.02 ? (spentS / fraction) * (1 - fraction) : null };
  }
}

/** `3:05`, `1:02:00` */
export function clockTime(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  const minutes = Math.floor(whole / 60);
  const tail = String(whole % 60).padStart(2, '0');
  return minutes < 60 ? `${minutes}:${tail}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}:${tail}`;
}
