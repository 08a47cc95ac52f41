/** A loaded scenario: what the file, `--set` and `vary` come to, validated, units resolved. */

import type { ScenarioError } from '../errors.js';
import type { Path, Problem } from './problem.js';
import type { Resolved } from './schema.js';

/** One combination of what `vary` varies. */
export interface Variant extends Omit<Resolved, 'vary' | 'seeds'> {
  /** Target → label, as in Plan.varied: `{ queue: "codel" }`. */
  readonly varied: Readonly<Record<string, string>>;
}

export interface Scenario {
  readonly file: string;
  readonly name: string;
  readonly description: string;
  readonly seeds: readonly number[];
  /** At least one; in the order of `vary`, the last key changing fastest. */
  readonly variants: readonly Variant[];
  /** An error that names file and line of these places. */
  error(problems: readonly Problem[], variant?: Variant): ScenarioError;
  /** `x.yaml:10: traffic.long.cc: `: where a value of a plan is written, for what is only found later. @param varied the plan's */
  where(path: Path, varied: Readonly<Record<string, string>>): string;
}
