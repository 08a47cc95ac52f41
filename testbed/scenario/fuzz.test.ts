import * as assert from 'node:assert/strict';
import * as fs from 'node:fs';
import fc from 'fast-check';
import { ScenarioError } from '../errors.js';
import { compile } from '../plan/compile.js';
import { parse, stringify } from 'yaml';
import { simulatorRules } from '../../simulator/rules.js';
import { at, cloneData, isMap, type Data } from './data.js';
import { loadText } from './load.js';
import type { Path } from './problem.js';

const corpus = fs.readdirSync('topologies').filter((name) => name.endsWith('.yaml')).map((name) => fs.readFileSync(`topologies/${name}`, 'utf8'));

const parsed = corpus.map((text) => parse(text) as Data);

/** Anything but a scenario or a ScenarioError whose problems stand on lines of the file fails the test. */
function survives(text: string, set: string[] = [], simulated = false): void {
  try {
    const scenario = loadText(text, 'fuzz.yaml', { set, ...(simulated ? { rules: simulatorRules } : {}) });
    const hosts = scenario.variants[0]!;
    // A plan of a scenario that was accepted may only fail by its number of flows.
    if ((hosts.measure?.duration ?? 0) <= 120e9) compile(scenario, { seed: 1 });
  } catch (error) {
    if (!(error instanceof ScenarioError)) throw error;
    assert.ok(error.problems.length > 0 && error.problems.length <= 50, `${error.problems.length} problems`);
    const lines = text.split(/\r\n|\n|\r/).length;
    for (const p of error.problems) {
      assert.ok(p.message.length > 0 && typeof p.field === 'string');
      if (p.file === 'fuzz.yaml') assert.ok(p.line !== null && p.line >= 1 && p.line <= lines, `${p.field}: line ${p.line} of ${lines}: ${p.message}`);
      else assert.ok(p.file.startsWith('--set '), p.file);
    }
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
    }), { numRuns: 250, seed: 2 });
  });

  it('answers --set with paths of any kind likewise', function () {
    this.timeout(120_000);
    const piece = fc.constantFrom('topology', 'links', 'hosts', 'BL', 'S', 'D', 'traffic', 'bulk', 'probes', 'ping', 'measure', 'seeds', '[0]', '[7]', 'vary', 'queue', 'events', 'at', 'set BL.rate', 'collect', 'tcp', 'sysctls', 'expect', 'rate', 'forward', 'kind', 'from', 'between', 'constructor', '__proto__', 'length', '0', '*', '[', ' ');
    const path = fc.array(piece, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('.').replaceAll('.[', '['));
    const value = fc.oneof(nasty, fc.constantFrom('{ kind: red, min: 20p }', '[S[0], D[1]]', '&a [*a]', '{ <<: { a: 1 } }', '{ forward: null }', '[[]]', '[BL.utilisation > 0.5]', '[{ at: 1s, set BL.rate: 5mbit }]'), fc.json({ maxDepth: 2 }));
    const text = corpus.find((each) => each.includes('name: dumbbell'))!;
    fc.assert(fc.property(fc.array(fc.tuple(path, value), { minLength: 1, maxLength: 3 }), fc.boolean(), (settings, simulated) => {
      survives(text, settings.map(([where, what]) => `${where}=${what}`), simulated);
    }), { numRuns: 300, seed: 5 });
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

/** Ways to a value of the data: each map and list and what is in it. */
function everyPath(data: Data, path: Path = []): Path[] {
  if (Array.isArray(data)) return [path, ...data.flatMap((item, i) => everyPath(item, [...path, i]))];
  if (isMap(data)) return [path, ...Object.keys(data).flatMap((key) => everyPath(data[key]!, [...path, key]))];
  return [path];
}

/** What replaces a value, keeps its place or moves it. */
const oddValue: fc.Arbitrary<unknown> = fc.constantFrom<unknown>(
  null, true, 0, -1, 1.5, 1e9, 1e21, '', 'none', 'S', 'R1', 'BL', 'X', '0s', '5', '-5ms', '5ms', '9999h', '20mbit', '0mbit', '1e3tbit', '20p', '0p', '99999999999p', '60kB', '-1B', 'S[0..999999]', 'S[3..1]', 'codel', 'codell', 'drr', 'raw',
  'uniform(5s, 1s)', 'poisson(1e9/s)', 'every 0s', 'constructor', '__proto__', 'x'.repeat(999), [], [[]], {}, [null], { kind: 'red', min: '60p', max: '20p' }, { kind: 'red', min: '20p', max: '60p', burst: 3 }, { kind: 'codel', target: null },
  { kind: 'fq_codel', quantum: 0, flows: 1e9 }, { kind: 'ared', target: '9s', limit: '5p' }, { tc: [] }, { tc: 'root netem' }, { tc: ['netem', 5] }, { forward: '20mbit', reverse: 5 }, { forward: { kind: 'pie' } }, { rate: '20mbit', forward: 1 },
  { at: '5s', 'set BL.jitter': '5ms' }, { at: '5s', 'set BL.queue': { target: null } }, { between: ['R1', 'R1'] }, { between: ['R1', 'R9'], rate: 'x' }, { count: 1e9, at: 'R1' }, { kind: 'bulk', from: 'S', to: 'S' },
);
type Mutation = { readonly at: number; readonly how: 'replace' | 'drop' | 'rename' | 'double' | 'copy' | 'add'; readonly value: unknown; readonly other: number; readonly key: string };
const mutation: fc.Arbitrary<Mutation> = fc.record({
  at: fc.nat(), how: fc.constantFrom('replace', 'replace', 'drop', 'rename', 'double', 'copy', 'add'), value: fc.oneof(oddValue, fc.json({ maxDepth: 2 }).map((text) => JSON.parse(text) as unknown)), other: fc.nat(),
  key: fc.constantFrom('kind', 'rate', 'queue', 'delay', 'jitter', 'quue', 'at', 'count', 'R1', 'S', 'BL', 'forward', 'toString', 'set BL.rate', 'set BL.queue', 'set S[0].delay', 'set X.y', 'topology.links.BL.rate', 'name', 'events', 'vary'),
});

/** One change of structure or value. */
function mutate(data: Data, { at: n, how, value, other, key }: Mutation): Data {
  const root = cloneData(data);
  const paths = everyPath(root);
  const path = paths[n % paths.length]!;
  const given = how === 'copy' ? cloneData(at(root, paths[other % paths.length]!) ?? null) : (value as Data);
  if (path.length === 0) return root;
  const holder = at(root, path.slice(0, -1));
  const last = path.at(-1)!;
  const place = at(root, path);
  if (Array.isArray(holder) && typeof last === 'number') {
    if (how === 'drop') holder.splice(last, 1);
    else if (how === 'double') holder.push(cloneData(holder[last]!));
    else if (how === 'add' && isMap(place)) place[key] = given;
    else holder[last] = given;
  } else if (isMap(holder)) {
    const own = holder[String(last)]!;
    if (how === 'drop') delete holder[String(last)];
    else if (how === 'rename') { delete holder[String(last)]; holder[key] = own; }
    else if (how === 'double') holder[`${String(last)}x`] = cloneData(own);
    else if (how === 'add' && isMap(place)) place[key] = given;
    else holder[String(last)] = given;
  }
  return root;
}

function mutateAt(data: Data, path: Path, value: Data): Data {
  const root = cloneData(data);
  const holder = at(root, path.slice(0, -1));
  assert.ok(isMap(holder));
  holder[String(path.at(-1))] = value;
  return root;
}
function problemsOf(text: string): string[] {
  try {
    loadText(text, 'fuzz.yaml');
    return [];
  } catch (error) {
    if (!(error instanceof ScenarioError)) throw error;
    return error.problems.map((p) => `${p.field}: ${p.message}`);
  }
}

describe('the loader, given scenarios with wrong values and structure', () => {
  it('names every mistake on a line of the file, at most fifty, whichever engine is to run it', function () {
    this.timeout(120_000);
    fc.assert(fc.property(fc.constantFrom(...parsed), fc.array(mutation, { minLength: 1, maxLength: 6 }), fc.boolean(), (data, mutations, simulated) => {
      const text = stringify(mutations.reduce(mutate, data), { aliasDuplicateObjects: false });
      survives(text, [], simulated);
    }), { numRuns: 500, seed: 4 });
  });

  it('tells with one mistake more never less than without it', function () {
    this.timeout(120_000);
    const broken = parsed.find((data) => isMap(data) && data['name'] === 'dumbbell')!;
    // Far from each other: neither can hide or cause the other.
    const first = problemsOf(stringify(mutateAt(broken, ['measure', 'duration'], '5')));
    const second = problemsOf(stringify(mutateAt(broken, ['topology', 'routers'], ['R1', 'R2', 'R3'])));
    const both = problemsOf(stringify(mutateAt(mutateAt(broken, ['measure', 'duration'], '5'), ['topology', 'routers'], ['R1', 'R2', 'R3'])));
    assert.ok(first.length > 0 && second.length > 0);
    assert.deepEqual(both.toSorted(), [...first, ...second].toSorted());
  });
});
