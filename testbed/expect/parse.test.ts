import assert from 'node:assert/strict';
import fc from 'fast-check';
import { ScenarioError } from '../errors.js';
import { expand } from '../scenario/expand.js';
import { loadText } from '../scenario/load.js';
import { dumbbellText } from '../testing/scenarios.js';
import { parseExpectations, parseTolerance, parseValue, type Bound, type Engines, type Published } from './parse.js';

const text = (expect: string): string => dumbbellText({
  traffic: '{ bulk: { kind: bulk, from: S, to: D, rtt: 20ms }, web: { kind: short, from: S, to: D, rtt: 20ms, arrival: poisson(4/s), size: 60kB }, ping: { kind: cbr, from: S, to: D, rate: 64kbit } }',
  probes: '{ ping: { from: S, to: D } }', more: `expect:\n${expect}`,
});
const parsed = (expect: string): ReturnType<typeof parseExpectations>['expectations'] => {
  const [variant] = loadText(text(expect), 'x.yaml').variants;
  return parseExpectations(variant!.expect!, expand(variant!).expanded).expectations;
};
const bound = (line: string): Bound => parsed(`  - ${JSON.stringify(line)}`)[0] as Bound & { index: number };
const mistake = (expect: string): string => {
  try {
    loadText(text(expect), 'x.yaml');
  } catch (error) {
    assert.ok(error instanceof ScenarioError);
    assert.equal(error.exitCode, 2);
    return error.message;
  }
  return assert.fail(`accepted: ${expect}`);
};
/** Line of the first expectation. */
const first = 9;

describe('an expectation', () => {
  it('is a comparison of a figure with a value in its own unit', () => {
    for (const [line, part, owner, field, relation, value] of [
      ['BL.utilisation >= 0.95', 'bottlenecks', 'BL', 'utilisation', '>=', 0.95],
      ['BL.utilisation>=95%', 'bottlenecks', 'BL', 'utilisation', '>=', 0.95],
      ['BL.queueDelayMs.p99 <= 20ms', 'bottlenecks', 'BL', 'queueDelayMs.p99', '<=', 20],
      ['BL.queueDelayMs.max ≤ 0.1s', 'bottlenecks', 'BL', 'queueDelayMs.max', '<=', 100],
      ['BL.throughputBps > 19 Mbit/s', 'bottlenecks', 'BL', 'throughputBps', '>', 19e6],
      ['BL.backlogBytes.max < 1.5MB', 'bottlenecks', 'BL', 'backlogBytes.max', '<', 1.5e6],
      ['BL.backlogPackets.p95 <= 20p', 'bottlenecks', 'BL', 'backlogPackets.p95', '<=', 20],
      ['BL.counters.drops = 0', 'bottlenecks', 'BL', 'counters.drops', '=', 0],
      ['BL.classes.web.lossRatio <= 1%', 'bottlenecks', 'BL', 'classes.web.lossRatio', '<=', 0.01],
      ['web.fctS.p95 <= 800ms', 'classes', 'web', 'fctS.p95', '<=', 0.8],
      ['web.fctBySizeS.60kB.p50 < 1s', 'classes', 'web', 'fctBySizeS.60kB.p50', '<', 1],
      ['bulk.jain >= 0.9', 'classes', 'bulk', 'jain', '>=', 0.9],
      ['web.failed == 0', 'classes', 'web', 'failed', '=', 0],
      ['probes.ping.rttMs.p99 < 100ms', 'probes', 'ping', 'rttMs.p99', '<', 100],
      ['ping.goodputBps != 0bit', 'classes', 'ping', 'goodputBps', '!=', 0],
    ] as const) {
      const { figure, ...read } = bound(line);
      assert.deepEqual([figure.part, figure.owner, figure.field, read.relation, read.value], [part, owner, field, relation, value], line);
    }
  });

  it('holds both engines against each other, with tolerances or the default ones', () => {
    const [own, byDefault] = parsed('  - sim ~ kernel: { BL.utilisation: 2%, web.fctS.p50: 10% or 5ms, bulk.retransmits: 3 }\n  - kernel ~ sim') as unknown as readonly [Engines, Engines];
    assert.deepEqual(own.figures.map(({ figure, tolerance }) => [figure.text, tolerance]), [
      ['BL.utilisation', { relative: 0.02, absolute: null }], ['web.fctS.p50', { relative: 0.1, absolute: 0.005 }], ['bulk.retransmits', { relative: null, absolute: 3 }],
    ]);
    assert.deepEqual(byDefault.figures, []);
  });

  it('holds an engine against published figures', () => {
    const [line] = parsed('  - published ~ sim: { source: results/a.json, tolerance: 10%, where: { workload: 4 long, flows: 4 }, names: { pfifo: drop-tail }, figures: { utilisation: BL.utilisation } }') as unknown as readonly [Published];
    assert.deepEqual([line.engine, line.source, line.tolerance, line.where, line.names, line.figures['utilisation']!.field], ['sim', 'results/a.json', { relative: 0.1, absolute: null }, { workload: '4 long', flows: '4' }, { pfifo: 'drop-tail' }, 'utilisation']);
  });

  it('that is wrong is named with its line and what would be accepted, before anything runs', () => {
    for (const [line, words] of [
      ['BL.utilisaton >= 0.95', /no figure "utilisaton" of BL; did you mean "utilisation"\?/],
      ['BL.queueDelayMs.p98 <= 20ms', /did you mean "queueDelayMs.p9[59]"\?/],
      ['BK.utilisation >= 0.95', /no bottleneck, traffic class or probe "BK".*did you mean "BL"\? expected a figure of BL, bulk, web, ping/],
      ['BL.reverse.utilisation >= 0.95', /no figure "reverse.utilisation" of BL/], // the reverse has no rate
      ['ping.lossRatio < 1%', /"ping.lossRatio" may be classes.ping.lossRatio or probes.ping.lossRatio/],
      ['BL.queueDelayMs.p99 <= 20', /"20" is not accepted for BL.queueDelayMs.p99; expected a time such as 20ms/],
      ['BL.queueDelayMs.p99 <= 20mbit', /expected a time/],
      ['bulk.goodputBps >= 5ms', /expected a rate such as 19mbit/],
      ['BL.utilisation >= high', /expected a number such as 0.95, or 95%/],
      ['BL.utilisation >= 1e999', /expected a number/],
      ['BL.utilisation', /expected a comparison such as/],
      ['>= 3', /no bottleneck, traffic class or probe ""/],
      ['sim ~ sim', /expected a comparison such as .* or two of sim, kernel and published/],
      ['published ~ sim', /has no source; expected source: a JSON file/],
    ] as const) {
      const said = mistake(`  - ${JSON.stringify(line)}`);
      assert.match(said, words, line);
      assert.ok(said.startsWith(`x.yaml:${first + 1}: expect[0]`), said);
    }
    for (const [entry, words] of [
      ['{ sim ~ kernel: { BL.utilisation: much } }', /x.yaml:10: expect\[0\].*"much" is not accepted as the tolerance of BL.utilisation; expected a percentage/],
      ['{ sim ~ kernel: { BL.use: 2% } }', /no figure "use" of BL/],
      ['{ sim ~ kernel: {} }', /has no figure/],
      ['{ sim ~ kernel: 2% }', /"2%" is not accepted; expected a map/],
      ['{ simulator ~ kernel: { BL.utilisation: 2% } }', /expected two of sim, kernel and published/],
      ['{ published ~ sim: { sorce: a } }', /unknown key "sorce"; did you mean "source"\?/],
      ['{ published ~ sim: { source: a, tolerance: 3ms, figures: { x: BL.utilisation } } }', /"3ms" is not accepted; expected a percentage/],
      ['{ published ~ sim: { source: a, figures: { x: BL.use } } }', /no figure "use"/],
      ['{ published ~ sim: { source: a } }', /has no figures/],
    ] as const) assert.match(mistake(`  - ${entry}`), words, entry);
    assert.match(mistake('  - BL.utilisation >= 0.95\n  - BL.x >= 1\n  - BL.y >= 1'), /x.yaml:11: expect\[1\].*"x".*\nx.yaml:12: expect\[2\].*"y"/s);
  });

  it('is checked for every combination of varied values', () => {
    assert.match(mistake('  - BL.utilisation >= 0.9\nvary: { topology.links.BL.rate.forward: [20mbit, none] }'), /"BL"|a queue needs a rate/);
  });
});

