/**
 * BBR version 1 (Cardwell et al., CACM 60(2), 2017) in the integer arithmetic of net/ipv4/tcp_bbr.c: bandwidth in packets a µs × 2^24,
 * gains × 256, long-term (policer) sampling, ACK aggregation, PROBE_RTT. Differences from Linux: products beyond 2^53 lose
 * their last bits (doubles instead of 64-bit integers: above about 1.5 Gbit/s); the random phase comes from the run's seed.
 */

import { CongestionControl, infiniteSsthresh, state } from './congestion.js';
import { hz } from './clock.js';
import { WindowedFilter } from './minmax.js';
import type { Random } from '../random.js';
import type { TcpSender } from './sender.js';

const bwUnit = 2 ** 24;
const unit = 256;
const mode = { startup: 0, drain: 1, probeBw: 2, probeRtt: 3 } as const;
const cycleLength = 8;
const bwRounds = cycleLength + 2;
const minRttWindow = 10 * hz;
const probeRttJiffies = hz / 5;
const highGain = Math.floor((unit * 2885) / 1000) + 1;
const drainGain = Math.floor((unit * 1000) / 2885);
const cwndGain = unit * 2;
const pacingGains = [(unit * 5) / 4, (unit * 3) / 4, unit, unit, unit, unit, unit, unit];
const minCwnd = 4;
const fullBwThreshold = (unit * 5) / 4;
const ltMinRtts = 4;
const ltLossThreshold = 50;
const ltBwRatio = unit / 8;
const ltBwDiff = 500;
const ltMaxRtts = 48;
const extraAckedWindowRtts = 5;
const extraAckedMaxUs = 100_000;

export class Bbr extends CongestionControl {
  readonly name = 'bbr';
  override readonly controlsRate = true;
  mode: number = mode.startup;
  private minRttUs = 0xffffffff;
  private minRttStamp = 0;
  private probeRttDone = 0;
  private readonly bwFilter = new WindowedFilter(true);
  private rounds = 0;
  private nextRoundDelivered = 0;
  private cycleUs = NaN;
  private prevState = 0;
  private conservation = false;
  private roundStart = false;
  private idleRestart = false;
  private probeRttRound = false;
  private ltSampling = false;
  private ltRtts = 0;
  private ltUse = false;
  private ltBw = 0;
  private ltLastDelivered = 0;
  private ltLastMs = 0;
  private ltLastLost = 0;
  pacingGain = highGain;
  private cwndGain = highGain;
  private fullBwReached = false;
  private fullBwCount = 0;
  private fullBw = 0;
  private cycle = 0;
  private seenRtt = false;
  private priorCwnd = 0;
  private epochUs = NaN;
  private epochAcked = 0;
  private readonly extraAcked = new Int32Array(2);
  private extraRtts = 0;
  private extraIndex = 0;

  constructor(private readonly random: Random) { super(); }

  private get maxBw(): number { return this.bwFilter.value; }
  private get bw(): number { return this.ltUse ? this.ltBw : this.maxBw; }

  private static bytesPerSecond(tcp: TcpSender, rate: number, gain: number): number {
    return Math.floor((Math.floor((rate * tcp.mss * gain) / unit) * 990_000) / bwUnit);
  }
  private rateFromRtt(tcp: TcpSender): void {
    let rtt = 1000;
    if (tcp.srttUs > 0) {
      rtt = Math.max(Math.floor(tcp.srttUs / 8), 1);
      this.seenRtt = true;
    }
    tcp.pacingRate = Bbr.bytesPerSecond(tcp, Math.floor((tcp.cwnd * bwUnit) / rtt), highGain);
  }
  private setPacingRate(tcp: TcpSender, bw: number, gain: number): void {
    const rate = Bbr.bytesPerSecond(tcp, bw, gain);
    if (!this.seenRtt && tcp.srttUs > 0) this.rateFromRtt(tcp);
    if (this.fullBwReached || rate > tcp.pacingRate) tcp.pacingRate = rate;
  }

  override minTsoSegments(tcp: TcpSender): number { return tcp.pacingRate < 150_000 ? 1 : 2; }
  private tsoGoal(tcp: TcpSender): number {
    const bytes = Math.min(Math.floor(tcp.pacingRate / 1024), 65535 - 320);
    return Math.min(Math.max(Math.floor(bytes / tcp.mss), this.minTsoSegments(tcp)), 127);
  }

