/**
 * `load`: a YAML file, with `--set` changes, as a Scenario. Every mistake found is reported in one ScenarioError, with
 * the line of the value, or the `--set` or `vary` entry it came from. No other error leaves this file for anything
 * a file can hold.
 */

import { ScenarioError } from '../errors.js';
import { assign, at, cloneData, isMap, newMap, places, type Data, type DataMap } from './data.js';
import { expand } from './expand.js';
import { kernelRules, remembering, type EngineRules } from './engine-rules.js';
import { enumerate, suggestion } from './names.js';
import { validatePartly } from './partial.js';
import { formatPath, show, type Path, type Problem } from './problem.js';
import { parseYaml, pathKey, readText, type Source } from './read.js';
import type { Scenario, Variant } from './scenario.js';
import type { Resolved } from './schema.js';

export interface LoadOptions {
  /** `path=value` as given to `--set`, in order. */
  readonly set?: readonly string[];
  /** What the engine that is to run it makes of it. Default: the kernel's. */
  readonly rules?: EngineRules;
}

const maxVariants = 1000;
type Located = ScenarioError['problems'][number];

/** A part of the data that did not come from where it stands in the file. */
interface Overlay {
  readonly path: Path;
  /** From `--set`, or the place below `vary` it came from. */
  readonly from: { readonly set: string } | { readonly vary: Path };
}

/**
 * @param file a path; its text is YAML
 * @throws ScenarioError with every mistake found
 */
export function load(file: string, options: LoadOptions = {}): Scenario {
  return loadText(readText(file), file, options);
}

/** The same from text; `file` is its name in messages. @throws ScenarioError */
export function loadText(text: string, file: string, options: LoadOptions = {}): Scenario {
  const source = read(text, file);
  const root = source.data;
  if (!isMap(root)) {
    if (source.problems.length > 0) throw new ScenarioError(source.problems.map((p) => ({ file, line: p.line, field: formatPath(p.path), message: p.message })));
    const what = root === null ? 'is empty' : `holds ${show(root)}`;
    throw new ScenarioError([{ file, line: 1, field: '', message: `${what}; expected a scenario: a map with name, topology and traffic` }]);
  }
  refuseOtherFiles(root, file);
  const rules = remembering(options.rules ?? kernelRules);
  const found: Located[] = source.problems.map((p) => ({ file, line: p.line, field: formatPath(p.path), message: p.message }));

  const overlays: Overlay[] = [];
  for (const setting of options.set ?? []) {
    const message = applySetting(root, setting, overlays);
    if (message !== undefined) found.push({ file: setLabel(setting), line: null, field: '', message });
  }

  // The file without `vary`, and what `vary` itself must look like.
  const base = check(root, rules);
  // What could not be read is null in the data: one message is enough.
  const unread = new Set(source.problems.map((p) => formatPath(p.path)));
  found.push(...base.problems.filter((p) => !unread.has(formatPath(p.path))).map((p) => locate(p, source, overlays)));

  /** Where the file itself is wrong whatever varies: there, variants have nothing to add. */
  const place = ({ file: where, line, field }: Located): string => JSON.stringify([where, line, field]);
  const wrongAnyway = new Set(found.map(place));

  const seeds = seedsOf(root);
  seeds.forEach((seed, i) => {
    if (seeds.indexOf(seed) !== i) found.push(locate({ path: ['seeds', i], message: `the seed ${seed} is there twice, which would repeat the same run; expected different seeds` }, source, overlays));
  });

  const { keys, groups, values, targets, labels } = readVary(root, (path, message) => found.push(locate({ path, message }, source, overlays)));
  const combinations = values.reduce((product, list) => product * list.length, 1);
  if (combinations > maxVariants) found.push(locate({ path: ['vary'], message: `${combinations} combinations are too many; expected at most ${maxVariants}` }, source, overlays));

  const origins = new Map<Variant, readonly Overlay[]>();
  const variants: Variant[] = [];
  // With a mistake already found nothing will run: then each value is looked at once, not each combination.
  const choices = found.length === 0 ? everyChoice(values) : eachValueOnce(values);
  for (const chosen of choices) {
    if (found.length >= enough) break;
    if (chosen.some((choice, i) => values[i]![choice] === undefined)) continue;
    const changed = cloneData(root) as DataMap;
    delete changed['vary'];
    const own: Overlay[] = [...overlays];
    chosen.forEach((choice, i) => {
      targets[i]!.forEach((paths, g) => {
        for (const path of paths) {
          assign(changed, path, cloneData(values[i]![choice]![g] ?? null));
          own.push({ path, from: { vary: ['vary', keys[i]!, choice, ...(groups[i]!.length === 1 ? [] : [g])] } });
        }
      });
    });
    const { resolved, problems } = keys.length === 0 ? base : check(changed, rules);
    found.push(...problems.filter((p) => !unread.has(formatPath(p.path))).map((p) => locate(p, source, own)).filter((p) => !wrongAnyway.has(place(p))));
    if (resolved === undefined || problems.length > 0) continue;
    const { vary: _vary, seeds: _seeds, ...parts } = resolved;
    const variant = { ...parts, varied: Object.fromEntries(groups.flatMap((group, i) => group.map((key, g) => [key, labels[i]![chosen[i]!]![g]!]))) };
    variants.push(variant);
    origins.set(variant, own);
  }
  if (base.resolved === undefined || found.length > 0) throw new ScenarioError(told(found));
  return {
    file, name: base.resolved.name, description: base.resolved.description ?? '', seeds: base.resolved.seeds ?? [1], variants,
    error: (problems, variant) => new ScenarioError(problems.map((p) => locate(p, source, (variant && origins.get(variant)) ?? overlays))),
    where: (path, varied) => {
      const variant = variants.find((one) => JSON.stringify(one.varied) === JSON.stringify(varied));
      return new ScenarioError([locate({ path, message: '' }, source, (variant && origins.get(variant)) ?? overlays)]).message;
    },
  };
}

