/**
 * Interface names inside a node: what is at the other end of the cable, where that fits the kernel's 15 characters
 * (IFNAMSIZ) and is no one else's; otherwise a number. Never cut, so no two can fall together.
 */

/** Names with a meaning of their own: `lo`, and the sysctl folders beside the interfaces'. */
const reserved: ReadonlySet<string> = new Set(['lo', 'all', 'default']);

/** @param wanted what each interface of the node would best be called, in order */
export function deviceNames(wanted: readonly string[]): string[] {
  const times = new Map<string, number>();
  for (const name of wanted) times.set(name, (times.get(name) ?? 0) + 1);
  return wanted.map((name, i) => (name.length <= 15 && times.get(name) === 1 && !reserved.has(name) && !/^if\d+$/.test(name) ? name : `if${i}`));
}
