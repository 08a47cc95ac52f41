/** Tests of flent in a plan: by flent's own definitions where it is installed. */

import assert from 'node:assert/strict';
import { findProgram } from '../../kernel/project.js';
import { simulatorRules } from '../../simulator/rules.js';
import { checkTests } from '../../simulator/tests.js';
import { ScenarioError } from '../errors.js';
import { testPrograms } from '../machines/needs.js';
import { loadText } from '../scenario/load.js';
import { skip } from '../testing/command.js';
import { flentWords, seriesChanges } from '../traffic/flent.js';
import { compile } from './compile.js';
import type { Plan } from './plan.js';

const scenario = (traffic: string, queue = 'fq_codel'): string => `name: flent
topology:
  routers: [R1, R2]
  links: { BL: { between: [R1, R2], rate: 20mbit, queue: ${queue} } }
  hosts: { S: { at: R1 }, D: { count: 4, at: R2 } }
traffic:
  load: ${traffic}
measure: { warmup: 1s, duration: 9s }
`;
const planOf = (traffic: string, queue?: string): Plan => compile(loadText(scenario(traffic, queue), 'flent.yaml'), { seed: 1 });
const complaint = (traffic: string): string => {
  try {
    planOf(traffic);
  } catch (error) {
    assert.ok(error instanceof ScenarioError, String(error));
    assert.ok(error.problems.every(({ line }) => line === 7), 'with its line');
    return error.problems.map(({ field, message }) => `${field}: ${message}`).join('\n');
  }
  return assert.fail('it was accepted');
};

describe('traffic of kind flent, as it is written', () => {
  it('refuses what would be no single word of flent\'s or its programs\' command lines', () => {
    for (const value of ['"4 -x"', '"-x"', '"a\'b"', '"$(x)"', '"a\\nb"', '[1]']) assert.match(complaint(`{ kind: flent, test: tcp_nup, from: S, to: D, parameters: { upload_streams: ${value} } }`), /parameters\.upload_streams: /, value);
    assert.match(complaint('{ kind: flent, test: ../../x, from: S, to: D }'), /load\.test: .*the name of a test/);
    assert.match(complaint('{ kind: flent, test: rrul, from: S, to: D, args: [--remote-host, "0=x"] }'), /load\.args: "--remote-host" is not an option that may be added to flent/);
  });

  it('has lengths in whole seconds and steps of 10 ms, as flent takes them', () => {
    assert.match(complaint('{ kind: flent, test: rrul, from: S, to: D, length: 1500ms }'), /load\.length: .*whole seconds/);
    assert.match(complaint('{ kind: flent, test: rrul, from: S, to: D, step: 15ms }'), /load\.step: .*multiple of 10ms/);
  });
});

