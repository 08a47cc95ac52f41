import assert from 'node:assert/strict';
import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import type { JudgedLine } from '../expect/judge.js';
import { cell, figure, validation } from './fixture.js';
import { escapeXml, junitXml } from './junit.js';
import { validationPage } from './page.js';
import { cellLine, markdownTable, summaryLines } from './text.js';
import { exitCode } from './validation.js';

interface Element { readonly name: string; readonly attributes: Readonly<Record<string, string>>; readonly children: Element[]; text: string }

/** A strict reader of the XML we write: declaration, elements, attributes, text, the five entities (XML 1.0, sections 2 and 3). @throws on anything else */
function parseXml(xml: string): Element {
  const declaration = /^<\?xml version="1\.0" encoding="UTF-8"\?>\n/.exec(xml);
  assert.ok(declaration, 'begins with the declaration');
  assert.doesNotMatch(xml, /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/, 'holds only XML characters');
  assert.doesNotMatch(xml, /\p{Surrogate}/u, 'has no half of a surrogate pair');
  const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
  const decode = (text: string): string => text.replace(/&(.*?)(;|$)/g, (_, name: string, end: string) => entities[end === ';' ? name : ''] ?? assert.fail(`entity ${name}`));
  const top: Element = { name: '', attributes: {}, children: [], text: '' };
  const open = [top];
  let at = declaration[0].length;
  while (at < xml.length) {
    const here = open.at(-1)!;
    if (xml[at] !== '<') {
      const end = xml.indexOf('<', at) < 0 ? xml.length : xml.indexOf('<', at);
      here.text += decode(xml.slice(at, end));
      at = end;
      continue;
    }
    const tag = /^<(\/?)([a-z-]+)((?:\s+[a-z]+="[^"<]*")*)\s*(\/?)>/.exec(xml.slice(at));
    assert.ok(tag, `a tag at ${xml.slice(at, at + 80)}`);
    at += tag[0].length;
    if (tag[1] === '/') {
      assert.equal(open.pop()!.name, tag[2]);
      assert.ok(open.length > 0);
      continue;
    }
    const pairs = [...tag[3]!.matchAll(/([a-z]+)="([^"]*)"/g)].map(([, key, value]) => [key!, decode(value!)] as const);
    assert.equal(new Set(pairs.map(([key]) => key)).size, pairs.length, 'each attribute once');
    const element: Element = { name: tag[2]!, attributes: Object.fromEntries(pairs), children: [], text: '' };
    here.children.push(element);
    if (tag[4] !== '/') open.push(element);
  }
  assert.equal(open.length, 1, 'every element is closed');
  assert.equal(top.children.length, 1, 'one root');
  return top.children[0]!;
}

const unmet: JudgedLine = { text: 'BL.utilisation >= 0.95 & "more" <b>', status: 'fail', message: '90 %', measured: 0.9, wanted: 0.95, n: 2 };
const outcome = validation([
  cell(), cell({ title: 'grid (queue=red)', varied: { queue: 'red' }, status: 'fail', figures: [figure(9, 5)], lines: [unmet] }),
  cell({ title: 'grid (queue=pie)', varied: { queue: 'pie' }, status: 'invalid', problem: 'kernel: seed 2 is invalid: netem dropped 3 packets', figures: [] }),
  cell({ title: 'grid (queue=cake)', varied: { queue: 'cake' }, figures: [figure(9, 5, { verdict: 'noise', noise: 6 })] }),
], { bad: [{ file: 'a/b.yaml', message: 'a/b.yaml:3: topology: is missing' }] });

describe('JUnit XML of a validation', () => {
  it('is well-formed, with a suite a file, a case a cell, failures apart from errors, and sums that are right', () => {
    const root = parseXml(junitXml(outcome));
    assert.deepEqual([root.name, root.attributes['tests'], root.attributes['failures'], root.attributes['errors']], ['testsuites', '5', '1', '2']);
    assert.deepEqual(root.children.map(({ name, attributes, children }) => [name, attributes['name'], attributes['tests'], attributes['failures'], attributes['errors'], children.length]),
      [['testsuite', 'scenarios/grid/aqms.yaml', '4', '1', '1', 4], ['testsuite', 'a/b.yaml', '1', '0', '1', 1]]);
    const cases = root.children.flatMap(({ children }) => children);
    assert.deepEqual(cases.map(({ attributes, children }) => [attributes['name'], children[0]?.name]),
      [['grid (queue=codel)', 'system-out'], ['grid (queue=red)', 'failure'], ['grid (queue=pie)', 'error'], ['grid (queue=cake)', 'system-out'], ['a/b.yaml', 'error']]);
    assert.match(cases[1]!.children[0]!.text, /queueing, median: simulator 9 ms, kernel 5 ms[^]*BL\.utilisation >= 0\.95 & "more" <b>: 90 %/);
    assert.match(cases[2]!.children[0]!.attributes['message']!, /netem dropped 3 packets/);
  });

  it('stays well-formed whatever the names and messages hold', () => {
    const any = fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.constantFrom(']]>', '<!--', '&amp', '\u0000\u001b[31m', '\ud800', '"\n\'', '\ufffe'));
    fc.assert(fc.property(any, any, any, (title, file, problem) => {
      const root = parseXml(junitXml(validation([cell({ title, file, status: 'invalid', problem })], { bad: [{ file: problem, message: title }] })));
      assert.equal(root.attributes['errors'], '2');
    }), { numRuns: 300, seed: 1 });
    assert.equal(escapeXml('a\u0000<&>"\'\u001b'), 'a&lt;&amp;&gt;&quot;&apos;');
  });
});

