/**
 * A YAML file as plain data that still knows its line numbers. YAML 1.2 core schema, one document, no tags.
 *
 * Two notations of a scenario are not YAML inside `{ … }`: host ranges (`from: S1[0..1]`) and functions
 * (`start: uniform(0s, 1s)`). Their brackets and commas are exchanged for private characters of the same length
 * before the parser sees them and put back afterwards, so every position stays true.
 */

import * as fs from 'node:fs';
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, type Node, type Pair } from 'yaml';
import { ScenarioError } from '../errors.js';
import { newMap, type Data, type DataMap } from './data.js';
import type { Path } from './problem.js';

/** A scenario is a page of text; what is larger is another kind of file. */
const maxFileBytes = 1 << 18;
/** No value of a scenario but its description is longer; patterns are tried on it, so length costs time. */
const maxScalar = 1000;
const maxDescription = 10_000;
/** Aliases are expanded; this bounds what a few lines of them can grow to. */
const maxValues = 100_000;
const maxDepth = 64;
/** After a few the parser only tells how it lost its way. */
const mostSyntaxErrors = 5;
/** Nesting the parser itself is given; it recurses. */
const maxBrackets = 500;

export interface Located { readonly message: string; readonly line: number | null; readonly path: Path }
export interface Source {
  readonly file: string;
  readonly data: Data;
  /** Line of the value at a path (JSON of the path), 1 …; of its key where the value is a map or a list. */
  readonly lines: ReadonlyMap<string, number>;
  /** Mistakes that did not keep the rest from being read: two entries of one name, tags, keys that are not text. */
  readonly problems: readonly Located[];
}

export const pathKey = (path: Path): string => JSON.stringify(path);

