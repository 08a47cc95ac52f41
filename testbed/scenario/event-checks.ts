/**
 * What must hold of changes during the run: the same as of the topology, at every moment. Events are followed in the
 * order of time, so that a jitter is compared with the delay as it is then, and a queue's new parameters with its old ones.
 */

import type { PlanQueue } from '../plan/plan.js';
import { qdiscs } from '../qdiscs/registry.js';
import { formatRate, formatTime } from '../units.js';
import type { EngineRules } from './engine-rules.js';
import type { Change } from './events.js';
import type { Expanded, PairRtt } from './expand.js';
import { sideOf, sides, type LinkFields, type Side } from './link.js';
import { burstProblem, queueOf, queuePlace, wireProblems, type Report, type WireShape } from './link-checks.js';
import { enumerate, suggestion } from './names.js';
import type { Path } from './problem.js';
import type { Resolved } from './schema.js';

/** The cables a change is for: their names as in the plan, and their fields. */
export function changed(change: Change, expanded: Pick<Expanded, 'links' | 'hosts'>): readonly { readonly name: string; readonly fields: LinkFields }[] {
  if (change.index === null) {
    const link = expanded.links.find((l) => l.name === change.target);
    if (link) return [link];
  }
  return expanded.hosts.filter((h) => h.group === change.target && (change.index === null || h.index === change.index));
}

/** The sides a change is for: those named, or with one value for both, those where it can apply. */
export function changedSides(change: Change, fields: LinkFields): readonly Side[] {
  const named = sides.filter((side) => change.value[side] !== undefined);
  if (change.field !== 'rate' && change.field !== 'queue') return named;
  const rated = named.filter((side) => typeof sideOf(fields.rate, side) === 'number');
  return change.value.forward === change.value.reverse && rated.length > 0 ? rated : named;
}

/** A queue after a change of its parameters: those not named keep their values. */
export const changedQueue = (before: PlanQueue, after: PlanQueue): PlanQueue => ({ ...after, params: { ...before.params, ...after.params } });

const shapeKeys = ['delay', 'jitter', 'reorder'] as const;
/** Where else the same field may have been set, as patterns of places. */
const unreadChanges = (target: string, key: string): Path[] => ['', '.forward', '.reverse'].flatMap((side): Path[] => [['events', '*', `set ${target}${side}.${key}`], ['events', '*', 'set', `${target}${side}.${key}`]]);
const wireFields: readonly string[] = ['delay', 'jitter', 'loss', 'duplicate', 'reorder'];

interface Context {
  readonly scenario: Resolved;
  readonly expanded: Pick<Expanded, 'links' | 'hosts'>;
  readonly rtts: ReadonlyMap<string, PairRtt>;
  readonly endNs: number;
  readonly problem: Report;
  readonly rules: EngineRules | undefined;
}

/** One direction of a cable as events have left it. */
interface Standing { wire: WireShape; rateBps: number | null; queue: PlanQueue }

