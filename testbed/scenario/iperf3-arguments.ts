/**
 * Arguments a user may add to iperf3. Only those that change how it sends: direction, number of streams, length, port,
 * protocol and output belong to testbed, and iperf3 told otherwise would measure something else than the plan says.
 */

/** Option → whether a value follows. Names are iperf3's (iperf3(1), 3.12). */
const allowed: ReadonlyMap<string, boolean> = new Map([
  ['-w', true], ['--window', true],
  ['-M', true], ['--set-mss', true],
  ['-N', false], ['--no-delay', false],
  ['-Z', false], ['--zerocopy', false],
  ['-b', true], ['--bitrate', true], ['--fq-rate', true], ['--pacing-timer', true],
  ['-l', true], ['--length', true],
  ['-S', true], ['--tos', true], ['--dscp', true],
  ['--dont-fragment', false], ['--repeating-payload', false], ['--connect-timeout', true],
]);

/** @returns what is wrong with the arguments, or null */
export function iperf3ArgumentsProblem(args: readonly string[]): string | null {
  for (let i = 0; i < args.length; i++) {
    const [name, inline] = args[i]!.startsWith('--') ? args[i]!.split(/=(.*)/s) as [string, string | undefined] : [args[i]!, undefined];
    const takesValue = allowed.get(name);
    if (takesValue === undefined) return `${JSON.stringify(args[i])} is not an option that may be added to iperf3; expected ${[...allowed.keys()].filter((option) => option.startsWith('--')).join(', ')} (an argument a list entry, e.g. ["--set-mss", "1000"])`;
    if (!takesValue) {
      if (inline !== undefined) return `iperf3's ${name} takes no value`;
    } else if (inline === undefined) {
      const value = args[++i];
      if (value === undefined || value.startsWith('-')) return `iperf3's ${name} needs a value after it`;
    }
  }
  return null;
}
