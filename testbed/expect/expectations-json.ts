/** The expectations of a run or a set, judged after it: `expectations.json` in its folder, and lines for the terminal. */

import * as path from 'node:path';
import pc from 'picocolors';
import { readMetrics } from '../analysis/summary.js';
import { rounded } from '../analysis/round.js';
import { writeJsonAtomically } from '../records/run-json.js';
import { formatVaried } from '../report/format.js';
import { expand } from '../scenario/expand.js';
import type { Scenario } from '../scenario/scenario.js';
import { judge, type Evidence, type JudgedLine, type LineStatus } from './judge.js';
import { parseExpectations, type EngineName } from './parse.js';
import { readSources, type PublishedFigure } from './published.js';

export const expectationsName = 'expectations.json';

/** One run that was asked for. */
export interface RanRun {
  readonly varied: Readonly<Record<string, string>>;
  readonly seed: number;
  readonly runDir: string;
  /** As in run.json; null: never started. */
  readonly status: string | null;
  readonly reason: string | null;
}

export interface ExpectationsJson {
  readonly schema: 1;
  readonly name: string;
  readonly engine: EngineName;
  readonly method: string;
  readonly counts: Readonly<Record<LineStatus, number>>;
  readonly combinations: readonly { readonly varied: Readonly<Record<string, string>>; readonly seeds: readonly number[]; readonly lines: readonly JudgedLine[] }[];
}

export const noCounts = (): Record<LineStatus, number> => ({ pass: 0, fail: 0, unjudged: 0, known: 0, elsewhere: 0 });
export const method = 'each line is judged on the median over the seeds of its combination of varied values; where a run is not complete, it cannot be judged';

/** The scenario's published sources, read before anything runs. @throws ScenarioError with the line that names a wrong one */
export const prepare = (scenario: Scenario): ReadonlyMap<string, readonly PublishedFigure[]> => readSources(scenario);

/** Judges runs of one engine. @returns null when the scenario expects nothing */
export function judgeRuns(scenario: Scenario, engine: EngineName, runs: readonly RanRun[], sources: ReadonlyMap<string, readonly PublishedFigure[]>): ExpectationsJson | null {
  if (scenario.variants.every(({ expect = [] }) => expect.length === 0)) return null;
  const counts = noCounts();
  const combinations = scenario.variants.map((variant) => {
    const own = runs.filter(({ varied }) => JSON.stringify(varied) === JSON.stringify(variant.varied));
    const { expectations } = parseExpectations(variant.expect ?? [], expand(variant).expanded);
    const lines = judge({ expectations, varied: variant.varied, evidence: { [engine]: evidenceOf(own) }, sources });
    for (const { status } of lines) counts[status]++;
    return { varied: variant.varied, seeds: own.map(({ seed }) => seed), lines };
  });
  return { schema: 1, name: scenario.name, engine, method, counts, combinations };
}

export function evidenceOf(runs: readonly RanRun[]): Evidence {
  const incomplete = runs.filter(({ status }) => status !== 'complete');
  const metrics = runs.filter(({ status }) => status === 'complete').map(({ runDir }) => readMetrics(runDir));
  const unreadable = metrics.includes(null) ? 'a run has no metrics.json that can be read' : null;
  const first = incomplete[0];
  return {
    metrics: metrics.filter((one) => one !== null),
    missing: first !== undefined ? `seed ${first.seed} is ${first.status ?? 'not run'}${first.reason === null ? '' : `: ${first.reason}`}${incomplete.length > 1 ? ` (and ${incomplete.length - 1} more)` : ''}` : unreadable,
  };
}

export function writeExpectations(folder: string, judged: ExpectationsJson): void {
  writeJsonAtomically(path.join(folder, expectationsName), rounded(judged));
}

/** 0: all hold. 1: one does not. 2: one could not be judged. */
export const expectationsExitCode = ({ unjudged, fail }: Readonly<Record<LineStatus, number>>): 0 | 1 | 2 => (unjudged > 0 ? 2 : fail > 0 ? 1 : 0);

const words: Readonly<Record<LineStatus, string>> = { pass: 'pass', fail: 'FAIL', unjudged: 'not judged', known: 'known miss', elsewhere: 'not here' };
const paint = (status: LineStatus, text: string): string => (status === 'pass' ? pc.green(text) : status === 'fail' ? pc.red(text) : status === 'unjudged' ? pc.yellow(text) : pc.dim(text));

export const lineText = ({ status, text, message }: JudgedLine): string => `${paint(status, words[status].padEnd(10))} ${text}  ${pc.dim(message)}`;

const one = (count: number, singular: string, plural: string): string => (count === 1 ? singular : plural);

/** Lines for the terminal. */
export function expectationsText({ combinations, counts }: ExpectationsJson): string {
  const several = combinations.length > 1;
  const seeds = Math.max(...combinations.map((combination) => combination.seeds.length));
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
  return [
    pc.bold(`Expectations: ${counts.pass} of ${total} hold${counts.fail > 0 ? `, ${counts.fail} ${one(counts.fail, 'does', 'do')} not` : ''}${counts.unjudged > 0 ? `, ${counts.unjudged} could not be judged` : ''}${counts.known > 0 ? `, ${counts.known} known ${one(counts.known, 'miss', 'misses')}` : ''}${counts.elsewhere > 0 ? `, ${counts.elsewhere} ${one(counts.elsewhere, 'needs', 'need')} the other engine` : ''}${seeds > 1 ? ' (medians over seeds)' : ''}`),
    ...combinations.flatMap(({ varied, lines }) => [...(several && lines.length > 0 ? [formatVaried(varied)] : []), ...lines.map((line) => `${several ? '  ' : ''}${lineText(line)}`)]),
  ].join('\n');
}
