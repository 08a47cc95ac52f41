/** Tags: names a user gives to a run or a set, kept in its folder as tags.json, so that they go with it when it is copied. A set's tags are those of its runs too. */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { writeJsonAtomically } from '../records/run-json.js';

export const tagsName = 'tags.json';

/** Tags of a folder; none where there is no file or it cannot be read. */
export function readTags(dir: string): string[] {
  try {
    const value = JSON.parse(fs.readFileSync(path.join(dir, tagsName), 'utf8')) as { tags?: unknown } | null;
    return Array.isArray(value?.tags) ? value.tags.filter((tag): tag is string => typeof tag === 'string') : [];
  } catch {
    return [];
  }
}

/** @returns the folder's tags afterwards. @throws UserError when a name is not fit for a tag, or the folder cannot be written */
export function changeTags(dir: string, change: { readonly add?: readonly string[]; readonly remove?: readonly string[] }): string[] {
  for (const tag of change.add ?? []) {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(tag)) throw new UserError(`${JSON.stringify(tag)} is not fit for a tag: use up to 64 letters, digits, '.', '_' and '-', the first a letter or digit`, 2);
  }
  const removed = new Set(change.remove ?? []);
  const before = readTags(dir);
  const absent = [...removed].filter((tag) => !before.includes(tag));
  if (absent.length > 0) throw new UserError(`${path.basename(dir)} has no tag ${absent.join(', ')}${before.length > 0 ? `; it has ${before.join(', ')}` : ''}`);
  const tags = [...new Set([...before.filter((tag) => !removed.has(tag)), ...(change.add ?? [])])].sort();
  try {
    if (tags.length === 0) fs.rmSync(path.join(dir, tagsName), { force: true });
    else writeJsonAtomically(path.join(dir, tagsName), { schema: 1, tags });
  } catch (error) {
    throw new UserError(`${dir}: the tags cannot be written (${error instanceof Error ? error.message : String(error)})`);
  }
  return tags;
}
