/** `testbed compare A B …`: two or more runs or sets side by side, A being the reference; refuses what is not comparable. */

import { InvalidArgumentError, Option } from 'commander';
import type { Command } from 'commander';
import pc from 'picocolors';
import { terminalColumns } from '../report/columns.js';
import { StatusLine } from '../run/status-line.js';
import { defaultResults, folderOfRuns } from './runs.js';

interface Options {
  readonly runs: string;
  readonly out?: string;
  readonly allow: readonly string[];
  readonly anyway?: true;
  readonly labels?: string;
  readonly all?: true;
  readonly json?: true;
  readonly figuresOnly?: true;
  readonly atLeast: number;
  readonly failOutsideNoise?: true;
}

/** `2%` or `0.02`. @throws InvalidArgumentError for commander to print */
function share(text: string): number {
  const match = /^\s*(\d*\.?\d+)\s*(%?)\s*$/.exec(text);
  if (match === null) throw new InvalidArgumentError('expected a share such as 2% or 0.02');
  return Number(match[1]) / (match[2] === '%' ? 100 : 1);
}

/** Exit code of --fail-outside-noise. */
const outsideNoise = 3;

export function register(program: Command): void {
  program.command('compare')
    .summary('compare runs or sets: figures, distributions, and what is inside the noise')
    .description('Compare two or more runs or sets with the first one: kernel and simulator, two kernels, two queues, yesterday and today. Every figure with its difference, interval and noise over seeds; distributions by Kolmogorov–Smirnov and Wasserstein distance. Writes comparison.json and comparison.html.')
    .argument('<reference>', 'id, unique beginning of an id, folder, or `last`; several with commas between; SET:queue=codel takes the runs that varied so')
    .argument('<others...>', 'the same, one a side')
    .option('--runs <dir>', 'folder the ids are looked for in', folderOfRuns, defaultResults)
    .option('--out <dir>', 'folder for comparison.json and comparison.html (default: a new one, compare-…, in the folder of runs)')
    .option('--allow <what>', 'compare in spite of this difference: rate, window, delay, topology, traffic, events, incomplete, invalid, mixed', (value: string, before: readonly string[]) => [...before, value], [])
    .option('--anyway', 'compare in spite of any difference')
    .option('--labels <names>', 'names of the sides, with commas between')
    .option('--all', 'print every figure')
    .option('--json', 'print comparison.json')
    .option('--figures-only', 'no distributions and no plots: reads no packets')
    .addOption(new Option('--at-least <percent>', 'list and fail on figures only if they differ by this share of the reference').argParser(share).default(0.001, '0.1%'))
    .option('--fail-outside-noise', `exit with ${outsideNoise} when a figure is outside the noise with all judged together (Holm, family-wise 5 %)`)
    .action(async (reference: string, others: string[], options: Options) => { process.exitCode = await compare([reference, ...others], options); });
}

async function compare(given: readonly string[], options: Options): Promise<number> {
  const { compareFromDisk } = await import('../compare/comparison.js');
  const { writeComparison } = await import('../compare/write.js');
  const status = new StatusLine(process.stderr);
  const result = await compareFromDisk(given, {
    resultsDir: options.runs, allow: options.anyway ? ['*'] : options.allow, distributions: !options.figuresOnly,
    ...(options.labels === undefined ? {} : { labels: options.labels.split(',').map((label) => label.trim()) }),
    onProgress: (text) => status.set(text),
  }).finally(() => status.clear());
  const files = await writeComparison(result, options.runs, options.out, !options.figuresOnly);
  const { comparison } = result;
  if (options.json) process.stdout.write(`${JSON.stringify(comparison, null, 2)}\n`);
  else {
    const { comparisonText } = await import('../compare/text.js');
    const columns = terminalColumns();
    process.stdout.write(`${comparisonText(comparison, { all: options.all ?? false, columns, atLeast: options.atLeast })}\npage: ${files.page}\n`);
  }
  if (!options.failOutsideNoise) return 0;
  const { figureName, isMaterial } = await import('../compare/wording.js');
  const { formatPercent } = await import('../report/format.js');
  if (comparison.familyWise.judged === 0) {
    process.stderr.write(`${pc.red('--fail-outside-noise')}: there is no noise estimate to judge by (one seed a side); run more seeds\n`);
    return outsideNoise;
  }
  const material = isMaterial(options.atLeast);
  const outside = comparison.familyWise.outside.filter(({ cell, side, figure }) => material(comparison.cells[cell]!.comparisons.find((one) => one.side === side)!.figures.find((one) => one.figure === figure)!));
  if (outside.length === 0) return 0;
  process.stderr.write(`${pc.red('outside the noise')} by ${formatPercent(options.atLeast)} or more: ${outside.slice(0, 10).map(({ figure, side }) => `${figureName(figure)} (${comparison.sides[side]!.label})`).join(', ')}${outside.length > 10 ? `, and ${outside.length - 10} more` : ''}\n`);
  return outsideNoise;
}
