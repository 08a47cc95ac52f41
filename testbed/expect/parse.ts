/**
 * The language of `expect:`, from what the file holds to what is to be judged. Everything a file can get wrong is found
 * here, before anything runs: the form of a line, the name of a figure, the unit of its value.
 *
 *     - BL1.utilisation >= 0.95
 *     - sim ~ kernel                                   # the default tolerances
 *     - sim ~ kernel: { BL1.queueDelayMs.p50: 15% or 1ms }
 *     - published ~ sim: { source: results/a.json, tolerance: 10%, where: { workload: 4 long }, figures: { utilisation: BL1.utilisation } }
 */

import type { Unit } from '../compare/figures.js';
import type { Expanded } from '../scenario/expand.js';
import type { Expectations } from '../scenario/expect.js';
import { enumerate, suggestion } from '../scenario/names.js';
import { show, type Path, type Problem } from '../scenario/problem.js';
import { parsePackets, parseRate, parseSize, parseTime } from '../units.js';
import type { Tolerance } from '../validate/tolerances.js';
import { findFigure, isUnread, ownersOf, type Figure, type FigureOwners } from './metric-names.js';

export type EngineName = 'sim' | 'kernel';
export type Relation = '>=' | '<=' | '>' | '<' | '=' | '!=';

/** `BL1.utilisation >= 0.95`: of whatever engine was run. */
export interface Bound { readonly kind: 'bound'; readonly text: string; readonly figure: Figure; readonly relation: Relation; /** In the figure's unit. */ readonly value: number; readonly valueText: string }
/** `sim ~ kernel`; no figures: the default tolerances. */
export interface Engines { readonly kind: 'engines'; readonly text: string; readonly figures: readonly { readonly figure: Figure; readonly tolerance: Tolerance }[] }
/** `published ~ sim`. */
export interface Published {
  readonly kind: 'published'; readonly text: string; readonly engine: EngineName;
  /** As written: a JSON file. */
  readonly source: string;
  /** null: each figure's own, from the source. */
  readonly tolerance: Tolerance | null;
  /** Values an entry of the source must have. */
  readonly where: Readonly<Record<string, string>>;
  /** The source's name of a figure → ours. Those not named here are not compared. */
  readonly figures: Readonly<Record<string, Figure>>;
  /** A varied label → the source's word for it: pfifo → drop-tail. */
  readonly names: Readonly<Record<string, string>>;
}
export type Expectation = (Bound | Engines | Published) & { /** Its place in the list. */ readonly index: number };

const relationPattern = /^(.*?)\s*(>=|<=|==|!=|≥|≤|=|>|<)\s*(.*)$/s;
const relations: Readonly<Record<string, Relation>> = { '>=': '>=', '≥': '>=', '<=': '<=', '≤': '<=', '>': '>', '<': '<', '=': '=', '==': '=', '!=': '!=' };
const sources = ['sim', 'kernel', 'published'] as const;
type Source = (typeof sources)[number];
const lineWords = 'a comparison such as BL1.utilisation >= 0.95, or two of sim, kernel and published such as sim ~ kernel';

/**
 * @param unread whether what is written under a name could not be read: what only follows from that is no mistake
 * @returns every line that could be read, and every mistake with its place (below `expect`)
 */
export function parseExpectations(lines: Expectations, expanded: Pick<Expanded, 'links' | 'classes' | 'probes'>, unread: (name: string) => boolean = () => false): { readonly expectations: readonly Expectation[]; readonly problems: readonly Problem[] } {
  const owners: FigureOwners = { ...ownersOf(expanded), unread };
  const expectations: Expectation[] = [];
  const problems: Problem[] = [];
  lines.forEach((line, index) => {
    const path: Path = ['expect', index];
    const problem = (below: Path, message: string): undefined => { problems.push({ path: [...path, ...below], message }); return undefined; };
    const read = typeof line === 'string' ? parseText(line, owners, problem) : parseMap(Object.keys(line)[0]!, Object.values(line)[0]!, owners, problem);
    if (read !== undefined) expectations.push({ ...read, index });
  });
  return { expectations, problems };
}

type Report = (below: Path, message: string) => undefined;
type Read = Bound | Engines | Published | undefined;