/** Sections by which a scenario is known. */
const sections = ['name', 'topology', 'traffic', 'probes', 'measure', 'seeds', 'vary', 'events', 'collect', 'expect'];
const whatItIs = 'expected a scenario: a YAML file with name, topology and traffic, such as topologies/parking-lot.yaml';

/** YAML with its lines; a file that was never meant as one gets one message, not one for each of its lines. */
function read(text: string, file: string): Source {
  try {
    return parseYaml(text, file);
  } catch (error) {
    if (!(error instanceof ScenarioError)) throw error;
    const otherKind = /\.[A-Za-z0-9]{1,8}$/.test(file) && !/\.(?:ya?ml|json)$/i.test(file);
    const alike = new RegExp(`^\\s*(?:${sections.join('|')})\\s*:`, 'm').test(text);
    if (!otherKind && alike) throw error;
    const [first] = error.problems;
    throw new ScenarioError([{ ...first!, message: `this is not a scenario: ${first!.message.replace(/^is not YAML: (.*)$/s, 'it is not even YAML ($1)')}; ${whatItIs}` }]);
  }
}

/** A map of other things (a compose file, a run's metrics): one message. @throws ScenarioError */
function refuseOtherFiles(root: DataMap, file: string): void {
  const keys = Object.keys(root);
  const known = keys.filter((key) => sections.includes(key) || suggestion(key, sections) !== '');
  if (keys.length === 0 || known.includes('topology') || known.some((key) => suggestion(key, ['topology']) !== '')) return;
  if (known.length > 1 && known.length >= keys.length / 2) return;
  throw new ScenarioError([{ file, line: 1, field: '', message: `this is not a scenario: it has no topology, but ${enumerate(keys, 8)}; ${whatItIs}` }]);
}

/** The seeds as written, as far as they are numbers. */
function seedsOf(root: DataMap): readonly Data[] {
  const seeds = root['seeds'];
  return Array.isArray(seeds) && seeds.every((seed) => typeof seed === 'number') ? seeds : [];
}

interface Vary {
  /** As written, for places. */
  readonly keys: readonly string[];
  /** Of `a.b, c.d`, each path: they change together. */
  readonly groups: readonly (readonly string[])[];
  /** Each choice of each key: a value for each path of its group; undefined where that is not what was written. */
  readonly values: readonly (readonly (readonly Data[] | undefined)[])[];
  readonly targets: readonly (readonly (readonly Path[])[])[];
  readonly labels: readonly (readonly (readonly string[])[])[];
}

