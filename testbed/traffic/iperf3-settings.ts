/** What iperf3's clients are told, and what they do unasked: the kernel engine tells them so, the simulator's do so. */

import type { PlanFlow } from '../plan/plan.js';

const second = 1e9;

/** A client may take this much longer than told (parameters, results, last retransmissions) before it is asked to end, ns. */
export const overtime = 2 * second;

/** iperf3 takes whole seconds: rounded up, and ended at its stop time. */
export const wholeSeconds = ({ startNs, stopNs }: PlanFlow): number => Math.max(1, Math.ceil(((stopNs ?? 0) - startNs) / second));

/** When a client is interrupted, ns; null: never. One of whole seconds ends by itself before. */
export const interruptedNs = ({ startNs, stopNs }: PlanFlow): number | null => (stopNs === null ? null : (stopNs - startNs) % second === 0 ? stopNs + overtime : stopNs);

/** Its default length of a write and of a read over TCP, bytes (DEFAULT_TCP_BLKSIZE). */
export const blockBytes = 128 * 1024;

/** The rate a UDP client is told, bits/s of payload, which is what iperf3 counts. @param payload bytes of a datagram */
export const payloadRateBps = ({ rateBps, packetBytes }: PlanFlow, payload: number): number => Math.round(((rateBps ?? 0) * payload) / (packetBytes ?? 1));
/** How often a client with a rate looks whether it may send, ns (--pacing-timer, 1000 µs). */
export const pacingTimerNs = 1e6;
