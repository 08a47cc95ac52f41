/** The correctness rules of the field (DESIGN.md), each broken on purpose: the run is refused before traffic or marked invalid, in words that say what and where. */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import type { Plan } from '../plan/plan.js';
import type { ExecuteResult } from '../run/execute.js';
import { needsUml, Place, runJson } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';
import { compiled, runPlan, saboteur, told, type AlteredOptions } from './altered.js';

/** Links, nodes and all with other names than a count of one gives: S and D. */
const text = (name: string, more: Parameters<typeof dumbbellText>[0] = {}): string => dumbbellText({ name, measure: '{ warmup: 500ms, duration: 1s }', ...more });

describe('a rule of the field that is broken', function () {
  this.timeout(180_000);
  before(needsUml);
  const place = new Place();
  after(() => place.remove());

  const run = (plan: Plan, options: AlteredOptions = {}): Promise<ExecuteResult> => runPlan(place, plan, options);
  const sabotaged = (name: string, more: Parameters<typeof dumbbellText>[0] = {}): Promise<ExecuteResult> => run(compiled(place, text(name, more)), { agent: saboteur });
  const refused = (result: ExecuteResult, rule: string, words: RegExp): void => {
    assert.equal(result.status, 'failed', told(result).join('\n') || result.error!);
    const finding = result.findings.find((each) => each.rule === rule);
    assert.ok(finding, told(result).join('\n'));
    assert.equal(finding.level, 'failed');
    assert.match(finding.message, words);
    assert.match(result.error!, words);
    assert.ok(!fs.existsSync(path.join(result.runDir, 'raw', 'flows.jsonl')) || fs.readFileSync(path.join(result.runDir, 'raw', 'flows.jsonl'), 'utf8') === '', 'no traffic');
    assert.equal(runJson(result.runDir).status, 'failed');
  };
  const invalid = (result: ExecuteResult, rule: string, words: RegExp): void => {
    assert.equal(result.status, 'invalid', told(result).join('\n') || result.error!);
    const finding = result.findings.find((each) => each.rule === rule && each.level === 'invalid');
    assert.ok(finding, told(result).join('\n'));
    assert.match(finding.message, words);
    assert.equal(runJson(result.runDir).status, 'invalid');
    assert.ok(runJson(result.runDir).findings.some((each) => each.rule === rule));
  };

  it('is none in an ordinary run: the same scenario and the same agent without meddling are complete, without a finding', async () => {
    const result = await sabotaged('nothing');
    assert.equal(result.status, 'complete', result.error ?? '');
    assert.deepEqual(told(result), []);
  });

  describe('delay', () => {
    it('by a netem whose limit is too small makes the run invalid', async () => {
      const plan = compiled(place, text('netem-limit'));
      const shorten = <T extends { readonly wire: Plan['links'][number]['forward']['wire'] }>(direction: T): T => ({ ...direction, wire: direction.wire.map((wire) => ({ ...wire, limitPackets: 3 })) });
      const result = await run({ ...plan, links: plan.links.map((link) => ({ ...link, forward: shorten(link.forward), reverse: shorten(link.reverse) })) });
      invalid(result, 'netem-dropped', /dropped \d+ packets at netem's limit of 3/);
    });

    it('is never on the way out of a sending host, nor on a hop with a queue under test', () => {
      const plan = compiled(place, text('placed', { pairs: 3 }));
      const senders = new Set(plan.flows.map(({ src }) => src));
      for (const { role, a, forward, reverse } of plan.links) {
        if (role === 'bottleneck') assert.deepEqual([forward.wire, reverse.wire], [[], []]);
        else if (senders.has(a.node)) assert.deepEqual(forward.wire, []);
      }
      assert.ok(plan.links.some(({ forward }) => forward.wire.length > 0), 'there is delay somewhere');
    });
  });

  describe('the shaper', () => {
    it('holding more than a packet is refused before traffic', async () => refused(await sabotaged('early-burst'), 'shaper-burst', /BL: its shaper holds bursts/));
    it('at another rate than asked for is refused before traffic', async () => refused(await sabotaged('early-rate'), 'rate-not-achieved', /BL: its shaper is set to 30000000 bit\/s instead of 20000000/));
    it('with another queue under it than asked for is refused before traffic', async () => refused(await sabotaged('early-queue'), 'queue-not-set', /BL: its queue is missing instead of fq_codel/));
    it('changed while the run goes makes it invalid', async () => invalid(await sabotaged('late-rate'), 'rate-not-achieved', /set to 30000000 bit\/s instead of 20000000/));
    it('that sends faster or slower than it says it is set to makes the run invalid, by the packets that left', async () => {
      const result = await sabotaged('hidden-rate');
      invalid(result, 'rate-not-achieved', /^link BL: \d+ packets that others waited behind left it at 21mbit instead of 20mbit/);
      assert.equal(result.findings.length, 1, told(result).join('\n'));
      invalid(await sabotaged('hidden-slow'), 'rate-not-achieved', /left it at 19mbit instead of 20mbit/);
    });
    it('that does so shows in the queue\'s counters where no packet is recorded', async () => {
      const plan = compiled(place, text('hidden-rate', { queue: 'pfifo', more: 'collect: { packets: false }' }));
      invalid(await run(plan, { agent: saboteur }), 'rate-not-achieved', /left it at 2[01]\.?\d*mbit instead of 20mbit/);
    });
    it('passed by makes the run invalid', async () => invalid(await sabotaged('late-bypass'), 'shaper-bypassed', /BL: \d+ packets passed its shaper by/));
  });

  describe('segmentation offload', () => {
    it('that is still on after set-up is refused before traffic', async () => refused(await sabotaged('early-offload'), 'offloads-on', /node S\[0\], device \S+: .*segmentation.* cannot be turned off/));
    it('that is switched on while the run goes makes it invalid, by its superpackets and by the setting', async () => {
      const result = await sabotaged('late-offload');
      invalid(result, 'superpacket', /R1: \d+ packets were larger than the MTU of 1500 bytes/);
      invalid(result, 'offloads-on', /node S\[0\], device \S+: .*turned on during the run/);
    });
    it('shows in the queue\'s own largest packet where no packet is recorded', async () => {
      const plan = compiled(place, text('late-offload', { more: 'collect: { packets: false }' }));
      invalid(await run(plan, { agent: saboteur }), 'superpacket', /BL: a packet of \d+ bytes passed its queue/);
    });
  });

  describe('TCP', () => {
    it('with its metrics cache left on is refused before traffic', async () => refused(await sabotaged('early-metrics'), 'sysctl-not-set', /node S\[0\]: sysctl net\.ipv4\.tcp_no_metrics_save is 0 instead of 1/));
    it('with a pinned sysctl changed while the run goes makes it invalid', async () => invalid(await sabotaged('late-metrics'), 'sysctl-not-set', /tcp_no_metrics_save is 0 instead of 1/));
    it('with ECN asked for and not agreed on makes the run invalid', async () => {
      const plan = compiled(place, text('no-ecn', { queue: '{ kind: codel, ecn: true }', traffic: '{ bulk: { kind: bulk, from: S, to: D, rtt: 20ms, cc: cubic, ecn: true } }' }));
      const result = await run({ ...plan, nodes: plan.nodes.map((node) => (node.name === 'D[0]' ? { ...node, sysctls: { ...node.sysctls, 'net.ipv4.tcp_ecn': '0' } } : node)) });
      invalid(result, 'ecn', /flow 0, bulk.*asked for ECN and did not get it/);
    });
    it('with ECN not agreed on by a flow that lives between two samples makes the run invalid, by its packets', async () => {
      const plan = compiled(place, text('short-no-ecn', { queue: '{ kind: codel, ecn: true }', traffic: '{ web: { kind: short, from: S, to: D, rtt: 20ms, cc: cubic, ecn: true, arrival: poisson(4/s), size: 4kB } }', more: 'collect: { sockets: 10s }' }));
      const result = await run({ ...plan, nodes: plan.nodes.map((node) => (node.name === 'D[0]' ? { ...node, sysctls: { ...node.sysctls, 'net.ipv4.tcp_ecn': '0' } } : node)) });
      invalid(result, 'ecn', /\d+ flows \(the first: flow \d+, web\) asked for ECN and did not get it: none of their packets/);
    });
    it('with ECN that nobody asked for makes the run invalid', async () => {
      const plan = compiled(place, text('stray-ecn'));
      invalid(await run({ ...plan, nodes: plan.nodes.map((node) => (node.role === 'host' ? { ...node, sysctls: { ...node.sysctls, 'net.ipv4.tcp_ecn': '1' } } : node)) }), 'ecn', /used ECN though the scenario does not say so/);
    });
    it('states ECN and its pinned sysctls in run.json', async () => {
      const result = await sabotaged('recorded');
      const { facts } = runJson(result.runDir) as { facts: { sysctls?: { hosts: Record<string, string>; routers: Record<string, string> } } };
      assert.equal(facts.sysctls?.hosts['net.ipv4.tcp_ecn'], '0', JSON.stringify(facts));
      assert.equal(facts.sysctls.hosts['net.ipv4.tcp_no_metrics_save'], '1');
      assert.equal(facts.sysctls.routers['net.ipv4.ip_forward'], '1');
    });
  });

  describe('iperf3', () => {
    const fake = (name: string, script: string, clock: 'virtual' | 'real' = 'virtual', measure = '{ warmup: 1s, duration: 2s }'): Promise<ExecuteResult> => run(compiled(place, text(name, { tool: 'iperf3', measure }), clock), {
      agent: saboteur, clock,
      onFolder: (runDir) => {
        fs.mkdirSync(path.join(runDir, 'raw', 'bin'));
        fs.writeFileSync(path.join(runDir, 'raw', 'bin', 'iperf3'), script, { mode: 0o755 });
      },
    });
    it('printing what is not JSON fails the run loudly, with what it printed and where it is kept', async () => {
      const result = await fake('fake-iperf3-garbage', '#!/bin/sh\ncase " $* " in *" -c "*) echo "Bad file descriptor {{{"; exit 0;; *) exec /usr/bin/iperf3 "$@";; esac\n');
      assert.equal(result.status, 'failed', told(result).join('\n'));
      const finding = result.findings.find(({ rule }) => rule === 'iperf3-failed');
      assert.match(finding?.message ?? '', /flow 0 \(bulk, S\[0\] → D\[0\]\): iperf3 failed: .*Bad file descriptor.*raw\/iperf3-0-client\.json/s);
      assert.match(fs.readFileSync(path.join(result.runDir, 'raw', 'iperf3-0-client.json'), 'utf8'), /Bad file descriptor/);
    });
    it('that reports an error in its JSON fails the run with its message', async () => {
      const result = await fake('fake-iperf3-error', '#!/bin/sh\ncase " $* " in *" -c "*) echo \'{"error": "unable to send control message: Bad file descriptor"}\'; exit 1;; *) exec /usr/bin/iperf3 "$@";; esac\n');
      assert.equal(result.status, 'failed', told(result).join('\n'));
      assert.match(result.error!, /unable to send control message: Bad file descriptor/);
    });
    it('that prints a warning before its JSON is read all the same, and both ends are kept', async () => {
      const result = await fake('fake-iperf3-warning', '#!/bin/sh\ncase " $* " in *" -c "*) echo "warning: something odd"; exec /usr/bin/iperf3 "$@";; *) exec /usr/bin/iperf3 "$@";; esac\n');
      assert.equal(result.status, 'complete', told(result).join('\n') || result.error!);
      for (const end of ['client', 'server']) assert.match(fs.readFileSync(path.join(result.runDir, 'raw', `iperf3-0-${end}.json`), 'utf8'), /"intervals"/);
    });
    it('whose server a loaded machine starts late, in real time, makes the run invalid and not failed', async () => {
      const result = await fake('fake-iperf3-slow', '#!/bin/sh\ncase " $* " in *" -c "*) ;; *) sleep 2;; esac\nexec /usr/bin/iperf3 "$@"\n', 'real', '{ warmup: 1s, duration: 8s }');
      // On a machine that is itself slower than this server, the start of everything is what was late.
      invalid(result, 'late', /too loaded|started late/);
      assert.equal(runJson(result.runDir).counts['flows'], 1);
    });
    it('whose port is taken in the receiver fails the run with the port and the host', async () => {
      const result = await run(compiled(place, text('port-taken', { tool: 'iperf3' })), { agent: saboteur });
      assert.equal(result.status, 'failed');
      assert.match(result.error!, /port \d+ of D\[0\]/);
    });
  });

  describe('the built-in generator', () => {
    it('whose port is taken in the receiver fails the run with the port and the host', async () => {
      const result = await sabotaged('port-taken');
      assert.equal(result.status, 'failed');
      assert.match(result.error!, /port \d+ of D\[0\] \(\S+\)/);
    });
  });

  describe('packet records', () => {
    it('of a capture ring too small for the traffic make the run invalid', async () => {
      invalid(await sabotaged('small-ring', { rate: '200mbit' }), 'capture-lost', /R1: \d+ of \d+ packets were not recorded/);
    });
    it('say nothing of the capture where the ring is large enough', async () => {
      const result = await sabotaged('large-ring', { rate: '200mbit' });
      assert.deepEqual(told(result), []);
    });
  });
});
