/** Sizes of files for people: powers of ten. */

export function formatBytes(bytes: number): string {
  for (const [unit, factor] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]] as const) if (bytes >= factor) return `${Number((bytes / factor).toPrecision(3))} ${unit}`;
  return `${bytes} B`;
}
