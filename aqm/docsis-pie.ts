/**
 * DOCSIS-PIE: White, Pan, RFC 8034, 2017, section 4 and the pseudocode of appendix A (its data path as CableLabs' own ns-3
 * model has it): PIE for cable modems. The queueing delay comes from the service flow's own shaping: what the token bucket
 * of the maximum sustained rate holds leaves at the peak rate, the rest at the sustained rate; nothing is measured.
 *
 * Differences from Linux's PIE (the RFC's own, section 4): latency by rates, not by sojourn; auto-tuning goes on above
 * 10 % (probability per 1024 bytes, up to 0.85 · 1024 / 64); byte mode always, with the probability of one packet at
 * most 0.85; AQM begins once a third of the buffer is filled, and the burst allowance of 142 ms with the first drop after
 * that; p decays by 2 % an interval while the latency is below 5 ms; +2 % above 200 ms; 16 ms intervals; no ECN.
 *
 * Differences from RFC 8034: the discipline does not shape (the link does); the default buffer is DOCSIS's, 100 ms of the
 * peak rate (MULPI 3.1, C.1.2.17).
 */

import { z } from 'zod';
import { UserError } from '../testbed/errors.js';
import { zBytes } from '../testbed/qdiscs/schemas.js';
import { zRate, zSize, zTime } from '../testbed/units.js';
import type { AqmContext, AqmKind, QueuedPacket } from './aqm.js';
import { number, positiveTimes } from './params.js';
import { SingleQueue } from './single-queue.js';

// Constants of appendix A; times in s.
const MAX_BURST = 0.142, BURST_RESET_TIMEOUT = 1;
const MEAN_PKTSIZE = 1024, MIN_PKTSIZE = 64;
const PROB_LOW = 0.85, PROB_HIGH = 8.5;
const LATENCY_LOW = 0.005, LATENCY_HIGH = 0.2;

const INACTIVE = 0, QUIESCENT = 1, ACTIVE = 2;

interface DocsisPieParams {
  readonly bufferBytes: number;
  /** s */
  readonly target: number;
  readonly tupdateNs: number;
  readonly alpha: number;
  readonly beta: number;
  /** Bytes/s. */
  readonly msr: number;
  readonly peakRate: number;
  /** Depth of the sustained rate's token bucket, bytes. */
  readonly burst: number;
}

class DocsisPie extends SingleQueue {
  private prob = 0;
  private accuProb = 0;
  private qdelayOld = 0;
  private burstAllowance = 0;
  private burstReset = 0;
  private aqmState = INACTIVE;
  private tokens: number;
  private tokensNs: number;

  constructor(context: AqmContext, private readonly params: DocsisPieParams, startNs: number) {
    super(context, { packets: Infinity, bytes: params.bufferBytes }, false);
    this.tokens = params.burst;
    this.tokensNs = startNs;
    this.timerNs = startNs + params.tupdateNs;
  }

  override enqueue(packet: QueuedPacket, nowNs: number): void {
    packet.enqueueNs = nowNs;
    if (this.dropEarly(packet.size)) {
      this.signal(packet, false, nowNs);
      return;
    }
    if (this.overLimit(packet, nowNs)) return;
    this.accept(packet);
  }

  /** drop_early() of appendix A. */
  private dropEarly(size: number): boolean {
    if (this.burstAllowance > 0) return false;
    if (this.prob === 0) this.accuProb = 0;
    if (this.aqmState === INACTIVE) {
      if (this.backlogBytes < this.params.bufferBytes / 3) return false;
      this.aqmState = QUIESCENT;
    }
    const p1 = Math.min((this.prob * size) / MEAN_PKTSIZE, PROB_LOW);
    this.accuProb += p1;
    if ((this.qdelayOld < 0.5 * this.params.target && this.prob < 0.2) || this.backlogBytes <= 2 * MEAN_PKTSIZE) return false;
    if (this.accuProb < PROB_LOW) return false;
    if (this.accuProb < PROB_HIGH && !this.chance(p1)) return false;
    this.accuProb = 0;
    if (this.aqmState === QUIESCENT) {
      this.aqmState = ACTIVE;
      this.burstAllowance = MAX_BURST;
    }
    return true;
  }

  private tokensAt(nowNs: number): number {
    return Math.min(this.params.burst, this.tokens + ((nowNs - this.tokensNs) / 1e9) * this.params.msr);
  }

  protected override departed(packet: QueuedPacket, nowNs: number): void {
    this.tokens = Math.max(0, this.tokensAt(nowNs) - packet.size);
    this.tokensNs = nowNs;
  }

