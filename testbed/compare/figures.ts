/**
 * Every number of metrics.json by its path (`bottlenecks.BL1.queueDelayMs.p50`; a `.` inside a name stays as it is). The
 * file is walked as it is, so a figure added to it tomorrow is compared tomorrow; the unit follows from the names, as
 * everywhere in the project (`…Ms`, `…S`, `…Bps`, `…Bytes`, `…Packets`, `…Ratio`).
 */

/** Keys at the top of metrics.json that say what the run was, not what it measured. */
const identity = new Set(['schema', 'engine', 'seed', 'name', 'varied', 'windowS', 'cut', 'precision']);

/** `ratio`: 0 … 1, shown in per cent; `index`: Jain's, 0 … 1, shown as it is. */
export type Unit = 'ms' | 's' | 'bit/s' | 'bytes' | 'packets' | 'ratio' | 'index' | 'count';

export type Figures = Readonly<Record<string, number | null>>;

/** @param metrics metrics.json as parsed @returns every figure by path; null where it is undefined in this run */
export function figuresOf(metrics: object): Figures {
  const into: Record<string, number | null> = {};
  for (const [key, value] of Object.entries(metrics)) if (!identity.has(key)) collect(key, value, into);
  return into;
}

function collect(at: string, value: unknown, into: Record<string, number | null>): void {
  if (typeof value === 'number' || value === null) into[at] = value;
  else if (typeof value === 'object') for (const [key, inner] of Object.entries(value as object)) if (key !== 'methods') collect(`${at}.${key}`, inner, into);
}

/**
 * How each figure was measured, by path: the `method` of a distribution and the `how` of `methods`. Numbers in the text are
 * left out, as they are of the run (an RTT, say) and not of the method.
 */
export function methodsOf(metrics: object): Readonly<Record<string, string>> {
  const into: Record<string, string> = {};
  const walk = (at: string, value: unknown): void => {
    if (value === null || typeof value !== 'object') return;
    for (const [key, inner] of Object.entries(value)) {
      if (key === 'method' && typeof inner === 'string') into[at] = inner;
      else if (key === 'methods' && inner !== null && typeof inner === 'object') {
        for (const [figure, method] of Object.entries(inner as Record<string, { readonly how?: unknown }>)) {
          if (typeof method?.how === 'string') into[`${at}.${figure} (how)`] = method.how.replaceAll(/\d+(\.\d+)?/g, '#');
        }
      } else walk(at === '' ? key : `${at}.${key}`, inner);
    }
  };
  for (const [key, value] of Object.entries(metrics)) if (!identity.has(key)) walk(key, value);
  return into;
}

/** A count of samples a distribution stands on (`….queueDelayMs.n`): told, never judged. */
export const isSampleCount = (path: string): boolean => path.endsWith('.n');

/** The unit of a figure, from the last word of its path that carries one. */
export function unitOf(path: string): Unit {
  if (isSampleCount(path)) return 'count';
  for (const word of path.split('.').reverse()) {
    if (/Ms$/.test(word)) return 'ms';
    if (/[a-z]S$/.test(word)) return 's';
    if (/Bps$/.test(word)) return 'bit/s';
    if (/Bytes$/.test(word)) return 'bytes';
    if (/Packets$/.test(word) || word === 'packets') return 'packets';
    if (/^jain/.test(word)) return 'index';
    if (/Ratio$/.test(word) || /^(utilisation|lossSynchronisation)$/.test(word)) return 'ratio';
  }
  return 'count';
}
