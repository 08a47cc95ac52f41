import assert from 'node:assert/strict';
import type { Tally } from '../replay/chance.js';
import { chanceOfAll } from './chance-of-all.js';
import { cell, validation } from './fixture.js';
import { junitXml } from './junit.js';
import { verdictOf } from './replay.js';
import { markdownTable, summaryLines } from './text.js';
import { exitCode, type ReplayVerdict } from './validation.js';

const tally = (z: number, expected = 900): Tally => ({ asked: 100 * expected, happened: expected + z * Math.sqrt(expected), expected, deviation: Math.sqrt(expected), z, worstDecileZ: 0 });
const verdict = (z: number, tests: number, exact = true): ReplayVerdict => verdictOf({ judged: [{ told: '90 000 decisions, 0 differ', exact, tallies: { signals: tally(z) } }] }, tests);
const replayed = (zs: readonly number[]): ReturnType<typeof validation> => validation(zs.map((z) => cell({ replay: verdict(z, zs.length) })));

describe('decision replay of many cells', () => {
  it('judges each by a bound that one of them all passes by chance once in a thousand times', () => {
    assert.deepEqual([verdict(3.6, 1).status, verdict(3.6, 432).status, verdict(4.9, 432).status, verdict(0, 432, false).status], ['fail', 'pass', 'fail', 'fail']);
    assert.match(verdict(4.9, 432).message, /expected \(z 4\.9\), beyond z 4\.7, which one of 432 is once in 1000 times/);
    assert.doesNotMatch(verdict(3.6, 432).message, /beyond/);
  });

  it('judges all together too, where a probability that is off by little shows first, and says so in every form', () => {
    const even = replayed([3.6, -0.5, 0.2, -1.4, 0.3, -0.6, 0.1, -0.2, 0.9]);
    assert.deepEqual([chanceOfAll(even.cells)!.agrees, exitCode(even)], [true, 0]);
    const biased = replayed([1.6, 0.9, 1.2, 1.4, 1.3, 0.6, 1.1, 1.2, 0.9, 1.5]);
    assert.ok(biased.cells.every(({ replay }) => replay?.status === 'pass'), 'none alone');
    const all = chanceOfAll(biased.cells)!;
    assert.deepEqual([all.cells, all.expected, all.agrees, exitCode(biased)], [10, 9000, false, 1]);
    assert.ok(Math.abs(all.z - 11.7 / Math.sqrt(10)) < 1e-9 && all.furthestZ > 1.59 && all.cellBound > all.bound);
    for (const text of [summaryLines(biased).join('\n'), markdownTable(biased, { paths: ['a'], set: [], only: [] })]) assert.match(text, /In the 10 cells where chance decides the kernel dropped or marked 9\u202f351 packets, where 9\u202f000 are expected: z 3\.7, beyond 3\.3; furthest in one cell 1\.6 of 3\.9/);
    assert.match(junitXml(biased), /tests="11" failures="1"[^]*<testsuite name="decision replay" tests="1" failures="1"[^]*z 3\.7, beyond 3\.3/);
  });

  it('says nothing of chance where none decides', () => {
    const exact = validation([cell({ replay: verdictOf({ judged: [{ told: '5 decisions, 0 differ', exact: true, tallies: {} }] }, 1) })]);
    assert.deepEqual([chanceOfAll(exact.cells), exitCode(exact)], [null, 0]);
    assert.doesNotMatch(summaryLines(exact).join('\n'), /chance/);
  });
});