const stand = { '[': '\uE000', ']': '\uE001', ',': '\uE002' } as const;
const restore: Readonly<Record<string, string>> = { '\uE000': '[', '\uE001': ']', '\uE002': ',' };
const disguise = (text: string): string => text
  .replace(/(?<![\w-])[A-Za-z][\w-]{0,63}\[[^[\]{}\n"'#]{0,40}\]/g, (token) => token.replace(/[[\],]/g, (c) => stand[c as keyof typeof stand]))
  .replace(/(?<!\w)[A-Za-z]\w{0,31}\([\w\s.%/,+-]{0,80}\)/g, (token) => (token.includes('\n') ? token : token.replace(/,/g, stand[','])));
const undisguise = (text: string): string => text.replace(/[\uE000-\uE002]/g, (c) => restore[c]!);

function fail(file: string, message: string, line: number | null = null): never {
  throw new ScenarioError([{ file, line, field: '', message }]);
}

/** The text of a scenario file. @throws ScenarioError when it cannot be read, is not a file, too large, or not UTF-8 */
export function readText(file: string): string {
  let bytes: Buffer;
  try {
    const stat = fs.statSync(file);
    if (stat.isDirectory()) fail(file, 'is a folder; expected a scenario file such as topologies/parking-lot.yaml');
    if (!stat.isFile()) fail(file, 'is not a regular file; expected a scenario file such as topologies/parking-lot.yaml');
    if (stat.size > maxFileBytes) fail(file, `is ${stat.size} bytes; expected a scenario file of at most ${maxFileBytes} bytes`);
    bytes = fs.readFileSync(file);
  } catch (error) {
    if (error instanceof ScenarioError) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') fail(file, 'there is no such file; expected the path of a scenario, such as topologies/parking-lot.yaml');
    if (code === 'EACCES' || code === 'EPERM') fail(file, 'may not be read; check its permissions');
    if (code === 'ERR_INVALID_ARG_VALUE' || code === 'ENAMETOOLONG' || code === 'ELOOP') fail(file, `is not a usable file name (${code})`);
    throw error;
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return fail(file, 'is not UTF-8 text; expected a YAML file saved as UTF-8');
  }
}

/** Advice for the parser's messages that users meet most. */
const advice: Readonly<Record<string, string>> = {
  TAB_AS_INDENT: 'a tab is used to indent; YAML takes only spaces',
  MULTIPLE_DOCS: 'there is more than one YAML document (---); expected one scenario a file',
  BLOCK_AS_IMPLICIT_KEY: 'a key stands where a value is expected; is the indentation right, or the value to be quoted?',
  BAD_INDENT: 'the indentation is wrong, or a bracket is not closed',
  MISSING_CHAR: 'a bracket, quote, comma or ": " is missing here',
};

/**
 * Reads YAML text.
 * @param file its name in messages
 * @throws ScenarioError when the text is not YAML; every syntax error is named
 */
export function parseYaml(text: string, file: string): Source {
  const lineAt = (offset: number): number => text.slice(0, offset).split('\n').length;
  const strange = text.search(/[\uE000-\uE002]/);
  if (strange >= 0) fail(file, 'has a private-use character (U+E000 to U+E002); expected ordinary text', lineAt(strange));
  let nesting = 0;
  let lineNow = 1;
  for (const c of text) {
    if (c === '\n') lineNow++;
    if (c === '[' || c === '{') nesting++;
    else if (c === ']' || c === '}') nesting = Math.max(0, nesting - 1);
    if (nesting > maxBrackets) fail(file, `brackets are nested more than ${maxBrackets} deep; a scenario needs fewer than 10`, lineNow);
  }
  for (const [index, line] of text.split('\n').entries()) {
    if (/^[\s?:-]*/.exec(line)![0].length > 2000) fail(file, 'is indented too far; expected less than 2000 columns', index + 1);
  }

  const counter = new LineCounter();
  const given = disguise(text);
  const lineOf = (offset: number): number => counter.linePos(offset).line;
  let document: ReturnType<typeof parseDocument>;
  try {
    document = parseDocument(given, { version: '1.2', schema: 'core', uniqueKeys: false, stringKeys: false, merge: false, prettyErrors: false, lineCounter: counter, strict: true, logLevel: 'error' });
  } catch (error) {
    return fail(file, `cannot be read as YAML: ${(error as Error).message}`, 1);
  }
  if (document.errors.length > 0) {
    throw new ScenarioError(document.errors.slice(0, mostSyntaxErrors).map((e) => {
      const tab = e.code === 'BAD_INDENT' || e.code === 'TAB_AS_INDENT' || /[Tt]abs? /.test(e.message);
      const line = lineOf(e.pos[0]);
      const tabbed = tab && /^\s*\t/.test(text.split('\n')[line - 1] ?? '');
      const help = tabbed ? advice['TAB_AS_INDENT'] : advice[e.code];
      return { file, line, field: '', message: `is not YAML: ${help ? `${help}${e.code === 'MULTIPLE_DOCS' ? '' : ` (${undisguise(e.message)})`}` : undisguise(e.message)}` };
    }));
  }

  const lines = new Map<string, number>();
  const problems: Located[] = [];
  let values = 0;
  const open = new Set<Node>();
  /** Anchors so far, in the order of the text; yaml's own look-up walks the whole document for each alias. */
  const anchors = new Map<string, Node>();

  const take = (node: unknown, path: Path, line: number): Data => {
    if (++values > maxValues) fail(file, `has more than ${maxValues} values once its aliases are expanded; expected a scenario, not a data set`, line);
    if (path.length > maxDepth) fail(file, `is nested more than ${maxDepth} deep`, line);
    if (node === null || node === undefined) return null;
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined) { problems.push({ path, line, message: `the alias *${node.source} has no anchor before it` }); return null; }
      if (open.has(target)) { problems.push({ path, line, message: `the alias *${node.source} contains itself` }); return null; }
      return take(target, path, line);
    }
    const typed = node as Node & { readonly anchor?: string };
    if (typed.anchor !== undefined) anchors.set(typed.anchor, typed);
    if ((isScalar(typed) || isMap(typed) || isSeq(typed)) && typed.tag !== undefined && !/^tag:yaml\.org,2002:(str|int|float|bool|null|map|seq)$/.test(typed.tag)) {
      problems.push({ path, line, message: `the tag ${typed.tag} is not known; expected no tag` });
      return null;
    }
    if (isScalar(typed)) {
      lines.set(pathKey(path), typed.range && typed.source !== '' ? lineOf(typed.range[0]) : line);
      const value = typed.value;
      if (typeof value === 'string') {
        const most = path.length === 1 && path[0] === 'description' ? maxDescription : maxScalar;
        if (value.length <= most) return undisguise(value);
        problems.push({ path, line, message: `a text of ${value.length} characters is too long; expected at most ${most}` });
        return null;
      }
      if (typeof value === 'number' || typeof value === 'boolean' || value === null) return value;
      problems.push({ path, line, message: `a value of kind ${typeof value} is not known here` });
      return null;
    }
    lines.set(pathKey(path), line);
    open.add(typed);
    let result: Data = null;
    if (isSeq(typed)) {
      result = typed.items.map((item, i) => {
        const own = (item as Node | null)?.range;
        return take(item, [...path, i], own ? lineOf(own[0]) : line);
      });
    } else if (isMap(typed)) {
      result = takeMap(typed.items as Pair[], path, line);
    }
    open.delete(typed);
    return result;
  };

  const takeMap = (items: readonly Pair[], path: Path, line: number): DataMap => {
    const map = newMap();
    for (const pair of items) {
      const keyNode = pair.key as Node | null;
      const keyLine = keyNode?.range ? lineOf(keyNode.range[0]) : line;
      const keyValue: unknown = isScalar(keyNode) ? keyNode.value : undefined;
      if (typeof keyValue !== 'string' && typeof keyValue !== 'number' && typeof keyValue !== 'boolean') {
        problems.push({ path, line: keyLine, message: 'a key is not a word; expected `name: value`' });
        continue;
      }
      const key = typeof keyValue === 'string' ? undisguise(keyValue) : String(keyValue);
      if (key === '__proto__') {
        problems.push({ path: [...path, key], line: keyLine, message: 'this key is not known here' });
        continue;
      }
      if (key === '<<') {
        problems.push({ path: [...path, key], line: keyLine, message: 'the merge key << is not read here (YAML 1.2 has none); expected the keys themselves, or an alias such as *name for a whole value' });
        continue;
      }
      if (Object.hasOwn(map, key)) {
        problems.push({ path: [...path, key], line: keyLine, message: `there are two entries named ${JSON.stringify(key)}, the first on line ${lines.get(pathKey([...path, key])) ?? '?'}; expected each name once` });
        continue;
      }
      const value = take(pair.value, [...path, key], keyLine);
      map[key] = value;
      if (typeof value === 'object' || !lines.has(pathKey([...path, key]))) lines.set(pathKey([...path, key]), keyLine);
    }
    return map;
  };

  const data = take(document.contents, [], 1);
  return { file, data, lines, problems };
}
