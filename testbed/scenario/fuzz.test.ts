import * as assert from 'node:assert/strict';
import * as fs from 'node:fs';
import fc from 'fast-check';
import { ScenarioError } from '../errors.js';
import { compile } from '../plan/compile.js';
import { loadText } from './load.js';

const corpus = fs.readdirSync('topologies').filter((name) => name.endsWith('.yaml')).map((name) => fs.readFileSync(`topologies/${name}`, 'utf8'));

/** Anything but a scenario or a ScenarioError fails the test. */
function survives(text: string, set: string[] = []): void {
  try {
    const scenario = loadText(text, 'fuzz.yaml', { set });
    const hosts = scenario.variants[0]!;
    // A plan of a scenario that was accepted may only fail by its number of flows.
    if ((hosts.measure?.duration ?? 0) <= 120e9) compile(scenario, { seed: 1 });
  } catch (error) {
    if (!(error instanceof ScenarioError)) throw error;
    assert.ok(error.problems.length > 0);
    for (const p of error.problems) assert.ok(p.message.length > 0 && typeof p.field === 'string');
  }
}

const nasty = fc.constantFrom('', '[', ']', '{', '}', ':', '- ', '\t', '*a', '&a ', '!!set', '|', '>', '"', "'", '0', '-1', '1e999', '.inf', '.nan', 'null', '~', '__proto__', 'constructor', 'toString', '20mbit', 'uniform(1s, 2s)', 'uniform(', 'S[0..999999]', 'S1[', 'R1', '\u0000', '\uE001', '\n', '  ', '---', '#', ',', 'poisson(1e308/s)', 'poisson(5/h)', '{ kind: red }', 'none', '999999999', '9e15', '"\\ud800"', '<<', '<<: *a', '? ');

describe('the loader, given broken files', () => {
  it('answers mutated scenarios only ever with a scenario or a ScenarioError', function () {
    this.timeout(120_000);
    const mutation = fc.record({ at: fc.nat(), length: fc.nat(12), text: fc.oneof(nasty, fc.string({ maxLength: 8 }), fc.string({ unit: 'grapheme', maxLength: 4 })) });
    fc.assert(fc.property(fc.constantFrom(...corpus), fc.array(mutation, { minLength: 1, maxLength: 4 }), (text, mutations) => {
      for (const m of mutations) {
        const at = m.at % (text.length + 1);
        text = text.slice(0, at) + m.text + text.slice(at + m.length);
      }
      survives(text);
    }), { numRuns: 400, seed: 1 });
  });

  it('answers values of any shape in any place likewise', function () {
    this.timeout(120_000);
    const paths = ['name', 'topology', 'topology.routers', 'topology.links', 'topology.links.BL1', 'topology.links.BL1.between', 'topology.links.BL1.queue', 'topology.links.BL1.rate', 'topology.hosts', 'topology.hosts.S1', 'topology.hosts.S1.count', 'traffic', 'traffic.long', 'traffic.long.from', 'traffic.long.rtt', 'traffic.web.arrival', 'traffic.web.size', 'probes', 'probes.ping.interval', 'measure', 'seeds', 'vary', 'vary.queue', 'events', 'collect', 'tcp', 'tcp.sysctls', 'expect', 'queue'];
    const value = fc.oneof(fc.json({ maxDepth: 3 }), nasty, fc.double().map(String), fc.string());
    fc.assert(fc.property(fc.constantFrom(...paths), value, fc.constantFrom(...paths), value, (p, v, q, w) => {
      survives(corpus.find((text) => text.includes('name: parking-lot'))!, [`${p}=${v}`, `${q}=${w}`]);
    }), { numRuns: 400, seed: 2 });
  });

  it('answers any text likewise', function () {
    this.timeout(60_000);
    fc.assert(fc.property(fc.array(fc.oneof(nasty, fc.string({ maxLength: 5 })), { maxLength: 40 }).map((parts) => parts.join('')), (text) => survives(text)), { numRuns: 400, seed: 3 });
  });

  it('answers text that is made to take long', function () {
    this.timeout(120_000);
    const n = 20_000;
    const long = (unit: string): string => unit.repeat(Math.floor(n / unit.length));
    const start = 'name: t\ntopology:\n  routers: [R1]\n  hosts: { S: { count: 4000, at: R1 } }\n';
    for (const text of [
      long('a'), long('1'), `name: ${long('1')}`, `rate: ${long('1')}!`, long('a['), long('a('), long('a: '), long('? '), long('- '), long('[a]'), long('{a: 1}, '), long('"'), long("'"), long('&a '), long('*a '), long('\n '), long('\t'), long('a:\n'), long('a: b\n'),
      `x: [${long('1, ')}1]`, `x: [${long('{}, ')}1]`, `a: &a 1\nb: [${long('*a, ')}1]`, Array.from({ length: 600 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'),
      `${start}traffic:\n  a: { kind: bulk, to: S, from: [${Array(1000).fill('S').join(', ')}] }\n`,
      `${start}traffic:\n${Array.from({ length: 2000 }, (_, i) => `  c${i}: { kind: bulk, from: S, to: S }`).join('\n')}\n`,
      `${start}traffic:\n${Array.from({ length: 60 }, (_, i) => `  c${i}: { kind: cbr, rate: 1mbit, flows: 10000, from: S, to: "S[0]" }`).join('\n')}\n`,
      ...['1', ' ', '1.', '1e', 's'].map((unit) => `${start}measure: { warmup: "${unit.repeat(Math.floor(990 / unit.length))}!" }\n`),
    ]) survives(text);
  });
});