/** What `vary` names, without the entries that are no lists (their form is checked elsewhere) or lead nowhere. */
function readVary(root: DataMap, problem: (path: Path, message: string) => void): Vary {
  const vary = root['vary'];
  const written = Object.entries(isMap(vary) ? vary : {});
  const everyTarget = written.flatMap(([key]) => parts(key));
  const entries = written.flatMap(([key, list]) => {
    if (!Array.isArray(list) || list.length === 0) return [];
    const group = parts(key);
    const targets = group.map((target) => {
      const found = /^(?:vary|seeds|name)\b/.test(target) ? `${target} cannot be varied; expected queue or a path such as topology.links.BL1.rate`
        : everyTarget.indexOf(target) !== everyTarget.lastIndexOf(target) ? `${target} is varied twice; expected each path once` : places(root, target);
      if (typeof found === 'string') problem(['vary', key], found);
      return found;
    });
    const whole = label(list);
    whole.forEach((text, j) => {
      if (whole.indexOf(text) !== j) problem(['vary', key, j], `${show(list[j])} is there twice, which would repeat the same run; expected different values`);
    });
    const values = list.map((value, j): readonly Data[] | undefined => {
      if (group.length === 1) return [value];
      if (Array.isArray(value) && value.length === group.length) return value;
      problem(['vary', key, j], `${show(value)} is not accepted; expected a list of ${group.length} values, one for each of ${group.join(', ')}`);
      return undefined;
    });
    if (targets.some((target) => typeof target === 'string') || values.every((value) => value === undefined)) return [];
    const labels = group.length === 1 ? whole.map((text) => [text]) : transposed(group.map((_, g) => label(values.map((value) => value?.[g] ?? null))));
    return [{ key, group, values, targets: targets as (readonly Path[])[], labels }];
  });
  return { keys: entries.map((e) => e.key), groups: entries.map((e) => e.group), values: entries.map((e) => e.values), targets: entries.map((e) => e.targets), labels: entries.map((e) => e.labels) };
}
const parts = (key: string): string[] => key.split(',').map((part) => part.trim());
/** Rows to columns; rows of equal length. */
const transposed = (rows: readonly string[][]): string[][] => (rows[0] ?? []).map((_, j) => rows.map((row) => row[j]!));

/** Every combination, as an index into each list; the last changes fastest. */
function* everyChoice(values: readonly (readonly unknown[])[]): Generator<readonly number[]> {
  const combinations = values.reduce((product, list) => product * list.length, 1);
  for (let n = 0; n < combinations; n++) {
    const choice: number[] = [];
    let remainder = n;
    for (let i = values.length - 1; i >= 0; i--) {
      choice[i] = remainder % values[i]!.length;
      remainder = Math.floor(remainder / values[i]!.length);
    }
    yield choice;
  }
}

/** So many values are looked at once a mistake was found. */
const mostValues = 100;
function* eachValueOnce(values: readonly (readonly unknown[])[]): Generator<readonly number[]> {
  let made = 0;
  for (const [i, list] of values.entries()) {
    for (let j = i === 0 ? 0 : 1; j < list.length && made < mostValues; j++, made++) yield values.map((_, k) => (k === i ? j : 0));
  }
}

/** Validates data: its form, then what it stands for as far as it could be read. `resolved` only without mistakes of form. */
function check(data: DataMap, rules: EngineRules): { readonly resolved: Resolved | undefined; readonly problems: readonly Problem[] } {
  const { resolved, holes, problems } = validatePartly(withKinds(data));
  if (resolved === undefined) return { resolved, problems };
  const more = expand(resolved, { rules, holes }).problems;
  return { resolved: problems.length === 0 ? resolved : undefined, problems: [...problems, ...more] };
}

/** `tool: flent` says the kind as well: there is no other for it. */
function withKinds(data: DataMap): DataMap {
  const { traffic } = data;
  if (!isMap(traffic) || !Object.values(traffic).some((each) => isMap(each) && each['kind'] === undefined && each['tool'] === 'flent')) return data;
  const named = newMap();
  for (const [name, each] of Object.entries(traffic)) named[name] = isMap(each) && each['kind'] === undefined && each['tool'] === 'flent' ? Object.assign(newMap(), { kind: 'flent' }, each) : each;
  return Object.assign(newMap(), data, { traffic: named });
}