  /** The latency estimate, s. */
  private latency(nowNs: number): number {
    const { msr, peakRate } = this.params;
    const atPeak = Math.min(this.backlogBytes, this.tokensAt(nowNs));
    return atPeak / peakRate + (this.backlogBytes - atPeak) / msr;
  }

  /** calculate_drop_prob() of appendix A, every interval. */
  override tick(nowNs: number): void {
    const { target, tupdateNs, alpha, beta } = this.params, interval = tupdateNs / 1e9;
    const qdelay = this.latency(nowNs);
    if (this.burstAllowance > 0) {
      this.prob = 0;
      this.burstAllowance = Math.max(0, this.burstAllowance - interval);
    } else {
      let p = (alpha * (qdelay - target) + beta * (qdelay - this.qdelayOld)) * tuning(this.prob);
      if (this.prob >= 0.1 && p > 0.02) p = 0.02;
      this.prob += p;
      if (qdelay < LATENCY_LOW && this.qdelayOld < LATENCY_LOW) this.prob *= 0.98;
      else if (qdelay > LATENCY_HIGH) this.prob += 0.02;
      this.prob = Math.min(Math.max(0, this.prob), (PROB_LOW * MEAN_PKTSIZE) / MIN_PKTSIZE);
    }
    const quiet = qdelay < 0.5 * target && this.qdelayOld < 0.5 * target && this.prob === 0 && this.burstAllowance === 0;
    if (this.aqmState === ACTIVE && quiet) {
      this.aqmState = QUIESCENT;
      this.burstReset = 0;
    } else if (this.aqmState === QUIESCENT) {
      this.burstReset = quiet ? this.burstReset + interval : 0;
      if (this.burstReset > BURST_RESET_TIMEOUT) {
        this.burstReset = 0;
        this.aqmState = INACTIVE;
      }
    }
    this.qdelayOld = qdelay;
    this.timerNs = nowNs + tupdateNs;
  }

  override readState(into: Float64Array, nowNs: number): void {
    into[0] = this.early;
    into[1] = this.pdrop;
    into[2] = this.prob;
    into[3] = this.latency(nowNs) * 1e9;
    into[4] = this.burstAllowance * 1e9;
    into[5] = this.aqmState;
  }
}

/** Auto-tuning by the size of the probability, below 10^-6 up to above 10. */
function tuning(prob: number): number {
  if (prob < 0.000001) return 1 / 2048;
  if (prob < 0.00001) return 1 / 512;
  if (prob < 0.0001) return 1 / 128;
  if (prob < 0.001) return 1 / 32;
  if (prob < 0.01) return 1 / 8;
  if (prob < 0.1) return 1 / 2;
  if (prob < 1) return 2;
  return prob < 10 ? 8 : 32;
}

const gain = 'expected a weight in Hz above 0, up to 1000, such as 0.25';
const zWeight = z.number({ error: gain }).gt(0, { error: gain }).max(1000, { error: gain });

export const docsisPie: AqmKind = {
  kind: 'docsis-pie',
  schema: positiveTimes(
    z.strictObject({
      limit: zSize.optional(), target: zTime.optional(), tupdate: zTime.optional(), alpha: zWeight.optional(), beta: zWeight.optional(),
      msr: zRate.optional(), peak_rate: zRate.optional(), burst: zBytes.optional(),
    }).superRefine((params, context) => {
      if (params.msr !== undefined && params.peak_rate !== undefined && params.peak_rate < params.msr) {
        context.addIssue({ code: 'custom', path: ['peak_rate'], message: `expected peak_rate of at least msr (${params.msr} bits/s)` });
      }
    }),
    'target', 'tupdate',
  ),
  state: ['early', 'pdrop', 'prob', 'delay', 'burst_allowance', 'aqm_state'],
  create(params, context, startNs) {
    const msrBps = number(params, 'msr', context.rateBps ?? number(params, 'peak_rate', 0));
    if (msrBps <= 0) throw new UserError('queue docsis-pie: the rate of the link is unknown here; expected msr, the maximum sustained rate, such as 20mbit');
    const peakBps = number(params, 'peak_rate', msrBps);
    if (peakBps < msrBps) throw new UserError(`queue docsis-pie: peak_rate (${peakBps} bits/s) must be at least the link's rate (${msrBps} bits/s); expected a larger peak_rate, or msr`);
    return new DocsisPie(
      context,
      {
        bufferBytes: number(params, 'limit', Math.max(context.mtuBytes, Math.round((peakBps / 8) * 0.1))),
        target: number(params, 'target', 10e6) / 1e9, tupdateNs: number(params, 'tupdate', 16e6),
        alpha: number(params, 'alpha', 0.25), beta: number(params, 'beta', 2.5),
        msr: msrBps / 8, peakRate: peakBps / 8, burst: number(params, 'burst', 3044),
      },
      startNs,
    );
  },
};