/** The figure of that name; when there is none, says so, but not where only another mistake hides it. */
function figureNamed(name: string, owners: FigureOwners, say: (message: string) => void): Figure | undefined {
  const figure = findFigure(name.trim(), owners);
  if (typeof figure !== 'string') return figure;
  if (!isUnread(name.trim(), owners)) say(figure);
  return undefined;
}

function parseText(line: string, owners: FigureOwners, problem: Report): Read {
  const text = line.trim();
  const match = relationPattern.exec(text);
  if (!match) {
    const both = parseSources(text);
    if (both === undefined) return problem([], `${show(line)} is not accepted; expected ${lineWords}`);
    return parseAgainst(text, both, undefined, owners, problem, []);
  }
  const figure = figureNamed(match[1]!, owners, (message) => problem([], message));
  if (figure === undefined) return undefined;
  const value = parseValue(match[3]!.trim(), figure.unit);
  if (value === undefined) return problem([], `${show(match[3]!.trim())} is not accepted for ${figure.text}; expected ${valueWords[figure.unit]}`);
  return { kind: 'bound', text, figure, relation: relations[match[2]!]!, value, valueText: match[3]!.trim() };
}

function parseMap(key: string, value: Exclude<Expectations[number], string>[string], owners: FigureOwners, problem: Report): Read {
  const both = parseSources(key);
  if (both === undefined) {
    // `- BL1.utilisation >= 0.95: …` and YAML's own reading of `a: b`.
    return problem([key], `${show(key)} is not accepted; expected two of sim, kernel and published, such as sim ~ kernel`);
  }
  if (typeof value !== 'object') return problem([key], `${show(value)} is not accepted; expected a map, such as { BL1.utilisation: 2% }`);
  return parseAgainst(key.trim(), both, value, owners, problem, [key]);
}

function parseSources(text: string): readonly [Source, Source] | undefined {
  const match = /^\s*([a-z]+)\s*~\s*([a-z]+)\s*$/.exec(text);
  if (!match) return undefined;
  const [left, right] = [match[1]!, match[2]!];
  const isSource = (word: string): word is Source => (sources as readonly string[]).includes(word);
  return isSource(left) && isSource(right) && left !== right ? [left, right] : undefined;
}

type Value = Exclude<Expectations[number], string>[string];
type Inner = Extract<Value, object>;

function parseAgainst(text: string, [left, right]: readonly [Source, Source], value: Inner | undefined, owners: FigureOwners, problem: Report, below: Path): Read {
  if (left !== 'published' && right !== 'published') {
    const figures: { figure: Figure; tolerance: Tolerance }[] = [];
    let good = true;
    for (const [name, wanted] of Object.entries(value ?? {})) {
      const figure = figureNamed(name, owners, (message) => problem([...below, name], message));
      if (figure === undefined) { good = false; continue; }
      const tolerance = typeof wanted === 'object' ? undefined : parseTolerance(String(wanted), figure.unit);
      if (tolerance === undefined) { good = false; problem([...below, name], `${show(wanted)} is not accepted as the tolerance of ${figure.text}; expected ${toleranceWords(figure.unit)}`); continue; }
      figures.push({ figure, tolerance });
    }
    if (value !== undefined && good && figures.length === 0) return problem(below, 'has no figure; expected figures with their tolerances, or sim ~ kernel alone for the default ones');
    return good ? { kind: 'engines', text: `${text}`, figures } : undefined;
  }
  const engine = (left === 'published' ? right : left) as EngineName;
  return parsePublished(text, engine, value ?? {}, owners, problem, below);
}

const publishedKeys = ['source', 'tolerance', 'where', 'figures', 'names'] as const;

