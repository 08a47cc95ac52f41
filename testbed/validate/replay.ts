/**
 * Layer 2 of a cell: decision replay (testbed/replay) of its first kernel run, whose queue is fed the very same arrivals and
 * departures. Its verdict stays in the run's folder, with the version of the code that gave it, since the packet records do not.
 */

import * as fs from 'node:fs';
import * as path from 'node:path';
import { UserError } from '../errors.js';
import { readRunJson, writeJsonAtomically } from '../records/run-json.js';
import { replayRun, type Verdict } from '../replay/replay.js';
import { formatCount } from '../report/format.js';
import { codeVersion } from './code-version.js';
import type { ReplayVerdict } from './validation.js';

interface Kept { readonly code: string; readonly verdict: ReplayVerdict | null }
const keptName = 'replay-verdict.json';

/** @returns null where the queue cannot be judged so, or its records are gone and the code is another */
export async function replayOf(runDir: string): Promise<ReplayVerdict | null> {
  const code = codeVersion('replay');
  const kept = readKept(runDir);
  if (kept?.code === code) return kept.verdict;
  if (readRunJson(runDir)?.status !== 'complete' || !fs.existsSync(path.join(runDir, 'packets.parquet'))) return null;
  let verdict: ReplayVerdict | null;
  try {
    verdict = summarise((await replayRun(runDir)).verdicts);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    verdict = { status: 'invalid', message: error.message };
  }
  writeJsonAtomically(path.join(runDir, keptName), { code, verdict } satisfies Kept);
  return verdict;
}

function readKept(runDir: string): Kept | null {
  try {
    return JSON.parse(fs.readFileSync(path.join(runDir, keptName), 'utf8')) as Kept;
  } catch {
    return null;
  }
}

function summarise(verdicts: readonly Verdict[]): ReplayVerdict | null {
  const judged = verdicts.filter((verdict) => verdict.verdict !== 'not judged');
  if (judged.length === 0) return null;
  const told = judged.map((verdict) => {
    const where = judged.length > 1 ? `${verdict.bottleneck}${verdict.judged === verdict.kind ? '' : ` as ${verdict.judged}`}: ` : '';
    const { departures, kernelDrops, differentDepartures, differentFates, differentMarks, chance } = verdict.outcome;
    const told = `${where}${formatCount(departures + kernelDrops)} decisions, ${formatCount(differentDepartures + differentFates + differentMarks)} differ`;
    const signals = chance?.tallies.signals;
    return signals === undefined ? told : `${told}, ${formatCount(signals.happened)} drops or marks by chance where ${formatCount(signals.expected)} are expected (z ${signals.z.toFixed(1).replace('-', '−')})`;
  });
  return { status: judged.some(({ verdict }) => verdict === 'disagree') ? 'fail' : 'pass', message: told.join('; ') };
}
