/** Lines of points, whatever names and values are in the records, against a parser of our own (strict-lines.ts). */

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { syntheticPlan } from '../records/synthetic-raw.js';
import { probeFields, queueFields, socketFields } from '../records/raw.js';
import { fieldOffsets, type Field, type RecordHeader } from '../records/record-file.js';
import type { MetricRow } from '../store/metric-rows.js';
import { rowLines, summaryLines, variedTag, type RunTags } from './points.js';
import { parseLine } from './strict-lines.js';

const startNs = 1_767_225_600_000_000_000n;

/** What a tag's text may be: anything that is in a scenario's name, a path, a kernel's release or a varied value. */
const text = fc.oneof(fc.string({ unit: fc.constantFrom(',', '=', ' ', '\\', '"', '\n', '\r', '\t', '#', '_', 'a', 'ö', '😀') }), fc.string({ unit: 'binary' }), fc.string());
const runTags = fc.record({ run: text, scenario: text, seed: text, engine: text, machine: text, kernel: text, varied: fc.dictionary(text, text, { maxKeys: 3 }) })
  .map(({ varied, ...tags }): RunTags => ({ ...tags, ...Object.fromEntries(Object.entries(varied).map(([name, value]) => [variedTag(name), value])) }));
/** As a reader sees them: line breaks are told as `\n`, a backslash as a slash (at an end it would escape what follows), and an empty one is not there. */
const seen = (tags: RunTags): [string, string][] => Object.entries(tags).filter(([, value]) => value !== '')
  .map(([name, value]) => [name, value.replaceAll('\\', '/').replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\t', '\\t')]);

const double = fc.oneof(fc.double(), fc.constantFrom(NaN, Infinity, -Infinity, -0, 2 ** 53, 2 ** 63, -(2 ** 63), 1e18, 1e300, -1e300, 5e-324), fc.integer());

function assertTags(line: string, tags: RunTags): ReturnType<typeof parseLine> {
  const parsed = parseLine(line);
  for (const [name, value] of seen(tags)) assert.equal(parsed.tags.get(name), value, line);
  for (const [name, value] of Object.entries(tags)) if (value === '') assert.ok(!parsed.tags.has(name));
  return parsed;
}

describe('the strict parser of line protocol', () => {
  it('reads the examples of InfluxDB\'s documentation', () => {
    const line = parseLine('my\\,mea\\ sure,tag\\ Key=tag\\,Value\\=x,t2=a\\b field\\=Key="string \\"value\\" \\\\",i=-12i,f=1.5e+3,b=T 1556813561098000000');
    assert.deepEqual([line.measurement, [...line.tags], [...line.fields], line.timestamp], [
      'my,mea sure', [['tag Key', 'tag,Value=x'], ['t2', 'a\\b']],
      [['field=Key', { text: 'string "value" \\' }], ['i', { integer: -12n }], ['f', { float: 1500 }], ['b', { boolean: true }]], 1556813561098000000n,
    ]);
  });
  for (const [what, line] of [
    ['no fields', 'm,a=b 1'], ['an empty tag', 'm,a= f=1 1'], ['NaN', 'm f=NaN 1'], ['an infinite value', 'm f=+Inf 1'], ['too large an exponent', 'm f=1e999 1'], ['65 bits', 'm f=9223372036854775808i 1'],
    ['a broken integer', 'm f=1.5i 1'], ['an exponent of an integer', 'm f=1e+21i 1'], ['a bare word', 'm f=abc 1'], ['an open string', 'm f="a 1'], ['a space too many', 'm  f=1 1'], ['a field twice', 'm f=1,f=2 1'],
    ['a tag twice', 'm,a=b,a=c f=1 1'], ['a comment', '#m f=1 1'], ['a reserved name', 'm _f=1 1'], ['no time', 'm f=1'], ['a time beyond 64 bits', 'm f=1 9223372036854775807'], ['an unescaped = in a tag', 'm,a=b=c f=1 1'],
    ['a tag that ends in a backslash', 'm,a=b\\ f=1 1'],
  ] as const) it(`refuses ${what}`, () => { assert.throws(() => parseLine(line)); });
});

describe('points', () => {
  it('of figures are lines that InfluxDB takes, whatever the run is called and whatever the figures are', () => {
    fc.assert(fc.property(runTags, fc.array(fc.tuple(fc.constantFrom('bottlenecks', 'classes', 'probes'), fc.constantFrom('throughputBps', 'queueDelayMs', 'fctBySizeS.60kB'), fc.constantFrom('p50', 'max', null), double), { minLength: 1, maxLength: 8 }), (tags, figures) => {
      const rows = figures.map(([part, figure, statistic, value]): MetricRow => ({ metric: '', part, name: 'BL1', class: null, figure, statistic, value, unit: null, n: null, how: null }));
      const lines = summaryLines(rows, 'complete', 60e9, tags, startNs);
      const wanted = new Map<string, number>();
      for (const { part, figure, statistic, value } of rows) if (Number.isFinite(value)) wanted.set(`${part} ${figure.replaceAll('.', '_')}${statistic === null ? '' : `_${statistic}`}`, value!);
      const got = new Map<string, number>();
      for (const line of lines) {
        const { measurement, tags: there, fields, timestamp } = assertTags(line, tags);
        assert.deepEqual([measurement, there.get('status'), timestamp], ['testbed_summary', 'complete', startNs + 60_000_000_000n]);
        const part = ['bottleneck', 'class', 'probe'].map((kind, i) => (there.get(kind) === 'BL1' ? ['bottlenecks', 'classes', 'probes'][i]! : '')).join('');
        for (const [name, value] of fields) got.set(`${part} ${name}`, (value as { float: number }).float);
      }
      assert.deepEqual([...got].sort(), [...wanted].map(([name, value]) => [name, value + 0]).sort());
    }), { numRuns: 1000 });
  });

  for (const [table, fields, constants] of [['queue', [...queueFields, { name: 'prob', type: 'f64' }], { bottleneck: 'BL1' }], ['probes', probeFields, {}], ['sockets', socketFields, {}]] as const) {
    it(`of rows of ${table} are lines that InfluxDB takes, or none, whatever bytes are in them`, () => {
      const list: readonly Field[] = fields;
      const rowBytes = list.reduce((sum, { type }) => sum + { f64: 8, i32: 4, u32: 4, u8: 1 }[type], 0);
      const header: RecordHeader = { format: 'testbed-records-1', table, constants, fields: list, rowBytes };
      const at = fieldOffsets(header);
      const plan = syntheticPlan({ packets: 10 });
      let lines = 0;
      fc.assert(fc.property(runTags, fc.array(double, { minLength: list.length, maxLength: list.length }), (tags, values) => {
        const view = new DataView(new ArrayBuffer(rowBytes));
        list.forEach(({ name, type }, i) => {
          const value = values[i]!;
          if (type === 'f64') view.setFloat64(at[name]!, value, true);
          else if (type === 'u8') view.setUint8(at[name]!, value);
          else view.setUint32(at[name]!, value, true);
        });
        const line = rowLines(header, plan, tags, startNs)(view, 0);
        if (line === null) return;
        lines++;
        const { fields: there, timestamp } = assertTags(line, tags);
        assert.equal(timestamp, startNs + BigInt(Math.round(view.getFloat64(at['t']!, true))));
        for (const [name, value] of there) {
          if (name === 'lost') continue;
          const own = list.find((each) => each.name === name)!;
          if (own.type !== 'f64') continue;
          const number = view.getFloat64(at[name]!, true);
          // Beyond 2^53 JavaScript prints the shortest digits that mean the same number.
          assert.equal('float' in value ? value.float : Number((value as { integer: bigint }).integer), name === 'prob' ? number + 0 : Math.round(number) + 0);
          assert.equal('float' in value, name === 'prob');
        }
      }), { numRuns: 1000 });
      assert.ok(lines > 50, `only ${lines} of 1000 were points`);
    });
  }
});
