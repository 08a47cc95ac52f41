import assert from 'node:assert/strict';
import type { ReplayOutcome } from './decisions.js';
import { departuresReached, search } from './search.js';

/** A kernel that makes each of ten decisions the unusual way where `kernel` says so; ours does at those it is told. */
function replaying(kernel: readonly number[]): { readonly replay: (told: ReadonlySet<number>) => Promise<ReplayOutcome>; replays: number } {
  const counted = {
    replays: 0,
    replay: (told: ReadonlySet<number>): Promise<ReplayOutcome> => {
      counted.replays++;
      const after = [...Array(10).keys()].find((at) => kernel.includes(at) !== told.has(at));
      return Promise.resolve({
        arrivals: 10, departures: 10, kernelDrops: 0, ourDrops: 0, kernelMarks: 0, ourMarks: 0, waiting: 0, differentDepartures: after === undefined ? 0 : 1, differentFates: 0, differentMarks: 0, own: 0,
        first: after === undefined ? null : { tNs: after, after, what: '', kernel: null, ours: null, ourState: {}, kernelSample: null },
        samples: null, chance: null, randomNumbers: 0,
      });
    },
  };
  return counted;
}
const none: ReadonlySet<number> = new Set();
const unbounded = { choices: Infinity, replays: Infinity };
/** The decision before the one that disagrees, then that itself. */
const candidates = function* ({ first }: ReplayOutcome, chosen: ReadonlySet<number>): Iterable<ReadonlySet<number>> {
  for (const at of [first!.after - 1, first!.after]) yield new Set([...chosen, at]);
};

describe('search for what a record leaves open', () => {
  it('keeps one choice after the other until the replay agrees to its end', async () => {
    const kernel = replaying([2, 3, 8]);
    const chosen = await search(await kernel.replay(none), none, unbounded, departuresReached, candidates, kernel.replay);
    assert.deepEqual([...chosen!], [2, 3, 8]);
    assert.equal(kernel.replays, 7, 'one before, and two for each');
  });

  it('replays nothing where nothing disagrees', async () => {
    const kernel = replaying([]);
    assert.equal(await search(await kernel.replay(none), none, unbounded, departuresReached, candidates, kernel.replay), none);
    assert.equal(kernel.replays, 1);
  });

  it('takes the first choice with which the replay goes on, not all that would', async () => {
    const kernel = replaying([2]);
    const tried: number[][] = [];
    const chosen = await search(await kernel.replay(none), none, unbounded, departuresReached, ({ first }, told) => [[first!.after], [first!.after, first!.after + 100]].map((more) => new Set([...told, ...more])), (told) => {
      tried.push([...told]);
      return kernel.replay(told);
    });
    assert.deepEqual([[...chosen!], tried], [[2], [[2]]]);
  });

  it('finds nothing where no choice helps, or where it would take more choices or replays than the bound allows', async () => {
    const kernel = replaying([2, 3, 8]);
    const outcome = await kernel.replay(none);
    assert.equal(await search(outcome, none, unbounded, departuresReached, ({ first }, told) => [new Set([...told, first!.after - 1])], kernel.replay), null);
    assert.equal(await search(outcome, none, { choices: 2, replays: Infinity }, departuresReached, candidates, kernel.replay), null);
    assert.equal(await search(outcome, none, { choices: Infinity, replays: 5 }, departuresReached, candidates, kernel.replay), null);
    assert.notEqual(await search(outcome, none, { choices: 3, replays: 6 }, departuresReached, candidates, kernel.replay), null);
  });
});
