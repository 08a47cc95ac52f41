/**
 * The figures of metrics.json by the names a person writes: `BL1.utilisation`, `web.fctS.p95`, `ping.rttMs.p99`. Known
 * from the scenario alone, so a mistyped figure is found before anything runs. A name may say its part first
 * (`classes.web.fctS.p95`); it must where two parts have one of that name.
 */

import { unitOf, type Unit } from '../compare/figures.js';
import { sideOf, sides, type Expanded } from '../scenario/expand.js';
import { enumerate, suggestion } from '../scenario/names.js';

export type Part = 'bottlenecks' | 'classes' | 'probes';

export interface Figure {
  /** As written. */
  readonly text: string;
  readonly part: Part;
  /** `BL1.reverse`, `web`. */
  readonly owner: string;
  /** Below it: `queueDelayMs.p99`. */
  readonly field: string;
  /** Decides the units a value may be written in. */
  readonly unit: Unit;
}

const distribution: readonly string[] = ['mean', 'sd', 'p5', 'p25', 'p50', 'p75', 'p95', 'p99', 'max', 'n'];
const spread = (...names: readonly string[]): string[] => names.flatMap((name) => distribution.map((statistic) => `${name}.${statistic}`));

/** Figures of each part; `classes.*` of a bottleneck and `fctBySizeS.*` are open in their middle. */
export const figures: Readonly<Record<Part, readonly string[]>> = {
  bottlenecks: [
    'throughputBps', 'utilisation', 'lossRatio', 'markRatio', ...spread('queueDelayMs', 'backlogBytes', 'backlogPackets'),
    'packets.arrived', 'packets.left', 'packets.dropped', 'packets.marked', 'packets.waiting', 'counters.drops', 'counters.marks', 'lossSynchronisation', 'lossEvents',
  ],
  classes: [
    'flows', 'completed', 'failed', 'throughputBps', 'goodputBps', 'jain', 'jainDropShare', 'lossRatio', 'markRatio', 'retransmits',
    ...spread('fctS', 'startupS', 'srttMs', 'cwndPackets'),
  ],
  probes: ['sent', 'lossRatio', ...spread('rttMs', 'owdForwardMs', 'owdReverseMs')],
};
/** Of one class at one bottleneck: `BL1.classes.web.lossRatio`. */
export const classFigures: readonly string[] = ['throughputBps', 'lossRatio', 'markRatio', ...spread('queueDelayMs')];

/** What a scenario's runs will have figures of. */
export interface FigureOwners {
  readonly bottlenecks: readonly string[];
  readonly classes: readonly string[];
  readonly probes: readonly string[];
  /** Whether something is written under that name that could not be read. */
  readonly unread?: (name: string) => boolean;
}

export const ownersOf = (expanded: Pick<Expanded, 'links' | 'classes' | 'probes'>): FigureOwners => ({
  bottlenecks: expanded.links.flatMap(({ name, fields }) => sides.flatMap((side) => (typeof sideOf(fields.rate, side) === 'number' ? [side === 'forward' ? name : `${name}.reverse`] : []))),
  // A class without any flow (nothing arrived) has no figures, but that depends on the seed.
  classes: expanded.classes.map(({ name }) => name),
  probes: expanded.probes.map(({ name }) => name),
});

const parts: readonly Part[] = ['bottlenecks', 'classes', 'probes'];

function known(part: Part, field: string, owners: FigureOwners): boolean {
  if (figures[part].includes(field)) return true;
  if (part === 'classes') {
    const bySize = /^fctBySizeS\.[^.]+\.(\w+)$/.exec(field);
    return bySize !== null && distribution.includes(bySize[1]!);
  }
  if (part === 'bottlenecks') {
    const owner = owners.classes.find((name) => field.startsWith(`classes.${name}.`));
    return owner !== undefined && classFigures.includes(field.slice(`classes.${owner}.`.length));
  }
  return false;
}

/** The figure a name means, or a message that says why none. */
export function findFigure(text: string, owners: FigureOwners): Figure | string {
  const said = parts.find((part) => text.startsWith(`${part}.`) && !owners[part].some((owner) => owner === part));
  const rest = said === undefined ? text : text.slice(said.length + 1);
  const found: Figure[] = [];
  const owned: { part: Part; owner: string; field: string }[] = [];
  for (const part of said === undefined ? parts : [said]) {
    for (const owner of owners[part]) {
      if (!rest.startsWith(`${owner}.`)) continue;
      const field = rest.slice(owner.length + 1);
      owned.push({ part, owner, field });
      if (known(part, field, owners)) found.push({ text, part, owner, field, unit: unitOf(field) });
    }
  }
  if (found.length === 1) return found[0]!;
  if (found.length > 1) return `"${text}" may be ${found.map(({ part, owner, field }) => `${part}.${owner}.${field}`).join(' or ')}; expected one of these`;
  if (owned.length > 0) {
    const longest = owned.reduce((best, next) => (next.owner.length > best.owner.length ? next : best));
    const all = figures[longest.part];
    return `there is no figure "${longest.field}" of ${longest.owner}; ${suggestion(longest.field, all)}expected ${enumerate([...new Set(all.map((name) => name.replace(/\.(mean|sd|p\d+|max|n)$/, '.p50')))], 24)} (or mean, sd, p5 … p99, max, n)`;
  }
  const all = (said === undefined ? parts : [said]).flatMap((part) => owners[part]);
  const owner = rest.split('.')[0]!;
  const near = suggestion(owner, all);
  return `there is no bottleneck, traffic class or probe "${owner}" with figures; ${near}expected ${all.length > 0 ? `a figure of ${enumerate(all)}, such as ${example(owners)}` : 'figures of a link with a rate, a class or a probe, and the scenario has none'}`;
}

/** Whether only another mistake keeps a name from being that of a figure. */
export function isUnread(text: string, owners: FigureOwners): boolean {
  const words = text.split('.');
  const owner = words[(parts as readonly string[]).includes(words[0]!) && words.length > 1 ? 1 : 0]!;
  return owners.unread?.(owner) === true && !parts.some((part) => owners[part].includes(owner));
}

function example(owners: FigureOwners): string {
  return owners.bottlenecks.length > 0 ? `${owners.bottlenecks[0]!}.utilisation` : owners.classes.length > 0 ? `${owners.classes[0]!}.goodputBps` : `${owners.probes[0]!}.rttMs.p99`;
}
