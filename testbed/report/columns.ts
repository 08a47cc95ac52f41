/** Columns under one another in plain text, no wider than a terminal: what is too wide goes on in the next line. */

/** Of the terminal; 80 where the output goes into a pipe or a file. */
export const terminalColumns = (): number => (process.stdout.isTTY ? process.stdout.columns : 80);

export interface ColumnsText { readonly head: string; readonly rule: string; /** One text a row, of one line or more. */ readonly rows: readonly string[] }

/**
 * The first column to the left, the others to the right. Where they are too wide together titles give way first, then the widest, but none is cut inside a
 * word (of a path in the first, such as BL.queueDelayMs.p50, within a part): only if words are too long is the whole wider than `most`.
 * @param most characters; Infinity: never wrapped
 */
export function columnsText(head: readonly string[], body: readonly (readonly string[])[], most: number): ColumnsText {
  const all = [head, ...body];
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  const least = head.map((_, column) => Math.max(...all.map((row) => longestWord(row[column] ?? '', column === 0))));
  const gaps = 2 * (head.length - 1);
  const total = (): number => widths.reduce((sum, width) => sum + width, gaps);
  const giveWay = (floor: readonly number[]): void => {
    while (total() > most) {
      let widest = -1;
      for (let column = 0; column < widths.length; column++) if (widths[column]! > floor[column]! && (widest < 0 || widths[column]! > widths[widest]!)) widest = column;
      if (widest < 0) break;
      widths[widest]!--;
    }
  };
  // Titles first, as far as what stands below them stays in one line.
  giveWay(least.map((width, column) => Math.max(width, ...body.map((row) => (row[column] ?? '').length))));
  giveWay(least);
  const row = (cells: readonly string[]): string => {
    const wrapped = head.map((_, column) => wrap(cells[column] ?? '', widths[column]!, column === 0));
    return Array.from({ length: Math.max(...wrapped.map((lines) => lines.length)) }, (_, line) =>
      wrapped.map((lines, column) => (column === 0 ? (lines[line] ?? '').padEnd(widths[column]!) : (lines[line] ?? '').padStart(widths[column]!))).join('  ').trimEnd()).join('\n');
  };
  // Wrapping may have left a column narrower than it might be.
  for (let column = 0; column < widths.length; column++) widths[column] = Math.max(...all.flatMap((cells) => wrap(cells[column] ?? '', widths[column]!, column === 0).map((line) => line.length)));
  return { head: row(head), rule: '─'.repeat(total()), rows: body.map(row) };
}

/** What stays whole, with what stood before it. */
const words = (text: string, paths: boolean): readonly (readonly [before: string, word: string])[] =>
  text.split(/ +/).flatMap((word, index) => (paths ? word.split(/(?<=\w\.)(?=[A-Za-z])/) : [word]).map((part, inside) => [inside === 0 && index > 0 ? ' ' : '', part] as const));

const longestWord = (text: string, paths: boolean): number => Math.max(...words(text, paths).map(([, word], index) => word.length + (paths && index > 0 ? 2 : 0)));

/**
 * Lines of at most `width` characters, broken at spaces; a longer word has a line of its own.
 * @param paths broken after the dots of paths too; what goes on is indented
 */
export function wrap(text: string, width: number, paths = false): string[] {
  const lines: string[] = [];
  let line = '';
  for (const [before, word] of words(text, paths)) {
    if (line !== '' && line.length + before.length + word.length > width) {
      lines.push(line);
      line = paths ? `  ${word}` : word;
    } else {
      line = line === '' ? word : `${line}${before}${word}`;
    }
  }
  return [...lines, line];
}
