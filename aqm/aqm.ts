/**
 * The interface of every queue discipline in aqm/: pure and engine-free. No clock, file, socket or timer; time and
 * randomness are passed in. Nothing is allocated per packet: packets belong to the caller (simulator, daemon), are
 * linked into queues by their own `next`, and are handed back by `dequeue` or by the drop callback.
 */

import type { z } from 'zod';

/** One packet while it is queued. The caller owns and reuses the objects; all have the same shape. */
export interface QueuedPacket {
  /** Bytes as the shaper counts them (IP bytes + link-layer overhead), like qdisc_pkt_len(). */
  size: number;
  /** ECN codepoint: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. A discipline that marks sets 3 and `marked`. */
  ecn: number;
  marked: boolean;
  /** Flow key, u32: equal for packets of one flow, already mixed (a discipline with buckets adds its own perturbation). */
  flowHash: number;
  /** Host keys, u32 (CAKE's host fairness). */
  srcHash: number;
  dstHash: number;
  /** DSCP, 0 … 63 (CAKE's tins, pfifo_fast's bands). */
  dscp: number;
  /** True for a TCP segment without payload, SYN, FIN or RST (CAKE's ACK filter). */
  pureAck: boolean;
  /** True for all but TCP: its sender's kernel keeps it in one piece of memory (truesize.ts). */
  datagram: boolean;
  /** TCP acknowledgement number of a pure ACK, bytes; 0 otherwise. */
  ackNumber: number;
  /** Earliest departure time that its sender gave it (skb->tstamp), ns, for a discipline that paces; 0: none. */
  edtNs: number;
  /** Set by the discipline in enqueue, ns. */
  enqueueNs: number;
  /** Intrusive list link, owned by the discipline while queued. */
  next: QueuedPacket | null;
}

/**
 * Why a packet was dropped: `limit` (no room), `aqm` (the algorithm's decision, early), `overload` (batch drop of the fattest flow), `filter` (ACK filter),
 * `purge` (thrown away by a change of parameters where Linux does not count it among its drops).
 */
export const dropReasons = ['limit', 'aqm', 'overload', 'filter', 'purge'] as const;
export type DropReason = (typeof dropReasons)[number];

/**
 * What chance decides, decided from outside. A replay (testbed/replay) follows a kernel so: what the kernel drew is not known, what it
 * did is. A simulator leaves it out, and the discipline draws.
 */
export interface Chance {
  /**
   * Does this packet get a signal (a drop, or a mark where the discipline may mark)?
   * @param probability 0 … 1, given everything before
   * @param hidden nobody could tell from what becomes of the packet: it is signalled anyway
   */
  signals(packet: QueuedPacket, probability: number, hidden?: boolean): boolean;
  /** Is this packet, which has its signal and could be marked, dropped all the same? (SFB) */
  drops(packet: QueuedPacket, probability: number): boolean;
  /** Is this arrival compared with a waiting packet of its own flow, so that both go? (CHOKe) @param possible there is a `victim` */
  matches(packet: QueuedPacket, probability: number, possible: boolean): boolean;
  /** May this waiting packet be one that goes? */
  victim(packet: QueuedPacket): boolean;
  /** Flow keys are the kernel's own hashes, so each packet is in the queue that it was in there. */
  readonly placed: boolean;
  /** Was this flow's queue over target before, with another flow in it (CAKE)? If so `packet` gets no signal yet. Not asked where queues are known (`placed`). @param hidden it would not show */
  reused(packet: QueuedPacket, probability: number, hidden: boolean): boolean;
  /** A flow's quantum was rounded at random (CAKE): to one byte more than was counted, with this probability. `afresh`: its first. */
  rounded(flow: object, probability: number, afresh: boolean): void;
  /**
   * Is the flow's deficit used up (at most 0), its random bytes included, when it is the turn of `head` (null: nothing waits there)?
   * @param alone nothing else waits: nobody could tell from what is sent; a next quantum would then be `quantum`
   * @param others the flows with packets whose turns come before the next of this one, and their deficits
   */
  usedUp(flow: object, deficit: number, head: QueuedPacket | null, alone: boolean, quantum: number, others: () => readonly { readonly flow: object; readonly deficit: number }[]): boolean;
}

export interface AqmContext {
  /** Uniform u32, seeded. Every use of randomness in a discipline comes from here. */
  readonly randomU32: () => number;
  /** Absent: `randomU32` decides. */
  readonly chance?: Chance | undefined;
  /** Called for every packet the discipline drops, from inside enqueue or dequeue; it may be the packet being enqueued or another. */
  readonly drop: (packet: QueuedPacket, reason: DropReason, nowNs: number) => void;
  /** psched_mtu(): IP MTU + link-layer overhead, bytes. */
  readonly mtuBytes: number;
  /** Rate of the link now, bits/s (RED's idle time); null when unknown. */
  readonly rateBps: number | null;
}

export interface QueueDiscipline {
  /** All packets and bytes held now. */
  readonly backlogPackets: number;
  readonly backlogBytes: number;
  /** Cumulative CE marks. */
  readonly marks: number;
  /** Takes the packet: queues it, or drops it or another through context.drop. */
  enqueue(packet: QueuedPacket, nowNs: number): void;
  /** The next packet to send, or null. null with a backlog means: not before `readyNs` (a discipline that shapes). */
  dequeue(nowNs: number): QueuedPacket | null;
  /**
   * The packet that `dequeuePeeked` will give, or null, for a shaper that must know its size first (TBF). As in Linux, a FIFO shows its head; where dequeueing
   * is a decision it is made now, and the packet still counts as waiting (qdisc_peek_dequeued).
   */
  peek(nowNs: number): QueuedPacket | null;
  dequeuePeeked(nowNs: number): QueuedPacket | null;
  /**
   * New parameters while it runs, as `tc qdisc change` of the kind does it: what waits stays but for what Linux throws away, and so does the algorithm's
   * state. Absent: a change makes it anew (change.ts).
   * @param params all of them, as for `create` @throws UserError as `create`
   */
  change?(params: Readonly<Record<string, number | boolean | string>>, nowNs: number): void;
  /** After dequeue returned null with a backlog: when to ask again, ns; Infinity otherwise. */
  readonly readyNs: number;
  /** Next periodic update of its own (PIE's 15 ms), ns; Infinity when it has none. The caller calls `tick` at that time, before packet events of the same instant. */
  readonly timerNs: number;
  tick(nowNs: number): void;
  /** The probability that `tick` would come to at that time (DualPI2): tells a replay when the kernel's timer went off. */
  afterTick?(nowNs: number): number;
  /** State columns for queue records, in the order of the kind's `state`. */
  readState(into: Float64Array, nowNs: number): void;
}

/** One file a discipline, one line in registry.ts. */
export interface AqmKind {
  /** tc's name where Linux has it (`fq_codel`); the paper's otherwise (`aqmrd`). */
  readonly kind: string;
  /** Strict object, tc's names and defaults, units resolved (times ns, sizes bytes, rates bits/s), ranges checked. Where the kernel has the qdisc the names equal those of testbed/qdiscs/<kind>.ts. */
  readonly schema: z.ZodObject;
  /** Queue-record columns, the same names as the kernel qdisc's where there is one. */
  readonly state: readonly string[];
  /** @param params validated by `schema`; absent = default. @param startNs the time of creation. */
  create(params: Readonly<Record<string, number | boolean | string>>, context: AqmContext, startNs: number): QueueDiscipline;
}
