/**
 * The table of docs/published.md: `npm run published [-- --seeds N]`. Runs the set-ups of results/article-c-simulator-2026.json in the
 * simulator (model: classic), every figure over all seeds, and writes it between the page's marks. Exit code 1 when a figure is out of its tolerance.
 */

import * as fs from 'node:fs';
import { parseArgs } from 'node:util';
import { projectFile } from '../kernel/project.js';
import { plainMistakes } from '../testbed/script.js';
import { PublishedRuns, allowed, articleFigures, isMet, seedsOf, type Figure } from './published-figures.js';

const [begin, end] = ['<!-- table: npm run published -->', '<!-- end of table -->'];
const names: Readonly<Record<Figure['figure'], string>> = { utilisation: 'utilisation', medianQueueing: 'queueing, median', probeP99: 'probe, p99', fctMedian: 'short flows, median', fctP95: 'short flows, p95' };

plainMistakes();
const { values } = parseArgs({ options: { seeds: { type: 'string', default: '20' }, page: { type: 'string', default: projectFile('docs', 'published.md') } } });
const seeds = Number(values.seeds);
if (!Number.isInteger(seeds) || seeds < 3 || seeds > 1000) fail(`--seeds ${values.seeds}: expected a whole number from 3 to 1000`);
if (!fs.existsSync(values.page)) fail(`--page ${values.page}: no such file`);
const before = fs.readFileSync(values.page, 'utf8');
const [from, to] = [before.indexOf(begin), before.indexOf(end)];
if (from < 0 || to < from) fail(`--page ${values.page}: expected the marks ${begin} and ${end} in it`);

const runs = new PublishedRuns();
const number = (value: number): string => (Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2));
let outside = 0;
const rows = articleFigures().map((figure) => {
  const judged = seedsOf(figure, seeds);
  const few = runs.over(figure, judged).median;
  const { median, ci95 } = runs.over(figure, seeds);
  const met = isMet(figure, few);
  if (!met && figure.missed === undefined) outside++;
  const published = figure.relation === 'below' ? `< ${number(figure.published)}` : `${number(figure.published)} ± ${number(allowed(figure))}`;
  return [figure.workload, figure.queue, `${names[figure.figure]}, ${figure.unit}`, published, number(few), `${number(median)} [${number(ci95![0])} ${number(ci95![1])}]`, met ? 'yes' : figure.missed === undefined ? '**no**' : 'no, known'];
});
const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
const text = [line(['workload', 'queue', 'figure', 'published', 'ours, judged', `over ${seeds} seeds`, 'met']), line(['---', '---', '---', '---:', '---:', '---:', '---']), ...rows.map(line)].join('\n');
process.stdout.write(`${text}\n`);

fs.writeFileSync(values.page, `${before.slice(0, from + begin.length)}\n\n${text}\n\n${before.slice(to)}`);
process.exitCode = outside > 0 ? 1 : 0;

function fail(what: string): never {
  process.stderr.write(`${what}\n`);
  process.exit(2);
}
