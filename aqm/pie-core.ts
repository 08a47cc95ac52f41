/**
 * PIE's control, shared by pie and fq_pie: RFC 8033 as Linux 6.12 computes it (net/sched/sch_pie.c, include/net/pie.h),
 * bit for bit: delays in scheduler ticks of 64 ns, probabilities as integers of 1 / (2^56 − 1), the auto-tuning table
 * by powers of ten, de-randomisation by accumulated probability, and the 64-bit wraps.
 *
 * A 56-bit probability does not fit a double, so a 64-bit number is kept as two: high × 2^28 + low.
 *
 * Differences from Linux: none below a queueing delay of 30 s (there a product of the kernel's could wrap).
 */

import type { Chance, QueuedPacket } from './aqm.js';

const B = 0x10000000; // 2^28
const U64_HIGH = 2 ** 36;

/** psched_get_time(): ticks of 64 ns. */
export const pschedTicks = (ns: number): number => Math.floor(ns / 64);

const TICKS_PER_SEC = 15_625_000;
const MAX_PROB = (1n << 56n) - 1n;
const highOf = (value: bigint): number => Number(value / BigInt(B));
const lowOf = (value: bigint): number => Number(value % BigInt(B));
/** A constant of the algorithm, split once when this module loads. */
class Constant {
  readonly high: number;
  readonly low: number;
  constructor(value: bigint) {
    this.high = highOf(value);
    this.low = lowOf(value);
  }
}
const MAX = new Constant(MAX_PROB);
const FIFTH = new Constant(MAX_PROB / 5n);
const TENTH = new Constant(MAX_PROB / 10n);
const CERTAIN_BELOW = new Constant((MAX_PROB / 100n) * 85n);
const CERTAIN_FROM = new Constant((MAX_PROB / 2n) * 17n);
const TWO_PERCENT = new Constant((MAX_PROB / 100n) * 2n);
const ONE_FIFTIETH = new Constant(MAX_PROB / 50n);
/** Auto-tuning: below MAX_PROB / 100, / 1000, … / 1000000. */
const DECADES = [100n, 1000n, 10000n, 100000n, 1000000n].map((power) => new Constant(MAX_PROB / power));
const GAIN = Number(MAX_PROB / BigInt(TICKS_PER_SEC));
/** fq_pie marks while the probability is at most (MAX_PROB / 100) × percent. */
export const percentOfMax = (percent: number): Constant => new Constant((MAX_PROB / 100n) * BigInt(percent));
export type { Constant };
/** pie marks while the probability is at most a tenth. */
export const TENTH_OF_MAX: Constant = TENTH;

const less = (high: number, low: number, than: Constant): boolean => high < than.high || (high === than.high && low < than.low);

export interface PieParams {
  /** Ticks. */
  readonly target: number;
  /** 0 … 32, units of 1/16. */
  readonly alpha: number;
  readonly beta: number;
  readonly bytemode: boolean;
  readonly dqRateEstimator: boolean;
  /** Clamped to 1 … 2^20 as in pie_drop_early(). */
  readonly mtuBytes: number;
}

/** Departures measured a cycle of the rate estimator, bytes. */
const QUEUE_THRESHOLD = 16384;
const BURST_TICKS = pschedTicks(150e6);
const HIGH_DELAY_TICKS = pschedTicks(250e6);

export class PieVars {
  qdelay = 0;
  qdelayOld = 0;
  burstTime = BURST_TICKS;
  /** −1: not set (DTIME_INVALID). */
  dqTstamp = -1;
  /** −1: not measuring (DQCOUNT_INVALID). */
  dqCount = -1;
  avgDqRate = 0;
  probHigh = 0;
  probLow = 0;
  private accuHigh = 0;
  private accuLow = 0;

