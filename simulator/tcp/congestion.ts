/**
 * The interface of a congestion control, modelled on Linux's struct tcp_congestion_ops, and what several of them share
 * (net/ipv4/tcp_cong.c): slow start, additive increase, Reno's undo. One file each beside this one, and one line in
 * `congestionControls` (controls.ts).
 */

import type { TcpSender } from './sender.js';

/** TCP_CA_*: the states of congestion avoidance. */
export const state = { open: 0, disorder: 1, cwr: 2, recovery: 3, loss: 4 } as const;
export const infiniteSsthresh = 0x7fffffff;

export abstract class CongestionControl {
  abstract readonly name: string;
  /** Needs ECN on every packet (TCP_CONG_NEEDS_ECN). */
  readonly needsEcn: boolean = false;
  /** Sets cwnd and pacing rate itself in `control` (ops->cong_control). */
  readonly controlsRate: boolean = false;
  /** After the handshake. */
  init(_tcp: TcpSender): void {}
  /** The new slow start threshold, packets, when a reduction begins. */
  abstract ssthresh(tcp: TcpSender): number;
  /** Growth when `acked` packets were acknowledged in order. */
  congAvoid(_tcp: TcpSender, _acked: number): void {}
  undoCwnd(tcp: TcpSender): number { return Math.max(tcp.cwnd, tcp.priorCwnd); }
  setState(_tcp: TcpSender, _next: number): void {}
  /** CA_EVENT_TX_START: first transmission with nothing in flight. */
  txStart(_tcp: TcpSender): void {}
  /** CA_EVENT_LOSS: a retransmission timeout reduces. */
  lossEvent(_tcp: TcpSender): void {}
  /** After each acknowledgement of data. @param rttUs −1 when there is no sample */
  pktsAcked(_tcp: TcpSender, _acked: number, _rttUs: number): void {}
  /** On each acknowledgement, before the state machine. */
  inAckEvent(_tcp: TcpSender): void {}
  control(_tcp: TcpSender): void {}
  minTsoSegments(_tcp: TcpSender): number { return 2; }
}

/** tcp_slow_start: @returns what is left of `acked` after cwnd reached ssthresh */
export function slowStart(tcp: TcpSender, acked: number): number {
  const cwnd = Math.min(tcp.cwnd + acked, tcp.ssthresh);
  const left = acked - (cwnd - tcp.cwnd);
  tcp.cwnd = Math.min(cwnd, tcp.cwndClamp);
  return left;
}

/** tcp_cong_avoid_ai: one packet more each `w` acknowledged. */
export function additiveIncrease(tcp: TcpSender, w: number, acked: number): void {
  if (tcp.cwndCount >= w) {
    tcp.cwndCount = 0;
    tcp.cwnd++;
  }
  tcp.cwndCount += acked;
  if (tcp.cwndCount >= w) {
    const delta = Math.floor(tcp.cwndCount / w);
    tcp.cwndCount -= delta * w;
    tcp.cwnd += delta;
  }
  tcp.cwnd = Math.min(tcp.cwnd, tcp.cwndClamp);
}

/** tcp_reno_cong_avoid */
export function renoCongAvoid(tcp: TcpSender, acked: number): void {
  if (!tcp.isCwndLimited()) return;
  let left = acked;
  if (tcp.cwnd < tcp.ssthresh) {
    left = slowStart(tcp, left);
    if (left === 0) return;
  }
  additiveIncrease(tcp, tcp.cwnd, left);
}
