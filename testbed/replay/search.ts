/** What a record leaves open (a clock read a step sooner, a round that does not show), settled one choice at a time by where the replay goes on. */

import type { ReplayOutcome } from './decisions.js';

/** How far a search may go before what it explains would be no matter of what the record leaves open. */
export interface SearchBound {
  /** Choices that are kept. */
  readonly choices: number;
  /** Replays in all. */
  readonly replays: number;
}

/**
 * Of the choices that a disagreement suggests the first with which the replay goes on beyond it is kept; then those that the next disagreement suggests, and so on.
 * @param outcome of a replay with `begin`
 * @param reached how far a replay agrees; Infinity: to its end
 * @param candidates what to try at a disagreement, the likeliest first: each is the whole of what is chosen then, `chosen` and one more
 * @param replay at least up to its first disagreement
 * @returns what is chosen where nothing disagrees any more; null: not found within the bound
 */
export async function search<Chosen>(
  outcome: ReplayOutcome, begin: Chosen, bound: SearchBound, reached: (outcome: ReplayOutcome) => number,
  candidates: (left: ReplayOutcome, chosen: Chosen) => Iterable<Chosen>, replay: (chosen: Chosen) => Promise<ReplayOutcome>,
): Promise<Chosen | null> {
  let [left, chosen, replays] = [outcome, begin, 0];
  for (let choices = 0; reached(left) !== Infinity; choices++) {
    if (choices >= bound.choices) return null;
    let further: { readonly chosen: Chosen; readonly outcome: ReplayOutcome } | null = null;
    for (const candidate of candidates(left, chosen)) {
      if (replays++ >= bound.replays) return null;
      const tried = await replay(candidate);
      if (reached(tried) <= reached(left)) continue;
      further = { chosen: candidate, outcome: tried };
      break;
    }
    if (further === null) return null;
    ({ chosen, outcome: left } = further);
  }
  return chosen;
}

/** By departures: decisions. */
export const departuresReached = ({ first }: ReplayOutcome): number => first?.after ?? Infinity;
/** By queue samples, ns of the run. */
export const samplesReached = ({ samples }: ReplayOutcome): number => samples?.first?.tNs ?? Infinity;
