/** What a plan changes while it runs, in words: short for a line in a plot, long for the list of what ran. */

import type { Plan, PlanEvent, PlanWire } from '../plan/plan.js';
import { formatBps, formatMs, formatPercent } from './format.js';
import { table } from './page.js';

export interface EventMark {
  readonly atS: number;
  /** `5 Mbit/s`; with the link's name where events concern several. */
  readonly short: string;
  /** `BL: rate 5 Mbit/s`. */
  readonly long: string;
}

const wireWords = ({ delayNs, jitterNs, loss, duplicate, reorder }: PlanWire): string[] => [
  `delay ${formatMs(delayNs / 1e6)}`, ...(jitterNs > 0 ? [`± ${formatMs(jitterNs / 1e6)}`] : []),
  ...([['loss', loss], ['duplicate', duplicate], ['reorder', reorder]] as const).flatMap(([word, share]) => (share > 0 ? [`${word} ${formatPercent(share)}`] : [])),
];

function words({ set }: PlanEvent): { short: string[]; long: string[] } {
  const rate = set.rateBps === undefined ? [] : [formatBps(set.rateBps)];
  const wire = set.wire === undefined ? [] : wireWords(set.wire);
  const params = set.queue === undefined ? [] : Object.entries(set.queue.params).map(([key, value]) => `${key} ${value}`);
  return {
    short: [...rate, ...wire.slice(0, 2), ...(set.queue === undefined ? [] : [`${set.queue.kind} changed`])],
    long: [...rate.map((text) => `rate ${text}`), ...wire, ...(set.queue === undefined ? [] : [[set.queue.kind, ...params].join(' ')])],
  };
}

const mostListed = 50;

/** The list of what ran; '' without events. */
export const eventList = (events: readonly EventMark[]): string => table(['At', 'Event'], events.slice(0, mostListed).map(({ atS, long }) => [`${Number(atS.toPrecision(6))} s`, long]), true)
  + (events.length > mostListed ? `<p class="dim">and ${events.length - mostListed} more in raw/plan.json</p>` : '');

/** One a moment, in order of time; changes of one moment together, those of both directions of a link said once. */
export function eventMarks(plan: Plan): EventMark[] {
  const linkOf = (direction: string): string => direction.replace(/\.reverse$/, '');
  const several = new Set(plan.events.map(({ direction }) => direction)).size > 1;
  const times = [...new Set(plan.events.map(({ atNs }) => atNs))].sort((a, b) => a - b);
  return times.map((atNs) => {
    const here = plan.events.filter((event) => event.atNs === atNs);
    const parts = new Map<string, { name: string; short: string; long: string }>();
    for (const event of here) {
      const { short, long } = words(event);
      const key = `${linkOf(event.direction)} ${long.join(', ')}`;
      const twin = parts.get(key);
      parts.set(key, { name: twin === undefined ? event.direction : linkOf(event.direction), short: short.join(', '), long: long.join(', ') });
    }
    const list = [...parts.values()];
    return { atS: atNs / 1e9, short: list.map(({ name, short }) => (several ? `${name} ${short}` : short)).join('; '), long: list.map(({ name, long }) => `${name}: ${long}`).join('; ') };
  });
}
