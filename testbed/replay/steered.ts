/** Disciplines whose chance a replay decides: how each draws, and which probability that means. One function a kind. */

import type { AqmKind, QueueDiscipline } from '../../aqm/aqm.js';
import { Red } from '../../aqm/red.js';
import type { RedParams, RedVars } from '../../aqm/red-core.js';
import type { Steer } from './chance.js';

/** What a `Red` keeps for those who follow a kernel's decisions. */
interface OpenRed { vars: RedVars }

/**
 * RED draws a number when a series of packets begins and signals at the first packet whose (avg − min) × count has reached it.
 * Given that no earlier packet of the series reached it, the number is uniform over what is left. What a packet reaches
 * is asked of the discipline itself: by bisection over the number.
 */
export const steerRed: Steer = (kind, params, context, startNs) => {
  let signal = false, faced = NaN, passed = -1;
  const queue = kind.create(params, {
    ...context,
    randomU32: () => {
      passed = -1; // a new series
      return 0xffffffff;
    },
  }, startNs);
  if (!(queue instanceof Red)) throw new Error(`${kind.kind} is no RED`);
  const { vars } = queue as unknown as OpenRed; // protected: nobody else is to touch them
  const due = vars.due.bind(vars);
  vars.due = (of: RedParams): boolean => {
    const most = of.random(0xffffffff);
    const reaches = (number: number): boolean => {
      vars.qR = number;
      return due(of);
    };
    let reached = passed;
    if (reaches(most)) {
      reached = most;
    } else {
      for (let low = passed, high = most; high - low > 1;) {
        const middle = Math.floor((low + high) / 2);
        if (reaches(middle)) reached = low = middle;
        else high = middle;
      }
    }
    faced = most > passed ? (reached - passed) / (most - passed) : 1;
    passed = reached;
    return faced === 1 || (signal && faced > 0);
  };
  return {
    queue,
    steer(next) {
      signal = next;
      faced = NaN;
    },
    faced: () => faced,
  };
};

/** One that compares a fresh number with a probability it shows in the state column `prob`. */
export const steerByProb: Steer = (kind, params, context, startNs) => {
  let signal = false, asked = false;
  const queue: QueueDiscipline = kind.create(params, {
    ...context,
    randomU32: () => {
      asked = true;
      return signal ? 0 : 0xffffffff;
    },
  }, startNs);
  const state = new Float64Array(kind.state.length);
  const column = probColumn(kind);
  return {
    queue,
    steer(next) {
      signal = next;
      asked = false;
    },
    faced() {
      if (!asked) return NaN;
      if ('dropProbability' in queue && typeof queue.dropProbability === 'number') return queue.dropProbability;
      queue.readState(state, startNs);
      return state[column]!;
    },
  };
};

function probColumn(kind: AqmKind): number {
  const column = kind.state.indexOf('prob');
  if (column < 0) throw new Error(`${kind.kind} shows no probability`);
  return column;
}
