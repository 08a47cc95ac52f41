/**
 * Queue disciplines with one deliberate fault each, for tests of whatever is to notice: decision replay (layer 2) and the comparison of
 * whole runs (layer 3). Each is a map of kinds like aqm/registry.ts, in which one kind is broken.
 */

import type { AqmKind, QueueDiscipline } from '../../aqm/aqm.js';
import { Codel } from '../../aqm/codel.js';
import type { CodelVars } from '../../aqm/codel-core.js';
import { Red } from '../../aqm/red.js';
import type { RedParams, RedVars } from '../../aqm/red-core.js';
import { aqms } from '../../aqm/registry.js';

export interface BrokenAqm {
  readonly name: string;
  /** What is wrong with it, in a few words. */
  readonly fault: string;
  /** The kind that is broken. */
  readonly kind: string;
  readonly aqms: ReadonlyMap<string, AqmKind>;
}

function broken(name: string, kind: string, fault: string, create: (right: AqmKind, ...given: Parameters<AqmKind['create']>) => QueueDiscipline): BrokenAqm {
  const right = aqms.get(kind);
  if (right === undefined) throw new Error(`no discipline ${kind}`);
  return { name, fault, kind, aqms: new Map([...aqms, [kind, { ...right, create: (...given) => create(right, ...given) }]]) };
}

export const brokenAqms: readonly BrokenAqm[] = [
  broken('codel-target-50ms', 'codel', 'target is 50 ms instead of 5 ms', (right, params, context, startNs) => right.create({ ...params, target: 50e6 }, context, startNs)),
  broken('codel-wrong-sqrt', 'codel', 'every Newton step leaves 1/sqrt(count) 3 % too small', (right, params, context, startNs) => {
    const queue = right.create(params, context, startNs);
    if (!(queue instanceof Codel)) throw new Error('codel is no Codel');
    const { vars } = queue as unknown as { readonly vars: CodelVars }; // protected
    let value = vars.recInvSqrt;
    Object.defineProperty(vars, 'recInvSqrt', {
      get: () => value,
      set: (next: number) => { value = vars.count > 1 ? next - (next >>> 5) : next; },
    });
    return queue;
  }),
  broken('red-count-ignored', 'red', 'the probability does not rise with the packets since the last signal', (right, params, context, startNs) => {
    const queue = right.create(params, context, startNs);
    if (!(queue instanceof Red)) throw new Error('red is no Red');
    const { vars } = queue as unknown as { readonly vars: RedVars }; // protected
    // p_b for every packet: a fresh number each time, as if each were the first since the last signal.
    vars.due = (red: RedParams): boolean => {
      const due = Math.floor((vars.qavg - red.qthMin) / red.scale) >= vars.qR;
      vars.qR = red.random(context.randomU32());
      return due;
    };
    vars.chanceOfDue = (red: RedParams): number => Math.min(1, (Math.floor((vars.qavg - red.qthMin) / red.scale) + 1) / (red.random(0xffffffff) + 1));
    return queue;
  }),
  broken('fq_codel-half-quantum', 'fq_codel', 'a turn is half a quantum', (right, params, context, startNs) =>
    right.create({ ...params, quantum: Math.floor(Number(params['quantum'] ?? context.mtuBytes) / 2) }, context, startNs)),
  broken('pfifo-off-by-one', 'pfifo', 'holds one packet more than its limit', (right, params, context, startNs) => right.create({ ...params, limit: Number(params['limit'] ?? 1000) + 1 }, context, startNs)),
  broken('pie-old-delay-forgotten', 'pie', 'beta is 0: the trend of the delay does not count', (right, params, context, startNs) => right.create({ ...params, beta: 0 }, context, startNs)),
  broken('fq_pie-half-target', 'fq_pie', 'target is 7.5 ms instead of 15 ms', (right, params, context, startNs) => right.create({ ...params, target: 7.5e6 }, context, startNs)),
  broken('cake-rtt-20ms', 'cake', "COBALT's interval is 20 ms instead of 100 ms", (right, params, context, startNs) => right.create({ ...params, rtt: 20e6 }, context, startNs)),
  broken('fq-half-quantum', 'fq', 'a turn is half a quantum', (right, params, context, startNs) => right.create({ ...params, quantum: context.mtuBytes }, context, startNs)),
  broken('hhf-admits-twice', 'hhf', 'a flow is heavy only after twice the bytes', (right, params, context, startNs) => right.create({ ...params, admit_bytes: 2 * Number(params['admit_bytes'] ?? 131072) }, context, startNs)),
  broken('pfifo_fast-no-batches', 'pfifo_fast', "a ring's places are free at once", (_, __, context, startNs) => aqms.get('pfifo')!.create({ limit: 1000 }, context, startNs)),
  broken('sfb-double-increment', 'sfb', 'the probability rises twice as fast', (right, params, context, startNs) => right.create({ ...params, increment: 66 / 65535 }, context, startNs)),
  broken('choke-double-min', 'choke', 'compares only from twice the threshold on', (right, params, context, startNs) => right.create({ ...params, min: 20 }, context, startNs)),
  broken('dualpi2-coupling-4', 'dualpi2', 'the L4S probability is four times the base instead of twice', (right, params, context, startNs) => right.create({ ...params, coupling_factor: 4 }, context, startNs)),
];

/** @throws Error when there is none of that name */
export function brokenAqm(name: string): BrokenAqm {
  const found = brokenAqms.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no broken AQM ${name}; there are ${brokenAqms.map((one) => one.name).join(', ')}`);
  return found;
}
