/**
 * A timer that is set again from the clock as its handler reads it (DualPI2's: ktime_get_ns() + tupdate): whenever it goes off late, by whole steps of the clock,
 * all that follow come later by as much. Each update shows in the samples when it came, to the step: the delay that it saw grows with time, and with it what the
 * update adds to the probability. (Where the probability stays 0 nothing shows; the next that does makes up for it.)
 */

import type { QueueDiscipline } from '../../aqm/aqm.js';
import type { QueueSamples } from './samples.js';

const clockStep = 256;
/** Steps that one update may come late; by how much of what a step makes an update may differ; what rounding leaves of a probability. */
const mostSteps = 40, sameStep = 0.4, rounding = 1e-9;
/** Samples so long after an update are of after it. */
const surelyNs = mostSteps * clockStep + 2_000;

export class Slips {
  private readonly column: number;
  private row = 0;
  private steps = 0;
  /** The probability after the last update, ours and the kernel's. */
  private ours = 0;
  private kernels = 0;

  /** @param originNs the queue's clock at run time 0 */
  constructor(private readonly queue: QueueDiscipline, private readonly samples: QueueSamples, column: string, private readonly originNs: number) {
    this.column = samples.columns.indexOf(column);
  }

  /** When the update that is due comes, if that is by `toNs`, before anything else happens; null: later. */
  next(toNs: number): number | null {
    const dueNs = this.queue.timerNs;
    const shown = this.shown(dueNs);
    for (; this.steps <= mostSteps && shown !== null; this.steps++) {
      const atNs = dueNs + this.steps * clockStep;
      if (atNs > toNs) return null;
      const after = this.queue.afterTick!(atNs), ofStep = this.queue.afterTick!(atNs + clockStep) - after;
      if (ofStep === 0 || Math.abs(after - this.ours - (shown - this.kernels)) <= Math.max(rounding, sameStep * ofStep)) return this.found(atNs, shown);
      if (atNs === toNs) return null; // it may come after what happens at that time
    }
    return this.found(dueNs, shown);
  }

  private found(atNs: number, shown: number | null): number {
    this.steps = 0;
    this.ours = this.queue.afterTick!(atNs);
    this.kernels = shown ?? this.ours;
    return atNs;
  }

  /** The kernel's column after that update; null: no sample before the next. */
  private shown(dueNs: number): number | null {
    const { rows } = this.samples;
    const fromNs = dueNs - this.originNs + surelyNs;
    while (this.row < rows.length && rows[this.row]![0]! < fromNs) this.row++;
    const row = rows[this.row];
    return row === undefined || row[0]! > fromNs + sampledNs ? null : row[this.column]!;
  }
}

/** The next update is further away than this. */
const sampledNs = 1_500_000;
