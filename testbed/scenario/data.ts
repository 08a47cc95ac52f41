/**
 * The scenario as plain data (maps, lists, scalars) before it is validated, and changes to it by path: what
 * `--set path=value` and `vary` do. Maps have no prototype, so no key a user writes can reach Object's.
 */

import { enumerate, suggestion } from './names.js';
import { formatPath, show, type Path } from './problem.js';

export type Data = null | boolean | number | string | Data[] | DataMap;
export interface DataMap { [key: string]: Data }

export const newMap = (): DataMap => Object.create(null) as DataMap;
export const isMap = (data: Data | undefined): data is DataMap => typeof data === 'object' && data !== null && !Array.isArray(data);

export function cloneData(data: Data): Data {
  if (Array.isArray(data)) return data.map(cloneData);
  if (!isMap(data)) return data;
  const copy = newMap();
  for (const key of Object.keys(data)) copy[key] = cloneData(data[key]!);
  return copy;
}

/** The value at a path, or undefined. */
export function at(data: Data | undefined, path: Path): Data | undefined {
  for (const key of path) {
    if (Array.isArray(data) && typeof key === 'number') data = data[key];
    else if (isMap(data) && Object.hasOwn(data, key)) data = data[key];
    else return undefined;
  }
  return data;
}

/** Maps whose keys themselves contain dots: everything after them in a path is one key. */
const dottedKeys: readonly string[] = ['tcp.sysctls', 'vary'];

/** `topology.links.BL1.rate`, `seeds[0]`, `tcp.sysctls.net.ipv4.tcp_sack` as a path, or undefined when it is not one. */
export function parsePath(text: string): Path | undefined {
  for (const prefix of dottedKeys) {
    if (text.startsWith(`${prefix}.`) && text.length > prefix.length + 1) return [...prefix.split('.'), text.slice(prefix.length + 1)];
  }
  const path: (string | number)[] = [];
  for (const part of text.split('.')) {
    const match = /^([A-Za-z_][^[\]]*|\d+)((?:\[\d+\])*)$/.exec(part);
    if (!match || match[1] === '__proto__') return undefined;
    path.push(/^\d+$/.test(match[1]!) ? Number(match[1]) : match[1]!);
    for (const index of match[2]!.matchAll(/\d+/g)) path.push(Number(index[0]));
  }
  return path;
}

/** The places `queue` stands for: every bottleneck link with a queue; if none has one, every link with a rate. */
function queuePlaces(root: DataMap): Path[] {
  const links = at(root, ['topology', 'links']);
  if (!isMap(links)) return [];
  const having = (key: string): string[] => Object.keys(links).filter((name) => { const link = links[name]; return isMap(link) && link[key] !== undefined; });
  const names = having('queue').length > 0 ? having('queue') : having('rate');
  return names.flatMap((name): Path[] => {
    const place = ['topology', 'links', name, 'queue'];
    const queue = at(root, place);
    // A queue given per direction is changed in the directions it was given for.
    const sides = isMap(queue) && queue['kind'] === undefined ? ['forward', 'reverse'].filter((side) => queue[side] !== undefined) : [];
    return sides.length > 0 ? sides.map((side) => [...place, side]) : [place];
  });
}

/**
 * The places in `root` that a target of `vary` or `--set` names.
 * @returns the paths, or a message that says why there is none
 */
export function places(root: DataMap, target: string): readonly Path[] | string {
  if (target === 'queue') {
    const found = queuePlaces(root);
    return found.length > 0 ? found : '"queue" means the queue of every bottleneck link, and no link of topology.links has a rate or a queue';
  }
  const path = parsePath(target);
  if (path === undefined) return `${show(target)} is not a path; expected queue, or a path such as topology.links.BL1.rate or traffic.long.cc`;
  if (path[0] === 'queue') {
    const found = queuePlaces(root)[0];
    return `"queue" stands alone, for the whole queue of every bottleneck link; expected queue, or ${formatPath([...(found ?? ['topology', 'links', 'BL1', 'queue']), ...path.slice(1)])}`;
  }
  // A key may be new; the map it goes into must be there, or be a section of the file left out so far.
  for (let length = 1; length < path.length; length++) {
    const parent = path.slice(0, length);
    const data = at(root, parent);
    if (data !== undefined && typeof data === 'object' && data !== null) continue;
    if (typeof data === 'string' && parent.at(-1) === 'queue') continue; // shorthand, becomes { kind: … }
    if (data === undefined && typeof path[length] === 'number') return `there is no list ${formatPath(parent)} to have an entry; expected a whole list, such as ${formatPath(parent)}=[…]`;
    if (data === undefined && length === 1) continue;
    if (data === undefined && parent.join('.') === 'tcp.sysctls') continue;
    const holder = at(root, path.slice(0, length - 1));
    const known = isMap(holder) ? Object.keys(holder) : [];
    const key = String(path[length - 1]);
    if (data !== undefined) return `${formatPath(parent)} is ${show(data)}, which has no parts`;
    return `there is no ${formatPath(parent)}; ${suggestion(key, known)}${known.length > 0 ? `there is ${enumerate(known)}` : 'nothing is defined there'}`;
  }
  return [path];
}

/** Sets the value at a path found by `places`, in place; null takes the key away, so that its default holds. */
export function assign(root: DataMap, path: Path, value: Data): void {
  let holder: Data = root;
  for (const [depth, key] of path.slice(0, -1).entries()) {
    let next: Data | undefined = at(holder, [key]);
    if (typeof next !== 'object' || next === null) {
      const made = newMap();
      if (typeof next === 'string' && path[depth] === 'queue') made['kind'] = next;
      put(holder, key, made);
      next = made;
    }
    holder = next;
  }
  put(holder, path.at(-1)!, value);
}

function put(holder: Data, key: string | number, value: Data): void {
  if (Array.isArray(holder)) {
    const index = Number(key);
    if (Number.isInteger(index) && index <= holder.length) holder[index] = value;
  } else if (isMap(holder)) {
    if (value === null) delete holder[String(key)];
    else holder[String(key)] = value;
  }
}