describe('a test of flent in a plan', function () {
  this.timeout(120_000); // a second for each definition that flent is asked for
  before(function () { if (findProgram('flent') === null) skip(this, 'flent is not installed: apt-get install flent'); });

  it('has a flow for each stream and a probe for each ping, in two classes when streams go both ways', () => {
    const { flows, probes, tests } = planOf('{ tool: flent, test: rrul, from: S, to: D[0], rtt: 40ms, delay: 1s, step: 100ms, cc: reno }');
    assert.deepEqual(flows.map((flow) => [flow.class, flow.src, flow.dst, flow.kind, flow.transport, flow.tool, flow.cc, flow.startNs, flow.stopNs]), [
      ...Array.from({ length: 4 }, () => ['load.up', 'S', 'D[0]', 'bulk', 'tcp', 'flent', 'reno', 1e9, 9e9]),
      ...Array.from({ length: 4 }, () => ['load.down', 'D[0]', 'S', 'bulk', 'tcp', 'flent', 'reno', 1e9, 9e9]),
    ]);
    assert.equal(new Set(flows.map(({ src, srcPort, dst, dstPort }) => [src, srcPort, dst, dstPort].join(' '))).size, 8);
    assert.deepEqual(probes.map(({ name, tool, intervalNs, stopNs }) => [name, tool, intervalNs, stopNs]), [
      ...['ef', 'bk', 'be'].map((of) => [`load.ping-udp-${of}`, 'irtt', 100e6, 10e9]), ['load.ping-icmp', 'fping', 100e6, 10e9],
    ]);
    const [test] = tests!;
    assert.deepEqual([test!.lengthSeconds, test!.totalSeconds, test!.hosts.map(({ node }) => node)], [8, 10, ['D[0]']]);
    assert.deepEqual(testPrograms(test!).sort(), ['flent', 'fping', 'irtt', 'netperf', 'netserver']);
    const changes = seriesChanges(test!, flows, probes);
    const down = flows.find(({ class: name }) => name === 'load.down')!;
    assert.deepEqual(changes['TCP download BE'], { extra_test_args: `-P ${down.dstPort},${down.srcPort}`, cong_control: 'reno' });
    assert.ok(flentWords(test!, '/x').join(' ').startsWith('flent /x/rrul -r /dev/null -4 -l 8 -d 1 -s 0.1 -H 10.'));
  });

  it('depends on the test\'s parameters and hosts: streams, flent\'s hosts, names', () => {
    assert.equal(planOf('{ kind: flent, test: tcp_nup, from: S, to: D[0], delay: 1s, parameters: { upload_streams: 7 } }').flows.length, 7);
    const { flows, probes, tests } = planOf('{ kind: flent, test: rtt_fair, from: S, to: D, delay: 1s }');
    assert.deepEqual(flows.filter(({ class: name }) => name === 'load.up').map(({ dst }) => dst), ['D[0]', 'D[1]', 'D[2]', 'D[3]']);
    assert.deepEqual([new Set(probes.map(({ name }) => name)).size, tests!.length, tests![0]!.hosts.length], [4, 1, 4]);
    const ping = planOf('{ kind: flent, test: ping, from: S, to: D[0], delay: 1s }');
    assert.deepEqual([ping.flows.length, ping.probes.length, testPrograms(ping.tests![0]!).includes('netperf')], [0, 2, false]);
  });

  it('is refused with the nearest names when there is none of that name, and with flent\'s words when it lacks something', () => {
    assert.match(complaint('{ kind: flent, test: tcp_nupp, from: S, to: D[0], delay: 1s }'), /load\.test: flent has no test "tcp_nupp"; did you mean "tcp_nup"\?/);
    assert.match(complaint('{ kind: flent, test: tcp_nup, from: S, to: D[0], delay: 1s }'), /load\.parameters: flent says of its test tcp_nup: Missing required test parameter: upload_streams/);
    assert.match(complaint('{ kind: flent, test: tcp_1up, from: S, to: D, delay: 1s }'), /load\.to: flent's tcp_1up sends nothing to D\[1\]/);
  });

  it('is refused where it would not be over by the end of the run', () => {
    assert.match(complaint('{ kind: flent, test: tcp_1up, from: S, to: D[0], delay: 1s, length: 9s }'), /load\.length: flent's tcp_1up takes 11 s .* would not be over by 10s/);
    assert.match(complaint('{ kind: flent, test: tcp_1up, from: S, to: D[0] }'), /load: there is no room/);
  });

  it('is simulated as bulk flows and probes, but not through a queue that sorts by its markings, nor what only its program knows', () => {
    const accepted = (traffic: string, queue: string): void => checkTests(compile(loadText(scenario(traffic, queue), 'flent.yaml', { rules: simulatorRules }), { seed: 1 }));
    accepted('{ kind: flent, test: rrul, from: S, to: D[0], delay: 1s }', 'fq_codel');
    accepted('{ kind: flent, test: rrul, from: S, to: D[0], delay: 1s }', '{ kind: cake, besteffort: true }');
    accepted('{ kind: flent, test: rrul_be, from: S, to: D[0], delay: 1s }', 'cake');
    assert.throws(() => accepted('{ kind: flent, test: rrul, from: S, to: D[0], delay: 1s }', 'cake'), /rrul cannot be simulated through cake \(BL\): its streams carry DSCP markings/);
    assert.throws(() => accepted('{ kind: flent, test: sctp_vs_tcp, from: S, to: D[0], delay: 1s }', 'fq_codel'), /sctp_vs_tcp cannot be simulated: "SCTP upload CS0" \(netperf\)/);
  });
});