describe('values and tolerances', () => {
  it('of any text are either read or refused', () => {
    const unit = fc.constantFrom('ms', 's', 'bit/s', 'ratio', 'index', 'bytes', 'packets', 'count') as fc.Arbitrary<Parameters<typeof parseValue>[1]>;
    const some = fc.oneof(fc.string(), fc.double().map((value) => `${value}ms`), fc.double().map((value) => `${value}%`), fc.constantFrom('10% or 1ms', 'or', '% or %', '1e400s', '1ms or 1ms', '-5%', '∞', '1ms or 10% or 2ms'));
    fc.assert(fc.property(some, unit, (written, of) => {
      const value = parseValue(written, of);
      assert.ok(value === undefined || Number.isFinite(value), written);
      const tolerance = parseTolerance(written, of);
      assert.ok(tolerance === undefined || [tolerance.relative, tolerance.absolute].every((part) => part === null || (part >= 0 && Number.isFinite(part))), written);
    }), { numRuns: 2000, seed: 1 });
    assert.deepEqual([parseTolerance('1ms or 10%', 'ms'), parseTolerance('10% or 20%', 'ms'), parseTolerance('-1%', 'ms'), parseTolerance('', 'ms')], [{ relative: 0.1, absolute: 1 }, undefined, undefined, undefined]);
  });
});

describe('lists of expectations of any shape', () => {
  it('are answered only ever with a scenario or a ScenarioError that names a place', () => {
    const word = fc.constantFrom('BL', 'BL.utilisation', 'sim', 'kernel', 'published', '~', '>=', '<=', '=', '0.95', '20ms', '2%', 'source', 'figures', 'where', '__proto__', 'constructor', 'web.fctS.p50', '.', ' ', '', 'classes.BL.x', 'toString');
    const phrase = fc.array(word, { maxLength: 5 }).map((words) => words.join(' '));
    const scalar = fc.oneof(phrase, fc.integer(), fc.boolean(), fc.constant(null));
    const entry = fc.oneof(phrase, fc.dictionary(fc.oneof(phrase, fc.constantFrom('sim ~ kernel', 'published ~ sim', 'kernel ~ published')), fc.oneof(scalar, fc.dictionary(word, fc.oneof(scalar, fc.dictionary(word, scalar)))), { maxKeys: 2 }), scalar);
    fc.assert(fc.property(fc.array(entry, { maxLength: 4 }), (list) => {
      try {
        loadText(dumbbellText({ more: `expect: ${JSON.stringify(list)}` }), 'x.yaml');
      } catch (error) {
        if (!(error instanceof ScenarioError)) throw error;
        for (const { message, field } of error.problems) assert.ok(message.length > 0 && field.startsWith('expect'), `${field}: ${message}`);
      }
    }), { numRuns: 300, seed: 2 });
  });
});
