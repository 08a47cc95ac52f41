/**
 * What the engine that is to run a scenario makes of its queues and congestion controls: the loader asks it, so that
 * what only the engine's own code finds (a burst too small for tc's arithmetic, a parameter that is not simulated) is
 * told with file and line, before anything starts. One implementation an engine: here the kernel's, the simulator's
 * in simulator/rules.ts.
 */

import type { AqmContext, AqmKind } from '../../aqm/aqm.js';
import { aqms } from '../../aqm/registry.js';
import { UserError } from '../errors.js';
import type { PlanQueue } from '../plan/plan.js';
import { qdiscs } from '../qdiscs/registry.js';

/** Where a queue stands. */
export interface QueuePlace {
  /** IP MTU, bytes. */
  readonly mtuBytes: number;
  /** Link-layer bytes the shaper counts with each packet. */
  readonly overheadBytes: number;
  /** bits/s */
  readonly rateBps: number;
}

export interface QueueProblem {
  /** The parameter without which it would be right; null when it is not one alone. */
  readonly key: string | null;
  readonly message: string;
}

export interface EngineRules {
  /** What keeps the queue from being made here, or null. */
  queueProblem(queue: PlanQueue, place: QueuePlace): QueueProblem | null;
  /** Names `cc` may have; null where only the chosen kernel knows (testbed/machines). */
  readonly congestionControls: readonly string[] | null;
}

const tooLarge = 'does not fit the 32 bits the kernel has for it (in its own unit: µs, packets or bytes); expected at most 4294967295';
/** What a try to make a queue says against it, or null. Anything but a mistake of the user is thrown on. */
function complaint(make: () => void): string | null {
  try {
    make();
    return null;
  } catch (error) {
    if (error instanceof UserError) return error.message.replace(/^queue [\w-]+: /, '');
    // A number too large for the field of tc's structures it goes to.
    if (error instanceof RangeError) return tooLarge;
    throw error;
  }
}

/**
 * Tries `make` with the queue's parameters.
 * @param first keys to blame before others: those an event changes
 */
export function tryQueue(params: PlanQueue['params'], make: (params: PlanQueue['params']) => void, first: readonly string[] = []): QueueProblem | null {
  const message = complaint(() => make(params));
  if (message === null) return null;
  const without = (key: string): PlanQueue['params'] => Object.fromEntries(Object.entries(params).filter(([other]) => other !== key));
  const key = [...first, ...Object.keys(params)].find((candidate) => complaint(() => make(without(candidate))) === null);
  return { key: key ?? null, message: message !== tooLarge ? message : `${key === undefined ? 'a parameter' : String(params[key])} ${tooLarge}` };
}

/** Makes a discipline of aqm/ as the simulator and the userspace bottleneck do, and forgets it. @throws UserError */
export function makeAqm(kind: AqmKind, params: PlanQueue['params'], { mtuBytes, overheadBytes, rateBps }: QueuePlace): void {
  const context: AqmContext = { randomU32: () => 0, drop: () => undefined, mtuBytes: mtuBytes + overheadBytes, rateBps };
  kind.create(params, context, 0);
}

/** Each question is asked once: variants share most of their queues. */
export function remembering(rules: EngineRules): EngineRules {
  const answers = new Map<string, QueueProblem | null>();
  return {
    ...rules,
    queueProblem: (queue, place) => {
      const key = JSON.stringify([queue, place]);
      let answer = answers.get(key);
      if (answer === undefined) answers.set(key, answer = rules.queueProblem(queue, place));
      return answer;
    },
  };
}

/** Linux and, for `in: daemon`, the userspace bottleneck. */
export const kernelRules: EngineRules = {
  congestionControls: null,
  queueProblem(queue, place) {
    if (queue.kind === 'raw') return null; // tc's own words: only tc can tell
    if (queue.in === 'daemon') {
      const aqm = aqms.get(queue.kind);
      return aqm === undefined ? null : tryQueue(queue.params, (params) => makeAqm(aqm, params, place));
    }
    const qdisc = qdiscs.get(queue.kind);
    return qdisc === undefined ? null : tryQueue(queue.params, (params) => {
      qdisc.encode(params, place);
      qdisc.children?.(params, place);
    });
  },
};
