/** The first decision on which the two differ, told with the state of both sides. */

import type { AqmKind, QueueDiscipline } from '../../aqm/aqm.js';
import type { ReplayPacket } from './packet.js';
import type { SampleJudge } from './samples.js';

/** One packet of a disagreement, as the record has it. */
export interface PacketSeen { readonly seq: number; readonly flow: number; readonly forward: boolean; readonly sizeBytes: number; readonly arrivedNs: number }

export interface Disagreement {
  /** ns of the run. */
  readonly tNs: number;
  /** Departures before it that agreed. */
  readonly after: number;
  readonly what: string;
  readonly kernel: PacketSeen | null;
  readonly ours: PacketSeen | null;
  readonly ourState: Readonly<Record<string, number>>;
  /** The kernel's last sample before it. */
  readonly kernelSample: Readonly<Record<string, number>> | null;
}

export const seenOf = (packet: ReplayPacket): PacketSeen => ({ seq: packet.seq, flow: packet.flow, forward: packet.forward, sizeBytes: packet.size, arrivedNs: packet.tNs });

/** Keeps the first and no other. */
export class FirstDisagreement {
  found: Disagreement | null = null;

  /** @param originNs the queue's clock at run time 0 @param drops of ours so far */
  constructor(private readonly kind: AqmKind, private readonly queue: QueueDiscipline, private readonly originNs: number, private readonly drops: () => number, private readonly judge: SampleJudge | null) {}

  note(tNs: number, after: number, what: string, kernel: PacketSeen | null, ours: PacketSeen | null): void {
    if (this.found !== null) return;
    const { kind, queue } = this;
    const state = new Float64Array(kind.state.length);
    queue.readState(state, tNs + this.originNs);
    this.found = {
      tNs, after, what, kernel, ours,
      ourState: { backlog_packets: queue.backlogPackets, backlog_bytes: queue.backlogBytes, drops: this.drops(), marks: queue.marks, ...Object.fromEntries(kind.state.map((name, i) => [name, state[i]!])) },
      kernelSample: this.judge?.latest(tNs) ?? null,
    };
  }
}
