/**
 * One kernel queue discipline: its parameters as tc names them, how they are set (netlink and tc words),
 * and how its own statistics are read. One file a qdisc, one line each in registry.ts.
 */

import type { z } from 'zod';
import type { PlanQueue } from '../plan/plan.js';

export type QueueParams = PlanQueue['params'];

export interface QdiscContext {
  /** MTU of the interface, IP bytes. */
  readonly mtuBytes: number;
  /** Rate of the shaper above it, bits/s; some defaults (RED's `bandwidth`) derive from it. */
  readonly rateBps: number | null;
}

/** A class, a queue or a filter under a classful qdisc whose handle is `H:`; minors are of that handle. */
export type QdiscChild =
  | { readonly type: 'class'; readonly minor: number; readonly options: Buffer; readonly words: readonly string[] }
  | { readonly type: 'qdisc'; readonly parentMinor: number; readonly kind: string; readonly options: Buffer; readonly words: readonly string[] }
  /** `options` and `words` are functions of the parent's handle (its major number << 16), which they name. */
  | { readonly type: 'filter'; readonly kind: string; readonly options: (handle: number) => Buffer; readonly words: (handle: number) => readonly string[] };

export interface Qdisc {
  /** tc's name. */
  readonly kind: string;
  /** First kernel that has it, when not all of ours do: `6.17` for dualpi2. */
  readonly since?: string;
  /** Strict object of its parameters, units resolved by the schemas of units.ts; range checks included. Keys are tc's words. */
  readonly schema: z.ZodObject;
  /** Payload of TCA_OPTIONS as iproute2 would send it for these parameters. */
  encode(params: QueueParams, context: QdiscContext): Buffer;
  /** The kernel changes none of its parameters while it runs. */
  readonly unchangeable?: true;
  /** It chooses a packet's queue by skb_get_hash(), which packet records then hold. Not: with a perturbation of its own (sfq, hhf, sfb) or by a filter (drr). */
  readonly hashes?: true;
  /** Parameters the kernel takes only when the qdisc is made; a change that names them is refused. */
  readonly fixed?: readonly string[];
  /** TCA_OPTIONS carries NLA_F_NESTED: the newer qdiscs insist on it. */
  readonly nested?: true;
  /** tc's words after the kind: `['target', '5ms']`. The same configuration as `encode`. */
  tcWords(params: QueueParams, context: QdiscContext): readonly string[];
  /** Where the kernel keeps this qdisc's own statistics: TCA_STATS_APP (absent), or the TCA_OPTIONS it dumps; `decodeState` and `decodeMarks` are given that payload. */
  readonly statsIn?: 'options';
  /** A classful qdisc used as a bottleneck's queue: what stands under it, in the order it is made. */
  children?(params: QueueParams, context: QdiscContext): readonly QdiscChild[];
  /** The AQM's own state columns in queue records, in order (snake_case); empty when it has none. Times in ns, probabilities 0 … 1. */
  readonly state: readonly string[];
  /** From TCA_STATS_APP (xstats): the state values in order, then nothing else. NaN where absent. */
  decodeState(xstats: Buffer | undefined): readonly number[];
  /** Cumulative CE marks from xstats, NaN where it does not count them. */
  decodeMarks(xstats: Buffer | undefined): number;
}
