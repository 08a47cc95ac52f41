/**
 * CoDel's state and control law, shared by codel and fq_codel: RFC 8289 as Linux 6.12 computes it
 * (include/net/codel.h, codel_impl.h), bit for bit: time in units of 1024 ns modulo 2^32, compared as signed
 * differences; 1/sqrt(count) in 16 bits by one Newton step a change of count, with the kernel's 64-bit wrap.
 *
 * Differences from Linux: none.
 */

import type { QueuedPacket } from './aqm.js';
import { setCe } from './ecn.js';

/** codel_get_time(): ns → units of 1024 ns, as int32 (the kernel's u32 with the same bits). */
export const codelTime = (ns: number): number => (ns / 1024) | 0;
/** A parameter as tc passes it (whole µs), in codel time. */
export const codelPeriod = (ns: number): number => Math.floor((Math.floor(ns / 1000) * 1000) / 1024) | 0;
/** codel_time_to_us(), then ns: the resolution in which the kernel reports. */
export const codelTimeToNs = (time: number): number => Math.floor(((time >>> 0) * 1024) / 1000) * 1000;

/** CODEL_DISABLED_THRESHOLD */
export const CE_THRESHOLD_OFF = 0x7fffffff;

export interface CodelParams {
  readonly target: number;
  readonly interval: number;
  readonly ceThreshold: number;
  /** ce_threshold applies to packets whose DS field & mask is the selector; mask 0: to all. */
  readonly ceSelector: number;
  readonly ceMask: number;
  /** No drop while at most this many bytes wait. */
  readonly mtuBytes: number;
  readonly ecn: boolean;
}

export class CodelVars {
  count = 0;
  lastcount = 0;
  dropping = false;
  /** 1/sqrt(count) in units of 2^-16. */
  recInvSqrt = 0;
  firstAboveTime = 0;
  dropNext = 0;
  ldelay = 0;
}

/** Whose packets they are. */
export interface CodelOwner {
  readonly backlogBytes: number;
  marks: number;
  /** Marks of ce_threshold among them. */
  ceMarks: number;
  /** Largest packet that the control law has seen, bytes. */
  maxPacket: number;
  /** Takes the first packet of the queue these vars belong to, the backlog already reduced. */
  codelPop(vars: CodelVars): QueuedPacket | null;
  codelDrop(packet: QueuedPacket, nowNs: number): void;
}

/** codel_Newton_step(): rec' = rec × (3 − count × rec²) / 2 in the kernel's fixed point. @returns 0 … 65535 */
export function newtonStep(count: number, recInvSqrt: number): number {
  const square = recInvSqrt * recInvSqrt;
  const product = count * square;
  // The usual case: nothing wraps, every product is below 2^53.
  if (product <= 3 * 0x100000000) {
    return Math.floor((Math.floor((3 * 0x100000000 - product) / 4) * recInvSqrt) / 0x80000000) & 0xffff;
  }
  // count was raised without a step (fq_codel's batch drop): the kernel's u64 wraps. Only bits 31 … 46 of the last product are kept, so 2^50 is modulus enough.
  const M50 = 2 ** 50, M48 = 2 ** 48;
  const wrapped = ((count & 0xffff) * square + ((Math.floor(count / 0x10000) * square) % 2 ** 34) * 0x10000) % M50;
  const value = Math.floor((((3 * 0x100000000 - wrapped) % M50) + M50) % M50 / 4);
  const high = Math.floor(value / 2 ** 24), low = value % 2 ** 24;
  const last = (((high * recInvSqrt) % 2 ** 24) * 2 ** 24 + low * recInvSqrt) % M48;
  return Math.floor(last / 0x80000000) & 0xffff;
}

/** codel_control_law(): t + interval / sqrt(count). */
export function controlLaw(time: number, interval: number, recInvSqrt: number): number {
  return (time + Math.floor(((interval >>> 0) * recInvSqrt) / 0x10000)) | 0;
}

function shouldDrop(owner: CodelOwner, packet: QueuedPacket | null, vars: CodelVars, params: CodelParams, now: number): boolean {
  if (packet === null) {
    vars.firstAboveTime = 0;
    return false;
  }
  const ldelay = (now - codelTime(packet.enqueueNs)) | 0;
  vars.ldelay = ldelay;
  if (packet.size > owner.maxPacket) owner.maxPacket = packet.size;
  if (((params.target - ldelay) | 0) > 0 || owner.backlogBytes <= params.mtuBytes) {
    vars.firstAboveTime = 0;
    return false;
  }
  if (vars.firstAboveTime === 0) {
    vars.firstAboveTime = (now + params.interval) | 0;
    return false;
  }
  return ((now - vars.firstAboveTime) | 0) > 0;
}

/** codel_dequeue(): the next packet to send, after dropping or marking what the control law says. */
export function codelDequeue(owner: CodelOwner, vars: CodelVars, params: CodelParams, nowNs: number): QueuedPacket | null {
  let packet = owner.codelPop(vars);
  if (packet === null) {
    vars.firstAboveTime = 0;
    vars.dropping = false;
    return null;
  }
  const now = codelTime(nowNs);
  const drop = shouldDrop(owner, packet, vars, params, now);
  if (vars.dropping) {
    if (!drop) {
      vars.dropping = false;
    } else {
      while (vars.dropping && ((now - vars.dropNext) | 0) >= 0) {
        vars.count = (vars.count + 1) >>> 0;
        vars.recInvSqrt = newtonStep(vars.count, vars.recInvSqrt);
        // `packet` is present here: dropping stays true only after shouldDrop() saw one.
        if (params.ecn && setCe(packet!)) {
          owner.marks++;
          vars.dropNext = controlLaw(vars.dropNext, params.interval, vars.recInvSqrt);
          break;
        }
        owner.codelDrop(packet!, nowNs);
        packet = owner.codelPop(vars);
        if (!shouldDrop(owner, packet, vars, params, now)) vars.dropping = false;
        else vars.dropNext = controlLaw(vars.dropNext, params.interval, vars.recInvSqrt);
      }
    }
  } else if (drop) {
    if (params.ecn && setCe(packet)) {
      owner.marks++;
    } else {
      owner.codelDrop(packet, nowNs);
      packet = owner.codelPop(vars);
      shouldDrop(owner, packet, vars, params, now);
    }
    vars.dropping = true;
    // Dropping ended a short while ago: start again near the rate that controlled the queue then.
    const delta = (vars.count - vars.lastcount) >>> 0;
    if (delta > 1 && (((params.interval << 4) - ((now - vars.dropNext) | 0)) | 0) > 0) {
      vars.count = delta;
      vars.recInvSqrt = newtonStep(delta, vars.recInvSqrt);
    } else {
      vars.count = 1;
      vars.recInvSqrt = 0xffff;
    }
    vars.lastcount = vars.count;
    vars.dropNext = controlLaw(now, params.interval, vars.recInvSqrt);
  }
  if (packet !== null && ((vars.ldelay - params.ceThreshold) | 0) > 0) {
    const field = (packet.dscp << 2) | packet.ecn;
    if ((params.ceMask === 0 || (field & params.ceMask) === params.ceSelector) && setCe(packet)) {
      owner.marks++;
      owner.ceMarks++;
    }
  }
  return packet;
}
