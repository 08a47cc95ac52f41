/**
 * What an engine leaves in a run folder's `raw/`: the contract between engines and ingest.
 *
 *   raw/plan.json                the Plan that ran
 *   raw/agent.jsonl              one Finding or Progress a line (below), appended as it happens
 *   raw/flows.jsonl              a FlowRow a line, when a flow ends; the unfinished ones at the end of the run. The last line for an id counts.
 *   raw/queue-<direction>.rec    record file, table `queue`, constants { bottleneck }, fields queueFields + AQM state (f64 each)
 *   raw/captures-<router>.rec    kernel engine: record file, table `captures`, fields captureFields (+ captureHashField); dictionary in raw/captures-<router>.json
 *   raw/packets-<direction>.rec  simulator and daemon: record file, table `packets`, constants { bottleneck }, fields packetFields
 *   raw/probes.rec               record file, table `probes`, fields probeFields
 *   raw/sockets.rec              record file, table `sockets`, fields socketFields
 *   raw/iperf3-<flow>-{client,server}.json, raw/ping-<probe>.txt, …   what tools printed, untouched
 */

import { dropReasons, type DropReason } from '../../aqm/aqm.js';
import type { Field } from './record-file.js';

export const queueFields: readonly Field[] = [
  { name: 't', type: 'f64' }, { name: 'backlog_bytes', type: 'f64' }, { name: 'backlog_packets', type: 'f64' },
  { name: 'sent_bytes', type: 'f64' }, { name: 'sent_packets', type: 'f64' }, { name: 'drops', type: 'f64' }, { name: 'marks', type: 'f64' },
];

/** A packet seen entering or leaving a router: 28 bytes. */
export const captureFields: readonly Field[] = [
  { name: 't', type: 'f64' },
  /** 64-bit hash of the fields that forwarding does not change (so not TTL, IP checksum, ECN bits). */
  { name: 'key_lo', type: 'u32' }, { name: 'key_hi', type: 'u32' },
  /** IP bytes. */
  { name: 'size', type: 'u32' },
  /** As in the packets table: flow id, −1 − probe id, or none. */
  { name: 'flow', type: 'i32' },
  /** The bottleneck direction it is queued for or left by: index into the dictionary's `directions`. */
  { name: 'direction', type: 'u8' },
  /** 0 entering the router, 1 leaving it through the bottleneck. */
  { name: 'leaving', type: 'u8' },
  /** ECN codepoint. */
  { name: 'ecn', type: 'u8' },
  /** 1 = the flow's data direction, 0 = ACKs or replies. */
  { name: 'forward', type: 'u8' },
];
/**
 * skb_get_hash(): what fq_codel and others choose a queue by. In virtual time, at routers with such a queue; records without it are read all the same.
 */
export const captureHashField: Field = { name: 'hash', type: 'u32' };
export interface CaptureDictionary {
  readonly directions: readonly string[];
  /** Packets the ring lost (tpacket statistics): more than 0 makes packet records incomplete and the run invalid. */
  readonly lost: number;
  /** CLOCK_MONOTONIC, which queue disciplines and timers go by, at run time 0, ns. Absent in records of virtual time whose stamps are one reading of the clock or more, 256 ns each, too early. */
  readonly monotonicNs?: number;
}

/** 0: not dropped, or not told why; else one more than the index into `dropReasons`. Records of before it existed are read without it. */
export const dropReasonField: Field = { name: 'drop_reason', type: 'u8' };
/** How many came to this queue before it: the order of packets that arrive at one instant. Records of before it existed are read in order of time alone. */
export const arrivalField: Field = { name: 'arrival', type: 'u32' };
export const packetFields: readonly Field[] = [
  { name: 't_enqueue', type: 'f64' }, { name: 't_dequeue', type: 'f64' }, { name: 'size', type: 'u32' }, { name: 'flow', type: 'i32' },
  { name: 'forward', type: 'u8' }, { name: 'dropped', type: 'u8' }, { name: 'marked', type: 'u8' }, { name: 'ecn', type: 'u8' },
  dropReasonField, arrivalField,
];
/** @returns what `drop_reason` holds */
export const dropReasonCode = (reason: DropReason | null): number => (reason === null ? 0 : dropReasons.indexOf(reason) + 1);

/** One row a probe packet, written when it is answered; unanswered ones at the end of the run with NaN delays. */
export const probeFields: readonly Field[] = [
  { name: 'probe_id', type: 'u32' }, { name: 'seq', type: 'u32' }, { name: 't', type: 'f64' },
  { name: 'rtt', type: 'f64' }, { name: 'owd_forward', type: 'f64' }, { name: 'owd_reverse', type: 'f64' },
];

export const socketFields: readonly Field[] = [
  { name: 't', type: 'f64' }, { name: 'flow', type: 'u32' }, { name: 'cwnd', type: 'u32' }, { name: 'ssthresh', type: 'u32' },
  { name: 'srtt', type: 'f64' }, { name: 'rttvar', type: 'f64' }, { name: 'min_rtt', type: 'f64' },
  { name: 'delivery_rate', type: 'f64' }, { name: 'pacing_rate', type: 'f64' }, { name: 'bytes_acked', type: 'f64' },
  { name: 'retransmits', type: 'u32' }, { name: 'in_flight', type: 'u32' }, { name: 'state', type: 'u8' },
];

/** One row of the flows table (times ns, null = absent). Columns of the plan (class, src, …) are joined in by ingest. */
export interface FlowRow {
  readonly id: number;
  readonly t_start: number | null;
  readonly t_connected: number | null;
  readonly t_end: number | null;
  readonly bytes: number | null;
  readonly bytes_sent: number | null;
  readonly packets_sent: number | null;
  readonly packets_lost: number | null;
  readonly packets_duplicated: number | null;
  readonly bytes_at_warmup: number | null;
  readonly bytes_at_end: number | null;
  readonly retransmits: number | null;
  readonly retransmits_at_warmup: number | null;
  readonly retransmits_at_end: number | null;
  readonly status: 'complete' | 'running' | 'failed' | 'not-started';
  readonly error: string | null;
}

/** Something that bears on whether the figures may be believed. */
export interface Finding {
  readonly type: 'finding';
  readonly level: 'warning' | 'invalid' | 'failed';
  /** Short and stable: `netem-dropped`, `superpacket`, `rate-not-achieved`, `capture-lost`, `late`, `iperf3-failed`, … */
  readonly rule: string;
  /** What, where, and how to mend it. */
  readonly message: string;
  readonly tNs?: number;
}
export interface Progress {
  readonly type: 'progress';
  readonly phase: 'setup' | 'traffic' | 'teardown' | 'done';
  /** ns of the run so far (0 during set-up). */
  readonly tNs: number;
}
/** Facts the engine learned: kernel release, tool versions, sysctls as read back, achieved rates. Merged into run.json's `facts`. */
export interface Facts { readonly type: 'facts'; readonly [name: string]: unknown }
export type AgentLine = Finding | Progress | Facts;
