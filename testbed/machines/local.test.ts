/** The machine local, and the choice between machines. What needs the right to make namespaces is skipped without it. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import * as path from 'node:path';
import { findProgram, projectFile } from '../../kernel/project.js';
import { selectKernel } from '../../kernel/select.js';
import type { PlanFlow, PlanLink } from '../plan/plan.js';
import { emptyPlan, oneQueue, request } from './fixtures/plan.js';
import { Local, mayUseNamespaces } from './local.js';
import { inUserspace, needsOf } from './needs.js';
import { chooseMachine, openMachine } from './registry.js';

const agent = projectFile('testbed', 'machines', 'fixtures', 'agent.mjs');
const flow: PlanFlow = {
  id: 0, class: 'long', kind: 'bulk', transport: 'tcp', tool: 'builtin', src: 'S', dst: 'D', srcAddress: '10.0.0.1', dstAddress: '10.0.0.2', srcPort: 1, dstPort: 2,
  startNs: 0, stopNs: null, bytes: null, cc: 'cubic', ecn: false, rateBps: null, packetBytes: null, bursts: null, toolArgs: [], baseRttNs: 0,
};
const queue = (kind: string) => oneQueue({ kind, in: 'kernel', params: {} });

describe('what a plan needs', () => {
  it('is every qdisc, filter, congestion control and program in it, once, with who asks', () => {
    const link = oneQueue({ kind: 'pie', in: 'kernel', params: {} }, { wire: [{ delayNs: 1, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 1 }] });
    const called = (name: string, { a, b, forward, reverse, ...rest }: PlanLink): PlanLink => ({
      ...rest, name, a: { ...a, device: name }, b: { ...b, device: name }, forward: { ...forward, name }, reverse: { ...reverse, name: `${name}.reverse` },
    });
    const needs = needsOf(emptyPlan({
      links: [link, called('B2', oneQueue({ kind: 'raw', in: 'kernel', params: {}, tc: ['sfq', 'perturb', '10'] }))],
      flows: [{ ...flow, tool: 'iperf3' }, { ...flow, id: 1, cc: 'highspeed' }],
    }));
    const named = (type: string) => needs.filter((need) => need.type === type).map(({ name }) => name);
    assert.deepEqual(named('qdisc'), ['ingress', 'htb', 'pie', 'netem', 'sfq']);
    assert.deepEqual(named('filter'), ['matchall or u32']);
    assert.deepEqual(named('action'), ['mirred']);
    assert.deepEqual(named('congestion control'), ['cubic', 'highspeed']);
    assert.deepEqual(named('device'), ['veth']);
    assert.deepEqual(named('program'), ['ip', 'tc', 'iperf3']);
    assert.deepEqual(needs.find(({ name }) => name === 'highspeed')!.options, ['TCP_CONG_HSTCP']);
    assert.equal(needs.find(({ name }) => name === 'pie')!.by, 'queue of BL');
    assert.deepEqual(needs.find(({ name }) => name === 'pie')!.place, ['topology', 'links', 'BL', 'queue']);
    assert.deepEqual(needs.find(({ name }) => name === 'highspeed')!.place, ['traffic', 'long', 'cc']);
    // The userspace bottleneck has no need of its own, and takes over the delays of all links.
    const withDaemon = new Set(needsOf(emptyPlan({ links: [link, called('B2', oneQueue({ kind: 'aqmrd', in: 'daemon', params: {} }))] })).map(({ name }) => name));
    for (const name of ['netem', 'ingress', 'mirred', 'matchall or u32', 'aqmrd']) assert.ok(!withDaemon.has(name), name);
    assert.ok(withDaemon.has('pie') && withDaemon.has('packet sockets'));
  });

  it('names the userspace bottleneck where it can stand in', () => {
    const of = (kind: string, wired: boolean) => needsOf(emptyPlan({ links: [oneQueue({ kind, in: 'kernel', params: {} }, wired ? { wire: [{ delayNs: 1, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 1 }] } : {})] })).map((need) => [need.name, inUserspace(need)] as const);
    const told = new Map([...of('pie', true), ...of('gred', false)]);
    assert.match(told.get('pie')!, /in: daemon/);
    assert.match(told.get('netem')!, /in: daemon/);
    for (const name of ['gred', 'htb', 'mirred', 'veth']) assert.equal(told.get(name), '', name);
  });
});

describe('the machine local', function () {
  this.timeout(60_000);

  it('knows from its capabilities whether it may make namespaces', () => {
    assert.equal(mayUseNamespaces('CapEff:\t000001ffffffffff\n'), true);
    assert.equal(mayUseNamespaces('CapEff:\t0000000000000000\n'), false);
    assert.equal(mayUseNamespaces('CapEff:\t0000000000001000\n'), false, 'CAP_NET_ADMIN alone is not enough');
  });

  it('has no virtual time, and says who has', async () => {
    const missing = await new Local().check(emptyPlan(), 'virtual');
    assert.match(missing[0]!.what, /virtual time/);
    assert.match(missing[0]!.fix, /--machine uml/);
  });

  describe('with the right to make namespaces', () => {
    before(function () {
      if (!mayUseNamespaces() || findProgram('tc') === null || findProgram('unshare') === null) {
        console.log('        skipped: needs root, tc and unshare');
        this.skip();
      }
    });

    it('finds what its kernel has by trying, and touches nothing of the host', async () => {
      const links = () => readdirSync('/sys/class/net').sort();
      const before = links();
      assert.deepEqual(await new Local().check(emptyPlan({ links: [queue('pfifo')], flows: [flow] }), 'real'), []);
      const missing = await new Local().check(emptyPlan({ links: [queue('no_such_queue')], flows: [{ ...flow, cc: 'no_such_cc' }] }), 'real');
      assert.deepEqual(missing.map(({ what }) => what.replace(/ in kernel.*/, '')), ['qdisc no_such_queue (queue of BL)', 'congestion control no_such_cc (traffic long)']);
      assert.deepEqual(links(), before);
    });

    it('finds redirection by either classifier', async () => {
      const link = oneQueue({ kind: 'pfifo', in: 'kernel', params: {} }, { wire: [{ to: ['10.0.0.9'], delayNs: 1, jitterNs: 0, loss: 0, duplicate: 0, reorder: 0, limitPackets: 1 }] });
      const missing = await new Local().check(emptyPlan({ links: [link] }), 'real');
      // Whether this kernel has netem and prio is its own affair; the rest every kernel with traffic control has.
      assert.deepEqual(missing.filter(({ what }) => !/qdisc (netem|prio) /.test(what)), []);
    });

    it('tries raw tc words as they are, and repeats what tc says to wrong ones', async () => {
      const raw = (...tc: string[]) => emptyPlan({ links: [oneQueue({ kind: 'raw', in: 'kernel', params: {}, tc })] });
      assert.deepEqual(await new Local().check(raw('pfifo', 'limit', '10'), 'real'), []);
      const missing = await new Local().check(raw('pfifo', 'limits', '10'), 'real');
      assert.match(missing[0]!.what, /tc says: .*limits/);
    });

    it('runs the agent as a process of this host', async () => {
      const asked = request(emptyPlan(), { clock: 'real' });
      assert.deepEqual(await new Local({ agent }).run(asked), { status: 'complete' });
      assert.equal(asked.lines.length, 2);
      rmSync(asked.runDir, { recursive: true });
    });

    it('reports the agent\'s failure, and a watchdog\'s', async () => {
      const fails = request(emptyPlan({ name: 'fail' }), { clock: 'real' });
      assert.match((await new Local({ agent }).run(fails)).error!, /port 5201 is taken.*console\.log/);
      const hangs = request(emptyPlan({ name: 'silent' }), { clock: 'real' });
      assert.match((await new Local({ agent, watchdogMs: 1000 }).run(hangs)).error!, /no progress for 1 s/);
      for (const { runDir } of [fails, hangs]) rmSync(runDir, { recursive: true });
    });

    it('ends the agent when aborted, and keeps what it recorded', async () => {
      const controller = new AbortController();
      const asked = request(emptyPlan({ name: 'silent' }), { clock: 'real', signal: controller.signal, onLine: () => { controller.abort(); } });
      assert.deepEqual(await new Local({ agent }).run(asked), { status: 'aborted' });
      assert.match(readFileSync(path.join(asked.runDir, 'raw', 'agent.jsonl'), 'utf8'), /setup/);
      assert.ok(existsSync(path.join(asked.runDir, 'raw', 'console.log')));
      rmSync(asked.runDir, { recursive: true });
    });
  });
});

