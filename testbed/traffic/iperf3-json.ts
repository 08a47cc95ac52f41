/**
 * What iperf3 prints with -J, read tolerantly. It now and then prints JSON that is not JSON: warnings before it,
 * `nan` or `inf` for a rate over no time, two documents, a document cut off when the process was ended. Whatever
 * is there is read; nothing makes this throw.
 */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export interface ParsedOutput {
  /** The documents, in order: objects only. */
  readonly documents: readonly { readonly [key: string]: Json }[];
  /** What was not JSON; empty for a clean document. */
  readonly problems: readonly string[];
}

/** Deeper nesting than iperf3 ever prints is cut. */
const deepest = 64;

/** Reads one value from `at`; cut-off values give what is there. */
class Reader {
  readonly problems = new Set<string>();
  constructor(private readonly text: string, public at: number) {}

  /** undefined: nothing that begins a value here. */
  value(depth: number): Json | undefined {
    this.space();
    const c = this.text[this.at];
    if (c === undefined) return this.cut();
    if (c === '{') return depth > deepest ? this.tooDeep() : this.object(depth);
    if (c === '[') return depth > deepest ? this.tooDeep() : this.array(depth);
    if (c === '"') return this.string();
    return this.word();
  }

  private object(depth: number): Json {
    const out = new Map<string, Json>();
    this.at++;
    for (;;) {
      this.space();
      const c = this.text[this.at];
      if (c === undefined) { this.cut(); break; }
      if (c === '}') { this.at++; break; }
      if (c === ',') { this.at++; continue; }
      if (c !== '"') {
        this.problems.add('a key is missing');
        if (!this.skip()) break;
        continue;
      }
      const key = this.string();
      this.space();
      if (this.text[this.at] === ':') this.at++;
      else this.problems.add('a colon is missing');
      const value = this.value(depth + 1);
      if (value === undefined) break;
      out.set(key, value);
    }
    return Object.fromEntries(out);
  }

  private array(depth: number): Json {
    const out: Json[] = [];
    this.at++;
    for (;;) {
      this.space();
      const c = this.text[this.at];
      if (c === undefined) { this.cut(); break; }
      if (c === ']') { this.at++; break; }
      if (c === ',') { this.at++; continue; }
      if (c === '}' || c === ':') {
        this.problems.add('a bracket is missing');
        break;
      }
      const value = this.value(depth + 1);
      if (value === undefined) break;
      out.push(value);
    }
    return out;
  }

  private string(): string {
    let out = '';
    this.at++;
    for (;;) {
      const c = this.text[this.at];
      if (c === undefined) { this.cut(); return out; }
      this.at++;
      if (c === '"') return out;
      if (c !== '\\') { out += c; continue; }
      const escape = this.text[this.at++];
      if (escape === 'u') {
        const hex = /^[0-9a-fA-F]{4}/.exec(this.text.slice(this.at, this.at + 4))?.[0];
        if (hex === undefined) continue;
        out += String.fromCharCode(parseInt(hex, 16));
        this.at += 4;
      } else {
        out += ({ n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' } as Readonly<Record<string, string>>)[escape ?? ''] ?? escape ?? '';
      }
    }
  }

  private word(): Json | undefined {
    const match = /[^\s,:{}[\]"]+/y;
    match.lastIndex = this.at;
    const word = match.exec(this.text)?.[0];
    if (word === undefined) {
      this.problems.add('a value is missing');
      return this.text[this.at] === undefined ? this.cut() : null;
    }
    this.at += word.length;
    if (word === 'true') return true;
    if (word === 'false') return false;
    if (word === 'null') return null;
    const number = Number(word);
    if (Number.isFinite(number)) return number;
    this.problems.add(/^[+-]?(nan|inf)/i.test(word) ? `"${word.slice(0, 20)}" instead of a number` : 'a word that is no JSON value');
    return null;
  }

  private space(): void {
    while (/\s/.test(this.text[this.at] ?? '')) this.at++;
  }
  /** One token of nonsense. */
  private skip(): boolean {
    if (this.at >= this.text.length) return false;
    if (/[\]:]/.test(this.text[this.at]!)) this.at++;
    else if (this.text[this.at] === '{' || this.text[this.at] === '[') return false;
    else this.word();
    return true;
  }
  private cut(): undefined {
    this.problems.add('the output ends in the middle');
    return undefined;
  }
  private tooDeep(): undefined {
    this.problems.add('nested too deeply');
    this.at = this.text.length;
    return undefined;
  }
}

export function parseIperf3Output(text: string): ParsedOutput {
  const documents: { readonly [key: string]: Json }[] = [];
  const problems = new Set<string>();
  let at = 0;
  for (;;) {
    const open = text.indexOf('{', at);
    const between = text.slice(at, open < 0 ? text.length : open).trim();
    if (between !== '') problems.add(`text outside the document: ${between.slice(0, 200)}`);
    if (open < 0) break;
    const reader = new Reader(text, open);
    const value = reader.value(0);
    for (const problem of reader.problems) problems.add(problem);
    if (isObject(value)) documents.push(value);
    at = Math.max(reader.at, open + 1);
  }
  if (documents.length > 1) problems.add(`${documents.length} documents instead of one`);
  if (documents.length === 0) problems.add('no JSON document');
  return { documents, problems: [...problems] };
}

const isObject = (value: Json | undefined): value is { readonly [key: string]: Json } => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Figures of one end of a test; null where it did not say. Bytes are payload. */
export interface Iperf3Figures {
  readonly error: string | null;
  readonly version: string | null;
  /** What the sender says it sent. */
  readonly bytesSent: number | null;
  /** What the receiver says it received. */
  readonly bytesReceived: number | null;
  readonly retransmits: number | null;
  /** Duration by the sender's clock, s. */
  readonly seconds: number | null;
  /** UDP datagrams as the receiver counts them (received and lost), and those lost. */
  readonly packets: number | null;
  readonly lostPackets: number | null;
}

/** Of the last document that has each figure (an earlier one may be a stray error). */
export function iperf3Figures(documents: ParsedOutput['documents']): Iperf3Figures {
  const find = (...path: readonly string[]): Json | undefined => {
    for (let i = documents.length - 1; i >= 0; i--) {
      let value: Json | undefined = documents[i];
      for (const key of path) value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
      if (value !== undefined && value !== null) return value;
    }
    return undefined;
  };
  const number = (...paths: readonly (readonly string[])[]): number | null => {
    for (const path of paths) {
      const value = find(...path);
      if (typeof value === 'number') return value;
    }
    return null;
  };
  const text = (...path: readonly string[]): string | null => {
    const value = find(...path);
    return typeof value === 'string' ? value : null;
  };
  return {
    error: text('error'),
    version: text('start', 'version'),
    bytesSent: number(['end', 'sum_sent', 'bytes'], ['end', 'sum', 'bytes']),
    bytesReceived: number(['end', 'sum_received', 'bytes'], ['end', 'sum', 'bytes']),
    retransmits: number(['end', 'sum_sent', 'retransmits']),
    seconds: number(['end', 'sum_sent', 'seconds'], ['end', 'sum', 'seconds']),
    packets: number(['end', 'sum', 'packets']),
    lostPackets: number(['end', 'sum', 'lost_packets']),
  };
}
