/**
 * The outcome as JUnit XML, which CI systems show: a suite a scenario file, a case a cell. A difference is a `failure`, what could not
 * be judged an `error`. Form: the Jenkins/Ant schema that GitHub, GitLab and Jenkins read.
 */

import { formatValue } from '../compare/wording.js';
import { chanceOfAll, chanceText } from './chance-of-all.js';
import { describeExcess } from '../expect/judge.js';
import type { Validation, ValidatedCell } from './validation.js';

export function junitXml(validation: Validation): string {
  const files = [...new Set([...validation.cells.map(({ file }) => file), ...validation.bad.map(({ file }) => file)])];
  const suites = files.map((file) => {
    const cells = validation.cells.filter((cell) => cell.file === file);
    const bad = validation.bad.filter((one) => one.file === file);
    const cases = [
      ...cells.map((cell) => testCase(cell.title, cell.scenario, cell.tookS, outcome(cell))),
      ...bad.map(({ message }) => testCase(file, file, 0, element('error', message, message))),
    ];
    return { counts: countsOf(cells, bad.length), xml: (counts: Tally) => `  <testsuite name="${escapeXml(file)}" ${attributes(counts)}>\n${cases.join('')}  </testsuite>\n` };
  });
  const chance = chanceOfAll(validation.cells);
  if (chance !== null) {
    const text = chanceText(chance);
    suites.push({ counts: { tests: 1, failures: chance.agrees ? 0 : 1, errors: 0, time: 0 }, xml: (counts) => `  <testsuite name="decision replay" ${attributes(counts)}>\n${testCase('all cells together', 'decision replay', 0, element(chance.agrees ? 'system-out' : 'failure', text, text))}  </testsuite>\n` });
  }
  const all = suites.reduce<Tally>((sum, { counts }) => ({ tests: sum.tests + counts.tests, failures: sum.failures + counts.failures, errors: sum.errors + counts.errors, time: sum.time + counts.time }), { tests: 0, failures: 0, errors: 0, time: 0 });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="testbed validate" ${attributes(all)}>\n${suites.map(({ counts, xml }) => xml(counts)).join('')}</testsuites>\n`;
}

interface Tally { readonly tests: number; readonly failures: number; readonly errors: number; readonly time: number }
const countsOf = (cells: readonly ValidatedCell[], bad: number): Tally => ({
  tests: cells.length + bad, failures: cells.filter(failed).length, errors: cells.filter(({ status }) => status === 'invalid').length + bad,
  time: cells.reduce((sum, { tookS }) => sum + tookS, 0),
});
/** Layer 2 alone may fail a cell too. */
const failed = ({ status, replay }: ValidatedCell): boolean => status === 'fail' || (status === 'pass' && replay?.status === 'fail');
const attributes = ({ tests, failures, errors, time }: Tally): string => `tests="${tests}" failures="${failures}" errors="${errors}" skipped="0" time="${time.toFixed(3)}"`;

const testCase = (name: string, className: string, time: number, inner: string): string =>
  `    <testcase name="${escapeXml(name)}" classname="${escapeXml(className)}" time="${time.toFixed(3)}"${inner === '' ? '/>\n' : `>\n${inner}    </testcase>\n`}`;
const element = (name: 'failure' | 'error' | 'system-out', message: string, text: string): string =>
  `      <${name}${name === 'system-out' ? '' : ` message="${escapeXml(message.split('\n')[0]!)}"`}>${escapeXml(text)}</${name}>\n`;

function outcome(cell: ValidatedCell): string {
  const differing = cell.figures.filter(({ verdict }) => verdict === 'differs').map((figure) => `${figure.owner} ${figure.title}: simulator ${formatValue(figure.unit, figure.sim)}, kernel ${formatValue(figure.unit, figure.kernel)} (${describeExcess(figure)})`);
  const unmet = cell.lines.filter(({ status }) => status === 'fail').map(({ text, message }) => `${text}: ${message}`);
  const told = [...differing, ...unmet, ...(cell.replay?.status === 'fail' ? [`decision replay: ${cell.replay.message}`] : [])];
  const figures = cell.figures.map(({ owner, title, unit, sim, kernel, verdict }) => `${owner} ${title}: simulator ${formatValue(unit, sim)}, kernel ${formatValue(unit, kernel)}: ${verdict}`).join('\n');
  return `${failed(cell) ? element('failure', told.join('; '), told.join('\n')) : cell.status === 'invalid' ? element('error', cell.problem ?? 'could not be judged', cell.problem ?? 'could not be judged') : ''}${
    figures === '' ? '' : element('system-out', '', figures)}`;
}

/** Text in XML 1.0: its five characters, and none of those it has no place for (section 2.2). */
export function escapeXml(text: string): string {
  return [...text].filter(allowedInXml).join('')
    .replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;').replaceAll("'", '&apos;');
}

function allowedInXml(character: string): boolean {
  const code = character.codePointAt(0)!;
  return code === 0x9 || code === 0xa || code === 0xd || (code >= 0x20 && code <= 0xd7ff) || (code >= 0xe000 && code <= 0xfffd) || code >= 0x10000;
}
