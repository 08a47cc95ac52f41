/**
 * Reading a discipline's parameters. Their names, units and ranges stand in one schema a kind: for what Linux has, the
 * one in testbed/qdiscs, so that a scenario means the same to the kernel and to the simulator. After the schema times
 * are ns, sizes bytes, rates bits/s, probabilities 0 … 1.
 */

export { positiveTimes } from '../testbed/qdiscs/schemas.js';

export type Params = Readonly<Record<string, number | boolean | string>>;

/** A validated number, or the default when the user did not set it. */
export function number(params: Params, key: string, fallback: number): number {
  const value = params[key];
  return typeof value === 'number' ? value : fallback;
}
export function flag(params: Params, key: string, fallback: boolean): boolean {
  const value = params[key];
  return typeof value === 'boolean' ? value : fallback;
}

/** quantum as Linux takes it: at least 256 bytes (max(256U, …) in each qdisc), one packet by default, at most 1 MiB. */
export const quantumOf = (params: Params, mtuBytes: number): number => Math.max(256, number(params, 'quantum', Math.min(mtuBytes, 1 << 20)));
