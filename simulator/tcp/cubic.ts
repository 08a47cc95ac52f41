/**
 * CUBIC (RFC 9438) with HyStart, in the integer arithmetic of net/ipv4/tcp_cubic.c (version 2.3): time in 1/1024 s,
 * beta 717/1024, C 41·10/1024/1024 a round trip of 100 ms, fast convergence, TCP friendliness, growth computed at most once a
 * jiffy. Differences from Linux: none known; 64-bit products beyond 2^53 are computed with BigInt.
 */

import { CongestionControl, additiveIncrease, slowStart, state } from './congestion.js';
import { hz, usToJiffies } from './clock.js';
import type { TcpSender } from './sender.js';

const beta = 717;
const betaScale = Math.floor(Math.floor((8 * (1024 + beta)) / 3) / (1024 - beta));
const cubeRttScale = 41 * 10;
/** 2^40 / (41 · 10) */
export const cubeFactor = Math.floor(2 ** 40 / cubeRttScale);
const low = 4000;
const high = 16000;

/** First guesses of the cube root of 0 … 63, in 1/64 (tcp_cubic.c's table). */
const roots = Uint8Array.from([
  0, 54, 54, 54, 118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156,
  157, 161, 164, 168, 170, 173, 176, 179, 181, 185, 187, 190, 192, 194, 197, 199,
  200, 202, 204, 206, 209, 211, 213, 215, 217, 219, 221, 222, 224, 225, 227, 229,
  231, 232, 234, 236, 237, 239, 240, 242, 244, 245, 246, 248, 250, 251, 252, 254,
]);

/** cubic_root: table look-up and one Newton step; within 0.2 %. @param a below 2^53 */
export function cubicRoot(a: number): number {
  let bits = 0;
  for (let rest = a; rest >= 1; rest = Math.floor(rest / 2)) bits++;
  if (bits < 7) return (roots[a]! + 35) >> 6;
  const b = ((bits * 84) >> 8) - 1;
  const shift = Math.floor(a / 2 ** (b * 3));
  let x = Math.floor(((roots[shift]! + 10) * 2 ** b) / 64);
  x = 2 * x + Math.floor(a / (x * (x - 1)));
  return Math.floor((x * 341) / 1024);
}

/** C · |t − K|³ in packets: (410 · offs³) >> 40. @param offs 1/1024 s */
export function cubicDelta(offs: number): number {
  const product = cubeRttScale * offs * offs * offs;
  return product < 2 ** 53 ? Math.floor(product / 2 ** 40) : Number((BigInt(cubeRttScale) * BigInt(offs) ** 3n) >> 40n);
}

export class Cubic extends CongestionControl {
  readonly name = 'cubic';
  private cnt = 0;
  lastMaxCwnd = 0;
  private lastCwnd = 0;
  private lastTime = 0;
  originPoint = 0;
  k = 0;
  private delayMin = 0;
  private epochStart = 0;
  private ackCnt = 0;
  private tcpCwnd = 0;
  private sampleCnt = 0;
  private found = false;
  private roundStart = 0;
  private endSeq = 0;
  private lastAck = 0;
  private currRtt = Infinity;

  private reset(): void {
    this.cnt = this.lastMaxCwnd = this.lastCwnd = this.lastTime = this.originPoint = this.k = 0;
    this.delayMin = this.epochStart = this.ackCnt = this.tcpCwnd = 0;
    this.found = false;
  }
  private hystartReset(tcp: TcpSender): void {
    this.roundStart = this.lastAck = tcp.nowUs;
    this.endSeq = tcp.nxt;
    this.currRtt = Infinity;
    this.sampleCnt = 0;
  }

  override init(tcp: TcpSender): void {
    this.reset();
    this.hystartReset(tcp);
  }

  override txStart(tcp: TcpSender): void {
    const now = tcp.nowJiffies;
    const delta = now - tcp.lastSentJiffies;
    if (this.epochStart > 0 && delta > 0) this.epochStart = Math.min(now, this.epochStart + delta);
  }

