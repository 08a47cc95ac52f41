/**
 * Real time: in a guest, on Debian's ready kernel, on this host's own. A loaded machine may make such a run invalid, by
 * the rule `late` and in words that advise virtual time; nothing else may go wrong.
 */

import assert from 'node:assert/strict';
import * as fs from 'node:fs';
import * as path from 'node:path';
import { findProgram } from '../../kernel/project.js';
import { selectKernel } from '../../kernel/select.js';
import { mayUseNamespaces } from '../machines/local.js';
import { eventually, needsUml, Place, rulesOf, runJson, skip, type Ended } from '../testing/command.js';
import { dumbbellText } from '../testing/scenarios.js';

describe('real time', function () {
  this.timeout(180_000);
  let place: Place;
  beforeEach(() => { place = new Place(); });
  afterEach(() => place.remove());

  async function ran(text: string, ...args: readonly string[]): Promise<{ readonly ended: Ended; readonly run: string }> {
    const ended = await place.testbed(['run', place.write('a.yaml', text), '--clock', 'real', ...args]);
    const run = place.run();
    const { status, counts } = runJson(run);
    if (status === 'complete') assert.equal(ended.code, 0, ended.stderr);
    else {
      assert.equal(status, 'invalid', ended.stderr);
      assert.equal(ended.code, 1);
      const rules = rulesOf(run, 'invalid');
      // A shaper that is woken late does not keep its rate.
      const known = ['late', 'dropped-elsewhere', 'capture-lost', 'queue-samples-missing', ...(rules.includes('late') ? ['rate-not-achieved'] : [])];
      for (const rule of rules) assert.ok(known.includes(rule), ended.stderr);
    }
    assert.equal(counts['flows'], 1);
    assert.ok(counts['queue']! > 10, JSON.stringify(counts));
    assert.equal(runJson(run).clock, 'real');
    assert.ok(fs.existsSync(path.join(run, 'report.html')));
    const { bottlenecks } = JSON.parse(fs.readFileSync(path.join(run, 'metrics.json'), 'utf8')) as { bottlenecks: Record<string, { throughputBps: number }> };
    assert.ok(bottlenecks['BL']!.throughputBps > 1e5);
    await place.assertNothingLeft();
    return { ended, run };
  }

  it('runs in a guest', async function () {
    needsUml.call(this);
    await ran(dumbbellText({ rate: '10mbit' }), '--machine', 'uml');
  });

  it("runs on Debian's ready kernel", async function () {
    const { kernel, ...why } = selectKernel('debian');
    if (kernel === null) skip(this, `user-mode-linux is not there (${'fix' in why ? why.fix : ''})`);
    if (findProgram('modprobe') === null) skip(this, 'its queue disciplines are modules, and modprobe (package kmod) is not installed');
    await ran(dumbbellText({ rate: '10mbit' }), '--machine', 'uml:debian');
  });

  for (const [shaper, tool] of [['htb', 'builtin'], ['tbf', 'iperf3']] as const) {
    it(`runs on this host's own kernel, with ${shaper}, pfifo and ${tool}`, async function () {
      if (!mayUseNamespaces()) skip(this, 'network namespaces need root');
      await ran(dumbbellText({ rate: '10mbit', queue: 'pfifo', rtt: '', tool }), '--machine', 'local', '--set', `topology.links.BL.shaper=${shaper}`);
    });
  }

  it('that a machine could not keep makes the run invalid, and advises virtual time', async function () {
    needsUml.call(this);
    const started = place.start(['run', place.write('a.yaml', dumbbellText({ rate: '10mbit', measure: '{ warmup: 1s, duration: 3s }' })), '--machine', 'uml', '--clock', 'real', '--no-report']);
    const lines = (): string => { const [run] = place.runs(); const file = run === undefined ? '' : path.join(run, 'raw', 'agent.jsonl'); return fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : ''; };
    await eventually('traffic', () => lines().includes('"traffic"') || started.child.exitCode !== null);
    const kernel = place.processes().find(({ command }) => /con0=fd:0,fd:1/.test(command))!;
    process.kill(kernel.pid, 'SIGSTOP');
    await new Promise((resolve) => { setTimeout(resolve, 400); });
    process.kill(kernel.pid, 'SIGCONT');
    const { code, stderr } = await started.ended;
    assert.equal(code, 1, stderr);
    assert.equal(runJson(place.run()).status, 'invalid');
    assert.match(stderr, /late: this machine was too loaded to keep real time: .*virtual time.*--machine uml --clock virtual/);
  });
});
