/** A replay's verdicts for people: a table with a row a judgement, and what a disagreement was. Plain text and Markdown. */

import { columnsText, wrap } from '../report/columns.js';
import { zLimit, type Tally, type TallyName } from './chance.js';
import type { Disagreement, PacketSeen } from './disagreement.js';
import type { JudgedVerdict, ReplayResult, Verdict } from './replay.js';
import type { SampleDifference } from './samples.js';

/** Groups of three, parted by a space that no line breaks at. */
const count = (n: number): string => n.toString().replace(/\B(?=(\d{3})+$)/g, '\u00a0');
const seconds = (ns: number): string => `${(ns / 1e9).toFixed(6)} s`;

/** Queue as a scenario would write it: `codel (target 2 ms)` is its parameters as validated, in ns and bytes. */
function queueText({ kind, params, shaper }: Verdict): string {
  const words = Object.entries(params).map(([key, value]) => `${key} ${value}`);
  return `${words.length === 0 ? kind : `${kind} (${words.join(', ')})`}${shaper === 'tbf' ? ' under TBF' : ''}`;
}

const tallyWords: Readonly<Record<TallyName, string>> = { signals: 'drops and marks', drops: 'drops instead of marks', matches: 'matches', turns: 'turns', reused: 'flows in a queue used before' };
const tallyText = ({ happened, expected, deviation }: Tally): string => `${count(Math.round(happened))} of ${count(Math.round(expected))} ± ${count(Math.round(zLimit * deviation))}`;
const tallies = ({ outcome }: JudgedVerdict): readonly (readonly [TallyName, Tally])[] => (Object.entries(outcome.chance?.tallies ?? {}) as [TallyName, Tally][]).filter(([, { happened, expected }]) => happened > 0 || expected >= 0.5);

/** Of a judged one: arrivals, drops, marks, different, undecidable, samples. */
function figures(verdict: JudgedVerdict): string[] {
  const { arrivals, kernelDrops, kernelMarks, differentDepartures, differentFates, differentMarks, samples, chance } = verdict.outcome;
  return [
    count(arrivals), count(kernelDrops), count(kernelMarks), count(differentDepartures + differentFates + differentMarks), count(verdict.undecidable + (chance?.hidden ?? 0)),
    samples === null ? 'none' : samples.different === 0 ? count(samples.samples) : `${count(samples.samples - samples.different)} of ${count(samples.samples)}`,
  ];
}

const columns = 80;
/** Queues that flows shared: more are only counted. */
const mostNamed = 12;

/** All verdicts as a table for the terminal (80 columns), then what is to be said of each. */
export function replayText(results: readonly ReplayResult[]): string {
  const kernels = new Set(results.map(kernelOf));
  const rows = results.flatMap((result) => result.verdicts.map((verdict) => [
    `${kernels.size > 1 ? `${kernelOf(result)} ` : ''}${verdict.bottleneck}: ${queueText(verdict)}${verdict.judged === verdict.kind ? '' : ` as ${verdict.judged}`}`,
    ...(verdict.verdict === 'not judged' ? ['', '', '', '', '', ''] : figures(verdict)), verdict.verdict,
  ]));
  const head = ['queue', 'arrivals', 'drops', 'marks', 'differ', 'unsure', 'samples', 'verdict'];
  // Columns that no row fills only take room.
  const filled = [...head.keys()].filter((index) => rows.some((cells) => cells[index] !== ''));
  const table = columnsText(filled.map((index) => head[index]!), rows.map((cells) => filled.map((index) => cells[index]!)), columns);
  const remarks = results.flatMap((result) => result.verdicts.flatMap((verdict) => remarksOn(result, verdict)));
  return [
    ...(kernels.size === 1 ? [`kernel ${[...kernels][0]!}`] : []),
    table.head, table.rule, ...table.rows,
    ...remarks.flatMap((remark) => wrap(remark.trim(), columns - 6).map((line, index) => `${remark.startsWith('  ') ? '  ' : ''}${index === 0 ? '' : '  '}${line}`)),
  ].join('\n');
}
const kernelOf = (result: ReplayResult): string => result.release ?? result.machine;

const titles = ['kernel', 'scenario', 'queue', 'judged', 'arrivals', 'drops', 'marks', 'different', 'undecidable', 'samples', 'chance', 'verdict'] as const;
const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
const head = [line(titles), line(titles.map(() => '---'))] as const;
/** Cells that say what a row is of. */
const identifying = 4;

