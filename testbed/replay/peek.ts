/**
 * A queue under TBF, which looks at the next packet before it has the tokens for it (tbf_dequeue, net/sched/sch_tbf.c). Most disciplines
 * can show one only by taking it out (qdisc_peek_dequeued): they decide when it is shown, and it then counts as waiting until
 * it is sent. TBF is run after each arrival and after each packet that it sends, so that is when it looks.
 */

import type { QueueDiscipline, QueuedPacket } from '../../aqm/aqm.js';
import { Discipline } from '../../aqm/discipline.js';

export class PeekedQueue implements QueueDiscipline {
  private shown: QueuedPacket | null = null;
  private readonly queue: Discipline;

  constructor(queue: QueueDiscipline) {
    if (!(queue instanceof Discipline)) throw new Error('its backlog cannot be changed from outside');
    this.queue = queue;
  }

  get backlogPackets(): number { return this.queue.backlogPackets; }
  get backlogBytes(): number { return this.queue.backlogBytes; }
  get marks(): number { return this.queue.marks; }
  get readyNs(): number { return this.queue.readyNs; }
  get timerNs(): number { return this.queue.timerNs; }
  tick(nowNs: number): void { this.queue.tick(nowNs); }
  readState(into: Float64Array, nowNs: number): void { this.queue.readState(into, nowNs); }

  enqueue(packet: QueuedPacket, nowNs: number): void {
    this.queue.enqueue(packet, nowNs);
    this.look(nowNs);
  }

  dequeue(nowNs: number): QueuedPacket | null {
    const packet = this.shown ?? this.queue.dequeue(nowNs);
    if (this.shown !== null) {
      this.queue.backlogPackets--;
      this.queue.backlogBytes -= this.shown.size;
      this.shown = null;
    }
    return packet;
  }

  /** TBF is run. It asks an empty queue too, which may note that it is empty (FQ-CoDel's lists). */
  look(nowNs: number): void {
    if (this.shown !== null) return;
    this.shown = this.queue.dequeue(nowNs);
    if (this.shown === null) return;
    this.queue.backlogPackets++;
    this.queue.backlogBytes += this.shown.size;
  }
}
