/**
 * `load`: a YAML file, with `--set` changes, as a Scenario. Every mistake found is reported in one ScenarioError, with
 * the line of the value, or the `--set` or `vary` entry it came from. No other error leaves this file for anything
 * a file can hold.
 */

import { ScenarioError } from '../errors.js';
import { assign, at, cloneData, isMap, places, type Data, type DataMap } from './data.js';
import { expand } from './expand.js';
import { expectation, explain } from './explain.js';
import { formatPath, show, type Path, type Problem } from './problem.js';
import { parseYaml, pathKey, readText, type Source } from './read.js';
import type { Scenario, Variant } from './scenario.js';
import { zScenario, type Resolved } from './schema.js';

export interface LoadOptions {
  /** `path=value` as given to `--set`, in order. */
  readonly set?: readonly string[];
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
  const source = parseYaml(text, file);
  if (!isMap(source.data)) {
    if (source.problems.length > 0) throw new ScenarioError(source.problems.map((p) => ({ file, line: p.line, field: formatPath(p.path), message: p.message })));
    const what = source.data === null ? 'is empty' : `holds ${show(source.data)}`;
    throw new ScenarioError([{ file, line: null, field: '', message: `${what}; expected a scenario: a map with name, topology and traffic` }]);
  }
  const root = source.data;
  const found: Located[] = source.problems.map((p) => ({ file, line: p.line, field: formatPath(p.path), message: p.message }));

  const overlays: Overlay[] = [];
  for (const setting of options.set ?? []) {
    const message = applySetting(root, setting, overlays);
    if (message !== undefined) found.push({ file: `--set ${setting}`, line: null, field: '', message });
  }

  // The file without `vary`, and what `vary` itself must look like.
  const base = check(root);
  // What could not be read is null in the data: one message is enough.
  const unread = new Set(source.problems.map((p) => formatPath(p.path)));
  found.push(...base.problems.filter((p) => !unread.has(formatPath(p.path))).map((p) => locate(p, source, overlays)));
  if (base.resolved === undefined || found.length > 0) throw new ScenarioError(unique(found));

  const { vary: _vary, seeds = [1], ...rest } = base.resolved;
  const repeated = seeds.findIndex((seed, i) => seeds.indexOf(seed) !== i);
  if (repeated >= 0) found.push(locate({ path: ['seeds', repeated], message: `the seed ${seeds[repeated]!} is there twice, which would repeat the same run; expected different seeds` }, source, overlays));

  const origins = new Map<Variant, readonly Overlay[]>();
  const variants: Variant[] = [];
  const varyData = root['vary'];
  if (!isMap(varyData) || Object.keys(varyData).length === 0) {
    const variant = { ...rest, varied: {} };
    variants.push(variant);
    origins.set(variant, overlays);
  } else {
    const keys = Object.keys(varyData);
    const values = keys.map((key) => varyData[key] as Data[]);
    const combinations = values.reduce((product, list) => product * list.length, 1);
    if (combinations > maxVariants) {
      found.push(locate({ path: ['vary'], message: `${combinations} combinations are too many; expected at most ${maxVariants}` }, source, overlays));
    }
    // `a.b, c.d`: several values that change together, each choice a list with one value for each.
    const groups = keys.map((key) => key.split(',').map((part) => part.trim()));
    const choices = groups.map((group, i) => values[i]!.map((value, j): Data[] => {
      if (group.length === 1) return [value];
      if (Array.isArray(value) && value.length === group.length) return value;
      found.push(locate({ path: ['vary', keys[i]!, j], message: `${show(value)} is not accepted; expected a list of ${group.length} values, one for each of ${group.join(', ')}` }, source, overlays));
      return group.map(() => null);
    }));
    const all = groups.flat();
    const seen = new Set<string>();
    const targets = groups.map((group, i) => group.map((key) => {
      const target = /^(?:vary|seeds|name)\b/.test(key) ? `${key} cannot be varied; expected queue or a path such as topology.links.BL1.rate`
        : seen.has(key) ? `${key} is varied twice; expected each path once` : places(root, key);
      seen.add(key);
      if (typeof target === 'string') found.push(locate({ path: ['vary', keys[i]!], message: target }, source, overlays));
      return typeof target === 'string' ? [] : target;
    }));
    const labels = groups.map((group, i) => {
      const whole = label(values[i]!);
      whole.forEach((text, j) => {
        if (whole.indexOf(text) !== j) found.push(locate({ path: ['vary', keys[i]!, j], message: `${show(values[i]![j])} is there twice, which would repeat the same run; expected different values` }, source, overlays));
      });
      return group.length === 1 ? whole.map((text) => [text]) : transposed(group.map((_, g) => label(choices[i]!.map((choice) => choice[g]!))));
    });
    if (found.length > 0) throw new ScenarioError(unique(found));

    for (let n = 0; n < combinations; n++) {
      const changed = cloneData(root) as DataMap;
      delete changed['vary'];
      const varied: Record<string, string> = {};
      const own: Overlay[] = [...overlays];
      let remainder = n;
      for (let i = keys.length - 1; i >= 0; i--) {
        const choice = remainder % values[i]!.length;
        remainder = Math.floor(remainder / values[i]!.length);
        for (const [g, key] of groups[i]!.entries()) {
          varied[key] = labels[i]![choice]![g]!;
          for (const path of targets[i]![g]!) {
            assign(changed, path, cloneData(choices[i]![choice]![g]!));
            own.push({ path, from: { vary: groups[i]!.length === 1 ? ['vary', keys[i]!, choice] : ['vary', keys[i]!, choice, g] } });
          }
        }
      }
      const { resolved, problems } = check(changed);
      if (resolved === undefined || problems.length > 0) {
        found.push(...problems.map((p) => locate(p, source, own)));
        if (found.length > 200) break;
        continue;
      }
      const { vary: _none, seeds: _seeds, ...parts } = resolved;
      const variant = { ...parts, varied: Object.fromEntries(all.map((key) => [key, varied[key]!])) };
      variants.push(variant);
      origins.set(variant, own);
    }
  }
  if (found.length > 0) throw new ScenarioError(unique(found));
  return {
    file, name: base.resolved.name, description: base.resolved.description ?? '', seeds, variants,
    error: (problems, variant) => new ScenarioError(problems.map((p) => locate(p, source, (variant && origins.get(variant)) ?? overlays))),
  };
}