/** All verdicts as a table in Markdown. */
export function replayMarkdown(results: readonly ReplayResult[]): string {
  return [...head, ...results.flatMap((result) => result.verdicts.map((verdict) => line([
    kernelOf(result), result.scenario, queueText(verdict), `${verdict.bottleneck}: ${verdict.judged}`,
    ...(verdict.verdict === 'not judged' ? ['', '', '', '', '', '', ''] : [...figures(verdict), tallies(verdict).map(([name, tally]) => (name === 'signals' ? tallyText(tally) : `${tallyWords[name]} ${tallyText(tally)}`)).join('; ')]),
    verdict.verdict,
  ])))].join('\n');
}

/**
 * Rows of `table` in place of those of `before` with the same kernel, scenario, queue and judge; the others stay. By scenario, kernel and queue.
 * A table of other columns is no such table: `table` alone.
 */
export function mergedMarkdown(before: string, table: string): string {
  const rowsOf = (text: string): (readonly [string, string])[] => text.split('\n').filter((row) => row.startsWith('| ') && !head.includes(row))
    .map((row) => [row.split(' | ').slice(0, identifying).join(' | '), row]);
  if (!before.includes(head[0])) return table;
  const order = (row: string): string => {
    const [kernel, scenario, queue, judged] = row.slice(2).split(' | ');
    return [scenario, kernel, queue, judged].join(' | ');
  };
  const rows = [...new Map([...rowsOf(before), ...rowsOf(table)]).values()];
  return [...head, ...rows.sort((a, b) => (order(a) < order(b) ? -1 : 1))].join('\n');
}

function remarksOn(result: ReplayResult, verdict: Verdict): string[] {
  const name = `${result.run}, ${verdict.bottleneck}, ${verdict.judged}`;
  if (verdict.verdict === 'not judged') return [`${name}: not judged: ${verdict.reason}`];
  const out: string[] = [];
  const { own, first, samples } = verdict.outcome;
  if (verdict.from === 'packets.parquet') out.push(`${name}: from packets.parquet, as raw/ has no captures: the order of equal times is a guess`);
  if (own > 0) out.push(`${name}: ${own} packets left that were not seen to enter; they were left out`);
  for (const [tally, one] of tallies(verdict)) out.push(`${name}: by chance: ${count(Math.round(one.happened))} ${tallyWords[tally]} where ${count(Math.round(one.expected))} ± ${count(Math.round(zLimit * one.deviation))} are expected in ${count(Math.round(one.asked))} decisions`);
  if (verdict.lateReadings > 0) out.push(`${name}: ${verdict.lateReadings} updates of its timer came a step of the clock late, as the probability in the samples shows`);
  if (verdict.buckets !== null) {
    const { from, queues, collisions, strangers, moves } = verdict.buckets;
    const shared = collisions.length === 0 ? '' : collisions.length > mostNamed ? `; ${collisions.length} of them shared` : `; shared: ${collisions.map((flows) => flows.join(' + ')).join('; ')}`;
    out.push(`${name}: ${queues} queues ${from === 'hash' ? 'as the hashes in the record say' : 'as the order of packets tells'}${shared}${moves === null || moves === 0 ? '' : `; ${count(moves)} times a flow took another hash`}${strangers === 0 ? '' : `; ${strangers} packets of unknown flows`}`);
  }
  if (first !== null && verdict.buckets?.from === 'order' && verdict.buckets.rehash) {
    out.push(`${name}: a TCP socket that times out may have moved to another queue, which this record does not show; to rule it out, run it again (records now hold each packet's hash), or with tcp: { sysctls: { net.core.txrehash: 0 } }`);
  }
  if (first !== null) out.push(`${name}: first disagreement`, ...disagreementText(first));
  if (samples?.first) out.push(`${name}: first sample that differs: ${sampleText(samples.first)}`);
  return out;
}

function disagreementText({ tNs, after, what, kernel, ours, ourState, kernelSample }: Disagreement): string[] {
  return [
    `  at ${seconds(tNs)}, after ${count(after)} departures that agreed: ${what}`,
    `  kernel: ${packetText(kernel)}`,
    `  ours:   ${packetText(ours)}`,
    `  our state:            ${stateText(ourState)}`,
    `  kernel's last sample: ${kernelSample === null ? 'none' : stateText(kernelSample)}`,
  ];
}
const packetText = (packet: PacketSeen | null): string => (packet === null ? 'no packet'
  : `packet ${packet.seq} (flow ${packet.flow}, ${packet.sizeBytes} bytes, arrived ${seconds(packet.arrivedNs)})`);
const stateText = (state: Readonly<Record<string, number>>): string => Object.entries(state).filter(([, value]) => Number.isFinite(value)).map(([name, value]) => `${name} ${value}`).join(', ');
const sampleText = ({ tNs, column, kernel, ours }: SampleDifference): string => `at ${seconds(tNs)}, ${column}: kernel ${kernel}, ours ${ours}`;
