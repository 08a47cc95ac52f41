/** A mistake at a place of the scenario, before it is known on which line of which file that place is. */

export type Path = readonly (string | number)[];
export interface Problem { readonly path: Path; readonly message: string }

/** `traffic.long.from`, `seeds[1]`, `events[0].set BL1.rate`. */
export function formatPath(path: Path): string {
  return path.map((key, i) => (typeof key === 'number' ? `[${key}]` : `${i === 0 ? '' : '.'}${key}`)).join('');
}

/** A value as a message shows it: as YAML would be written, cut when long. */
export function show(value: unknown): string {
  let text: string;
  try {
    // JSON has no infinity.
    text = value === undefined ? 'nothing' : typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? typeof value);
  } catch {
    text = typeof value;
  }
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