/** Applies one `path=value`. @returns what is wrong with it, or undefined */
function applySetting(root: DataMap, setting: string, overlays: Overlay[]): string | undefined {
  const equals = setting.indexOf('=');
  if (equals < 1) return 'expected path=value, such as topology.links.BL1.rate=5mbit';
  let value: Data;
  try {
    const parsed = parseYaml(setting.slice(equals + 1), `--set ${setting}`);
    if (parsed.problems.length > 0) return parsed.problems[0]!.message;
    value = parsed.data;
  } catch (error) {
    if (error instanceof ScenarioError) return error.problems[0]!.message;
    throw error;
  }
  const paths = places(root, setting.slice(0, equals).trim());
  if (typeof paths === 'string') return paths;
  for (const path of paths) {
    const holder = at(root, path.slice(0, -1));
    const key = path.at(-1)!;
    if (Array.isArray(holder) && !(typeof key === 'number' && key <= holder.length)) return `${formatPath(path.slice(0, -1))} is a list of ${holder.length}; expected an index from 0 to ${holder.length}`;
    assign(root, path, cloneData(value));
    overlays.push({ path, from: { set: setting } });
  }
  return undefined;
}

/** The index 0 of `links[0]` and a map's key "0" are one place. */
const startsWith = (path: Path, prefix: Path): boolean => prefix.length <= path.length && prefix.every((key, i) => String(key) === String(path[i]));

/** A `--set` as the file of a message; what is longer than anyone types is cut. */
const setLabel = (setting: string): string => `--set ${setting.length <= 200 ? setting : `${setting.slice(0, 200)}…`}`;

/** File, line and field of a problem: those of the value that was written, wherever it was written. */
function locate(problem: Problem, source: Source, overlays: readonly Overlay[]): Located {
  let path = problem.path;
  // The latest overlay wins; a value from `vary` may itself have been set by `--set`.
  for (let i = overlays.length - 1; i >= 0; i--) {
    const overlay = overlays[i]!;
    if (!startsWith(path, overlay.path)) continue;
    if ('set' in overlay.from) return { file: setLabel(overlay.from.set), line: null, field: formatPath(path), message: problem.message };
    path = [...overlay.from.vary, ...path.slice(overlay.path.length)];
  }
  for (let length = path.length; length >= 0; length--) {
    const line = source.lines.get(pathKey(path.slice(0, length)));
    if (line !== undefined) return { file: source.file, line, field: formatPath(path), message: problem.message };
  }
  return { file: source.file, line: null, field: formatPath(path), message: problem.message };
}

/** More than anyone reads at once. */
const mostProblems = 50;
/** Each is found up to a few times, by variants. */
const enough = 20 * mostProblems;

/** In the order of lines, each once: variants repeat what they share. The last says how many more there are. */
function told(problems: readonly Located[]): Located[] {
  const seen = new Set<string>();
  const all = problems
    .filter((p) => { const key = JSON.stringify(p); const fresh = !seen.has(key); seen.add(key); return fresh; })
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
  if (all.length <= mostProblems) return all;
  const { file, line } = all[mostProblems - 1]!;
  return [...all.slice(0, mostProblems - 1), { file, line, field: '', message: `… and ${all.length - mostProblems + 1} more mistakes from here on` }];
}

/** A short text for each value of a `vary` list, for folders and tables: `codel`, `5mbit`; `red(min=20p)` only where needed. */
function label(values: readonly Data[]): string[] {
  const brief = values.map((value) => (isMap(value) && typeof value['kind'] === 'string' ? value['kind'] : plain(value)));
  return brief.map((text, i) => (brief.indexOf(text) === i && brief.lastIndexOf(text) === i ? text : full(values[i]!)));
}
function plain(value: Data): string { return typeof value === 'object' && value !== null ? full(value) : String(value); }
function full(value: Data): string {
  if (Array.isArray(value)) return `[${value.map(plain).join(',')}]`;
  if (!isMap(value)) return String(value);
  const kind = typeof value['kind'] === 'string' ? value['kind'] : '';
  const others = Object.keys(value).filter((key) => key !== 'kind' || kind === '').map((key) => `${key}=${plain(value[key]!)}`);
  return `${kind}(${others.join(',')})`;
}