  private saveCwnd(tcp: TcpSender): void {
    if (this.prevState < state.recovery && this.mode !== mode.probeRtt) this.priorCwnd = tcp.cwnd;
    else this.priorCwnd = Math.max(this.priorCwnd, tcp.cwnd);
  }

  override txStart(tcp: TcpSender): void {
    if (tcp.appLimited === 0) return;
    this.idleRestart = true;
    this.epochUs = tcp.nowUs;
    this.epochAcked = 0;
    if (this.mode === mode.probeBw) this.setPacingRate(tcp, this.bw, unit);
    else if (this.mode === mode.probeRtt) this.checkProbeRttDone(tcp);
  }

  private bdp(bw: number, gain: number): number {
    if (this.minRttUs === 0xffffffff) return 10;
    return Math.floor((Math.floor((bw * this.minRttUs * gain) / unit) + bwUnit - 1) / bwUnit);
  }
  private quantize(tcp: TcpSender, packets: number): number {
    let cwnd = packets + 3 * this.tsoGoal(tcp);
    cwnd = (cwnd + 1) & ~1;
    if (this.mode === mode.probeBw && this.cycle === 0) cwnd += 2;
    return cwnd;
  }
  private inflightTarget(tcp: TcpSender, bw: number, gain: number): number { return this.quantize(tcp, this.bdp(bw, gain)); }

  private inNetAtDeparture(tcp: TcpSender, inFlight: number): number {
    const us = Math.floor(Math.max(0, tcp.departureNs - tcp.now) / 1000);
    const delivered = Math.floor((this.bw * us) / bwUnit);
    const at = inFlight + (this.pacingGain > unit ? this.tsoGoal(tcp) : 0);
    return delivered >= at ? 0 : at - delivered;
  }

  private aggregationCwnd(): number {
    if (!this.fullBwReached) return 0;
    return Math.min(Math.max(this.extraAcked[0]!, this.extraAcked[1]!), Math.floor((this.bw * extraAckedMaxUs) / bwUnit));
  }

  private setCwnd(tcp: TcpSender, acked: number, bw: number, gain: number): void {
    let cwnd = tcp.cwnd;
    if (acked > 0) {
      const previous = this.prevState;
      if (tcp.rs.losses > 0) cwnd = Math.max(cwnd - tcp.rs.losses, 1);
      if (tcp.state === state.recovery && previous !== state.recovery) {
        this.conservation = true;
        this.nextRoundDelivered = tcp.delivered;
        cwnd = tcp.inFlight + acked;
      } else if (previous >= state.recovery && tcp.state < state.recovery) {
        cwnd = Math.max(cwnd, this.priorCwnd);
        this.conservation = false;
      }
      this.prevState = tcp.state;
      if (this.conservation) cwnd = Math.max(cwnd, tcp.inFlight + acked);
      else {
        const target = this.quantize(tcp, this.bdp(bw, gain) + this.aggregationCwnd());
        if (this.fullBwReached) cwnd = Math.min(cwnd + acked, target);
        else if (cwnd < target || tcp.delivered < 10) cwnd += acked;
        cwnd = Math.max(cwnd, minCwnd);
      }
    }
    tcp.cwnd = Math.min(cwnd, tcp.cwndClamp);
    if (this.mode === mode.probeRtt) tcp.cwnd = Math.min(tcp.cwnd, minCwnd);
  }

  private nextPhase(tcp: TcpSender): boolean {
    const full = tcp.deliveredUs - this.cycleUs > this.minRttUs;
    if (this.pacingGain === unit) return full;
    const inFlight = this.inNetAtDeparture(tcp, tcp.rs.priorInFlight);
    if (this.pacingGain > unit) return full && (tcp.rs.losses > 0 || inFlight >= this.inflightTarget(tcp, this.maxBw, this.pacingGain));
    return full || inFlight <= this.inflightTarget(tcp, this.maxBw, unit);
  }
  private advanceCycle(tcp: TcpSender): void {
    this.cycle = (this.cycle + 1) & (cycleLength - 1);
    this.cycleUs = tcp.deliveredUs;
  }
  private enterProbeBw(tcp: TcpSender): void {
    this.mode = mode.probeBw;
    this.cycle = cycleLength - 1 - (this.random.u32() % 7);
    this.advanceCycle(tcp);
  }
  private resetMode(tcp: TcpSender): void {
    if (this.fullBwReached) this.enterProbeBw(tcp);
    else this.mode = mode.startup;
  }

