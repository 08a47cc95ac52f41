/**
 * For tests: InfluxDB's line protocol, read as strictly as its documentation has it ("Line protocol", InfluxDB v2 and v3; what it
 * leaves open is refused). A second opinion on what the client makes of our points: it shares no code with it.
 *
 *   measurement[,tag=value…] field=value[,field=value…] timestamp
 *
 * In measurements `,` and space are escaped with `\`, in tag keys, tag values and field keys `=` too; a `\` before anything else is
 * itself. String fields are in `"`, with `\"` and `\\`. Floats are finite, integers end in `i` and fit 64 bits, booleans are t, T,
 * true, True, TRUE and so on. Tag values are never empty; keys never begin with `_`; no key is there twice. A line that begins with `#` is a comment.
 */

export type FieldValue = { readonly float: number } | { readonly integer: bigint } | { readonly text: string } | { readonly boolean: boolean };
export interface ParsedLine {
  readonly measurement: string;
  readonly tags: ReadonlyMap<string, string>;
  readonly fields: ReadonlyMap<string, FieldValue>;
  /** ns since 1970. */
  readonly timestamp: bigint;
}

const least64 = -(2n ** 63n);
const most64 = 2n ** 63n - 1n;
const booleans: Readonly<Record<string, boolean>> = { t: true, T: true, true: true, True: true, TRUE: true, f: false, F: false, false: false, False: false, FALSE: false };

/** @throws Error saying what is wrong, and where */
export function parseLine(line: string): ParsedLine {
  let at = 0;
  const fail = (why: string): never => { throw new Error(`${why} at character ${at} of ${JSON.stringify(line)}`); };
  /** Up to one of `ends`, unescaped; `escapable` may follow a backslash. */
  const word = (what: string, ends: string, escapable: string): string => {
    let text = '';
    for (; at < line.length && !ends.includes(line[at]!); at++) {
      if (line[at] === '\\' && at + 1 < line.length && escapable.includes(line[at + 1]!)) at++;
      else if (',= '.includes(line[at]!) && escapable.includes(line[at]!)) fail(`${JSON.stringify(line[at])} in a ${what}`);
      if (line[at] === '\n' || line[at] === '\r') fail(`a line break in a ${what}`);
      text += line[at]!;
    }
    if (text === '') fail(`an empty ${what}`);
    return text;
  };
  const expect = (character: string): void => { if (line[at++] !== character) { at--; fail(`no ${JSON.stringify(character)}`); } };
  const key = (what: string): string => {
    const text = word(what, '=', ',= ');
    if (text.startsWith('_')) fail(`a ${what} that begins with _`);
    return text;
  };

  if (line.startsWith('#')) fail('a comment');
  const measurement = word('measurement', ', ', ', ');
  if (measurement.startsWith('_')) fail('a measurement that begins with _');
  const tags = new Map<string, string>();
  while (line[at] === ',') {
    at++;
    const name = key('tag key');
    expect('=');
    if (tags.has(name)) fail(`the tag ${name} twice`);
    tags.set(name, word('tag value', ', ', ',= '));
  }
  expect(' ');
  const fields = new Map<string, FieldValue>();
  for (;;) {
    const name = key('field key');
    expect('=');
    if (fields.has(name)) fail(`the field ${name} twice`);
    fields.set(name, line[at] === '"' ? { text: quoted() } : plain());
    if (line[at] !== ',') break;
    at++;
  }
  expect(' ');
  const stamp = line.slice(at);
  if (!/^-?\d+$/.test(stamp)) fail('a time stamp that is no whole number');
  const timestamp = BigInt(stamp);
  // The two least and the greatest are reserved.
  if (timestamp < least64 + 2n || timestamp > most64 - 1n) fail('a time stamp that InfluxDB cannot keep');
  return { measurement, tags, fields, timestamp };

  function quoted(): string {
    let text = '';
    for (at++; line[at] !== '"'; at++) {
      if (at >= line.length) fail('a string without an end');
      if (line[at] === '\\' && (line[at + 1] === '"' || line[at + 1] === '\\')) at++;
      text += line[at]!;
    }
    at++;
    return text;
  }
  function plain(): FieldValue {
    const end = line.slice(at).search(/[ ,]/);
    const text = end < 0 ? line.slice(at) : line.slice(at, at + end);
    if (Object.hasOwn(booleans, text)) { at += text.length; return { boolean: booleans[text]! }; }
    if (/^-?\d+i$/.test(text)) {
      const integer = BigInt(text.slice(0, -1));
      if (integer < least64 || integer > most64) fail('an integer of more than 64 bits');
      at += text.length;
      return { integer };
    }
    if (!/^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/.test(text) || !Number.isFinite(Number(text))) fail(`a value that is none (${text})`);
    at += text.length;
    return { float: Number(text) };
  }
}
