/**
 * RED's average and decision, shared by red, sfq and choke: Floyd & Jacobson 1993 in the "divisionless" fixed point of
 * Linux 6.12 (include/net/red.h), bit for bit: qavg scaled by 2^Wlog, the idle decay table Stab, a cached random
 * number qR against (qavg − min) × qcount, max_P in units of 2^-32, and the adaptive max_P of Floyd, Gummadi and
 * Shenker 2001. The kernel's reciprocal division is exact for 32 bits, so a plain division gives the same.
 *
 * Wlog, Stab and Scell_log come from tc's own arithmetic (testbed/qdiscs/red-arithmetic.ts). tc computes Stab in
 * scheduler ticks of 64 ns and the kernel reads it in µs: while idle an average therefore decays about 15.6 times
 * slower than the paper's. Kept, as that is what runs.
 *
 * Differences from Linux: none. (There is no gentle mode in Linux.)
 */

import type { Chance, QueuedPacket } from './aqm.js';
import { mulShift } from './integer.js';

export const RED_DONT_MARK = 0, RED_PROB_MARK = 1, RED_HARD_MARK = 2;

/** 1 % in units of 2^-32. */
const ONE_PERCENT = Math.round(2 ** 32 / 100);

export class RedParams {
  readonly qthMin: number;
  readonly qthMax: number;
  readonly qthDelta: number;
  /** 2^wlog: qavg's unit. */
  readonly scale: number;
  private readonly scellMax: number;
  private readonly targetMin: number;
  private readonly targetMax: number;
  maxP: number;
  /** max_P / (max − min), at least 1: a random u32 divided by it is uniform in 0 … (max − min) / max_P. */
  private maxPDelta: number;

  /**
   * red_set_parms(). Thresholds in the unit of the backlog (bytes; packets for choke).
   * @param maxP units of 2^-32; @param stab idle decay by (idle µs >> scellLog), null where the queue never idles.
   */
  constructor(
    min: number, max: number, wlog: number,
    maxP: number, private readonly scellLog: number, private readonly stab: Uint8Array | null,
  ) {
    this.scale = 2 ** wlog;
    this.qthMin = min * this.scale;
    this.qthMax = max * this.scale;
    this.qthDelta = Math.max(1, max - min);
    this.maxP = maxP;
    this.maxPDelta = Math.max(1, Math.floor(maxP / this.qthDelta));
    const fifth = Math.floor(this.qthDelta / 5);
    this.targetMin = min + 2 * fifth;
    this.targetMax = min + 3 * fifth;
    this.scellMax = (255 << scellLog) >>> 0;
  }

  /** red_random() */
  random(u32: number): number {
    return Math.floor(u32 / this.maxPDelta);
  }

  /** red_calc_qavg_from_idle_time() */
  afterIdle(qavg: number, idleNs: number): number {
    const idleUs = Math.min(Math.floor(idleNs / 1000), this.scellMax);
    const shift = this.stab![Math.floor(idleUs / 2 ** this.scellLog) & 255]!;
    if (shift !== 0) return Math.floor(qavg / 2 ** shift);
    const decay = mulShift(qavg, idleUs, this.scellLog), half = Math.floor(qavg / 2);
    return decay < half ? qavg - decay : half;
  }

  /** red_adaptative_algo(), every 0.5 s. */
  adapt(qavgScaled: number): void {
    const qavg = Math.floor(qavgScaled / this.scale);
    if (qavg > this.targetMax && this.maxP <= 50 * ONE_PERCENT) this.maxP += Math.min(ONE_PERCENT, Math.floor(this.maxP / 4));
    else if (qavg < this.targetMin && this.maxP >= ONE_PERCENT) this.maxP = Math.floor(this.maxP / 10) * 9;
    this.maxPDelta = Math.max(1, Math.floor(((this.maxP + Math.floor(this.qthDelta / 2)) % 2 ** 32) / this.qthDelta));
  }
}

export class RedVars {
  /** Average queue, scaled by 2^wlog. */
  qavg = 0;
  /** Packets since the last random number; −1: none wanted. */
  qcount = -1;
  qR = 0;
  /** The most that any packet of this series has come to (see `chanceOfDue`). */
  private passed = -1;
  idle = false;
  idleStartNs = 0;

  /** red_set_vars() */
  reset(): void {
    this.qavg = 0;
    this.qcount = -1;
  }

  /** red_set_vars() with red_start_of_idle_period(): parameters were changed, and the queue is empty. */
  restart(nowNs: number): void {
    this.reset();
    this.idle = true;
    this.idleStartNs = nowNs;
  }

  /** red_calc_qavg(): the average at an arrival that finds `backlog` waiting; ends an idle period. */
  arrive(params: RedParams, backlog: number, nowNs: number): void {
    if (this.idle) {
      this.qavg = params.afterIdle(this.qavg, nowNs - this.idleStartNs);
      this.idle = false;
    } else {
      this.qavg += backlog - Math.floor(this.qavg / params.scale);
    }
  }

  startIdle(nowNs: number): void {
    if (this.idle) return;
    this.idle = true;
    this.idleStartNs = nowNs;
  }

  /** The average now, idle decay included, in the unit of the backlog × 2^wlog. */
  averageAt(params: RedParams, nowNs: number): number {
    return this.idle ? params.afterIdle(this.qavg, nowNs - this.idleStartNs) : this.qavg;
  }

  /** red_mark_probability(): (qavg − min) × qcount has reached the random number. */
  due(params: RedParams): boolean {
    return Math.floor((this.qavg - params.qthMin) / params.scale) * this.qcount >= this.qR;
  }

  /**
   * P(due), given that no packet of the series was before: the number, drawn once for the series, is uniform over what they left of
   * 0 … the largest there is.
   */
  chanceOfDue(params: RedParams): number {
    const most = params.random(0xffffffff);
    if (most <= this.passed) return 1;
    const reached = Math.min(most, Math.floor((this.qavg - params.qthMin) / params.scale) * this.qcount);
    if (reached <= this.passed) return 0;
    const chance = (reached - this.passed) / (most - this.passed);
    this.passed = reached;
    return chance;
  }

  /** A series begins: its number is drawn. */
  begin(params: RedParams, randomU32: () => number): void {
    this.qR = params.random(randomU32());
    this.passed = -1;
  }

  private signals(params: RedParams, packet: QueuedPacket | null, chance: Chance | undefined): boolean {
    return chance === undefined || packet === null ? this.due(params) : chance.signals(packet, this.chanceOfDue(params));
  }

  /** Between the thresholds: the decision on a packet, which counts it. */
  between(params: RedParams, randomU32: () => number, packet: QueuedPacket | null, chance: Chance | undefined): boolean {
    let signal = false;
    if (++this.qcount !== 0) {
      if (!this.signals(params, packet, chance)) return false;
      this.qcount = 0;
      signal = true;
    }
    this.begin(params, randomU32);
    return signal;
  }

  /** red_action() */
  action(params: RedParams, randomU32: () => number, packet: QueuedPacket | null = null, chance?: Chance): number {
    if (this.qavg < params.qthMin) {
      this.qcount = -1;
      return RED_DONT_MARK;
    }
    if (this.qavg >= params.qthMax) {
      this.qcount = -1;
      return RED_HARD_MARK;
    }
    return this.between(params, randomU32, packet, chance) ? RED_PROB_MARK : RED_DONT_MARK;
  }
}