export function checkEvents({ scenario, expanded, rtts, endNs, problem, rules }: Context): void {
  const { topology } = scenario;
  const delayers = new Set<string>([...rtts.values()].map((rtt) => rtt.delayer.name));
  const known = [...expanded.links.map((l) => l.name), ...new Set(expanded.hosts.map((h) => h.group))];
  const standing = new Map<string, Standing>();
  const stateOf = (cable: { readonly name: string; readonly fields: LinkFields }, side: Side): Standing => {
    const key = `${cable.name} ${side}`;
    let state = standing.get(key);
    if (state === undefined) {
      const { delay, jitter, reorder, rate } = cable.fields;
      state = { wire: { delay: sideOf(delay, side) ?? 0, jitter: sideOf(jitter, side) ?? 0, reorder: sideOf(reorder, side) ?? 0 }, rateBps: sideOf(rate, side) ?? null, queue: queueOf(cable.fields, side) };
      standing.set(key, state);
    }
    return state;
  };

  const inOrder = (scenario.events ?? []).map((event, index) => ({ event, index })).sort((a, b) => a.event.atNs - b.event.atNs); // stable: equal times in the file's order
  for (let first = 0; first < inOrder.length;) {
    // Everything of one moment, then what it comes to.
    let next = first;
    const touched = new Map<Standing, { readonly where: Path; readonly needs: readonly Path[] }>();
    for (; next < inOrder.length && inOrder[next]!.event.atNs === inOrder[first]!.event.atNs; next++) {
      const { event, index } = inOrder[next]!;
      const path: Path = ['events', index];
      if (event.atNs >= endNs) problem([...path, 'at'], `${formatTime(event.atNs)} is not before the end of the run at ${formatTime(endNs)}; expected an earlier time, or a longer measure (the run ends after its warmup and duration)`, ['measure']);
      for (const change of event.changes) {
        const where = [...path, ...change.key];
        const cables = changed(change, expanded);
        const isLink = expanded.links.some((link) => link.name === change.target);
        const place: Path = ['topology', isLink ? 'links' : 'hosts', change.target];
        if (cables.length === 0) {
          // A link that is written but joins nothing: told where it is written.
          if (change.index === null && Object.hasOwn(topology.links ?? {}, change.target)) continue;
          const group = topology.hosts[change.target];
          const message = change.index !== null && isLink ? `${change.target} is a link, not a group of hosts; expected ${change.target}.${change.field}`
            : change.index !== null && group !== undefined
              ? group.count === undefined ? `${change.target} is a single host; expected ${change.target}.${change.field}` : `there are ${group.count} hosts ${change.target}; expected ${change.target}[0] to ${change.target}[${group.count - 1}]`
              : `there is no link or host "${change.target}${change.index === null ? '' : `[${change.index}]`}"; ${suggestion(change.target, known)}expected ${enumerate(known)}`;
          problem(where, message, ['topology', 'links', change.target], ['topology', 'hosts', change.target]);
          continue;
        }
        // All hosts of a group are alike, and go on being so only to themselves: each is followed.
        for (const [i, cable] of cables.entries()) {
          // One value for both directions is one mistake.
          let silent = i > 0;
          for (const side of changedSides(change, cable.fields)) {
            const message = apply(change, side, stateOf(cable, side), cable.fields);
            if (message !== null && !silent) problem([...where, ...message.below], message.text, [...place, 'rate'], [...place, 'queue']);
            if (message !== null && change.value.forward === change.value.reverse) silent = true;
            if (shapeKeys.some((key) => key === change.field)) touched.set(stateOf(cable, side), { where, needs: shapeKeys.flatMap((key) => [[...place, key], ...unreadChanges(change.target, key)]) });
          }
        }
        if (wireFields.includes(change.field)) {
          const busy = change.value.forward === undefined ? undefined : cables.find((cable) => delayers.has(cable.name));
          if (busy) problem(where, `the delays of ${busy.name} are made by an rtt; expected an event on a link between routers, or on the other host's access link`);
        }
      }
    }
    const told = new Set<string>();
    for (const [{ wire }, { where, needs }] of touched) {
      for (const { message } of wireProblems(wire)) {
        const key = JSON.stringify([where, message]);
        if (told.has(key)) continue;
        told.add(key);
        // The order of events is that of their times: with one of them unread, nobody knows.
        problem(where, message, ...needs, ['events', '*', 'at']);
      }
    }
    first = next;
  }

  /** Takes the change into the state. @returns what is wrong with it */
  function apply(change: Change, side: Side, state: Standing, fields: LinkFields): { readonly below: Path; readonly text: string } | null {
    const value = change.value[side]!;
    const wrong = (text: string, below: Path = []) => ({ below, text });
    const inDirection = change.value.forward === change.value.reverse ? '' : ` in the ${side} direction`;
    if (change.field === 'rate') {
      if (state.rateBps === null) return wrong(`${change.target} has no rate${inDirection} to change; expected a link with a rate from the start`);
      state.rateBps = value as number;
      if (fields.peakrate !== undefined && state.rateBps >= fields.peakrate) return wrong(`a rate of ${formatRate(state.rateBps)} is not below the peak rate of ${change.target}; expected less than ${formatRate(fields.peakrate)}`);
      const tooLong = burstProblem(fields, state.rateBps);
      return tooLong === null ? null : wrong(tooLong);
    }
    if (change.field !== 'queue') {
      state.wire = { ...state.wire, [change.field]: value };
      return null;
    }
    const before = state.queue;
    const after = value as PlanQueue;
    if (state.rateBps === null) return wrong(`${change.target} has no queue${inDirection}; expected a link with a rate from the start`);
    if (after.kind === before.kind && after.in !== before.in) return wrong(`the queue is in the ${before.in} and cannot move to the ${after.in} during the run; expected in: ${before.in} with the event's parameters`);
    if (after.kind !== before.kind) return wrong(`the queue is ${before.kind} and cannot become ${after.kind} during the run; expected other parameters of ${before.kind}`);
    if (after.kind === 'raw') return wrong('a queue of raw tc words cannot be changed during the run; expected a queue with typed parameters');
    const qdisc = after.in === 'kernel' ? qdiscs.get(after.kind) : undefined;
    if (qdisc?.children !== undefined) return wrong(`${after.kind} consists of classes that cannot be changed while it runs; expected another queue discipline`);
    if (qdisc?.unchangeable) return wrong(`the kernel cannot change ${after.kind} while it runs; expected another queue discipline, or in: daemon, which makes it anew`);
    const below = (key: string): Path => [...(change.value.forward === change.value.reverse || change.key.at(-1)!.includes(`.${side}.`) ? [] : [side]), key];
    const fixed = qdisc?.fixed?.find((key) => after.params[key] !== undefined && after.params[key] !== before.params[key]);
    if (fixed !== undefined) return wrong(`${fixed} of ${after.kind} cannot be changed while it runs (the kernel takes it only at the start); expected it in the topology`, below(fixed));
    state.queue = changedQueue(before, after);
    const asked = queuePlace(fields, topology, state.rateBps);
    const found = rules?.queueProblem(state.queue, asked) ?? null;
    // What was wrong before is told where it is written.
    if (found === null || rules?.queueProblem(before, asked)) return null;
    const named = found.key !== null && after.params[found.key] !== undefined ? found.key : Object.keys(after.params)[0];
    return wrong(found.message, named === undefined ? [] : below(named));
  }
}
