/** Where real packets come from and go to: the seam between the packet loop and the kernel. */

import type { Slot } from './slots.js';

export interface PortFaults { readonly ringLost: number; readonly superpackets: number; readonly unfinishedChecksums: number }

export interface Port {
  /** To be polled for reading. */
  readonly fds: readonly number[];
  /** Packets carry the kernel's own time of arrival, so that they may be fetched later than they came. */
  readonly timestamped: boolean;
  /** Bytes a slot must have. */
  readonly slotBytes: number;
  /**
   * Fetches the next packet that waits: its bytes (IP header at `ipAt`), `length`, `from`, `opaque`.
   * @returns when it came, ns of CLOCK_MONOTONIC (`nowNs` where the kernel does not say), or −1 when none waits
   */
  receive(slot: Slot, nowNs: number): number;
  /** @returns 0, or −errno when the kernel did not take it */
  send(slot: Slot, out: number): number;
  /** Each second or so: clocks may have been set. */
  upkeep(): void;
  faults(): PortFaults;
  close(): void;
}
