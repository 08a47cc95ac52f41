import * as assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { ScenarioError } from '../errors.js';
import { simulatorRules } from '../../simulator/rules.js';
import { temporaryFolder } from '../testing/temporary-folder.js';
import { load, loadText } from './load.js';

const example = fs.readFileSync('topologies/parking-lot.yaml', 'utf8');

/** A complete scenario, to break one thing at a time. */
const good = `name: t
topology:
  routers: [R1, R2]
  links:
    BL: { between: [R1, R2], rate: 20mbit, queue: codel }
  hosts:
    S: { count: 4, at: R1 }
    D: { count: 4, at: R2 }
traffic:
  bulk: { kind: bulk, from: S, to: D, rtt: 50ms }
`;

function problemsOf(text: string, set: string[] = []): readonly { file: string; line: number | null; field: string; message: string }[] {
  try {
    loadText(text, 'x.yaml', { set });
  } catch (error) {
    if (error instanceof ScenarioError) return error.problems;
    throw error;
  }
  throw new assert.AssertionError({ message: 'the scenario was accepted' });
}

/** Exactly one mistake, at this line and field, saying this. */
function refused(text: string, line: number | null, field: string, message: RegExp, set: string[] = []): void {
  const problems = problemsOf(text, set);
  assert.equal(problems.length, 1, JSON.stringify(problems, null, 1));
  assert.equal(problems[0]!.line, line, problems[0]!.message);
  assert.equal(problems[0]!.field, field);
  assert.match(problems[0]!.message, message);
}
const replaced = (from: string, to: string): string => {
  assert.ok(good.includes(from), from);
  return good.replace(from, to);
};
const link = (fields: string): string => replaced('rate: 20mbit, queue: codel', fields);
const bulk = (fields: string): string => replaced('from: S, to: D, rtt: 50ms', fields);

describe('loading a scenario', () => {
  it('reads the example of the parking lot as it stands, with every varied queue', () => {
    const scenario = load('topologies/parking-lot.yaml');
    assert.equal(scenario.name, 'parking-lot');
    assert.deepEqual(scenario.seeds, [1, 2, 3]);
    assert.deepEqual(scenario.variants.map((v) => v.varied), [{ queue: 'pfifo' }, { queue: 'red' }, { queue: 'codel' }, { queue: 'fq_codel' }]);
    for (const variant of scenario.variants) {
      for (const name of ['BL1', 'BL2']) assert.equal(variant.topology.links![name]!.queue!.forward!.kind, variant.varied['queue']);
    }
    assert.deepEqual(scenario.variants[0]!.traffic!['long']!.from, [{ group: 'S1', first: 0, last: 1, text: 'S1[0..1]' }]);
    assert.deepEqual(scenario.variants[0]!.traffic!['long']!.start, { kind: 'uniform', min: 0, max: 1e9 });
    // Inside { … } plain YAML wants quotes; we do not.
    const unquoted = example.replaceAll('"', '');
    assert.match(unquoted, /from: S1\[0\.\.1\], to: D3\[0\.\.1\], .* start: uniform\(0s, 1s\) }/);
    assert.deepEqual(loadText(unquoted, 'x.yaml').variants, scenario.variants);
  });

  it('takes the product of several varied keys, the last changing fastest', () => {
    const scenario = loadText(`${good}vary:\n  queue: [codel, pie]\n  topology.links.BL.rate: [5mbit, 20mbit]\n`, 'x.yaml');
    assert.deepEqual(scenario.variants.map((v) => Object.values(v.varied).join(' ')), ['codel 5mbit', 'codel 20mbit', 'pie 5mbit', 'pie 20mbit']);
    assert.equal(scenario.variants[2]!.topology.links!['BL']!.rate!.forward, 5e6);
  });

  it('changes several values together where one key of vary names them all', () => {
    const scenario = loadText(`${good}vary:\n  topology.links.BL.rate, measure.duration: [[5mbit, 20s], [20mbit, 20s], [20mbit, 5s]]\n  traffic.bulk.cc: [reno, cubic]\n`, 'x.yaml');
    assert.deepEqual(scenario.variants.map((v) => Object.values(v.varied).join(' ')), ['5mbit 20s reno', '5mbit 20s cubic', '20mbit 20s reno', '20mbit 20s cubic', '20mbit 5s reno', '20mbit 5s cubic']);
    assert.deepEqual(Object.keys(scenario.variants[0]!.varied), ['topology.links.BL.rate', 'measure.duration', 'traffic.bulk.cc']);
    assert.deepEqual([scenario.variants[4]!.topology.links!['BL']!.rate!.forward, scenario.variants[4]!.measure!.duration], [20e6, 5e9]);
  });

  it('tells two varied values of one kind apart by their parameters', () => {
    const scenario = loadText(`${good}vary: { queue: [codel, { kind: pfifo, limit: 10p }, { kind: pfifo, limit: 20p }] }\n`, 'x.yaml');
    assert.deepEqual(scenario.variants.map((v) => v.varied['queue']), ['codel', 'pfifo(limit=10p)', 'pfifo(limit=20p)']);
  });

  it('keeps one value for both directions and a value a direction apart', () => {
    const fields = loadText(link('rate: { forward: 20mbit, reverse: none }, queue: codel, delay: 5ms, loss: { reverse: 1% }'), 'x.yaml').variants[0]!.topology.links!['BL']!;
    assert.deepEqual(fields.rate, { forward: 20e6, reverse: null });
    assert.deepEqual(fields.delay, { forward: 5e6, reverse: 5e6 });
    assert.deepEqual(fields.loss, { forward: undefined, reverse: 0.01 });
  });

  it('takes raw words of tc as an argument list', () => {
    const queue = loadText(link('rate: 20mbit, queue: { tc: "netem limit 1000" }'), 'x.yaml').variants[0]!.topology.links!['BL']!.queue!.forward;
    assert.deepEqual(queue, { kind: 'raw', in: 'kernel', params: {}, tc: ['netem', 'limit', '1000'] });
  });

  it('keeps what is expected of the figures as it was written', () => {
    const scenario = loadText(`${good}expect:\n  - BL.utilisation >= 0.95\n  - sim ~ kernel: { BL.utilisation: 2% }\n`, 'x.yaml');
    assert.deepEqual(JSON.parse(JSON.stringify(scenario.variants[0]!.expect)), ['BL.utilisation >= 0.95', { 'sim ~ kernel': { 'BL.utilisation': '2%' } }]);
  });

  it('reads an event in both notations alike', () => {
    const long = loadText(`${good}events: [{ at: 20s, set: { BL.rate: 5mbit } }]\n`, 'x.yaml').variants[0]!.events![0]!;
    const short = loadText(`${good}events: [{ at: 20s, set BL.rate: 5mbit }]\n`, 'x.yaml').variants[0]!.events![0]!;
    assert.deepEqual(long.changes[0]!.value, short.changes[0]!.value);
    assert.deepEqual([short.atNs, short.changes[0]!.target, short.changes[0]!.field], [20e9, 'BL', 'rate']);
  });
});

