/**
 * Options a user may add to flent. Hosts, length, step, parameters and files belong to testbed; `--swap-up-down`,
 * `--remote-host` and the like would make something else of the test than the plan says.
 */

/** Option → whether a value follows (flent(1), 2.1). */
const allowed: ReadonlyMap<string, boolean> = new Map([
  ['--socket-stats', false], ['--extended-metadata', false], ['-x', false],
  ['--note', true], ['-n', true],
  ['--socket-timeout', true], ['--irtt-sampling-interval', true],
]);

/** @returns what is wrong with the arguments, or null */
export function flentArgumentsProblem(args: readonly string[]): string | null {
  for (let i = 0; i < args.length; i++) {
    const [name, inline] = args[i]!.startsWith('--') ? args[i]!.split(/=(.*)/s) as [string, string | undefined] : [args[i]!, undefined];
    const takesValue = allowed.get(name);
    if (takesValue === undefined) return `${JSON.stringify(args[i])} is not an option that may be added to flent; expected ${[...allowed.keys()].filter((option) => option.startsWith('--')).join(', ')}, or length, step, delay and parameters beside it`;
    if (!takesValue) {
      if (inline !== undefined) return `flent's ${name} takes no value`;
    } else if (inline === undefined) {
      const value = args[++i];
      if (value === undefined || value.startsWith('-')) return `flent's ${name} needs a value after it`;
    }
  }
  return null;
}