  override ssthresh(tcp: TcpSender): number {
    this.epochStart = 0;
    if (tcp.cwnd < this.lastMaxCwnd) this.lastMaxCwnd = Math.floor((tcp.cwnd * (1024 + beta)) / 2048);
    else this.lastMaxCwnd = tcp.cwnd;
    return Math.max(Math.floor((tcp.cwnd * beta) / 1024), 2);
  }

  private update(now: number, cwnd: number, acked: number): void {
    this.ackCnt += acked;
    if (this.lastCwnd === cwnd && now - this.lastTime <= Math.floor(hz / 32)) return;
    if (!(this.epochStart > 0 && now === this.lastTime)) {
      this.lastCwnd = cwnd;
      this.lastTime = now;
      if (this.epochStart === 0) {
        this.epochStart = now;
        this.ackCnt = acked;
        this.tcpCwnd = cwnd;
        if (this.lastMaxCwnd <= cwnd) {
          this.k = 0;
          this.originPoint = cwnd;
        } else {
          this.k = cubicRoot(cubeFactor * (this.lastMaxCwnd - cwnd));
          this.originPoint = this.lastMaxCwnd;
        }
      }
      const t = Math.floor(((now - this.epochStart + usToJiffies(this.delayMin)) * 1024) / hz);
      const delta = cubicDelta(Math.abs(t - this.k));
      const target = t < this.k ? this.originPoint - delta : this.originPoint + delta;
      this.cnt = target > cwnd ? Math.floor(cwnd / (target - cwnd)) : 100 * cwnd;
      if (this.lastMaxCwnd === 0 && this.cnt > 20) this.cnt = 20;
    }
    const delta = Math.floor((cwnd * betaScale) / 8);
    while (this.ackCnt > delta) {
      this.ackCnt -= delta;
      this.tcpCwnd++;
    }
    if (this.tcpCwnd > cwnd) this.cnt = Math.min(this.cnt, Math.floor(cwnd / (this.tcpCwnd - cwnd)));
    this.cnt = Math.max(this.cnt, 2);
  }

  override congAvoid(tcp: TcpSender, acked: number): void {
    if (!tcp.isCwndLimited()) return;
    let left = acked;
    if (tcp.cwnd < tcp.ssthresh) {
      left = slowStart(tcp, left);
      if (left === 0) return;
    }
    // Jiffies count from 1, because 0 means "no epoch".
    this.update(tcp.nowJiffies + 1, tcp.cwnd, left);
    additiveIncrease(tcp, this.cnt, left);
  }

  override setState(tcp: TcpSender, next: number): void {
    if (next !== state.loss) return;
    this.reset();
    this.hystartReset(tcp);
  }

  private hystart(tcp: TcpSender, delay: number): void {
    if (tcp.una > this.endSeq) this.hystartReset(tcp);
    if (tcp.cwnd < 16) return;
    const now = tcp.nowUs;
    if (now - this.lastAck <= 2000) {
      this.lastAck = now;
      const rate = tcp.pacingRate;
      let threshold = this.delayMin + (rate > 0 ? Math.min(1000, Math.floor((65536 * 4 * 1e6) / rate)) : 0);
      if (!tcp.paced) threshold = Math.floor(threshold / 2);
      if (now - this.roundStart > threshold) {
        this.found = true;
        tcp.ssthresh = tcp.cwnd;
      }
    }
    if (this.currRtt > delay) this.currRtt = delay;
    if (this.sampleCnt < 8) this.sampleCnt++;
    else if (this.currRtt > this.delayMin + Math.min(high, Math.max(low, Math.floor(this.delayMin / 8)))) {
      this.found = true;
      tcp.ssthresh = tcp.cwnd;
    }
  }

  override pktsAcked(tcp: TcpSender, _acked: number, rttUs: number): void {
    if (rttUs < 0) return;
    if (this.epochStart > 0 && tcp.nowJiffies + 1 - this.epochStart < hz) return;
    const delay = Math.max(1, rttUs);
    if (this.delayMin === 0 || this.delayMin > delay) this.delayMin = delay;
    if (!this.found && tcp.cwnd < tcp.ssthresh) this.hystart(tcp, delay);
  }
}