function parsePublished(text: string, engine: EngineName, value: Inner, owners: FigureOwners, problem: Report, below: Path): Read {
  let good = true;
  const wrong = (at: Path, message: string): void => { good = false; problem([...below, ...at], message); };
  for (const key of Object.keys(value)) if (!(publishedKeys as readonly string[]).includes(key)) wrong([key], `unknown key ${show(key)}; ${suggestion(key, publishedKeys)}expected ${enumerate(publishedKeys)}`);
  const own = (key: string): Inner[string] | undefined => (Object.hasOwn(value, key) ? value[key] : undefined);
  const words = (key: string): Record<string, string> => {
    const map = own(key);
    if (map === undefined) return {};
    if (typeof map !== 'object') { wrong([key], `${show(map)} is not accepted; expected a map`); return {}; }
    return Object.fromEntries(Object.entries(map).map(([k, v]) => [k, String(v)]));
  };
  const source = own('source');
  if (typeof source !== 'string' || source.trim() === '') wrong(source === undefined ? [] : ['source'], `${source === undefined ? 'has no source' : `${show(source)} is not accepted`}; expected source: a JSON file of published figures, such as results/linux-6.12-codel-dumbbell.json`);
  const tolerance = own('tolerance');
  const parsed = tolerance === undefined ? null : typeof tolerance === 'object' ? undefined : parseTolerance(String(tolerance), 'ratio');
  if (parsed === undefined || (parsed !== null && parsed.absolute !== null)) wrong(['tolerance'], `${show(tolerance)} is not accepted; expected a percentage such as 10%`);
  const figures: Record<string, Figure> = {};
  for (const [name, ours] of Object.entries(words('figures'))) {
    const figure = figureNamed(ours, owners, (message) => { wrong(['figures', name], message); });
    if (figure === undefined) good = false;
    else figures[name] = figure;
  }
  if (good && Object.keys(figures).length === 0) wrong(own('figures') === undefined ? [] : ['figures'], "has no figures; expected figures: { THE SOURCE'S NAME: OURS }, such as { utilisation: BL1.utilisation }");
  const where = words('where');
  const names = words('names');
  return good ? { kind: 'published', text, engine, source: (source as string).trim(), tolerance: parsed ?? null, where, figures, names } : undefined;
}

const valueWords: Readonly<Record<Unit, string>> = {
  'ms': 'a time such as 20ms', 's': 'a time such as 1.5s', 'bit/s': 'a rate such as 19mbit', 'ratio': 'a number such as 0.95, or 95%', 'index': 'a number such as 0.95',
  'bytes': 'a size such as 60kB', 'packets': 'packets such as 20p', 'count': 'a number such as 3',
};
const toleranceWords = (unit: Unit): string => `a percentage such as 10%, ${unit === 'ratio' || unit === 'index' || unit === 'count' ? 'a number' : valueWords[unit]}, or both: 10% or ${{ 'ms': '1ms', 's': '10ms', 'bit/s': '1mbit', 'ratio': '0.01', 'index': '0.01', 'bytes': '1kB', 'packets': '2p', 'count': '3' }[unit]}`;

const plain = (text: string): number | undefined => {
  const value = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(text) ? Number(text) : undefined;
  return value !== undefined && Number.isFinite(value) ? value : undefined;
};
const percent = (text: string): number | undefined => {
  const match = /^(.*\S)\s*%$/.exec(text);
  const value = match ? plain(match[1]!) : undefined;
  return value === undefined ? undefined : value / 100;
};
const finite = (value: number | undefined): number | undefined => (value !== undefined && Number.isFinite(value) ? value : undefined);

/** A value with its unit, in the figure's own unit. */
export function parseValue(text: string, unit: Unit): number | undefined {
  switch (unit) {
    case 'ms': case 's': {
      const ns = finite(parseTime(text));
      return ns === undefined ? undefined : ns / (unit === 'ms' ? 1e6 : 1e9);
    }
    case 'bit/s': return finite(parseRate(text.replace(/\/s$/, '')));
    case 'ratio': return percent(text) ?? plain(text);
    case 'bytes': return finite(parseSize(text));
    case 'packets': return parsePackets(text) ?? plain(text);
    case 'index': case 'count': return plain(text);
  }
}

/** `10%`, `1ms`, `10% or 1ms` (the larger of the two holds). */
export function parseTolerance(text: string, unit: Unit): Tolerance | undefined {
  let relative: number | null = null;
  let absolute: number | null = null;
  for (const part of text.trim().split(/\s+or\s+/)) {
    const share = percent(part);
    if (share !== undefined) {
      if (relative !== null || share < 0) return undefined;
      relative = share;
    } else {
      const value = parseValue(part, unit);
      if (value === undefined || absolute !== null || value < 0) return undefined;
      absolute = value;
    }
  }
  return { relative, absolute };
}