describe('the choice of a machine', () => {
  it('knows its names', () => {
    for (const name of ['lokal', 'uml:', 'local:x', 'constructor']) assert.throws(() => openMachine(name), /machine|local takes nothing/);
  });

  it('refuses a named machine that lacks something, with all of it', async () => {
    await assert.rejects(chooseMachine('uml:nowhere', [emptyPlan()], undefined), /uml:nowhere cannot run this; it lacks:\n {2}UML kernel nowhere\n {4}→ /);
    await assert.rejects(chooseMachine('local', [emptyPlan()], 'virtual'), /virtual time on the local kernel/);
  });

  it('is uml when virtual time is asked for, or the local kernel lacks a qdisc', async function () {
    if (!selectKernel('').kernel) {
      console.log('      skipped: no UML kernel is built');
      return this.skip();
    }
    const virtual = await chooseMachine('auto', [emptyPlan()], 'virtual');
    assert.equal(virtual.machine.info.name, 'uml:6.12');
    assert.equal(virtual.clock, 'virtual');
    assert.match(virtual.notLocal[0]!.what, /virtual time/);
    await assert.rejects(chooseMachine('auto', [emptyPlan({ links: [queue('no_such_queue')] })], undefined), /no machine here can run this\.\nlocal lacks:[^]*uml:6\.12 lacks:/);
  });

  it('is local in real time when the local kernel has it all and no clock was asked for', async function () {
    if (!mayUseNamespaces()) return this.skip();
    const { machine, clock } = await chooseMachine('auto', [emptyPlan({ links: [queue('pfifo')], flows: [flow] })], undefined);
    assert.deepEqual([machine.info.name, clock], ['local', 'real']);
  });
});