  private resetLtInterval(tcp: TcpSender): void {
    this.ltLastMs = Math.floor(tcp.deliveredUs / 1000);
    this.ltLastDelivered = tcp.delivered;
    this.ltLastLost = tcp.lost;
    this.ltRtts = 0;
  }
  private resetLt(tcp: TcpSender): void {
    this.ltBw = 0;
    this.ltUse = false;
    this.ltSampling = false;
    this.resetLtInterval(tcp);
  }
  private ltIntervalDone(tcp: TcpSender, bw: number): void {
    if (this.ltBw > 0) {
      const diff = Math.abs(bw - this.ltBw);
      if (diff * unit <= ltBwRatio * this.ltBw || Bbr.bytesPerSecond(tcp, diff, unit) <= ltBwDiff) {
        this.ltBw = Math.floor((bw + this.ltBw) / 2);
        this.ltUse = true;
        this.pacingGain = unit;
        this.ltRtts = 0;
        return;
      }
    }
    this.ltBw = bw;
    this.resetLtInterval(tcp);
  }
  private ltSample(tcp: TcpSender, losses: number, appLimited: boolean): void {
    if (this.ltUse) {
      if (this.mode === mode.probeBw && this.roundStart && ++this.ltRtts >= ltMaxRtts) {
        this.resetLt(tcp);
        this.enterProbeBw(tcp);
      }
      return;
    }
    if (!this.ltSampling) {
      if (losses === 0) return;
      this.resetLtInterval(tcp);
      this.ltSampling = true;
    }
    if (appLimited) { this.resetLt(tcp); return; }
    if (this.roundStart) this.ltRtts++;
    if (this.ltRtts < ltMinRtts) return;
    if (this.ltRtts > 4 * ltMinRtts) { this.resetLt(tcp); return; }
    if (losses === 0) return;
    const lost = tcp.lost - this.ltLastLost;
    const delivered = tcp.delivered - this.ltLastDelivered;
    if (delivered === 0 || lost * unit < ltLossThreshold * delivered) return;
    const t = Math.floor(tcp.deliveredUs / 1000) - this.ltLastMs;
    if (t < 1) return;
    this.ltIntervalDone(tcp, Math.floor((delivered * bwUnit) / (t * 1000)));
  }

  private updateBw(tcp: TcpSender): void {
    const { rs } = tcp;
    this.roundStart = false;
    if (rs.delivered < 0 || rs.intervalUs <= 0) return;
    if (rs.priorDelivered >= this.nextRoundDelivered) {
      this.nextRoundDelivered = tcp.delivered;
      this.rounds++;
      this.roundStart = true;
      this.conservation = false;
    }
    this.ltSample(tcp, rs.losses, rs.appLimited);
    const bw = Math.floor((rs.delivered * bwUnit) / rs.intervalUs);
    if (!rs.appLimited || bw >= this.maxBw) this.bwFilter.update(bwRounds, this.rounds, bw);
  }

  private updateAggregation(tcp: TcpSender): void {
    const { rs } = tcp;
    if (rs.ackedSacked <= 0 || rs.delivered < 0 || rs.intervalUs <= 0) return;
    if (this.roundStart) {
      this.extraRtts = Math.min(31, this.extraRtts + 1);
      if (this.extraRtts >= extraAckedWindowRtts) {
        this.extraRtts = 0;
        this.extraIndex = 1 - this.extraIndex;
        this.extraAcked[this.extraIndex] = 0;
      }
    }
    let expected = Math.floor((this.bw * (tcp.deliveredUs - this.epochUs)) / bwUnit);
    if (this.epochAcked <= expected || this.epochAcked + rs.ackedSacked >= 1 << 20) {
      this.epochAcked = 0;
      this.epochUs = tcp.deliveredUs;
      expected = 0;
    }
    this.epochAcked = Math.min(0xfffff, this.epochAcked + rs.ackedSacked);
    const extra = Math.min(this.epochAcked - expected, tcp.cwnd);
    if (extra > this.extraAcked[this.extraIndex]!) this.extraAcked[this.extraIndex] = extra;
  }

