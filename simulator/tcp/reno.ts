/** Reno (RFC 5681), as net/ipv4/tcp_cong.c: halve on loss, one packet more a round trip. Differences from Linux: none. */

import { CongestionControl, renoCongAvoid } from './congestion.js';
import type { TcpSender } from './sender.js';

export class Reno extends CongestionControl {
  readonly name = 'reno';
  override ssthresh(tcp: TcpSender): number { return Math.max(tcp.cwnd >> 1, 2); }
  override congAvoid(tcp: TcpSender, acked: number): void { renoCongAvoid(tcp, acked); }
}
