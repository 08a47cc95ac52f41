import assert from 'node:assert/strict';
import type { ReplayResult } from './replay.js';
import { mergedMarkdown, replayMarkdown } from './text.js';

const notJudged = (release: string, scenario: string, reason: string): ReplayResult => ({
  run: 'a-run', scenario, machine: 'uml', release, exitCode: 2, verdicts: [{ bottleneck: 'BL', kind: 'codel', params: { target: 5e6 }, shaper: 'tbf', judged: 'codel', verdict: 'not judged', reason }],
});

describe('the table of replays in a page', () => {
  it('keeps the rows of runs that were not replayed, takes new ones for those that were, and stays in order', () => {
    const before = replayMarkdown([notJudged('7.3.4', 'b', ''), notJudged('6.12.117', 'b', '')]).replaceAll('not judged', 'old');
    const rows = mergedMarkdown(`text\n\n${before}\n\n`, replayMarkdown([notJudged('7.3.4', 'b', ''), notJudged('7.3.4', 'a', '')])).split('\n').slice(2);
    assert.deepEqual(rows.map((row) => row.split(' | ').filter((_, cell) => [0, 1, 2, 11].includes(cell)).join(' ')), [
      '| 7.3.4 a codel (target 5000000) under TBF not judged |', '| 6.12.117 b codel (target 5000000) under TBF old |', '| 7.3.4 b codel (target 5000000) under TBF not judged |',
    ]);
  });

  it('takes the place of a table of other columns', () => {
    const table = replayMarkdown([notJudged('7.3.4', 'a', '')]);
    assert.equal(mergedMarkdown('| kernel | queue |\n| --- | --- |\n| 6.1 | codel |', table), table);
  });
});