describe('a mistake in a scenario is named with its line, field, value and what would be accepted', () => {
  it('an unknown key, with the nearest known one', () => {
    refused(link('rate: 20mbit, quue: codel'), 5, 'topology.links.BL.quue', /unknown key "quue"; did you mean "queue"\? expected .*rate/);
    refused(good.replace('topology:', 'topologi:'), 2, 'topologi', /unknown key "topologi"; did you mean "topology"\?/);
  });
  it('a wrong unit', () => refused(link('rate: 20mbits'), 5, 'topology.links.BL.rate', /"20mbits" is not accepted; expected a rate .*20mbit/));
  it('a number without a unit', () => refused(link('rate: 20'), 5, 'topology.links.BL.rate', /^20 is not accepted; expected a rate/));
  it('a rate of 0', () => refused(link('rate: 0mbit'), 5, 'topology.links.BL.rate', /"0mbit" is not accepted; expected a rate from 1kbit/));
  it('a negative time', () => refused(bulk('from: S, to: D, rtt: -50ms'), 10, 'traffic.bulk.rtt', /"-50ms" is not accepted; expected a time/));
  it('a host that is not there', () => refused(bulk('from: T, to: D'), 10, 'traffic.bulk.from', /there is no host "T"; .*expected S, D/));
  it('a router where a host is expected', () => refused(bulk('from: R1, to: D'), 10, 'traffic.bulk.from', /R1 is a router/));
  it('an index beyond the count', () => refused(bulk('from: S[9], to: D[0]'), 10, 'traffic.bulk.from', /S\[9\]: there are 4 hosts S; expected S\[0\] to S\[3\]/));
  it('a range that counts backwards', () => refused(bulk('from: S[3..1], to: D[0]'), 10, 'traffic.bulk.from', /expected S\[1\.\.3\]/));
  it('an index of a single host', () => refused(good.replace('S: { count: 4, at: R1 }', 'S: { at: R1 }').replace('from: S', 'from: S[0]'), 10, 'traffic.bulk.from', /S is a single host; expected S/));
  it('lists that do not pair, with both lengths', () => refused(bulk('from: S[0..2], to: D[0..1]'), 10, 'traffic.bulk.to', /2 hosts in to, 3 hosts in from/));
  it('a host that would send to itself', () => refused(bulk('from: S[0], to: S[0]'), 10, 'traffic.bulk.to', /S\[0\] would send to itself/));
  it('a cycle of links, naming the loop', () => {
    const text = good.replace('[R1, R2]\n', '[R1, R2, R3]\n').replace('  hosts:', '    B2: { between: [R2, R3] }\n    B3: { between: [R3, R1] }\n  hosts:');
    refused(text, 7, 'topology.links.B3.between', /closes a cycle: R3 – R1 – R2 – R3 \(with BL, B2\)/);
  });
  it('two links between the same routers', () => refused(good.replace('  hosts:', '    B2: { between: [R2, R1] }\n  hosts:'), 6, 'topology.links.B2.between', /cycle: R2 – R1 – R2/));
  it('routers that are not joined', () => refused(good.replace('[R1, R2]\n', '[R1, R2, R3]\n'), 3, 'topology.routers', /R3 is not joined with R1/));
  it('a way longer than the TTL of Linux, and not one router less', () => {
    const chain = (n: number): string => {
      const names = Array.from({ length: n }, (_, i) => `R${i + 1}`);
      const links = names.slice(1).map((name, i) => `    L${i}: { between: [R${i + 1}, ${name}] }\n`).join('');
      return good.replace('[R1, R2]\n', `[${names.join(', ')}]\n`).replace(/ {4}BL:.*\n/, links).replace(/at: R2/g, `at: R${n}`);
    };
    refused(chain(64), 4 + 63 + 5, 'traffic.bulk', /64 routers lie between S\[0\] and D\[0\]; expected at most 63/);
    loadText(chain(63), 'x.yaml');
  });
  it('a link to a router that is not there', () => refused(good.replace('between: [R1, R2]', 'between: [R1, R9]'), 5, 'topology.links.BL.between[1]', /there is no router "R9"; did you mean "R1"/));
  it('two links of one name', () => refused(good.replace('  hosts:', '    BL: { between: [R1, R2] }\n  hosts:'), 6, 'topology.links.BL', /two entries named "BL", the first on line 5/));
  it('one name for a host and a link', () => refused(good.replace(/BL:/, 'S:'), 7, 'topology.hosts.S', /the name "S" is also that of a link/));
  it('10 000 hosts, before they are made', () => refused(good.replace('S: { count: 4', 'S: { count: 10000').replace('from: S', 'from: S[0..3]'), 7, 'topology.hosts.S.count', /10004 hosts in all are too many; expected at most 4000/));
  it('a count of 0 or 1.5', () => {
    refused(good.replace('S: { count: 4', 'S: { count: 0').replace('from: S', 'from: D[0]').replace('to: D', 'to: D[1]'), 7, 'topology.hosts.S.count', /0 is not accepted; expected a whole number from 1/);
    refused(good.replace('S: { count: 4', 'S: { count: 1.5'), 7, 'topology.hosts.S.count', /1\.5 is not accepted/);
  });
  it('a queue without a rate', () => refused(link('queue: codel'), 5, 'topology.links.BL.queue', /a queue needs a rate/));
  it('a queue discipline that does not exist', () => refused(link('rate: 20mbit, queue: codell'), 5, 'topology.links.BL.queue', /there is no queue discipline "codell"; did you mean "codel"/));
  it('a parameter the queue discipline lacks', () => refused(link('rate: 20mbit, queue: { kind: codel, targt: 5ms }'), 5, 'topology.links.BL.queue.targt', /unknown key "targt"; did you mean "target"/));
  it('a parameter with a wrong unit', () => refused(link('rate: 20mbit, queue: { kind: codel, target: 5mbit }'), 5, 'topology.links.BL.queue.target', /"5mbit" is not accepted; expected a time/));
  it('a parameter out of order with another', () => refused(link('rate: 20mbit, queue: { kind: red, min: 60p, max: 20p }'), 5, 'topology.links.BL.queue.min', /"60p" is not accepted; expected min below max/));
  it('words of tc that are not words', () => refused(link('rate: 20mbit, queue: { tc: "netem; rm -rf /" }'), 5, 'topology.links.BL.queue.tc', /expected tc's words/));
  it('two round-trip times for one pair', () => {
    refused(`${good}  other: { kind: short, from: D[0], to: S[0], arrival: every 1s, size: 1kB, rtt: 60ms }\n`, 11, 'traffic.other.rtt', /60ms for D\[0\] and S\[0\], which have 50ms by traffic\.bulk\.rtt/);
  });
  it('a round-trip time below the delays of the path', () => refused(link('rate: 20mbit, delay: 30ms'), 10, 'traffic.bulk.rtt', /50ms is less than the delays between S\[0\] and D\[0\] and back, 60ms/));
  it('more different delays than one host can make', () => {
    const text = `${good.replace('S: { count: 4', 'S: { count: 20').replace('D: { count: 4', 'D: { count: 1')}`.replace('rtt: 50ms', 'rtt: uniform(45ms, 55ms)');
    refused(text, 10, 'traffic.bulk.rtt', /D\[0\] would need 20 different delays towards its peers; expected at most 15/);
  });
  it('a window of no length, or of years', () => {
    refused(`${good}measure: { duration: 0s }\n`, 11, 'measure.duration', /"0s" is not accepted; expected a time from 1ms to 24h/);
    refused(`${good}measure: { warmup: 9999h }\n`, 11, 'measure.warmup', /expected a time of at most 24h/);
  });
  it('a seed twice', () => refused(`${good}seeds: [1, 2, 1]\n`, 11, 'seeds[2]', /the seed 1 is there twice/));
  it('no seed, and a seed that is none', () => {
    refused(`${good}seeds: []\n`, 11, 'seeds', /expected a list of seeds/);
    refused(`${good}seeds: [-1]\n`, 11, 'seeds[0]', /expected whole numbers from 0/);
  });
  it('a tool that does not exist, or cannot send this', () => {
    refused(bulk('from: S, to: D, tool: iperf'), 10, 'traffic.bulk.tool', /there is no tool "iperf"; did you mean "iperf3"/);
    refused(good.replace('kind: bulk, from: S, to: D, rtt: 50ms', 'kind: short, from: S, to: D, arrival: every 1s, size: 1kB, tool: iperf3'), 10, 'traffic.bulk.tool', /iperf3 cannot send short; expected builtin/);
  });
  it('a kind of traffic that does not exist', () => refused(good.replace('kind: bulk', 'kind: bulky'), 10, 'traffic.bulk.kind', /"bulky" is not accepted; did you mean "bulk"\? expected bulk, short, web, chunks, cbr, onoff/));
  it('a missing key', () => refused(bulk('from: S'), 10, 'traffic.bulk.to', /is missing; expected hosts such as/));
  it('a packet that does not fit the MTU', () => refused(`${good}probes:\n  p: { from: S[0], to: D[0], size: 2kB }\n`, 12, 'probes.p.size', /2000 bytes does not fit the MTU of 1500/));
  it('an MTU too small for IPv6', () => refused(link('rate: 20mbit, mtu: 1000').replace('topology:\n', 'topology:\n  ip: 6\n'), 6, 'topology.links.BL.mtu', /too small for IPv6/));
  it('ECN of one host switched both ways', () => refused(`${good}  marked: { kind: bulk, from: S[1], to: D[2], ecn: true }\n`, 11, 'traffic.marked.ecn', /S\[1\] also sends "bulk" without ECN/));
  it('an event on a link that is not there, on a field that is not, after the end', () => {
    refused(`${good}events: [{ at: 5s, set B.rate: 5mbit }]\n`, 11, 'events[0].set B.rate', /there is no link or host "B"; did you mean "BL"/);
    refused(`${good}events: [{ at: 5s, set BL.rat: 5mbit }]\n`, 11, 'events[0].set BL.rat', /did you mean "rate"/);
    refused(`${good}events: [{ at: 500s, set BL.rate: 5mbit }]\n`, 11, 'events[0].at', /500s is not before the end of the run at 70s/);
    refused(`${good}events: [{ at: 5s, set BL.rate: 5mbi }]\n`, 11, 'events[0].set BL.rate', /"5mbi" is not accepted; expected a rate/);
    refused(`${good}events: [{ at: 5s, set BL.queue: pie }]\n`, 11, 'events[0].set BL.queue', /the queue is codel and cannot become pie/);
    refused(`${good}events: [{ at: 5s, sett: 1 }]\n`, 11, 'events[0].sett', /unknown key "sett"; did you mean "set"/);
  });
  it('a varied key or value that does not fit, on the line of the value', () => {
    refused(`${good}vary:\n  queue:\n    - codel\n    - codull\n`, 14, 'vary.queue[1]', /there is no queue discipline "codull"/);
    refused(`${good}vary:\n  queue: [codel, { kind: codel, limt: 5p }]\n`, 12, 'vary.queue[1].limt', /did you mean "limit"/);
    refused(`${good}vary:\n  topology.links.BK.rate: [1mbit]\n`, 12, 'vary.topology.links.BK.rate', /there is no topology\.links\.BK; did you mean "BL"/);
    refused(`${good}vary:\n  queue: [codel, codel]\n`, 12, 'vary.queue[1]', /there twice/);
    refused(`${good}vary:\n  seeds: [[1], [2]]\n`, 12, 'vary.seeds', /cannot be varied/);
    refused(`${good}vary:\n  topology.links.BL.rate, measure.duration:\n    - [5mbit, 20s]\n    - [5mbit]\n`, 14, 'vary.topology.links.BL.rate, measure.duration[1]', /expected a list of 2 values, one for each of topology.links.BL.rate, measure.duration/);
    refused(`${good}vary:\n  topology.links.BL.rate, measure.duration:\n    - [5mbit, 20s]\n    - [5mbit, x]\n`, 14, 'vary.topology.links.BL.rate, measure.duration[1][1]', /"x" is not accepted; expected a time/);
    refused(`${good}vary:\n  queue: codel\n`, 12, 'vary.queue', /"codel" is not accepted; expected a list of values/);
  });
  it('several values that change together, each on its own place', () => {
    const both = 'topology.links.BL.rate, traffic.bulk.rtt';
    const scenario = loadText(`${good}vary:\n  ${both}: [[5mbit, 10ms], [50mbit, 20ms]]\n`, 'x.yaml');
    assert.deepEqual(scenario.variants.map((v) => Object.values(v.varied).join(' ')), ['5mbit 10ms', '50mbit 20ms']);
    refused(`${good}vary:\n  ${both}:\n    - [5mbit]\n    - [5mbit, 10ms]\n`, 13, `vary.${both}[0]`, /\["5mbit"\] is not accepted; expected a list of 2 values/);
    refused(`${good}vary:\n  ${both}:\n    - [5mbit, 10ms]\n    - [5mbit, 20]\n`, 14, `vary.${both}[1][1]`, /20 is not accepted; expected a time above 0/);
  });
  it('more combinations than anyone can mean', () => {
    const many = (n: number): string => `[${Array.from({ length: n }, (_, i) => `${i + 1}mbit`).join(', ')}]`;
    refused(`${good}vary:\n  topology.links.BL.rate: ${many(50)}\n  topology.hosts.S.rate: ${many(50)}\n`, 11, 'vary', /2500 combinations are too many; expected at most 1000/);
  });
  it('a name that could be taken for something else', () => {
    for (const name of ['"../x"', '"a b"', '"-x"', '"x;y"', `"${'x'.repeat(33)}"`, '"$(x)"', '"a.b"']) {
      const [problem] = problemsOf(good.replace('BL:', `${name}:`));
      assert.match(problem!.message, /the name .* is not accepted; expected a name of at most 32 letters/);
      assert.equal(problem!.line, 5);
    }
  });
  it('a sysctl that testbed itself must set', () => {
    assert.match(problemsOf(`${good}tcp: { sysctls: { net.ipv4.tcp_ecn: 1 } }\n`)[0]!.message, /net\.ipv4\.tcp_ecn.*expected ecn: of each traffic class/);
    assert.match(problemsOf(`${good}tcp: { sysctls: { kernel.panic: 1 } }\n`)[0]!.message, /expected a sysctl of TCP or IP/);
  });
  it('an event that would make what the topology may not be, at the moment it would', () => {
    const withDelay = link('rate: 20mbit, queue: codel, delay: 5ms');
    const event = (text: string, changes: string): string => `${text.replace(', rtt: 50ms', '')}events:\n${changes.split('\n').map((line) => `  - ${line}\n`).join('')}`;
    refused(event(withDelay, '{ at: 5s, set BL.jitter: 6ms }'), 12, 'events[0].set BL.jitter', /a jitter of 6ms on a delay of 5ms would need delays below 0/);
    refused(event(withDelay, '{ at: 5s, set BL.jitter: 5ms }\n{ at: 9s, set BL.delay: 1ms }'), 13, 'events[1].set BL.delay', /a jitter of 5ms on a delay of 1ms/);
    refused(event(good, '{ at: 5s, set BL.reorder: 1% }'), 12, 'events[0].set BL.reorder', /expected a delay beside it/);
    // Written first, but later: the delay is there by then.
    loadText(event(good, '{ at: 9s, set BL.jitter: 5ms }\n{ at: 5s, set BL.delay: 10ms }'), 'x.yaml');
    loadText(event(good, '{ at: 5s, set: { BL.jitter: 5ms, BL.delay: 10ms } }'), 'x.yaml');
    refused(event(good, '{ at: 5s, set BL.sideways.rate: 5mbit }'), 12, 'events[0].set BL.sideways.rate', /there is no direction "sideways" of BL; expected forward, reverse/);
    refused(event(good, '{ at: 5s, set S[4].rate: 5mbit }'), 12, 'events[0].set S[4].rate', /there are 4 hosts S; expected S\[0\] to S\[3\]/);
    refused(event(good, '{ at: 5s, set BL.queue: { target } }'), 12, 'events[0].set BL.queue', /the queue discipline of target is not said; expected .*kind: codel/);
    refused(event(good, '{ at: 5s, set BL.queue: { kind: codel, target: 5 } }'), 12, 'events[0].set BL.queue.target', /5 is not accepted; expected a time such as 5ms/);
    refused(event(good, '{ at: 5s, set BL.queue: { kind: codel, interval: 4ms } }'), 12, 'events[0].set BL.queue.interval', /"4ms" is not accepted; expected interval above target \(5ms by default\)/);
    const red = link('rate: 20mbit, queue: { kind: red, min: 20p, max: 60p }');
    refused(event(red, '{ at: 5s, set BL.queue: { kind: red, min: 60p } }'), 12, 'events[0].set BL.queue.min', /min \(90840 bytes\) must be below max \(90840 bytes\)/);
    refused(event(link('rate: 20mbit, queue: { kind: fq_codel, flows: 64 }'), '{ at: 5s, set BL.queue: { kind: fq_codel, flows: 128 } }'), 12, 'events[0].set BL.queue.flows', /flows of fq_codel cannot be changed while it runs/);
    refused(event(link('rate: 20mbit, queue: drr'), '{ at: 5s, set BL.queue: { kind: drr, quantum: 500 } }'), 12, 'events[0].set BL.queue', /drr consists of classes that cannot be changed/);
    refused(event(link('rate: 20mbit, queue: sfq'), '{ at: 5s, set BL.queue: { kind: sfq, limit: 50p } }'), 12, 'events[0].set BL.queue', /the kernel cannot change sfq while it runs; expected another queue discipline, or in: daemon/);
  });
  it('what only the making of a queue finds, in the file, in vary and in --set', () => {
    refused(link('rate: 20mbit, queue: { kind: red, min: 20p, max: 60p, burst: 3 }'), 5, 'topology.links.BL.queue.burst', /burst of 3 packets is too small .*at least 21/);
    refused(link('rate: 20mbit, queue: { reverse: { kind: codel, limit: 99999999999p } }'), 5, 'topology.links.BL.queue.reverse.limit', /does not fit the 32 bits/);
    refused(link('rate: 20mbit, queue: { kind: docsis-pie, peak_rate: 1mbit }'), 5, 'topology.links.BL.queue.peak_rate', /at least the link's rate/);
    refused(`${good}vary:\n  queue:\n    - codel\n    - { kind: choke, limit: 100p, min: 20p, max: 60p, burst: 3 }\n`, 14, 'vary.queue[1].burst', /burst of 3 packets is too small/);
    const [problem] = problemsOf(good, ['queue={kind: ared, target: 500ms, limit: 100p}']);
    assert.deepEqual([problem!.file, problem!.field], ['--set queue={kind: ared, target: 500ms, limit: 100p}', 'topology.links.BL.queue.target']);
  });
  it('parameters out of their range', () => {
    for (const [queue, message] of [
      ['{ kind: codel, target: 0s }', /expected a target of at least 1us/], ['{ kind: fq_codel, quantum: 0 }', /0 is not accepted; expected a size above 0/],
      ['{ kind: codel, target: 200ms }', /expected target below interval \(100ms by default\)/], ['{ kind: pie, tupdate: 9999s }', /expected a tupdate of at most 4294s/],
      ['{ kind: red, max: 60p, limit: 50p }', /"60p" is not accepted; expected max below limit \(50p\)/], ['{ kind: fq_codel, flows: 1000000000 }', /expected a whole number from 1 to 65536/],
    ] as const) assert.match(problemsOf(link(`rate: 20mbit, queue: ${queue}`)).map((p) => p.message).join('\n'), message, queue);
    refused(bulk('from: S, to: D, flows: 1000000000'), 10, 'traffic.bulk.flows', /1000000000 is not accepted; expected a whole number from 1 to 10000/);
    refused(`${good}seeds: [4294967296]\n`, 11, 'seeds[0]', /expected whole numbers from 0 to 4294967295/);
  });
  it('what the simulator has not, when that is to run it', () => {
    const inSimulator = (text: string): readonly { line: number | null; field: string; message: string }[] => {
      try {
        loadText(text, 'x.yaml', { rules: simulatorRules });
      } catch (error) {
        if (error instanceof ScenarioError) return error.problems;
        throw error;
      }
      return [];
    };
    for (const [text, line, field, message] of [
      [link('rate: 20mbit, queue: { tc: "netem limit 10" }'), 5, 'topology.links.BL.queue.tc', /the simulator has no tc/],
      [bulk('from: S, to: D, cc: cubik'), 10, 'traffic.bulk.cc', /did you mean "cubic"\? expected reno, cubic, bbr, dctcp/],
    ] as const) {
      loadText(text, 'x.yaml'); // a kernel may have it
      const [problem, ...more] = inSimulator(text);
      assert.deepEqual([problem?.line, problem?.field, more], [line, field, []]);
      assert.match(problem!.message, message);
    }
    assert.deepEqual(inSimulator(good), []);
  });
  it('words of tc that say where the queue stands, that are none, or no text', () => {
    const tc = (words: string, message: RegExp, field = 'topology.links.BL.queue.tc'): void => refused(link(`rate: 20mbit, queue: { tc: ${words} }`), 5, field, message);
    tc('[]', /there is no word/);
    tc('" "', /there is no word/);
    tc('"root netem"', /expected the name of the qdisc first/);
    tc('"netem limit 5 handle 7:"', /expected no handle: testbed says where the queue stands/);
    tc('[netem, limit, 5]', /5 is not accepted; expected each word as text/, 'topology.links.BL.queue.tc[2]');
    tc('"netem limit $(reboot)"', /"\$\(reboot\)" is none/);
  });
  it("TBF's buckets without TBF, too shallow for a packet, too deep for the kernel's numbers, or with a peak rate that is none", () => {
    refused(link('rate: 20mbit, burst: 30kB'), 5, 'topology.links.BL.burst', /expected shaper: tbf/);
    refused(link('rate: 20mbit, shaper: tbf, burst: 1kB'), 5, 'topology.links.BL.burst', /at least 1514B/);
    refused(link('rate: 20mbit, shaper: tbf, burst: 30kB, peakrate: 20mbit'), 5, 'topology.links.BL.peakrate', /more than 20mbit/);
    refused(`${link('rate: 20mbit, shaper: tbf, peakrate: 40mbit')}events: [{ at: 1s, set: { BL.rate: 50mbit } }]\n`, 11, 'events[0].set.BL.rate', /less than 40mbit/);
    // 32 bits of 64 ns, in which the kernel is told the burst: past them the encoder stops, before the run or at the event.
    refused(link('rate: { forward: 100mbit, reverse: 10mbit }, shaper: tbf, burst: 1GiB'), 5, 'topology.links.BL.burst', /takes 859 s at 10mbit, and TBF counts up to 274 s; expected at most 342500000B/);
    refused(`${link('rate: 100mbit, shaper: tbf, burst: 1GiB')}events: [{ at: 1s, set: { BL.rate: 10mbit } }]\n`, 11, 'events[0].set.BL.rate', /takes 859 s at 10mbit/);
  });
  it('one name for another, with the nearest', () => {
    refused(link('rate: 20mbit, shaper: htbb'), 5, 'topology.links.BL.shaper', /"htbb" is not accepted; did you mean "htb"\? expected htb, tbf/);
    refused(`${good}tcp: { model: clasic }\n`, 11, 'tcp.model', /did you mean "classic"/);
  });
  it('mistakes of every sort together: form, references, queues, events, vary and seeds', () => {
    const text = `name: t
topology:
  routers: [R1, R2]
  links:
    BL: { between: [R1, R9], rate: 20mbits, queue: { kind: red, min: 60p, max: 20p } }
    BM: { between: [R1, R2], rate: 20mbit, queue: { kind: red, min: 20p, max: 60p, burst: 3 } }
  hosts:
    S: { cout: 4, at: R1 }
    D: { count: 4, at: R3 }
traffic:
  bulk: { kind: bulk, from: S[3], to: D[9], rtt: 50 }
  b2: { kind: bulky, from: T, to: D[0] }
probes:
  p: { from: S[0], to: X }
seeds: [1, 1]
vary: { traffic.b4.cc: [reno] }
events:
  - { at: 5s, set BM.sideways.rate: 5mbit }
  - { at: 500s, set BM.rate: 5mbit }
  - { at: 5s, set BM.jitter: 5ms }
`;
    // S[3] and S[0] are not among them: with cout for count, nobody knows how many S there are.
    assert.deepEqual(problemsOf(text).map((p) => [p.line, p.field]), [
      [5, 'topology.links.BL.rate'], [5, 'topology.links.BL.queue.min'], [5, 'topology.links.BL.between[1]'], [6, 'topology.links.BM.queue.burst'], [8, 'topology.hosts.S.cout'], [9, 'topology.hosts.D.at'],
      [11, 'traffic.bulk.rtt'], [11, 'traffic.bulk.to'], [12, 'traffic.b2.kind'], [12, 'traffic.b2.from'], [14, 'probes.p.to'], [15, 'seeds[1]'], [16, 'vary.traffic.b4.cc'],
      [18, 'events[0].set BM.sideways.rate'], [19, 'events[1].at'], [20, 'events[2].set BM.jitter'],
    ]);
  });
  it('one mistake once: not what events and expectations make of a link, class or probe that could not be read', () => {
    const more = 'events:\n  - { at: 5s, set BL.rate: 5mbit }\nexpect: [BL.utilisation > 0.5, BL.reverse.lossRatio < 1%, classes.bulk.jain > 0.9, { sim ~ kernel: { BL.utilisation: 2% } }]\n';
    const broken = (from: string, to: string): string => `${replaced(from, to)}${more}`;
    refused(broken('20mbit', '0mbit'), 5, 'topology.links.BL.rate', /"0mbit" is not accepted/);
    refused(broken('between: [R1, R2]', 'between: [R1]'), 5, 'topology.links.BL.between', /two routers/);
    refused(broken('between: [R1, R2]', 'between: [R1, R1]'), 5, 'topology.links.BL.between', /joins R1 with itself/);
    refused(broken('between: [R1, R2]', 'between: [R1, R9]'), 5, 'topology.links.BL.between[1]', /there is no router "R9"/);
    refused(broken('routers: [R1, R2]', 'routers: R1'), 3, 'topology.routers', /names of routers/);
    refused(broken('routers: [R1, R2]', 'routers: [R1, R2, R2]'), 3, 'topology.routers[2]', /also that of a router/);
    refused(broken('bulk: { kind: bulk, from: S, to: D, rtt: 50ms }', 'bulk: iperf3'), 10, 'traffic.bulk', /"iperf3" is not accepted/);
    refused(`${good}vary: { queue: [pfifo, pie] }\nevents:\n  - { at: 5s, set BL.queue: fq_codel }\n`, 13, 'events[0].set BL.queue', /the queue is codel and cannot become fq_codel/);
    // With nothing hidden they are told.
    assert.deepEqual(problemsOf(broken('rate: 20mbit, queue: codel', 'delay: 1ms')).map((p) => p.field), ['events[0].set BL.rate', 'expect[0]', 'expect[1]', 'expect[3].sim ~ kernel.BL.utilisation']);
  });
  it('a value that should be a map or one of few words, with what it may hold', () => {
    refused(`${good}measure: 60s\n`, 11, 'measure', /^"60s" is not accepted; expected a map of warmup, duration$/);
    refused(`${good}collect: { packets: "yes" }\n`, 11, 'collect.packets', /expected true, false or auto$/);
    refused(link('rate: 20mbit, queue: 5'), 5, 'topology.links.BL.queue', /expected the name of a queue discipline, such as codel, or a map such as \{ kind: codel/);
    refused(`${good}events: { at: 5s }\n`, 11, 'events', /expected a list, such as \[\{ at: 20s/);
    refused(bulk('from: {}, to: D'), 10, 'traffic.bulk.from', /^\{\} is not accepted; expected hosts such as S1, S1\[0\], S1\[0..1\], or a list of these$/);
    refused(link('rate: 20mbit, queue: { kind: bfifo, limit: 99999999999 }'), 5, 'topology.links.BL.queue.limit', /^99999999999 does not fit the 32 bits/);
    refused(link('rate: 20mbit, queue: { kind: codel, target: 9999h }'), 5, 'topology.links.BL.queue.target', /at most 4294s/);
  });
  it('at most fifty, and how many more there are', () => {
    const classes = Array.from({ length: 80 }, (_, i) => `  c${i}: { kind: bulk, from: S, to: nowhere }\n`).join('');
    const problems = problemsOf(`${good}${classes}`);
    assert.equal(problems.length, 50);
    assert.match(problems.at(-1)!.message, /and 31 more mistakes/);
  });
  it('many mistakes at once, each on its own line', () => {
    const problems = problemsOf(good.replace('20mbit', '20mbits').replace('count: 4, at: R1', 'cout: 4, at: R1').replace('50ms', '50'));
    assert.deepEqual(problems.map((p) => [p.line, p.field]), [[5, 'topology.links.BL.rate'], [7, 'topology.hosts.S.cout'], [10, 'traffic.bulk.rtt']]);
  });
});

describe('a file that is not a scenario', () => {
  const folder = temporaryFolder('scenario-');
  const written = (content: string | Buffer): string => {
    const file = path.join(folder, 'f.yaml');
    fs.writeFileSync(file, content);
    return file;
  };
  const refusedFile = (file: string, message: RegExp): void => {
    assert.throws(() => load(file), (error) => error instanceof ScenarioError && message.test(error.message));
  };
  after(() => fs.rmSync(folder, { recursive: true }));

  it('is named when it is not there, a folder, or a name no file can have', () => {
    refusedFile(path.join(folder, 'none.yaml'), /there is no such file/);
    refusedFile(folder, /is a folder/);
    refusedFile('a\0b', /not a usable file name/);
    refusedFile('/dev/null', /not a regular file/);
  });
  it('is named when it is empty, only a comment, a list or a word', () => {
    for (const text of ['', '# nothing\n', '---\n']) refusedFile(written(text), /is empty; expected a scenario/);
    refusedFile(written('- a\n- b\n'), /holds \["a","b"\]; expected a scenario/);
    refusedFile(written('hello'), /holds "hello"; expected a scenario/);
  });
  it('is named as another kind of file, once', () => {
    const readme = problemsOf(fs.readFileSync('README.md', 'utf8'));
    assert.ok(readme.length <= 5, 'as if it were called x.yaml');
    assert.throws(() => load('README.md'), (error) => error instanceof ScenarioError && error.problems.length === 1 && /^README\.md:\d+: this is not a scenario: it is not even YAML/.test(error.message));
    assert.throws(() => load('package.json'), (error) => error instanceof ScenarioError && error.problems.length === 1 && /this is not a scenario: it has no topology, but name, version/.test(error.message));
    const [compose, ...more] = problemsOf('version: 3\nservices:\n  web: { image: nginx }\nvolumes: {}\n');
    assert.deepEqual([compose!.line, more], [1, []]);
    assert.match(compose!.message, /^this is not a scenario: it has no topology, but version, services, volumes; expected a scenario/);
  });
  it('is named when it is not UTF-8, or 50 MB', () => {
    refusedFile(written(Buffer.from([0x6e, 0xff, 0xfe])), /is not UTF-8 text/);
    refusedFile(written(Buffer.alloc(50e6, 0x61)), /is 50000000 bytes; expected a scenario file of at most/);
  });
  it('is named with the line of a syntax error', () => {
    const [problem] = problemsOf('name: x\ntopology: [a\n');
    assert.match(problem!.message, /is not YAML/);
    assert.ok((problem!.line ?? 0) >= 2);
    const tab = problemsOf('name: x\ntopology:\n\trouters: [R1]\n');
    assert.equal(tab[0]!.line, 3);
    assert.match(tab[0]!.message, /a tab is used to indent; YAML takes only spaces/);
    assert.match(problemsOf('name: a\n---\nname: b\n')[0]!.message, /more than one YAML document/);
  });
  it('is refused when its aliases would grow to millions of values', () => {
    const bomb = ['a: &a [x, x, x, x, x, x, x, x, x, x]', ...Array.from({ length: 8 }, (_, i) => { const [k, b] = ['abcdefghi'[i + 1]!, 'abcdefghi'[i]!]; return `${k}: &${k} [${Array(10).fill(`*${b}`).join(', ')}]`; })].join('\n');
    assert.match(problemsOf(bomb)[0]!.message, /more than 100000 values once its aliases are expanded/);
  });
  it('is refused when an alias contains itself or has no anchor', () => {
    assert.ok(problemsOf(`${good}description: &a [*a]\n`).some((p) => /contains itself/.test(p.message)));
    assert.ok(problemsOf(`${good}description: *nowhere\n`).length > 0);
  });
  it('cannot reach what every object has', () => {
    assert.ok(problemsOf(`${good}__proto__: { polluted: 1 }\n`).some((p) => p.field === '__proto__' && /not known/.test(p.message)));
    assert.ok(problemsOf(good.replace('BL:', '__proto__:')).length > 0);
    assert.ok(problemsOf(good.replace('kind: bulk', 'kind: constructor')).length > 0);
    assert.ok(problemsOf(bulk('from: constructor, to: D')).length > 0);
    assert.ok(problemsOf(link('rate: 20mbit, queue: __proto__')).length > 0);
    assert.ok(problemsOf(good.replace('BL:', 'constructor:').replace('R1 }', 'toString }')).length > 0);
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });
  it('is refused when one value is longer than any could be meant', () => {
    refused(replaced('name: t', `name: ${'t'.repeat(5000)}`), 1, 'name', /a text of 5000 characters is too long; expected at most 1000/);
    loadText(`${good}description: ${'words '.repeat(1000)}\n`, 'x.yaml');
  });
  it('is told that merge keys are not read, and that one file holds one scenario', () => {
    refused(good.replace('S: { count: 4, at: R1 }', 'S: &s { count: 4, at: R1 }').replace('D: { count: 4', 'D: { <<: *s, count: 4'), 8, 'topology.hosts.D.<<', /the merge key << is not read here .*an alias such as \*name/);
    assert.match(problemsOf(`${good}---\n${good}`)[0]!.message, /^is not YAML: there is more than one YAML document \(---\); expected one scenario a file$/);
  });
  it('is refused when it has tags or keys that are not words', () => {
    assert.ok(problemsOf(`${good}description: !!binary aGVsbG8=\n`).length > 0);
    assert.ok(problemsOf(`${good}? [a, b]\n: c\n`).some((p) => /a key is not a word/.test(p.message)));
  });
  it('is refused when it is nested too deeply to be meant', () => {
    assert.match(problemsOf(`name: ${'['.repeat(100_000)}`)[0]!.message, /nested more than/);
    assert.ok(problemsOf(`name: ${'[\n'.repeat(400)}`).length > 0);
    assert.ok(problemsOf(`${'- '.repeat(5000)}x`).length > 0);
  });
});

describe('--set', () => {
  it('changes one value, and a queue wherever it stands', () => {
    const rate = loadText(good, 'x.yaml', { set: ['topology.links.BL.rate=5mbit'] }).variants[0]!;
    assert.equal(rate.topology.links!['BL']!.rate!.forward, 5e6);
    const queue = loadText(example, 'x.yaml', { set: ['vary=null', 'queue={kind: codel, target: 2ms}', 'seeds=[7]'] });
    assert.equal(queue.variants.length, 1);
    assert.deepEqual(queue.seeds, [7]);
    for (const name of ['BL1', 'BL2']) assert.deepEqual(queue.variants[0]!.topology.links![name]!.queue!.forward!.params, { target: 2e6 });
  });
  it('reaches list entries, sections not written yet, parts of a shorthand and dotted keys', () => {
    const scenario = loadText(good, 'x.yaml', { set: ['topology.routers[0]=R1', 'collect.packets=false', 'topology.links.BL.queue.limit=99p', 'tcp.sysctls.net.ipv4.tcp_sack=0', 'topology.hosts.S.rate=1gbit'] }).variants[0]!;
    assert.equal(scenario.collect!.packets, false);
    assert.deepEqual(scenario.topology.links!['BL']!.queue!.forward, { kind: 'codel', in: 'kernel', params: { limit: 99 } });
    assert.deepEqual(Object.entries(scenario.tcp!.sysctls!), [['net.ipv4.tcp_sack', '0']]);
  });
  it('is named in the error of the value it set', () => {
    const [problem] = problemsOf(good, ['topology.links.BL.rate=5mbits']);
    assert.deepEqual([problem!.file, problem!.line, problem!.field], ['--set topology.links.BL.rate=5mbits', null, 'topology.links.BL.rate']);
    assert.match(problem!.message, /"5mbits" is not accepted/);
  });
  it('is refused when it is no setting, reaches nothing, or is not YAML', () => {
    for (const [set, message] of [
      ['rate', /expected path=value/], ['=5', /expected path=value/], ['a..b=1', /is not a path/], ['topology.links.BK.rate=1mbit', /there is no topology\.links\.BK; did you mean "BL"/],
      ['traffic.bulk.cc=[a', /./], ['__proto__.x=1', /is not a path/], ['topology.routers[7]=R9', /is a list of 2/], ['seeds[1]=5', /there is no list seeds to have an entry; expected a whole list, such as seeds=/],
      ['queue.target=5ms', /"queue" stands alone.*expected queue, or topology\.links\.BL\.queue\.target/], ['name.first=x', /name is "t", which has no parts/], ['topology.links[0]=1', /the name "0" is not accepted/],
    ] as const) {
      const [problem] = problemsOf(good, [set]);
      assert.match(problem!.message, message, set);
      assert.equal(problem!.file, `--set ${set}`);
    }
    assert.ok(problemsOf(good, [`${'x'.repeat(5000)}=1`])[0]!.file.length < 250);
  });
});
