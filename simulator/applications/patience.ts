/**
 * When iperf3 notices its peer's messages. With a stream it could write to and does not, its select() returns at once, and it polls; in virtual time
 * kernel/patient.c lets it wait ever longer between: no time for the first four calls after a byte was read or written, then 0.1, 0.2, 0.4,
 * 0.8 and from then on 1 ms. A call sees what is there when it begins, and returns after the pause: a message is read a pause after the first call that saw it.
 */

import { Alarm } from '../alarm.js';
import type { EventQueue } from '../events.js';

/** What the clock reads of a call cost in the guest, ns: as seen, 65 to 184 calls. It decides at which part of a millisecond the data begin. */
const callNs = 650;
const firstPauses = [0.1e6 + callNs, 0.2e6 + callNs, 0.4e6 + callNs, 0.8e6 + callNs] as const;
const longestPause = 1e6 + callNs;

/** @param fromNs since when it polls. @returns when what arrives at `arrivalNs` is read, ns */
export function noticedNs(fromNs: number, arrivalNs: number): number {
  let call = fromNs;
  if (arrivalNs <= call) return arrivalNs;
  for (const pause of firstPauses) {
    const next = call + pause;
    if (call >= arrivalNs) return next;
    call = next;
  }
  return call + (Math.max(0, Math.ceil((arrivalNs - call) / longestPause)) + 1) * longestPause;
}

export class Patience {
  private readonly alarm: Alarm;
  /** Since when it polls, ns; NaN: it sleeps until a message comes. */
  private fromNs = NaN;

  /** @param read reads a message and acts on it; false when there was none */
  constructor(private readonly events: EventQueue, private readonly read: () => boolean) {
    this.alarm = new Alarm(events, () => this.readAll());
  }

  /** It polls from now on. */
  spin(): void { this.fromNs = this.events.now; }
  /** It sleeps, or does something else, until a message comes. */
  rest(): void { this.fromNs = NaN; }

  /** A message is there. */
  arrived(): void {
    if (this.alarm.pending) return;
    if (this.fromNs >= 0) this.alarm.set(noticedNs(this.fromNs, this.events.now));
    else this.readAll();
  }

  private readAll(): void {
    // Having read a byte it polls anew.
    while (this.read()) if (this.fromNs >= 0) this.spin();
  }

  release(): void { this.alarm.release(); }
}
