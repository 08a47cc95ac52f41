/**
 * netem as a wire: delay, jitter (uniform; it may reorder), loss, duplication, reordering (net/sched/sch_netem.c; iproute2 q_netem.c).
 * tc knows no time finer than 1 µs; a delay that its ticks cannot express is sent as ns besides (TCA_NETEM_LATENCY64, JITTER64).
 */

import { attribute, attributeU64 } from '../linux/attributes.js';
import type { PlanWire } from '../plan/plan.js';
import { timeWord } from './parameters.js';
import { ticksOfNs, ticksPerMicrosecond } from './psched.js';

/** tc's get_percent: 1 is 2^32 − 1, rounded to even as rint does for halves, which do not occur here. */
const share = (probability: number): number => Math.min(Math.round(probability * 0xffffffff), 0xffffffff);

export function encodeNetem(wire: PlanWire): Buffer {
  // struct tc_netem_qopt
  const options = Buffer.alloc(24);
  const reorders = wire.reorder > 0;
  [ticksOfNs(wire.delayNs), wire.limitPackets, share(wire.loss), reorders ? 1 : 0, share(wire.duplicate), ticksOfNs(wire.jitterNs)]
    .forEach((value, index) => options.writeUInt32LE(value >>> 0, 4 * index));
  const nsPerTick = 1000 / ticksPerMicrosecond();
  const exact = (ns: number): boolean => ticksOfNs(ns) < 2 ** 32 && ticksOfNs(ns) * nsPerTick === ns;
  const out: Buffer[] = [options];
  if (reorders) {
    const chance = Buffer.alloc(8);
    chance.writeUInt32LE(share(wire.reorder), 0);
    out.push(attribute(3, chance));
  }
  if (!exact(wire.delayNs)) out.push(attributeU64(10, BigInt(wire.delayNs)));
  if (!exact(wire.jitterNs)) out.push(attributeU64(11, BigInt(wire.jitterNs)));
  return Buffer.concat(out);
}

const percentWord = (probability: number): string => `${Number((probability * 100).toPrecision(12))}%`;
export function netemWords(wire: PlanWire): string[] {
  return [
    'limit', String(wire.limitPackets),
    ...(wire.delayNs > 0 || wire.jitterNs > 0 ? ['delay', timeWord(wire.delayNs)] : []), ...(wire.jitterNs > 0 ? [timeWord(wire.jitterNs)] : []),
    ...(wire.loss > 0 ? ['loss', percentWord(wire.loss)] : []), ...(wire.duplicate > 0 ? ['duplicate', percentWord(wire.duplicate)] : []),
    ...(wire.reorder > 0 ? ['reorder', percentWord(wire.reorder)] : []),
  ];
}
