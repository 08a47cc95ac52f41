/**
 * The quantities of a scenario that may be more than one number: a rate or `none`, a value per direction,
 * and values drawn at random (`uniform(45ms, 55ms)`, `poisson(4/s)`).
 */

import { z } from 'zod';
import { parseRate, parseSize, parseTime, zTime } from '../units.js';

const number = String.raw`\d*\.?\d+(?:[eE][+-]?\d+)?`;
const unitPattern = `${number}\\s*[A-Za-z]+`;

/** A word that `parse` turns into a value; undefined makes the error `expected <accepted>`. */
export function word<T>(parse: (text: string) => T | undefined, accepted: string, pattern: RegExp) {
  return z.string({ error: `expected ${accepted}` })
    .regex(pattern, { error: `expected ${accepted}` })
    .transform((text, context): T => {
      const value = parse(text);
      if (value === undefined) {
        context.addIssue({ code: 'custom', message: `expected ${accepted}` });
        return z.NEVER;
      }
      return value;
    });
}

/** bits/s a shaper can do sensibly: a packet at 1 kbit/s takes 12 s; 1 Tbit/s is beyond any interface. */
const rateRange = (bps: number | undefined): number | undefined => (bps !== undefined && bps >= 1e3 && bps <= 1e12 ? bps : undefined);
const rateWords = 'a rate from 1kbit to 1tbit such as 20mbit, 64kbit or 1gbit';
export const zLinkRate = word(rateRangeOf, rateWords, new RegExp(`^\\s*${unitPattern}\\s*$`));
function rateRangeOf(text: string): number | undefined { return rateRange(parseRate(text)); }
/** bits/s, or null for `none`: as fast as the cable. */
export const zRateOrNone = word((text) => (text.trim() === 'none' ? null : rateRangeOf(text)), `${rateWords}, or none`, new RegExp(`^\\s*(?:none|${unitPattern})\\s*$`));

/** A delay somewhere on the way, ns; more than a minute is a mistake. */
export const zDelay = zTime.refine((ns) => ns <= 60e9, { error: 'expected a delay of at most 60s, such as 10ms' });

export interface PerDirection<T> { readonly forward?: T | undefined; readonly reverse?: T | undefined }
/** One value for both directions, or `{ forward: …, reverse: … }`; a direction left out has the default. */
export function perDirection<S extends z.ZodType>(schema: S) {
  return z.union([
    schema.transform((value): PerDirection<z.output<S>> => ({ forward: value, reverse: value })),
    z.strictObject({ forward: schema.optional(), reverse: schema.optional() })
      .transform((sides, context): PerDirection<z.output<S>> => {
        // zod lets unknown keys pass to here and would then take this form of the union for the one that was meant.
        context.issues.forEach((issue, i) => { context.issues[i] = { ...issue, continue: false }; });
        return { forward: sides.forward as z.output<S> | undefined, reverse: sides.reverse as z.output<S> | undefined };
      }),
  ]);
}

/** How a value is drawn; units as the schema that made it. */
export type Distribution =
  | { readonly kind: 'fixed'; readonly value: number }
  | { readonly kind: 'uniform'; readonly min: number; readonly max: number }
  | { readonly kind: 'exponential'; readonly mean: number }
  | { readonly kind: 'pareto'; readonly shape: number; readonly min: number; readonly max: number | null };

/** The least value it can draw. */
export const leastOf = (d: Distribution): number => (d.kind === 'fixed' ? d.value : d.kind === 'exponential' ? 0 : d.min);

type Drawn = Distribution['kind'];
/** Parses `60kB`, `uniform(a, b)`, `exponential(mean)`, `pareto(shape, min[, max])`. */
function parseDistribution(text: string, parse: (text: string) => number | undefined, allowed: readonly Drawn[]): Distribution | undefined {
  const call = /^\s*([a-z]+)\s*\(([^()]*)\)\s*$/.exec(text);
  if (!call) {
    const value = parse(text);
    return value === undefined || !allowed.includes('fixed') ? undefined : { kind: 'fixed', value };
  }
  const words = call[2]!.split(',').map((part) => part.trim());
  const kind = call[1] as Drawn;
  if (!allowed.includes(kind)) return undefined;
  if (kind === 'uniform' && words.length === 2) {
    const [min, max] = words.map(parse);
    return min === undefined || max === undefined || min > max ? undefined : { kind, min, max };
  }
  if (kind === 'exponential' && words.length === 1) {
    const mean = parse(words[0]!);
    return mean === undefined || mean <= 0 ? undefined : { kind, mean };
  }
  if (kind === 'pareto' && (words.length === 2 || words.length === 3)) {
    const shape = new RegExp(`^${number}$`).test(words[0]!) ? Number(words[0]) : 0;
    const min = parse(words[1]!);
    const max = words.length === 3 ? parse(words[2]!) : null;
    return !(shape > 0 && shape <= 100) || min === undefined || min <= 0 || max === undefined || (max !== null && max < min) ? undefined : { kind, shape, min, max };
  }
  return undefined;
}

