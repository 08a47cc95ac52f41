/**
 * Quantities a user writes with a unit, and the one place that resolves them:
 * rates to bits/s, times to ns, sizes to bytes. Units are tc's and iperf3's:
 * `mbit` is 10^6 bits/s, `kB`/`MB` are powers of ten, `KiB`/`MiB` powers of two.
 */

import { z } from 'zod';

// A scenario is checked once: making a function of each schema first would take longer than it spares. Here, since the schemas need these units first.
z.config({ jitless: true });

const rateUnits: Readonly<Record<string, number>> = {
  bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9, tbit: 1e12, bps: 8, kbps: 8e3, mbps: 8e6, gbps: 8e9,
};
const timeUnits: Readonly<Record<string, number>> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 60e9, min: 60e9, h: 3600e9 };
const sizeUnits: Readonly<Record<string, number>> = {
  B: 1, b: 1, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3,
};

const number = String.raw`[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?`;

/** `text` as a multiple of the unit's base, or undefined when it does not parse. */
function quantity(text: string, units: Readonly<Record<string, number>>, foldCase: boolean): number | undefined {
  const match = new RegExp(`^\\s*(${number})\\s*([A-Za-z]+)\\s*$`).exec(text);
  if (!match) return undefined;
  const unit = foldCase ? match[2]!.toLowerCase() : match[2]!;
  const factor = Object.hasOwn(units, unit) ? units[unit] : undefined;
  return factor === undefined ? undefined : Number(match[1]) * factor;
}

/** @returns bits/s, or undefined. `20mbit`, `64kbit`, `1gbit`; tc's `bps` is bytes/s. */
export const parseRate = (text: string): number | undefined => quantity(text, rateUnits, true);
/** @returns ns (rounded), or undefined. `50ms`, `1.5s`, `100us`. */
export const parseTime = (text: string): number | undefined => {
  const ns = quantity(text, timeUnits, true);
  return ns === undefined ? undefined : Math.round(ns);
};
/** @returns bytes (rounded), or undefined. `200B`, `60kB`, `10MB`, `64KiB`. */
export const parseSize = (text: string): number | undefined => {
  const bytes = quantity(text, sizeUnits, false);
  return bytes === undefined ? undefined : Math.round(bytes);
};
/** @returns packets, or undefined. `20p`, `1000p`, `1000 packets`. */
export const parsePackets = (text: string): number | undefined => {
  const match = /^\s*(\d+)\s*(?:p|packets?)\s*$/.exec(text);
  return match ? Number(match[1]) : undefined;
};

/** A string with a unit that becomes a number; JSON Schema sees the pattern, users see `accepted` in the message. */
function unitSchema(parse: (text: string) => number | undefined, accepted: string, pattern: RegExp) {
  return z
    .string({ error: `expected ${accepted}` })
    .regex(pattern, { error: `expected ${accepted}` })
    .transform((text, context) => {
      const value = parse(text);
      if (value === undefined || !Number.isFinite(value)) {
        context.addIssue({ code: 'custom', message: `expected ${accepted}` });
        return z.NEVER;
      }
      return value;
    });
}

/** bits/s */
export const zRate = unitSchema(parseRate, 'a rate such as 20mbit, 64kbit or 1gbit', /^\s*\d*\.?\d+(?:[eE][+-]?\d+)?\s*[A-Za-z]+\s*$/)
  .refine((bps) => bps > 0, { error: 'expected a rate above 0, such as 20mbit' });
/** ns, ≥ 0 */
export const zTime = unitSchema(parseTime, 'a time such as 5ms, 100us or 1.5s', /^\s*\d*\.?\d+(?:[eE][+-]?\d+)?\s*[A-Za-z]+\s*$/);
/** bytes, > 0 */
export const zSize = unitSchema(parseSize, 'a size such as 200B, 60kB, 10MB or 64KiB', /^\s*\d*\.?\d+(?:[eE][+-]?\d+)?\s*[A-Za-z]+\s*$/)
  .refine((bytes) => bytes > 0, { error: 'expected a size above 0, such as 60kB' });
/** packets: `20p`, or a whole number as tc takes it */
export const zPackets = z.union([
  z.int({ error: 'expected packets such as 1000p' }).positive({ error: 'expected packets above 0, such as 1000p' }),
  unitSchema(parsePackets, 'packets such as 20p or 1000p', /^\s*\d+\s*(?:p|packets?)\s*$/).refine((n) => n > 0, { error: 'expected packets above 0, such as 1000p' }),
]);
/** 0 … 1, as a number or a percentage string (`2%`) */
export const zProbability = z.union([
  z.number().min(0, { error: 'expected a probability from 0 to 1, or 0% to 100%' }).max(1, { error: 'expected a probability from 0 to 1, or 0% to 100%' }),
  unitSchema((text) => { const m = /^\s*(\d*\.?\d+)\s*%\s*$/.exec(text); return m && Number(m[1]) <= 100 ? Number(m[1]) / 100 : undefined; }, 'a probability from 0 to 1, or 0% to 100%', /^\s*\d*\.?\d+\s*%\s*$/),
]);

/** ns for people: `50ms`, `1.5s`, `100us`. Exact: parseTime gives it back. */
export function formatTime(ns: number): string {
  for (const [unit, factor] of [['s', 1e9], ['ms', 1e6], ['us', 1e3]] as const) {
    if (ns >= factor && Number.isInteger(ns / (factor / 1000))) return `${ns / factor}${unit}`;
  }
  return ns === 0 ? '0s' : `${ns}ns`;
}
/** bits/s for people: `20mbit`. Exact: parseRate gives it back. */
export function formatRate(bps: number): string {
  for (const [unit, factor] of [['gbit', 1e9], ['mbit', 1e6], ['kbit', 1e3]] as const) {
    if (bps >= factor && Number.isInteger((bps / factor) * 1000)) return `${bps / factor}${unit}`;
  }
  return `${bps}bit`;
}
