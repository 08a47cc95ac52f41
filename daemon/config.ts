/**
 * What the daemon's process is told: plain JSON, written by the agent (raw/daemon.json of a run) or by `testbed daemon`.
 * Everything is resolved already: parameters validated, units in ns, bytes and bits/s, devices by index.
 */

import type { PlanDirection, PlanEvent, PlanFlow, PlanProbe } from '../testbed/plan/plan.js';
import type { WatchedDevice } from './device-watch.js';
import type { PaceReport } from './pace.js';

export interface DaemonDirection {
  readonly direction: PlanDirection;
  readonly mtuBytes: number;
  /** Where its packets come in and go out: interface indices (`packet`), or positions in `tuns` (`tun`). */
  readonly in: number;
  readonly out: number;
  /** Queue samples and packet records are written. */
  readonly record: boolean;
}

export interface DaemonConfig {
  readonly schema: 1;
  /** `packet`: a packet socket on the devices of this network namespace, which carry nothing else. `tun`: TUN devices made by the daemon. */
  readonly port: 'packet' | 'tun';
  /** For `tun`: names of the devices to make. */
  readonly tuns: readonly string[];
  /** Devices without which it is of no use: it ends when one of them is gone. */
  readonly watch: readonly WatchedDevice[];
  readonly clock: 'virtual' | 'real';
  readonly seed: number;
  readonly directions: readonly DaemonDirection[];
  /** Changes at a time of the run; of directions above only. */
  readonly events: readonly PlanEvent[];
  /** null: nothing is recorded. */
  readonly records: {
    readonly folder: string;
    readonly packets: boolean;
    /** Between queue samples, ns; null: only when the window opens and closes. */
    readonly queueIntervalNs: number | null;
    readonly warmupNs: number;
    readonly endNs: number;
    readonly flows: readonly PlanFlow[];
    readonly probes: readonly PlanProbe[];
  } | null;
  /** A line of statistics on standard output this often, ns; null: none. */
  readonly statisticsNs: number | null;
  /** Real time: reads the clock in a loop for this long before a packet is due instead of sleeping, ns. Costs processor time. 0 in virtual time. */
  readonly spinNs: number;
  /** Of all packets held, bytes. */
  readonly memoryBytes: number;
}

/** What the daemon says on standard output, a JSON object a line. */
export type DaemonLine =
  /** Devices are open: packets pass from here on. */
  | { readonly type: 'ready'; readonly tuns: readonly string[]; readonly realTimePriority: boolean }
  /** It cannot start, or go on. */
  | { readonly type: 'error'; readonly message: string }
  | { readonly type: 'statistics' } & DaemonStatistics
  /** The last line. */
  | { readonly type: 'summary' } & DaemonSummary;

export interface DirectionStatistics {
  readonly name: string;
  readonly rateBps: number | null;
  readonly arrivedPackets: number;
  readonly sentPackets: number;
  readonly sentBytes: number;
  readonly drops: number;
  readonly marks: number;
  readonly backlogPackets: number;
  readonly backlogBytes: number;
  /** Lost on purpose, by the wire. */
  readonly lost: number;
  /** Dropped by the wire for want of room. */
  readonly overflowed: number;
  /** Time in the queue of the packets that left since the statistics before, ns. */
  readonly sojournMeanNs: number;
  readonly sojournP99Ns: number;
  readonly sojournMaxNs: number;
}
export interface LatenessReport { readonly packets: number; readonly p50Ns: number; readonly p99Ns: number; readonly maxNs: number }
export interface DaemonStatistics {
  readonly directions: readonly DirectionStatistics[];
  /** How much later than due packets were handed over, since the start of the run. */
  readonly lateness: LatenessReport;
  /** Whether the processor kept its speed meanwhile, and how late packets were while it did and had for 20 ms; null in virtual time. */
  readonly pace: (PaceReport & { readonly lateness: LatenessReport }) | null;
  readonly faults: Faults;
}
export interface Faults {
  /** Packets the kernel's ring had no room for. */
  readonly ringLost: number;
  /** Packets that found no slot: memoryBytes. */
  readonly noSlot: number;
  /** Packets longer than the MTU: an offload was on. Not passed on. */
  readonly superpackets: number;
  /** Packets whose checksum the sender left to a device. */
  readonly unfinishedChecksums: number;
  /** The kernel did not take a packet. */
  readonly notSent: number;
  /** errno of the last of those. */
  readonly lastErrno: number;
}
export type DaemonSummary = DaemonStatistics;
