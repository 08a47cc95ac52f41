/** What every discipline has in common: the counters, and a default for those that neither shape nor keep a timer. */

import type { AqmContext, QueueDiscipline, QueuedPacket } from './aqm.js';

export abstract class Discipline implements QueueDiscipline {
  backlogPackets = 0;
  backlogBytes = 0;
  marks = 0;
  readyNs = Infinity;
  timerNs = Infinity;

  constructor(protected readonly context: AqmContext) {}

  abstract enqueue(packet: QueuedPacket, nowNs: number): void;
  abstract dequeue(nowNs: number): QueuedPacket | null;

  /** Never called while timerNs is Infinity. */
  tick(nowNs: number): void {
    void nowNs;
  }
  /** For kinds without state columns. */
  readState(into: Float64Array, nowNs: number): void {
    void into;
    void nowNs;
  }
}