  /** Drop probability, 0 … 1. */
  get prob(): number {
    return (this.probHigh * B + this.probLow) / 2 ** 56;
  }
  /** The same as tc shows it: pie_dump() shifts the 56 bits left by 8 into 64, so a probability above 1, which nothing prevents, comes out modulo 1. */
  get dumpedProb(): number {
    return ((this.probHigh % B) * B + this.probLow) / 2 ** 56;
  }
  /** Drop probability at most `bound`? */
  atMost(bound: Constant): boolean {
    return !(bound.high < this.probHigh || (bound.high === this.probHigh && bound.low < this.probLow));
  }
  /** After a drop. */
  clearAccumulated(): void {
    this.accuHigh = 0;
    this.accuLow = 0;
  }

  /** pie_vars_init(): a new measurement cycle; the probability is not among what it resets. */
  private restart(): void {
    this.burstTime = BURST_TICKS;
    this.dqTstamp = -1;
    this.clearAccumulated();
    this.dqCount = -1;
    this.avgDqRate = 0;
  }

  /** pie_drop_early(): shall this arrival be dropped (or marked)? */
  dropEarly(params: PieParams, backlogBytes: number, size: number, randomU32: () => number, packet: QueuedPacket | null = null, chance?: Chance): boolean {
    if (this.burstTime > 0) return false;
    if (this.qdelay < Math.floor(params.target / 2) && less(this.probHigh, this.probLow, FIFTH)) return false;
    const mtu = params.mtuBytes;
    if (backlogBytes < 2 * mtu) return false;

    let high = this.probHigh, low = this.probLow;
    if (params.bytemode && size <= mtu) {
      const quotient = Math.floor(high / mtu);
      low = Math.floor(((high - quotient * mtu) * B + low) / mtu) * size;
      const carry = Math.floor(low / B);
      low -= carry * B;
      high = quotient * size + carry;
    }
    if (high === 0 && low === 0) {
      this.clearAccumulated();
    } else {
      const sum = this.accuLow + low;
      const carry = sum >= B ? 1 : 0;
      this.accuLow = sum - carry * B;
      this.accuHigh = (this.accuHigh + high + carry) % U64_HIGH;
    }
    if (less(this.accuHigh, this.accuLow, CERTAIN_BELOW)) return false;
    if (!less(this.accuHigh, this.accuLow, CERTAIN_FROM)) return true;

    if (chance !== undefined && packet !== null) {
      const signal = chance.signals(packet, Math.min(1, (high * B + low) / 2 ** 56));
      if (signal) this.clearAccumulated();
      return signal;
    }
    // 56 random bits: the upper 7 of 8 little-endian bytes.
    const first = randomU32(), second = randomU32();
    const randomLow = (first >>> 8) + (second & 0xf) * 0x1000000, randomHigh = second >>> 4;
    if (randomHigh < high || (randomHigh === high && randomLow < low)) {
      this.clearAccumulated();
      return true;
    }
    return false;
  }

  /** pie_process_dequeue(): a packet left; `backlogBytes` without it. */
  departed(packet: QueuedPacket, params: PieParams, backlogBytes: number, nowNs: number): void {
    const now = pschedTicks(nowNs);
    let elapsed = 0;
    if (!params.dqRateEstimator) {
      this.qdelay = backlogBytes !== 0 ? now - pschedTicks(packet.enqueueNs) : 0;
      if (this.dqTstamp >= 0) elapsed = (now - this.dqTstamp) % 2 ** 32;
      this.dqTstamp = now;
      if (elapsed === 0) return;
    } else {
      if (backlogBytes >= QUEUE_THRESHOLD && this.dqCount < 0) {
        this.dqTstamp = now;
        this.dqCount = 0;
      }
      if (this.dqCount < 0) return;
      this.dqCount += packet.size;
      if (this.dqCount < QUEUE_THRESHOLD) return;
      elapsed = (now - this.dqTstamp) % 2 ** 32;
      if (elapsed === 0) return;
      const rate = Math.floor(((this.dqCount * 256) % 2 ** 32) / elapsed);
      this.avgDqRate = this.avgDqRate === 0 ? rate : this.avgDqRate - Math.floor(this.avgDqRate / 8) + Math.floor(rate / 8);
      if (backlogBytes < QUEUE_THRESHOLD) {
        this.dqCount = -1;
      } else {
        this.dqCount = 0;
        this.dqTstamp = now;
      }
    }
    this.burstTime = this.burstTime > elapsed ? this.burstTime - elapsed : 0;
  }