/** Validates data: its form, then what it stands for. */
function check(data: DataMap): { readonly resolved: Resolved | undefined; readonly problems: readonly Problem[] } {
  const result = zScenario.safeParse(data, { error: expectation });
  if (!result.success) return { resolved: undefined, problems: explain(result.error.issues, data) };
  const { problems } = expand(result.data);
  return { resolved: result.data, problems };
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

const startsWith = (path: Path, prefix: Path): boolean => prefix.length <= path.length && prefix.every((key, i) => key === path[i]);

/** File, line and field of a problem: those of the value that was written, wherever it was written. */
function locate(problem: Problem, source: Source, overlays: readonly Overlay[]): Located {
  let path = problem.path;
  // The latest overlay wins; a value from `vary` may itself have been set by `--set`.
  for (let i = overlays.length - 1; i >= 0; i--) {
    const overlay = overlays[i]!;
    if (!startsWith(path, overlay.path)) continue;
    if ('set' in overlay.from) return { file: `--set ${overlay.from.set}`, line: null, field: formatPath(path), message: problem.message };
    path = [...overlay.from.vary, ...path.slice(overlay.path.length)];
  }
  for (let length = path.length; length >= 0; length--) {
    const line = source.lines.get(pathKey(path.slice(0, length)));
    if (line !== undefined) return { file: source.file, line, field: formatPath(path), message: problem.message };
  }
  return { file: source.file, line: null, field: formatPath(path), message: problem.message };
}

/** In the order of lines, each once: variants repeat what they share. */
function unique(problems: readonly Located[]): Located[] {
  const seen = new Set<string>();
  return problems
    .filter((p) => { const key = JSON.stringify(p); const fresh = !seen.has(key); seen.add(key); return fresh; })
    .sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
    .slice(0, 200);
}

/** A short text for each value of a `vary` list, for folders and tables: `codel`, `5mbit`; `red(min=20p)` only where needed. */
function label(values: readonly Data[]): string[] {
  const brief = values.map((value) => (isMap(value) && typeof value['kind'] === 'string' ? value['kind'] : plain(value)));
  return brief.map((text, i) => (brief.indexOf(text) === i && brief.lastIndexOf(text) === i ? text : full(values[i]!)));
}
/** Rows to columns; rows of equal length. */
const transposed = (rows: readonly string[][]): string[][] => (rows[0] ?? []).map((_, j) => rows.map((row) => row[j]!));
function plain(value: Data): string { return typeof value === 'object' && value !== null ? full(value) : String(value); }
function full(value: Data): string {
  if (Array.isArray(value)) return `[${value.map(plain).join(',')}]`;
  if (!isMap(value)) return String(value);
  const kind = typeof value['kind'] === 'string' ? value['kind'] : '';
  const others = Object.keys(value).filter((key) => key !== 'kind' || kind === '').map((key) => `${key}=${plain(value[key]!)}`);
  return `${kind}(${others.join(',')})`;
}