  private checkFullBw(tcp: TcpSender): void {
    if (this.fullBwReached || !this.roundStart || tcp.rs.appLimited) return;
    if (this.maxBw >= Math.floor((this.fullBw * fullBwThreshold) / unit)) {
      this.fullBw = this.maxBw;
      this.fullBwCount = 0;
      return;
    }
    this.fullBwReached = ++this.fullBwCount >= 3;
  }

  private checkDrain(tcp: TcpSender): void {
    if (this.mode === mode.startup && this.fullBwReached) {
      this.mode = mode.drain;
      tcp.ssthresh = this.inflightTarget(tcp, this.maxBw, unit);
    }
    if (this.mode === mode.drain && this.inNetAtDeparture(tcp, tcp.inFlight) <= this.inflightTarget(tcp, this.maxBw, unit)) this.enterProbeBw(tcp);
  }

  private checkProbeRttDone(tcp: TcpSender): void {
    const now = tcp.nowJiffies;
    if (this.probeRttDone === 0 || now <= this.probeRttDone) return;
    this.minRttStamp = now;
    tcp.cwnd = Math.max(tcp.cwnd, this.priorCwnd);
    this.resetMode(tcp);
  }

  private updateMinRtt(tcp: TcpSender): void {
    const { rs } = tcp;
    const now = tcp.nowJiffies;
    const expired = now > this.minRttStamp + minRttWindow;
    if (rs.rttUs >= 0 && (rs.rttUs < this.minRttUs || (expired && !rs.ackDelayed))) {
      this.minRttUs = rs.rttUs;
      this.minRttStamp = now;
    }
    if (expired && !this.idleRestart && this.mode !== mode.probeRtt) {
      this.mode = mode.probeRtt;
      this.saveCwnd(tcp);
      this.probeRttDone = 0;
    }
    if (this.mode === mode.probeRtt) {
      tcp.appLimited = Math.max(1, tcp.delivered + tcp.inFlight);
      if (this.probeRttDone === 0 && tcp.inFlight <= minCwnd) {
        this.probeRttDone = now + probeRttJiffies;
        this.probeRttRound = false;
        this.nextRoundDelivered = tcp.delivered;
      } else if (this.probeRttDone > 0) {
        if (this.roundStart) this.probeRttRound = true;
        if (this.probeRttRound) this.checkProbeRttDone(tcp);
      }
    }
    if (rs.delivered > 0) this.idleRestart = false;
  }

  private updateGains(): void {
    switch (this.mode) {
      case mode.startup: this.pacingGain = highGain; this.cwndGain = highGain; break;
      case mode.drain: this.pacingGain = drainGain; this.cwndGain = highGain; break;
      case mode.probeBw: this.pacingGain = this.ltUse ? unit : pacingGains[this.cycle]!; this.cwndGain = cwndGain; break;
      default: this.pacingGain = unit; this.cwndGain = unit; break;
    }
  }

  /** bbr_main */
  override control(tcp: TcpSender): void {
    this.updateBw(tcp);
    this.updateAggregation(tcp);
    if (this.mode === mode.probeBw && this.nextPhase(tcp)) this.advanceCycle(tcp);
    this.checkFullBw(tcp);
    this.checkDrain(tcp);
    this.updateMinRtt(tcp);
    this.updateGains();
    const bw = this.bw;
    this.setPacingRate(tcp, bw, this.pacingGain);
    this.setCwnd(tcp, tcp.rs.ackedSacked, bw, this.cwndGain);
  }

  override init(tcp: TcpSender): void {
    tcp.ssthresh = infiniteSsthresh;
    this.nextRoundDelivered = tcp.delivered;
    this.minRttUs = tcp.minRttUs;
    this.minRttStamp = tcp.nowJiffies;
    this.bwFilter.reset(0, 0);
    this.rateFromRtt(tcp);
    this.cycleUs = 0;
    this.resetLt(tcp);
    this.epochUs = tcp.nowUs;
    tcp.paced = true;
  }

  override ssthresh(tcp: TcpSender): number {
    this.saveCwnd(tcp);
    return tcp.ssthresh;
  }
  override undoCwnd(tcp: TcpSender): number {
    this.fullBw = 0;
    this.fullBwCount = 0;
    this.resetLt(tcp);
    return tcp.cwnd;
  }
  override setState(tcp: TcpSender, next: number): void {
    if (next !== state.loss) return;
    this.prevState = state.loss;
    this.fullBw = 0;
    this.roundStart = true;
    this.ltSample(tcp, 1, false);
  }
}