  /** pie_calculate_probability(), every tupdate. */
  update(params: PieParams, backlogBytes: number): void {
    let qdelay: number, qdelayOld: number;
    if (params.dqRateEstimator) {
      qdelayOld = this.qdelay;
      this.qdelayOld = this.qdelay;
      qdelay = this.avgDqRate > 0 ? Math.floor(((backlogBytes * 256) % 2 ** 32) / this.avgDqRate) : 0;
    } else {
      qdelay = this.qdelay;
      qdelayOld = this.qdelayOld;
    }
    // No delay although something waits: too little to judge by.
    let judge = !(qdelay === 0 && backlogBytes !== 0);

    let alpha = Math.floor((params.alpha * GAIN) / 16), beta = Math.floor((params.beta * GAIN) / 16);
    if (less(this.probHigh, this.probLow, TENTH)) {
      alpha = Math.floor(alpha / 2);
      beta = Math.floor(beta / 2);
      for (let i = 0; i < DECADES.length && less(this.probHigh, this.probLow, DECADES[i]!); i++) {
        alpha = Math.floor(alpha / 4);
        beta = Math.floor(beta / 4);
      }
    }
    // delta = alpha × (qdelay − target) + beta × (qdelay − qdelayOld), signed, in two parts
    const error = qdelay - params.target, change = qdelay - qdelayOld;
    let deltaHigh = 0, deltaLow = 0;
    for (let term = 0; term < 2; term++) {
      const gain = term === 0 ? alpha : beta, difference = term === 0 ? error : change;
      const gainHigh = Math.floor(gain / 0x20000), gainLow = gain - gainHigh * 0x20000;
      const upper = gainHigh * difference, lower = gainLow * difference;
      // upper × 2^17 = (upper / 2^11) × 2^28 + (upper mod 2^11) × 2^17
      const upperHigh = Math.floor(upper / 2048), lowerHigh = Math.floor(lower / B);
      deltaHigh += upperHigh + lowerHigh;
      deltaLow += (upper - upperHigh * 2048) * 0x20000 + (lower - lowerHigh * B);
    }
    let carry = Math.floor(deltaLow / B);
    deltaLow -= carry * B;
    deltaHigh += carry;

    // Never more than 2 % up at a time …
    const aboveFiftieth = deltaHigh > ONE_FIFTIETH.high || (deltaHigh === ONE_FIFTIETH.high && deltaLow > ONE_FIFTIETH.low);
    if (aboveFiftieth && !less(this.probHigh, this.probLow, TENTH)) {
      deltaHigh = TWO_PERCENT.high;
      deltaLow = TWO_PERCENT.low;
    }
    // … but 2 % on top when the delay is beyond 250 ms.
    if (qdelay > HIGH_DELAY_TICKS) {
      deltaHigh += ONE_FIFTIETH.high;
      deltaLow += ONE_FIFTIETH.low;
      if (deltaLow >= B) {
        deltaLow -= B;
        deltaHigh++;
      }
    }
    let high = this.probHigh + deltaHigh, low = this.probLow + deltaLow;
    carry = Math.floor(low / B);
    low -= carry * B;
    high += carry;
    if (high >= U64_HIGH) {
      high = MAX.high;
      low = MAX.low;
      judge = false;
    } else if (high < 0) {
      high = 0;
      low = 0;
    }
    if (qdelay === 0 && qdelayOld === 0 && judge) {
      // prob −= prob / 64
      const sixtyFourth = Math.floor(high / 64);
      low -= Math.floor(((high - sixtyFourth * 64) * B + low) / 64);
      high -= sixtyFourth;
      if (low < 0) {
        low += B;
        high--;
      }
    }
    this.probHigh = high;
    this.probLow = low;
    this.qdelay = qdelay;
    const half = Math.floor(params.target / 2);
    if (qdelay < half && this.qdelayOld < half && high === 0 && low === 0 && (!params.dqRateEstimator || this.avgDqRate > 0)) this.restart();
    if (!params.dqRateEstimator) this.qdelayOld = qdelay;
  }
}
