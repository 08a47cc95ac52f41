/**
 * DCTCP (RFC 8257), sender side, in the integer arithmetic of net/ipv4/tcp_dctcp.c: alpha in 1/1024, g = 1/16, alpha 1
 * at first. The receiver's half (an ECE that follows each change of CE) is in receiver.ts. Differences from Linux: no PLB.
 */

import { CongestionControl, renoCongAvoid, state } from './congestion.js';
import type { TcpSender } from './sender.js';

const shiftG = 4;
const maxAlpha = 1024;

export class Dctcp extends CongestionControl {
  readonly name = 'dctcp';
  override readonly needsEcn = true;
  alpha = maxAlpha;
  private oldDelivered = 0;
  private oldDeliveredCe = 0;
  private nextSeq = 0;
  private lossCwnd = 0;

  private reset(tcp: TcpSender): void {
    this.nextSeq = tcp.nxt;
    this.oldDelivered = tcp.delivered;
    this.oldDeliveredCe = tcp.deliveredCe;
  }
  override init(tcp: TcpSender): void { this.reset(tcp); }

  override ssthresh(tcp: TcpSender): number {
    this.lossCwnd = tcp.cwnd;
    return Math.max(tcp.cwnd - Math.floor((tcp.cwnd * this.alpha) / 2048), 2);
  }
  override congAvoid(tcp: TcpSender, acked: number): void { renoCongAvoid(tcp, acked); }

  override inAckEvent(tcp: TcpSender): void {
    if (tcp.una < this.nextSeq) return;
    const delivered = tcp.delivered - this.oldDelivered;
    const marked = tcp.deliveredCe - this.oldDeliveredCe;
    const decay = this.alpha >> shiftG;
    this.alpha -= decay === 0 ? this.alpha : Math.min(this.alpha, decay);
    if (marked > 0) this.alpha = Math.min(this.alpha + Math.floor((marked << (10 - shiftG)) / Math.max(1, delivered)), maxAlpha);
    this.reset(tcp);
  }

  private reactToLoss(tcp: TcpSender): void {
    this.lossCwnd = tcp.cwnd;
    tcp.ssthresh = Math.max(tcp.cwnd >> 1, 2);
  }
  override setState(tcp: TcpSender, next: number): void {
    if (next === state.recovery && tcp.state !== state.recovery) this.reactToLoss(tcp);
  }
  override lossEvent(tcp: TcpSender): void { this.reactToLoss(tcp); }
  override undoCwnd(tcp: TcpSender): number { return Math.max(tcp.cwnd, this.lossCwnd); }
}