const functions = (kinds: readonly Drawn[]): RegExp => new RegExp(`^\\s*(?:${unitPattern}|(?:${kinds.filter((k) => k !== 'fixed').join('|')})\\s*\\([^()]*\\))\\s*$`);
const everyKind: readonly Drawn[] = ['fixed', 'uniform', 'exponential', 'pareto'];

const day = 86_400e9;
const positive = (max: number, parse: (text: string) => number | undefined) => (text: string): number | undefined => {
  const value = parse(text);
  return value !== undefined && value > 0 && value <= max ? value : undefined;
};
const upTo = (max: number, parse: (text: string) => number | undefined) => (text: string): number | undefined => {
  const value = parse(text);
  return value !== undefined && value >= 0 && value <= max ? value : undefined;
};

/** ns, ≥ 0, at most a day. */
export const zTimeDistribution = word((text) => parseDistribution(text, upTo(day, parseTime), everyKind), 'a time such as 5s, or uniform(0s, 1s), exponential(2s) or pareto(1.5, 1s)', functions(everyKind));
/** ns, > 0: times that would never get on if they were 0. */
export const zDurationDistribution = word((text) => parseDistribution(text, positive(day, parseTime), everyKind), 'a time above 0 such as 5s, or uniform(1s, 2s), exponential(2s) or pareto(1.5, 1s)', functions(everyKind));
/** bytes, > 0. */
export const zSizeDistribution = word((text) => parseDistribution(text, positive(1e15, parseSize), everyKind), 'a size such as 60kB, or uniform(10kB, 1MB), exponential(60kB) or pareto(1.2, 10kB, 10MB)', functions(everyKind));
/** ns: the round-trip time of a pair of hosts. */
export const zRtt = word((text) => parseDistribution(text, positive(60e9, parseTime), ['fixed', 'uniform']), 'a time above 0 such as 50ms, or uniform(45ms, 55ms)', functions(['fixed', 'uniform']));

const count = (text: string): number | undefined => (/^\s*\d+\s*$/.test(text) && Number(text) >= 1 && Number(text) <= 1000 ? Number(text) : undefined);
const countWords = 'a whole number from 1 to 1000, or uniform(1, 10), exponential(5) or pareto(1.2, 1, 100)';
/** A number of things, ≥ 1. */
export const zCountDistribution = z.union([
  z.int({ error: `expected ${countWords}` }).min(1, { error: `expected ${countWords}` }).max(1000, { error: `expected ${countWords}` }).transform((value): Distribution => ({ kind: 'fixed', value })),
  word((text) => parseDistribution(text, count, everyKind), countWords, /^\s*(?:\d+|(?:uniform|exponential|pareto)\s*\([^()]*\))\s*$/),
]);

/** When flows arrive: the gap between two, ns, and whether the first comes at once or after a gap. */
export interface Arrival { readonly gap: Distribution; readonly firstAtOnce: boolean }
const arrivalWords = 'poisson(4/s), every 250ms, uniform(100ms, 400ms) or exponential(250ms)';
/** `poisson(4/s)`: exponential gaps of mean 1/4 s. */
function parseArrival(text: string): Arrival | undefined {
  const poisson = new RegExp(`^\\s*poisson\\s*\\(\\s*(${number})\\s*/\\s*(ms|s|min|h)\\s*\\)\\s*$`).exec(text);
  if (poisson) {
    const rate = Number(poisson[1]);
    const per = parseTime(`1${poisson[2]!}`)!;
    return rate > 0 && Number.isFinite(per / rate) && per / rate >= 1 ? { gap: { kind: 'exponential', mean: per / rate }, firstAtOnce: false } : undefined;
  }
  const every = /^\s*every\s+(.+)$/.exec(text);
  if (every) {
    const value = positive(day, parseTime)(every[1]!);
    return value === undefined ? undefined : { gap: { kind: 'fixed', value }, firstAtOnce: true };
  }
  const gap = parseDistribution(text, positive(day, parseTime), ['uniform', 'exponential', 'pareto']);
  return gap && { gap, firstAtOnce: false };
}
export const zArrival = word(parseArrival, arrivalWords, /^\s*(?:(?:poisson|uniform|exponential|pareto)\s*\([^()]*\)|every\s+.+)\s*$/);
