/**
 * Validation that goes on after a mistake: what could not be read is taken out of the data, or a stand-in put there
 * where something must be, until the rest is a scenario. So a wrong unit on one line does not hide an unknown host on
 * another. What was taken out is a hole; a complaint that may only be the hole's consequence is not made.
 */

import { at, cloneData, isMap, type Data, type DataMap } from './data.js';
import { expectation, explain, keyMeant } from './explain.js';
import { formatPath, type Path, type Problem } from './problem.js';
import { zScenario, type Resolved } from './schema.js';

const startsWith = (path: Path, prefix: Path): boolean => prefix.length <= path.length && prefix.every((key, i) => key === path[i]);

/** Places of a scenario whose values are not those that were written. */
export class Holes {
  private readonly paths: Path[] = [];

  get none(): boolean { return this.paths.length === 0; }
  add(path: Path): void { this.paths.push(path); }
  has(path: Path): boolean { return this.paths.some((hole) => hole.length === path.length && startsWith(hole, path)); }
  /** Whether the value at the path was taken out, alone or with what holds it. */
  covers(path: Path): boolean { return this.paths.some((hole) => startsWith(path, hole)); }
  /** Whether it, or a part of it, was taken out. */
  touches(path: Path): boolean { return this.paths.some((hole) => startsWith(path, hole) || startsWith(hole, path)); }
  /** Whether something in the same map or list was taken out. */
  beside(path: Path): boolean { return path.length > 1 && this.touches(path.slice(0, -1)); }
  /** Whether any hole's path is like this one; `*` stands for any key. */
  like(...pattern: readonly string[]): boolean {
    return this.paths.some((hole) => hole.length <= pattern.length && hole.every((key, i) => pattern[i] === '*' || pattern[i] === key));
  }
}

/** A name no user gives: longer names than 32 characters are refused. */
const nobody = 'x'.repeat(32);

/** What may stand where something must be; a complaint about it is never made, since the place is a hole. */
const standIns: readonly (readonly [pattern: readonly string[], value: (path: Path) => Data])[] = [
  [['name'], () => 'unnamed'],
  [['topology', 'routers'], () => [nobody]],
  [['topology', 'routers', '*'], (path) => `${nobody.slice(0, 24)}${String(path.at(-1))}`],
  [['topology', 'hosts'], () => ({})],
  [['topology', 'links', '*', 'between'], () => [nobody, nobody]],
  [['topology', 'links', '*', 'between', '*'], () => nobody],
  [['topology', 'hosts', '*', 'at'], () => nobody],
  [['traffic', '*', 'kind'], () => 'bulk'],
  [['traffic', '*', 'from'], () => nobody],
  [['traffic', '*', 'to'], () => nobody],
  [['traffic', '*', 'from', '*'], () => nobody],
  [['traffic', '*', 'to', '*'], () => nobody],
  [['traffic', '*', 'test'], () => nobody],
  [['traffic', '*', 'rate'], () => '1mbit'],
  [['traffic', '*', 'arrival'], () => 'every 1s'],
  [['traffic', '*', 'size'], () => '1kB'],
  [['traffic', '*', 'think'], () => '1s'],
  [['traffic', '*', 'on'], () => '1s'],
  [['traffic', '*', 'off'], () => '1s'],
  [['probes', '*', 'from'], () => nobody],
  [['probes', '*', 'to'], () => nobody],
  [['probes', '*', 'from', '*'], () => nobody],
  [['probes', '*', 'to', '*'], () => nobody],
  [['events', '*'], () => ({ at: '0s', set: {} })],
  [['events', '*', 'set'], () => ({})],
  [['events', '*', 'at'], () => '0s'],
];

function standIn(path: Path): Data | undefined {
  const found = standIns.find(([pattern]) => pattern.length === path.length && pattern.every((key, i) => key === '*' || key === path[i]));
  return found?.[1](path);
}

/** Takes what is at the path out of the data, or with it as much of what holds it as must go too. @returns false when nothing would be left */
function takeOut(root: DataMap, path: Path, holes: Holes): boolean {
  for (let length = path.length; length > 0; length--) {
    const place = path.slice(0, length);
    if (holes.has(place)) continue; // a stand-in that did not help
    const holder = at(root, place.slice(0, -1));
    const key = place.at(-1)!;
    const instead = standIn(place);
    if (isMap(holder)) {
      const written = Object.hasOwn(holder, key);
      if (instead !== undefined) holder[String(key)] = instead;
      else if (written) delete holder[String(key)];
      else continue;
      // An event whose only change was taken out is left with none: nothing of it is unread but that.
      if (written || key !== 'set') holes.add(place);
      return true;
    }
    if (Array.isArray(holder) && typeof key === 'number' && key < holder.length && instead !== undefined) {
      holder[key] = instead;
      holes.add(place);
      return true;
    }
  }
  return false;
}

export interface Partly {
  /** What could be read, with stand-ins at the holes; undefined when that is not enough for a scenario. */
  readonly resolved: Resolved | undefined;
  readonly holes: Holes;
  readonly problems: readonly Problem[];
}

/** More rounds than mistakes nest. */
const mostRounds = 12;

/** Validates the form of `data`; every mistake is found that is not hidden by another in the same map. */
export function validatePartly(data: DataMap): Partly {
  const holes = new Holes();
  const problems: Problem[] = [];
  let rest = data;
  for (let round = 0; round < mostRounds; round++) {
    const result = zScenario.safeParse(rest, { error: expectation });
    if (result.success) return { resolved: result.data, holes, problems };
    if (round === 0) rest = cloneData(data) as DataMap;
    const found = explain(result.error.issues, rest);
    // After the first round some complaints are about what is not there any more.
    problems.push(...found.filter((p) => round === 0 || !(holes.covers(p.path) || holes.beside(p.path))));
    const before = new Set<string>();
    for (const problem of found) {
      const { path } = problem;
      const meant = keyMeant(problem);
      const key = formatPath(path);
      if (before.has(key)) continue;
      before.add(key);
      if (!takeOut(rest, path, holes)) return { resolved: undefined, holes, problems };
      // Written under a name that is not known: as unread as if it were wrong.
      if (meant !== undefined) holes.add(meant);
    }
  }
  return { resolved: undefined, holes, problems };
}
