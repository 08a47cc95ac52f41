/**
 * What zod found, as messages for a person: the value that was written and what would be accepted; for an unknown
 * key the nearest known one; for a value that may have several forms the complaint about the form it most looks like.
 */

import type { z } from 'zod';
import { at, isMap, type Data } from './data.js';
import { enumerate, suggestion } from './names.js';
import { formatPath, show, type Path, type Problem } from './problem.js';

type Issue = z.core.$ZodIssue;

const kinds: Readonly<Record<string, string>> = {
  object: 'a map of keys and values', record: 'a map of names', array: 'a list', tuple: 'a list', string: 'text', number: 'a number', int: 'a whole number', boolean: 'true or false',
};

/**
 * For safeParse's `error`: the second half of each message. Unknown keys: the known ones as a JSON list, which
 * `explain` reads back, because the issue itself does not carry them.
 */
export const expectation = (issue: z.core.$ZodRawIssue): string | undefined => {
  const shapeKeys = (): string[] => Object.keys((issue.inst as { _zod?: { def?: { shape?: object } } } | undefined)?._zod?.def?.shape ?? {});
  switch (issue.code) {
    case 'unrecognized_keys': return JSON.stringify(shapeKeys());
    case 'invalid_type': return issue.expected === 'object' && shapeKeys().length > 0 ? `expected a map of ${enumerate(shapeKeys())}` : `expected ${kinds[issue.expected as string] ?? String(issue.expected)}`;
    case 'invalid_value': return `expected ${(issue.values as unknown[]).map(String).join(', ')}`;
    case 'too_small': return `expected ${issue.origin === 'array' || issue.origin === 'string' ? `at least ${String(issue.minimum)} ${issue.origin === 'array' ? 'entries' : 'characters'}` : `${issue.inclusive === false ? 'more than' : 'at least'} ${String(issue.minimum)}`}`;
    case 'too_big': return `expected ${issue.origin === 'array' || issue.origin === 'string' ? `at most ${String(issue.maximum)} ${issue.origin === 'array' ? 'entries' : 'characters'}` : `${issue.inclusive === false ? 'less than' : 'at most'} ${String(issue.maximum)}`}`;
    default: return undefined;
  }
};

/** Messages for zod's issues about `data`; their paths begin at `data`, the problems' at `base`. */
export function explain(issues: readonly Issue[], data: Data | undefined, base: Path = []): Problem[] {
  const problems = issues.flatMap((issue): Problem[] => {
    const path = issue.path as Path;
    const value = at(data, path);
    if (issue.code === 'unrecognized_keys') {
      const known = knownKeys(issue.message);
      return issue.keys.map((key) => ({
        path: [...base, ...path, key],
        message: `unknown key ${show(key)}; ${suggestion(key, known)}expected ${known.length > 0 ? enumerate(known, 40) : 'no key here'}`,
      }));
    }
    if (issue.code === 'invalid_value') return [{ path: [...base, ...path], message: told(value, issue.message, issue.values.map(String)) }];
    if (issue.code === 'invalid_union') {
      if (issue.errors.length === 0) {
        const options = (issue as { options?: unknown[] }).options?.map(String) ?? [];
        return [{ path: [...base, ...path], message: told(value, `expected ${options.join(', ')}`, options) }];
      }
      return explainUnion(issue.errors, value, [...base, ...path]);
    }
    if (issue.code === 'invalid_key') {
      const reason = issue.issues[0]?.message ?? 'expected another name';
      return [{ path: [...base, ...path], message: `the name ${show(path.at(-1))} is not accepted; ${reason}` }];
    }
    // A qdisc's own complaint may already show the value.
    return [{ path: [...base, ...path], message: /^(there |the |this |unknown )/.test(issue.message) ? issue.message : told(value, issue.message) }];
  });
  // A mistyped key is one mistake, not an unknown key and a missing one.
  const meant = new Set(problems.flatMap((p) => { const key = keyMeant(p); return key === undefined ? [] : [formatPath(key)]; }));
  return problems.filter((p) => !(p.message.startsWith('is missing') && meant.has(formatPath(p.path))));
}

/** The place a mistyped key was meant for, where a complaint about an unknown key names one. */
export function keyMeant({ path, message }: Problem): Path | undefined {
  const match = /^unknown key .*?; did you mean "(.*?)"\?/.exec(message);
  return match ? [...path.slice(0, -1), match[1]!] : undefined;
}

/** What would be accepted, of a message that also says that the value is not or is missing; for complaints that are told again. */
export const onlyExpected = (message: string): string => /^(?:.*? is not accepted|is missing); (.*)$/s.exec(message)?.[1] ?? message;

/** @param options names of which the value should be one: the nearest is offered */
function told(value: Data | undefined, expectedText: string, options: readonly string[] = []): string {
  if (value === undefined || value === null) return `is missing; ${expectedText}`;
  return `${show(value)} is not accepted; ${typeof value === 'string' ? suggestion(value, options) : ''}${expectedText}`;
}

function knownKeys(message: string): readonly string[] {
  try {
    const list: unknown = JSON.parse(message);
    return Array.isArray(list) ? list.map(String) : [];
  } catch {
    return [];
  }
}

/** Of the forms a value may have, the complaint of the one it looks like; if it looks like none, what each expects. */
function explainUnion(errors: readonly (readonly Issue[])[], value: Data | undefined, base: Path): Problem[] {
  const wrongKind = (issues: readonly Issue[]): boolean => issues.some((issue) => issue.path.length === 0 && issue.code === 'invalid_type');
  const alike = errors.filter((issues) => !wrongKind(issues));
  const complaints = (alike.length > 0 ? alike : errors).map((issues) => explain(issues, value, base));
  if (isMap(value) && alike.length > 0) {
    // The form meant is the one whose keys were used: unknown keys speak most against it, then missing ones.
    const cost = (problems: readonly Problem[]): number => problems.reduce((sum, p) => sum + (p.message.startsWith('unknown key') ? 10 : p.message.startsWith('is missing') ? 5 : 1), 0);
    return complaints.reduce((best, next) => (cost(next) < cost(best) ? next : best));
  }
  if (complaints.length === 1) return complaints[0]!;
  // Scalars: one message with everything that would be accepted.
  const nested = complaints.find((problems) => problems.some((p) => p.path.length > base.length));
  if (nested && alike.length > 0) return nested;
  const expected = [...new Set(complaints.flatMap((problems) => problems.map((p) => /expected (.*)$/s.exec(p.message)?.[1] ?? p.message)))];
  return [{ path: base, message: told(value, `expected ${expected.join(', or ')}`) }];
}
