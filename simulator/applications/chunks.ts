/** The built-in generator where it pauses (`kind: chunks`): each chunk is written at its time, behind what was written before, and its stop time closes. */

import { Alarm } from '../alarm.js';
import type { EventQueue } from '../events.js';
import type { Reading } from '../tcp/receiver.js';
import type { Stage } from './application.js';
import { OneConnection } from './one-connection.js';

export class ChunkedConnection extends OneConnection {
  private readonly events: EventQueue;
  private readonly alarm: Alarm;
  private next = 0;

  /** @param chunks [time in ns, payload bytes], ascending; the first not before the flow's start */
  constructor(stage: Stage, reading: Reading, private readonly chunks: readonly (readonly [number, number])[]) {
    super(stage, reading);
    this.events = stage.network.events;
    this.alarm = new Alarm(this.events, () => this.write());
    this.connection.sender.awaitChunks();
  }

  override start(): void {
    super.start();
    this.write();
  }
  private write(): void {
    for (; this.next < this.chunks.length; this.next++) {
      const [atNs, bytes] = this.chunks[this.next]!;
      if (atNs > this.events.now) {
        this.alarm.set(atNs);
        return;
      }
      this.connection.sender.offer(bytes);
    }
  }
  override stop(): void {
    this.alarm.cancel();
    super.stop();
  }
  override release(): void {
    super.release();
    this.alarm.release();
  }
}
