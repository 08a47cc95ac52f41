/**
 * COBALT, the control of CAKE: CoDel and BLUE side by side, as Linux 6.12 computes it (net/sched/sch_cake.c,
 * cobalt_…), bit for bit: ns, 1/sqrt(count) in 32 bits (exact values up to 15, one Newton step beyond), BLUE's
 * probability in units of 2^-32.
 *
 * As in Linux a flow's first signal comes as soon as it is over target: its reciprocal root begins at 0, not at 1. In a queue that was over
 * target before, for another flow too, the root has gone back to 1, and the signal comes an interval later.
 *
 * Differences from Linux: none.
 */

import type { Chance, QueuedPacket } from './aqm.js';
import { setCe } from './ecn.js';
import { mulHigh } from './integer.js';

export interface CobaltParams {
  readonly intervalNs: number;
  readonly targetNs: number;
  /** Serialisation of the largest packet. */
  readonly mtuTimeNs: number;
}

/** BLUE's steps: up 1/256, down 1/4096. */
const P_INC = 1 << 24, P_DEC = 1 << 20;
const MAX_U32 = 0xffffffff;

/** inv_sqrt_cache, sch_cake.c: 2^32 / sqrt(count) as eight Newton steps leave it; 0 and 1 as near to 1 as 32 bits allow. */
const EXACT_ROOTS = [
  4294967295, 4294967295, 3037000500, 2479700525, 2147483647, 1920767767, 1753413056, 1623345051,
  1518500250, 1431655765, 1358187914, 1294981364, 1239850263, 1191209601, 1147878294, 1108955788,
] as const;
/** cobalt_invsqrt(): the root for `count`, one more or less than the count `recInvSqrt` belongs to. */
export const cobaltRoot = (count: number, recInvSqrt: number): number => (count < EXACT_ROOTS.length ? EXACT_ROOTS[count]! : cobaltNewtonStep(count, recInvSqrt));

/** cobalt_newton_step() for count ≥ 16, which only ever changes by one: count × rec² stays near 1 and nothing wraps. */
function cobaltNewtonStep(count: number, recInvSqrt: number): number {
  const value = Math.floor((3 * 0x100000000 - count * mulHigh(recInvSqrt, recInvSqrt)) / 4);
  const low = value * (recInvSqrt % 0x10000);
  return Math.floor((value * Math.floor(recInvSqrt / 0x10000) + Math.floor(low / 0x10000)) / 0x8000) % 0x100000000;
}

export class CobaltVars {
  count = 0;
  recInvSqrt = 0;
  dropNextNs = 0;
  blueTimerNs = 0;
  pDrop = 0;
  dropping = false;
  /** With `chance`: a queue that was never over target before is since this time, ns, so its next signal is due at once; null otherwise. */
  private firstOverNs: number | null = null;
  /** The last packet that shouldDrop() let pass was marked. */
  ecnMarked = false;

  private countTo(count: number): void {
    this.count = count;
    this.recInvSqrt = cobaltRoot(count, this.recInvSqrt);
  }

  /** cobalt_control(); the kernel cuts interval to 32 bits. */
  private after(timeNs: number, params: CobaltParams): number {
    return timeNs + mulHigh(params.intervalNs % 0x100000000, this.recInvSqrt);
  }

  /** cobalt_queue_full(): a packet had to go for want of room. @returns true when BLUE awoke */
  queueFull(params: CobaltParams, nowNs: number): boolean {
    let awoke = false;
    if (nowNs - this.blueTimerNs > params.targetNs) {
      awoke = this.pDrop === 0;
      this.pDrop = Math.min(MAX_U32, this.pDrop + P_INC);
      this.blueTimerNs = nowNs;
    }
    this.dropping = true;
    this.dropNextNs = nowNs;
    if (this.count === 0) this.count = 1;
    return awoke;
  }

  /** cobalt_queue_empty(): served and found empty. @returns true when BLUE went to rest */
  queueEmpty(params: CobaltParams, nowNs: number): boolean {
    let rested = false;
    if (this.pDrop !== 0 && nowNs - this.blueTimerNs > params.targetNs) {
      this.pDrop = this.pDrop < P_DEC ? 0 : this.pDrop - P_DEC;
      this.blueTimerNs = nowNs;
      rested = this.pDrop === 0;
    }
    this.dropping = false;
    if (this.count !== 0 && nowNs - this.dropNextNs >= 0) {
      this.countTo(this.count - 1);
      this.dropNextNs = this.after(this.dropNextNs, params);
    }
    return rested;
  }

  /** cobalt_should_drop(): marks, or says that the packet must go. @param bulkFlows flows to allow two packets each (ingress mode) @param last of its queue: CAKE will not drop it @param triedShare of the queues that a new flow may be given, those that were over target before */
  shouldDrop(packet: QueuedPacket, params: CobaltParams, bulkFlows: number, nowNs: number, randomU32: () => number, chance?: Chance, last = false, triedShare = 0): boolean {
    const sojourn = nowNs - packet.enqueueNs;
    let schedule = nowNs - this.dropNextNs;
    const overTarget = sojourn > params.targetNs && sojourn > params.mtuTimeNs * bulkFlows * 2 && sojourn > params.mtuTimeNs * 4;
    let due = this.count !== 0 && schedule >= 0;
    let drop = false;
    this.ecnMarked = false;
    if (overTarget) {
      if (!this.dropping) {
        this.dropping = true;
        this.dropNextNs = this.after(nowNs, params);
        // After a pause longer than the interval the next is due at once in any queue: see the end.
        if (this.recInvSqrt === 0 && schedule <= 0) this.firstOverNs = nowNs;
      }
      if (this.count === 0) this.count = 1;
    } else {
      this.dropping = false;
    }
    if (chance?.placed === false && this.firstOverNs !== null && due && this.dropping) {
      if (chance.reused(packet, triedShare, last && packet.ecn === 0)) {
        this.recInvSqrt = EXACT_ROOTS[1];
        this.dropNextNs = this.after(this.firstOverNs, params);
        schedule = nowNs - this.dropNextNs;
        due = schedule >= 0;
      }
      this.firstOverNs = null;
    }
    if (due && this.dropping) {
      this.ecnMarked = setCe(packet);
      drop = !this.ecnMarked;
      this.countTo(Math.min(MAX_U32, this.count + 1));
      this.dropNextNs = this.after(this.dropNextNs, params);
      schedule = nowNs - this.dropNextNs;
    } else {
      while (due) {
        this.countTo(this.count - 1);
        this.dropNextNs = this.after(this.dropNextNs, params);
        schedule = nowNs - this.dropNextNs;
        due = this.count !== 0 && schedule >= 0;
      }
    }
    // BLUE drops even what could be marked: it is for flows that do not answer marks.
    if (this.pDrop !== 0) {
      if (chance === undefined) drop = randomU32() < this.pDrop || drop;
      // CoDel has dropped it, or CAKE drops no queue's last packet: nobody can tell.
      else if (drop || last) chance.signals(packet, this.pDrop / 0x100000000, true);
      else drop = chance.drops(packet, this.pDrop / 0x100000000);
    }
    if (this.count === 0) this.dropNextNs = nowNs + params.intervalNs;
    else if (schedule > 0 && !drop) this.dropNextNs = nowNs;
    return drop;
  }
}
