/** A replay's verdicts for people: a table with a row a judgement, and what a disagreement was. Plain text and Markdown. */

import Table from 'cli-table3';
import { zLimit, type ReplayResult, type Verdict } from './replay.js';
import type { Disagreement, PacketSeen } from './exact.js';
import type { SampleDifference } from './samples.js';

const count = (n: number): string => n.toString().replace(/\B(?=(\d{3})+$)/g, ' ');
const seconds = (ns: number): string => `${(ns / 1e9).toFixed(6)} s`;

const columns = ['kernel', 'queue', 'judged', 'arrivals', 'drops', 'marks', 'different', 'undecidable', 'chance', 'samples', 'verdict'] as const;

/** Queue as a scenario would write it: `codel (target 2 ms)` is its parameters as validated, in ns and bytes. */
function queueText({ kind, params }: Verdict): string {
  const words = Object.entries(params).map(([key, value]) => `${key} ${value}`);
  return words.length === 0 ? kind : `${kind} (${words.join(', ')})`;
}

function row(result: ReplayResult, verdict: Verdict): string[] {
  const first = [`${result.release ?? result.machine}`, queueText(verdict), `${verdict.bottleneck}: ${verdict.judged}`];
  if (verdict.verdict === 'not judged') return [...first, '', '', '', '', '', '', '', 'not judged'];
  const { samples } = verdict.outcome;
  const sampled = samples === null ? 'none' : `${count(samples.samples - samples.different)} of ${count(samples.samples)}`;
  if (verdict.method === 'exact') {
    const { arrivals, kernelDrops, kernelMarks, differentDepartures, differentFates, differentMarks } = verdict.outcome;
    return [...first, count(arrivals), count(kernelDrops), count(kernelMarks), count(differentDepartures + differentFates + differentMarks), count(verdict.undecidable), '', sampled, verdict.verdict];
  }
  const { arrivals, kernelDrops, kernelMarks, different, undecidable, signals, expected, deviation } = verdict.outcome;
  return [
    ...first, count(arrivals), count(kernelDrops), count(kernelMarks), count(different), count(undecidable + verdict.lateTicks),
    `${count(signals)} of ${count(Math.round(expected))} ± ${count(Math.round(zLimit * deviation))}`, sampled, verdict.verdict,
  ];
}

/** All verdicts as a table for the terminal, then what is to be said of each. */
export function replayText(results: readonly ReplayResult[]): string {
  const rows: string[][] = [];
  const remarks: string[] = [];
  for (const result of results) {
    for (const verdict of result.verdicts) {
      rows.push(row(result, verdict));
      remarks.push(...remarksOn(result, verdict));
    }
  }
  // Columns that no row fills (chance, say) only take room.
  const filled = [...columns.keys()].filter((index) => rows.length === 0 || rows.some((cells) => cells[index] !== ''));
  const table = new Table({ head: filled.map((index) => columns[index]!), style: { head: [], border: [] }, chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' } });
  table.push(...rows.map((cells) => filled.map((index) => cells[index]!)));
  return [table.toString(), ...remarks].join('\n');
}

export function replayMarkdown(results: readonly ReplayResult[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(columns), line(columns.map(() => '---')), ...results.flatMap((result) => result.verdicts.map((verdict) => line(row(result, verdict))))].join('\n');
}

function remarksOn(result: ReplayResult, verdict: Verdict): string[] {
  const name = `${result.run}, ${verdict.bottleneck}, ${verdict.judged}`;
  if (verdict.verdict === 'not judged') return [`${name}: not judged: ${verdict.reason}`];
  const out: string[] = [];
  const { own, first, samples } = verdict.outcome;
  if (verdict.from === 'packets.parquet') out.push(`${name}: from packets.parquet, as raw/ has no captures: the order of equal times is a guess`);
  if (own > 0) out.push(`${name}: ${own} packets left that were not seen to enter; they were left out`);
  if (verdict.method === 'exact' && verdict.buckets !== null) {
    const { queues, collisions, strangers } = verdict.buckets;
    out.push(`${name}: ${queues} queues${collisions.length === 0 ? '' : `; shared: ${collisions.map((flows) => flows.join(' + ')).join('; ')}`}${strangers === 0 ? '' : `; ${strangers} packets of unknown flows`}`);
  }
  if (first !== null && verdict.method === 'exact' && verdict.buckets?.rehash) {
    out.push(`${name}: a TCP socket that times out may have moved to another queue, which no record shows; to rule it out, run with tcp: { sysctls: { net.core.txrehash: 0 } }`);
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
