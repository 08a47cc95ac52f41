/**
 * Layer 2 of a cell: decision replay (testbed/replay) of its first kernel run, whose queue is fed the very same arrivals and
 * departures. What it found stays in the run's folder, with the version of the code that gave it, since the packet records do not.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { readRunJson, writeJsonAtomically } from '../records/run-json.js';
import { tallyAgrees, zBound, type ChanceOutcome, type Tally } from '../replay/chance.js';
import { differences } from '../replay/decisions.js';
import { replayRun, type Verdict } from '../replay/replay.js';
import { formatCount } from '../report/format.js';
import { codeVersion } from './code-version.js';
import type { ReplayVerdict } from './validation.js';

/** What is kept of one bottleneck's judgement. */
interface Judgement {
  readonly told: string;
  /** No decision and no sample that chance does not decide differs. */
  readonly exact: boolean;
  readonly tallies: ChanceOutcome['tallies'];
}
type Judgements = { readonly judged: readonly Judgement[] } | { readonly problem: string };
interface Kept { readonly code: string; readonly judgements: Judgements | null }
const keptName = 'replay-verdict.json';

/**
 * @param tests cells that are validated together (chance.ts)
 * @returns null where the queue cannot be judged so, or its records are gone and the code is another
 */
export async function replayOf(runDir: string, tests: number): Promise<ReplayVerdict | null> {
  const code = codeVersion('replay');
  const kept = readKept(runDir);
  if (kept?.code === code) return kept.judgements === null ? null : verdictOf(kept.judgements, tests);
  if (readRunJson(runDir)?.status !== 'complete' || !fs.existsSync(path.join(runDir, 'packets.parquet'))) return null;
  let judgements: Judgements | null;
  try {
    judgements = judged((await replayRun(runDir)).verdicts);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    judgements = { problem: error.message };
  }
  writeJsonAtomically(path.join(runDir, keptName), { code, judgements } satisfies Kept);
  return judgements === null ? null : verdictOf(judgements, tests);
}

function readKept(runDir: string): Kept | null {
  try {
    return JSON.parse(fs.readFileSync(path.join(runDir, keptName), 'utf8')) as Kept;
  } catch {
    return null;
  }
}

function judged(verdicts: readonly Verdict[]): Judgements | null {
  const all = verdicts.filter((verdict) => verdict.verdict !== 'not judged');
  if (all.length === 0) return null;
  return { judged: all.map((verdict): Judgement => {
    const where = all.length > 1 ? `${verdict.bottleneck}${verdict.judged === verdict.kind ? '' : ` as ${verdict.judged}`}: ` : '';
    const { departures, kernelDrops, differentDepartures, differentFates, differentMarks, samples, chance } = verdict.outcome;
    const different = differentDepartures + differentFates + differentMarks, tallies = chance?.tallies ?? {};
    return {
      told: `${where}${formatCount(departures + kernelDrops)} decisions, ${formatCount(different)} differ${samples !== null && samples.different > 0 ? `, ${formatCount(samples.different)} of ${formatCount(samples.samples)} samples` : ''}`,
      // What cannot happen and did is no matter of chance; and JSON has no Infinity.
      exact: differences(verdict.outcome) === 0 && Object.values(tallies).every(({ z }) => Number.isFinite(z)), tallies,
    };
  }) };
}

/** @param tests see `replayOf` */
export function verdictOf(judgements: Judgements, tests: number): ReplayVerdict {
  if ('problem' in judgements) return { status: 'invalid', message: judgements.problem, chance: null };
  let status: ReplayVerdict['status'] = 'pass';
  const messages: string[] = [], signals: Tally[] = [];
  for (const { told, exact, tallies } of judgements.judged) {
    const beyond = Object.values(tallies).filter((tally) => !tallyAgrees(tally, tests));
    if (!exact || beyond.length > 0) status = 'fail';
    if (tallies.signals !== undefined) signals.push(tallies.signals);
    messages.push([
      told,
      ...(tallies.signals === undefined ? [] : [`${formatCount(tallies.signals.happened)} drops or marks by chance where ${formatCount(tallies.signals.expected)} are expected (z ${tallies.signals.z.toFixed(1).replace('-', '−')})`]),
      ...(beyond.length === 0 ? [] : [`beyond z ${zBound(tests).toFixed(1)}, which one of ${formatCount(tests)} is once in 1000 times`]),
    ].join(', '));
  }
  const sum = (of: (tally: Tally) => number): number => signals.reduce((total, tally) => total + of(tally), 0);
  return { status, message: messages.join('; '), chance: signals.length === 0 ? null : { happened: sum(({ happened }) => happened), expected: sum(({ expected }) => expected), deviation: Math.sqrt(sum(({ deviation }) => deviation ** 2)) } };
}