describe('the page of a validation', () => {
  it('has a row a cell, those that need a look first, and no markup of names', () => {
    const html = validationPage(validation([cell(), cell({ title: 'x', scenario: '<script>alert(1)</script>', status: 'fail', figures: [figure(9, 5)], reports: [{ title: 'kernel', href: 'runs/a b/report.html' }] })]));
    assert.ok(html.indexOf('&lt;script&gt;') < html.indexOf('queue=codel'));
    assert.doesNotMatch(html, /<script/);
    assert.match(html, /href="runs\/a%20b\/report.html"/);
    assert.match(html, /50 %<\/b><span>pass \(1 of 2\)/);
  });
});

describe('tables of a validation', () => {
  it('the page gives each mistake of a file that could not be run a line of its own', () => {
    const html = validationPage(validation([cell()], { bad: [{ file: 'x.yaml', message: 'x.yaml:5: rate: "20mbits" <b>\nx.yaml:13: from: there is no host' }] }));
    assert.match(html, /One file could not be run<\/strong><ul><li>x\.yaml:5: rate: (&quot;|")20mbits(&quot;|") &lt;b&gt;<br>x\.yaml:13: from: there is no host<\/li>/);
  });
  it('say how many cells are inside, within the noise, differ or could not be judged, and where', () => {
    const text = summaryLines(outcome).join('\n');
    assert.match(text, /4 cells: 2 pass, 1 fail, 1 invalid; 1 file could not be run/);
    assert.match(text, /25 % inside every tolerance, 25 % more within the spread over seeds/);
    const table = markdownTable(outcome, { paths: ['scenarios/grid'], set: ['seeds=[1, 2]'], only: [] });
    assert.match(table, /testbed validate scenarios\/grid --set 'seeds=\[1, 2\]' --table FILE/);
    assert.match(table, /\| queueing, median \| 3 \| 1 \| 1 \| 1 \|/);
    assert.match(table, /\| codel \| pass \| 5 ms \/ 5.2 ms \|/);
    assert.match(table, /\| red \| fail \| \*\*9 ms \/ 5 ms\*\* \|/);
    assert.match(table, /\| cake \| pass \| \*9 ms \/ 5 ms\* \|/);
    assert.match(table, /could not be judged: kernel: seed 2 is invalid/);
    // Every table row has as many columns as its head.
    for (const block of table.split('\n\n').filter((part) => part.startsWith('|'))) assert.equal(new Set(block.trim().split('\n').map((line) => line.replaceAll('\\|', '').split('|').length)).size, 1, block);
  });
  it('name in a line what is furthest off', () => {
    assert.match(stripVTControlCharacters(cellLine(outcome.cells[1]!)), /grid \(queue=red\): fail, BL queueing, median 9 ms \/ 5 ms \(\+80 %, 4 × tolerance\); BL.utilisation >= 0.95/);
  });
});

describe('the exit code of a validation', () => {
  it('is 0 when all pass, 1 with a difference, 2 when anything could not be judged', () => {
    assert.equal(exitCode(validation([cell()])), 0);
    assert.equal(exitCode(validation([cell(), cell({ status: 'fail' })])), 1);
    assert.equal(exitCode(validation([cell({ status: 'fail' }), cell({ status: 'invalid' })])), 2);
    assert.equal(exitCode(validation([cell()], { bad: [{ file: 'x', message: 'y' }] })), 2);
    assert.equal(exitCode(validation([cell()], { interrupted: true })), 130);
  });
});
