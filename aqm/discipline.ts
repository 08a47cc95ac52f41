/** What every discipline has in common: the counters, and defaults for those that neither shape nor keep a timer, and decide when they are asked. */

import type { AqmContext, DropReason, QueueDiscipline, QueuedPacket } from './aqm.js';
import type { Params } from './params.js';

export abstract class Discipline implements QueueDiscipline {
  backlogPackets = 0;
  backlogBytes = 0;
  marks = 0;
  readyNs = Infinity;
  timerNs = Infinity;
  /** Chosen by `peek` and not yet taken. */
  private peeked: QueuedPacket | null = null;

  constructor(protected readonly context: AqmContext) {}

  abstract enqueue(packet: QueuedPacket, nowNs: number): void;
  abstract dequeue(nowNs: number): QueuedPacket | null;
  change?(params: Params, nowNs: number): void;

  /** qdisc_peek_dequeued(): what `dequeue` gives now waits on, outside the algorithm but counted. */
  peek(nowNs: number): QueuedPacket | null {
    if (this.peeked === null) {
      const packet = this.dequeue(nowNs);
      if (packet === null) return null;
      this.peeked = packet;
      this.backlogPackets++;
      this.backlogBytes += packet.size;
    }
    return this.peeked;
  }

  /** qdisc_dequeue_peeked() */
  dequeuePeeked(nowNs: number): QueuedPacket | null {
    return this.takePeeked() ?? this.dequeue(nowNs);
  }

  private takePeeked(): QueuedPacket | null {
    const packet = this.peeked;
    if (packet === null) return null;
    this.peeked = null;
    this.backlogPackets--;
    this.backlogBytes -= packet.size;
    return packet;
  }

  /**
   * The loop that ends Linux's change functions: drops what waits as long as `over`, the peeked packet first.
   * @param take the next one, or null when that is all it can have
   */
  protected dropWhile(over: () => boolean, take: () => QueuedPacket | null, reason: DropReason, nowNs: number): void {
    while (over()) {
      const packet = this.takePeeked() ?? take();
      if (packet === null) return;
      this.context.drop(packet, reason, nowNs);
    }
  }

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
